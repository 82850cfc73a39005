"""Committed offsets, and those of transactions that are still open (pending_offsets.py).

Changed by `replay` alone. A transactional commit is pending until its producer's marker comes: COMMIT makes it the
committed one unless a later record in the log has overtaken it, ABORT drops it.

A commit that recurs overwrites the one before far more often than anybody reads it. So such commits are kept as they
come (`_recent`), and are put into `_groups` when somebody reads the offsets of their group (`_settle`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count as counting
from itertools import repeat
from typing import NamedTuple, TypeAlias

from kohort.coordinator.outcome import CommitColumns, CommitRow, OffsetTombstones, PlannedCommit, TransactionalCommit
from kohort.coordinator.pending_offsets import PendingOffsets
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.txn_marker import TxnMarker
from kohort.protocol.wire import NO_UUID

NO_EXPIRY = -1
MAX_RECENT = 100  # columns of a group that may wait for `_settle`; each generation has new columns

_new = tuple.__new__


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    topic_id: bytes
    log_offset: int  # of the record, to tell which of two commits is the later


# The last commit of some columns: the log offset of its first record, its offsets, and its time. A plain tuple, because
# every commit makes one.
Recent: TypeAlias = tuple[int, Sequence[int], int]

_committed_row = partial(_new, CommittedOffset)  # quicker than CommittedOffset(...)

ByPartition = dict[int, CommittedOffset]
Place = tuple[str, str, int]  # group, topic, partition


class OffsetStore:
    def __init__(self) -> None:
        self._groups: dict[str, dict[str, ByPartition]] = {}
        self.pending = PendingOffsets()
        self._recent: dict[str, dict[CommitColumns, Recent]] = {}  # by group: commits that are not in `_groups` yet

    # --- reading

    def topics(self, group_id: str) -> dict[str, ByPartition]:
        if group_id in self._recent:
            self._settle(group_id)
        return self._groups.get(group_id, {})

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        topics = self.topics(group_id)
        partitions = topics.get(topic)
        return partitions.get(partition) if partitions is not None else None

    def all_offsets(self) -> Iterator[tuple[Place, CommittedOffset]]:
        """Committed and pending."""
        self._settle_all()
        for group_id, topics in self._groups.items():
            for topic, partitions in topics.items():
                for partition, offset in partitions.items():
                    yield (group_id, topic, partition), offset
        for producer in self.pending.open.values():
            for group_id, topics in producer.pending.items():
                for topic, partitions in topics.items():
                    for partition, offset in partitions.items():
                        yield (group_id, topic, partition), offset

    def group_ids(self) -> list[str]:
        """Groups with committed offsets."""
        return list(dict.fromkeys((*self._groups, *self._recent)))

    def topic_id_of(self, group_id: str, topic: str, partition: int) -> bytes | None:
        """Of the topic that the offset was committed for; None: there is no offset."""
        committed = self.get(group_id, topic, partition)
        return None if committed is None else committed.topic_id

    def count_of(self, group_id: str) -> int:
        return sum(map(len, self.topics(group_id).values()))

    def count(self) -> int:
        self._settle_all()
        return sum(len(p) for topics in self._groups.values() for p in topics.values())

    def deletable_topics(self, group_id: str) -> list[str]:
        """The topics with offsets of the group, pending ones included."""
        return sorted({*self.pending.topics(group_id), *self.topics(group_id)})

    def deletable_partitions(self, group_id: str, topic: str) -> list[int]:
        """The partitions of the topic with offsets of the group, pending ones included."""
        return sorted({*self.pending.topics(group_id).get(topic, ()), *self.topics(group_id).get(topic, ())})

    # --- replaying

    def replay(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, log_offset: int, producer_id: int = -1
    ) -> None:
        """`producer_id`: of a transaction, which has begun (PendingOffsets.begin)."""
        if value is None:
            self._forget(key.group, key.topic, (key.partition,))
        elif producer_id >= 0:
            self.pending.add(producer_id, key.group, key.topic, key.partition, _committed(value, log_offset))
        else:
            self.partitions_of(key.group, key.topic)[key.partition] = _committed(value, log_offset)

    def replay_rows(
        self, group_id: str, topic: str, topic_id: bytes, rows: Sequence[CommitRow], now: int,
        log_offset: int, expires: int = NO_EXPIRY,
    ) -> int:  # fmt: skip
        """Replay a whole commit (outcome.CommitRecords) and return the log offset behind it."""
        partitions = self.partitions_of(group_id, topic)
        for row in rows:  # a call of CommittedOffset(...) would take longer than all the rest
            committed = (
                row.committed_offset, row.committed_leader_epoch, row.committed_metadata or "",
                now, expires, topic_id, log_offset,
            )  # fmt: skip
            partitions[row.partition_index] = _new(CommittedOffset, committed)
            log_offset += 1
        return log_offset

    def replay_planned(self, commit: PlannedCommit, log_offset: int) -> int:
        """Replay a commit that recurs (recurring_commit.py) and return the log offset behind it."""
        group_id, offsets, now = commit.group, commit.offsets, commit.now
        recent = self._recent.get(group_id)
        if recent is None:
            recent = self._recent[group_id] = {}
        elif len(recent) >= MAX_RECENT:
            self._settle(group_id)
            recent = self._recent[group_id] = {}
        for columns in commit.columns:
            recent[columns] = log_offset, offsets, now
            size = len(columns.indexes)
            log_offset += size
            offsets = offsets[size:]
        return log_offset

    def replay_tombstones(self, gone: OffsetTombstones, log_offset: int) -> int:
        """Replay tombstones (outcome.OffsetTombstones) and return the log offset behind them."""
        self._forget(gone.group, gone.topic, gone.indexes)
        return log_offset + len(gone.indexes)

    def _settle(self, group_id: str) -> None:
        recent = self._recent.pop(group_id)
        for columns, (log_offset, offsets, now) in sorted(recent.items(), key=_in_order_of_the_log):
            same = repeat(now), repeat(NO_EXPIRY), repeat(columns.topic_id)
            rows = zip(offsets, columns.epochs, columns.metadata, *same, counting(log_offset), strict=False)
            partitions = self.partitions_of(group_id, columns.topic)
            partitions.update(zip(columns.indexes, map(_committed_row, rows), strict=False))

    def _settle_all(self) -> None:
        for group_id in list(self._recent):
            self._settle(group_id)

    def replay_transactional(self, commit: TransactionalCommit, log_offset: int, now: int) -> int:
        """Replay the commit of a transaction and return the log offset behind it."""
        producer_id = commit.producer_id
        self.pending.begin(producer_id, commit.producer_epoch, log_offset, now)
        for part in commit.parts:
            for row in part.rows:
                offset = CommittedOffset(
                    row.committed_offset, row.committed_leader_epoch, row.committed_metadata or "",
                    part.now, NO_EXPIRY, NO_UUID, log_offset,
                )  # fmt: skip
                self.pending.add(producer_id, part.group, part.topic, row.partition_index, offset)
                log_offset += 1
        return log_offset

    def end_transaction(self, marker: TxnMarker, log_offset: int, now: int) -> list[str]:
        """Commit or drop the pending offsets of a producer. Returns the groups whose offsets changed."""
        pending = self.pending.end(marker, log_offset, now)
        if not marker.commit:
            return []
        changed = []
        for group_id, topics in pending.items():
            has_changed = False
            for topic, offsets in topics.items():
                known = self.partitions_of(group_id, topic)
                newer = {
                    partition: offset
                    for partition, offset in offsets.items()
                    if (before := known.get(partition)) is None or before.log_offset < offset.log_offset
                }
                known.update(newer)
                has_changed |= bool(newer)
            if has_changed:
                changed.append(group_id)
        return changed

    def partitions_of(self, group_id: str, topic: str) -> ByPartition:
        if group_id in self._recent:
            self._settle(group_id)
        topics = self._groups.get(group_id)
        if topics is None:
            topics = self._groups[group_id] = {}
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = {}
        return partitions

    def _forget(self, group_id: str, topic: str, indexes: Sequence[int]) -> None:
        """Tombstones: the committed offsets and the pending ones of all producers."""
        topics = self.topics(group_id)
        partitions = topics.get(topic)
        if partitions is not None:
            for index in indexes:
                partitions.pop(index, None)
            if not partitions:
                del topics[topic]
            if not topics:
                del self._groups[group_id]
        if self.pending:
            self.pending.forget(group_id, topic, indexes)


def _in_order_of_the_log(entry: tuple[CommitColumns, Recent]) -> int:
    return entry[1][0]


def _committed(value: OffsetCommitValue, log_offset: int) -> CommittedOffset:
    return CommittedOffset(
        value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, value.expire_timestamp,
        value.topic_id if value.topic_id != NO_UUID else NO_UUID,  # interned: a million offsets share one object
        log_offset,
    )  # fmt: skip
