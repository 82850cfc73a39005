"""Walks through the records of one group, in the order of the log, and gathers its rebalances.

What was written in one batch is looked at together: a group that is converted to the other protocol leaves tombstones
and records in one batch, and the tombstones alone would mean that it was deleted. So the last batch is only looked at
when the next one has begun, or at `flush`.

Memory is bounded: the last `keep` rebalances, and two times for each partition that has commits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from kohort.history.classic import ClassicWalk
from kohort.history.members import Place
from kohort.history.rebalance import CLASSIC, CONSUMER, SHARE, STREAMS, Rebalance
from kohort.history.records import AnyRecord, Commit, LogRecord
from kohort.history.server_side import ServerSideWalk
from kohort.history.walk import Walk
from kohort.protocol.log_records import (
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_RECORDS,
    GROUP_METADATA,
    SHARE_GROUP_RECORDS,
    STREAMS_GROUP_RECORDS,
)

KEPT = 200  # rebalances, unless told otherwise


class GroupHistory:
    def __init__(self, group_id: str, *, keep: int = KEPT, topic_names: Iterable[tuple[bytes, str]] = ()) -> None:
        """`topic_names`: names of topics by their ids, as far as they are known. Commits tell further ones."""
        self.group_id = group_id
        self.rebalances: deque[Rebalance] = deque(maxlen=keep)
        self.dropped = 0  # rebalances that were forgotten, because more than `keep` followed
        self.first_ms: int | None = None  # the first record of the group
        self.last_ms: int | None = None
        self.commits = 0
        self._walk = Walk(self._rebalanced)
        for topic_id, name in topic_names:
            self._walk.learn_name(topic_id, name)
        self._classic = ClassicWalk(self._walk)
        self._server_side = ServerSideWalk(self._walk)
        self._batch: list[LogRecord] = []

    @property
    def is_known(self) -> bool:
        return self.first_ms is not None

    @property
    def group_type(self) -> str | None:
        """The type by the last record; None: only offsets, or records that nobody knows."""
        return self._walk.kind

    @property
    def topic_names(self) -> dict[str, str]:
        """Names of topics by the keys that places of KIP-848 and share groups have."""
        return self._walk.names_of_ids()

    @property
    def free_since(self) -> Mapping[Place, int]:
        """Since when partitions that had an owner have none."""
        return self._walk.free_since

    @property
    def member_count(self) -> int:
        return len(self._walk.members)

    def add(self, record: AnyRecord) -> None:
        if self.first_ms is None:
            self.first_ms = record.time_ms
        self.last_ms = record.time_ms
        if isinstance(record, Commit):
            self.flush()  # in a batch, commits stand behind the records about the group
            self.commits += 1
            self._walk.committed(record)
            return
        if self._batch and (record.batch < 0 or record.batch != self._batch[0].batch):
            self.flush()
        self._batch.append(record)

    def flush(self) -> None:
        """Nothing more comes for now: look at the last batch, too."""
        if self._batch:
            batch, self._batch = self._batch, []
            self._take(batch)

    def _take(self, batch: Sequence[LogRecord]) -> None:
        tombstones = {record.type for record in batch if record.value is None}
        kinds = {_kind(record) for record in batch if record.value is not None}
        to_consumer = GROUP_METADATA in tombstones and CONSUMER in kinds
        to_classic = CONSUMER_GROUP_METADATA in tombstones and CLASSIC in kinds
        if to_classic:
            self._server_side.convert()
        for record in batch:
            self._walk.saw(record)
            kind = _kind(record)
            if to_classic and record.value is None:
                continue
            if kind == CLASSIC:
                self._classic.take(record, is_conversion=to_consumer and record.value is None)
            elif kind is not None:
                self._server_side.take(record, kind)
        self._server_side.end_batch(batch[-1].time_ms)

    def _rebalanced(self, rebalance: Rebalance) -> None:
        if len(self.rebalances) == self.rebalances.maxlen:
            self.dropped += 1
        self.rebalances.append(rebalance)


def _kind(record: LogRecord) -> str | None:
    if record.type == GROUP_METADATA:
        return CLASSIC
    if record.type in CONSUMER_GROUP_RECORDS:
        return CONSUMER
    if record.type in SHARE_GROUP_RECORDS:
        return SHARE
    return STREAMS if record.type in STREAMS_GROUP_RECORDS else None
