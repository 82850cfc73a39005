"""Committed offsets, and those of transactions that are still open.

Changed by `replay` alone. A transactional commit is pending until its producer's marker comes: COMMIT makes it the
committed one unless a later record in the log has overtaken it, ABORT drops it.

A commit that recurs overwrites the one before far more often than anybody reads it. So such commits are kept as they
come (`_recent`), and are put into `_groups` when somebody reads the offsets of their group (`_settle`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import count as counting
from itertools import repeat
from typing import NamedTuple, TypeAlias

from kohort.coordinator.outcome import CommitColumns, PlannedCommit, Record
from kohort.protocol.log_records import OFFSET_COMMIT
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.messages.offset_commit import OffsetCommitRequestPartition
from kohort.protocol.wire import NO_UUID

NO_EXPIRY = -1
MAX_RECENT = 100  # columns of a group that wait for `_settle`; each generation brings new ones

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

_committed_row = partial(_new, CommittedOffset)  # CommittedOffset(...) itself takes longer than all the rest

ByPartition = dict[int, CommittedOffset]
Place = tuple[str, str, int]  # group, topic, partition


class OffsetStore:
    def __init__(self) -> None:
        self._groups: dict[str, dict[str, ByPartition]] = {}
        self._pending: dict[int, dict[Place, CommittedOffset]] = {}  # by producer id
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

    @property
    def has_open_transactions(self) -> bool:
        return bool(self._pending)

    def has_pending(self, group_id: str, topic: str, partition: int) -> bool:
        place = (group_id, topic, partition)
        return bool(self._pending) and any(place in pending for pending in self._pending.values())

    def pending_places(self, group_id: str) -> Iterator[Place]:
        for pending in self._pending.values():
            yield from (place for place in pending if place[0] == group_id)

    def all_offsets(self) -> Iterator[tuple[Place, CommittedOffset]]:
        """Committed and pending."""
        self._settle_all()
        for group_id, topics in self._groups.items():
            for topic, partitions in topics.items():
                for partition, offset in partitions.items():
                    yield (group_id, topic, partition), offset
        for pending in self._pending.values():
            yield from pending.items()

    def of_topics(self, names: Collection[str]) -> Iterator[tuple[Place, CommittedOffset]]:
        """Committed and pending offsets of some topics; the other topics are not looked at."""
        self._settle_all()
        for group_id, topics in self._groups.items():
            for name in names:
                for partition, offset in topics.get(name, {}).items():
                    yield (group_id, name, partition), offset
        for pending in self._pending.values():
            yield from ((place, offset) for place, offset in pending.items() if place[1] in names)

    def count(self) -> int:
        self._settle_all()
        return sum(len(p) for topics in self._groups.values() for p in topics.values())

    def tombstones(self, group_id: str) -> list[Record]:
        """The records that remove all offsets of the group, pending ones included."""
        places = {(topic, index) for _, topic, index in self.pending_places(group_id)}
        for topic, partitions in self.topics(group_id).items():
            places |= {(topic, index) for index in partitions}
        return [offset_tombstone(group_id, topic, index) for topic, index in sorted(places)]

    # --- replaying

    def replay(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, log_offset: int, producer_id: int = -1
    ) -> None:
        if value is None:
            self._forget(key)
        elif producer_id >= 0:
            place = (key.group, key.topic, key.partition)
            self._pending.setdefault(producer_id, {})[place] = _committed(value, log_offset)
        else:
            self.partitions_of(key.group, key.topic)[key.partition] = _committed(value, log_offset)

    def replay_rows(
        self, group_id: str, topic: str, topic_id: bytes, rows: Sequence[OffsetCommitRequestPartition], now: int,
        log_offset: int,
    ) -> int:  # fmt: skip
        """Replay a whole commit (outcome.CommitRecords) and return the log offset behind it."""
        partitions = self.partitions_of(group_id, topic)
        for row in rows:  # the tuple is made without a call of CommittedOffset(...), which takes longer than the rest
            committed = (
                row.committed_offset, row.committed_leader_epoch, row.committed_metadata or "",
                now, NO_EXPIRY, topic_id, log_offset,
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

    def end_transaction(self, producer_id: int, commit: bool) -> list[str]:
        """Commit or drop the pending offsets of a producer. Returns the groups whose offsets changed."""
        pending = self._pending.pop(producer_id, {})
        if not commit:
            return []
        changed = []
        for (group_id, topic, partition), offset in pending.items():
            partitions = self.partitions_of(group_id, topic)
            known = partitions.get(partition)
            if known is None or known.log_offset < offset.log_offset:
                partitions[partition] = offset
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

    def _forget(self, key: OffsetCommitKey) -> None:
        """A tombstone: the committed offset and the pending ones of all producers."""
        topics = self.topics(key.group)
        partitions = topics.get(key.topic)
        if partitions is not None:
            partitions.pop(key.partition, None)
            if not partitions:
                del topics[key.topic]
            if not topics:
                del self._groups[key.group]
        for pending in self._pending.values():
            pending.pop((key.group, key.topic, key.partition), None)


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    return Record(OFFSET_COMMIT, OffsetCommitKey(group_id, topic, partition), None)


def _in_order_of_the_log(entry: tuple[CommitColumns, Recent]) -> int:
    return entry[1][0]


def _committed(value: OffsetCommitValue, log_offset: int) -> CommittedOffset:
    return CommittedOffset(
        value.offset, value.leader_epoch, value.metadata, value.commit_timestamp, value.expire_timestamp,
        value.topic_id if value.topic_id != NO_UUID else NO_UUID,  # interned: a million offsets share one object
        log_offset,
    )  # fmt: skip
