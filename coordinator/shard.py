"""One partition of __consumer_offsets: state, the batch that is open, and how the log becomes state."""

from __future__ import annotations

import logging
from enum import Enum
from typing import Any

from kohort.coordinator import foreign
from kohort.coordinator.classic import session
from kohort.coordinator.classic.delayed_join import prepare_rebalance
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.offsets.bulk_replay import BulkReplay
from kohort.coordinator.offsets.expiration import forget_topics
from kohort.coordinator.outcome import CommitRecords, LogEntry, Outcome, PlannedCommit, Record, Reply
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.log_records import (
    GROUP_METADATA,
    LEGACY_OFFSET_COMMIT,
    OFFSET_COMMIT,
    STREAMS_GROUP_RECORDS,
    UnknownRecord,
    decode_key,
    decode_value,
)
from kohort.protocol.messages.log_legacy_offset_commit import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.record_batch import CONTROL, TRANSACTIONAL, parse_marker, scan_records

logger = logging.getLogger(__name__)

_new = tuple.__new__


class Status(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"  # its log cannot be read: the operator has to look


class Write:
    """Batches of one shard for its log, who waits for them, and what there is to tell when they are durable."""

    __slots__ = ("batches", "begun", "events", "first_offset", "problem", "replies", "shard")

    def __init__(self, shard: Shard, first_offset: int, begun: int, replies: list[Reply], events: list[Any]) -> None:
        self.shard = shard
        self.begun = begun
        self.first_offset = first_offset
        self.batches: list[bytes] = []
        self.problem: Exception | None = None  # why there are no batches: a bug, and the write has failed
        self.replies = replies
        self.events = events


class Shard:
    def __init__(self, state: ShardState) -> None:
        self.state = state
        self.status = Status.LOADING
        self.epoch = 0  # of our ownership of the log; the host sets it
        self.next_offset = 0  # of the log
        self.unwritten: list[LogEntry] = []
        self.first_unwritten = 0  # log offset of the first of them
        self.waiting: list[Reply] = []  # for `unwritten`
        self.events: list[Any] = []  # for `unwritten`
        self.in_flight: list[Write] = []  # handed to the host, oldest first
        self.deadlines_moved_at = 0  # because of a write that takes long
        self.gone_topics: list[tuple[str, bytes]] = []  # deleted ones whose offsets may be in the log still
        self.skipped_types: set[int] = set()
        self._bulk = BulkReplay(state.offsets)

    @property
    def partition(self) -> int:
        return self.state.partition

    # --- live

    def commit(self, out: Outcome) -> list[Reply]:
        """Replay the records and put them into the open batch; the replies that can leave at once."""
        if out.records and not self.unwritten:
            self.first_unwritten = self.next_offset
        for record in out.records:
            if type(record) is CommitRecords:
                self.next_offset = self.state.offsets.replay_rows(
                    record.group, record.topic, record.topic_id, record.rows, record.now, self.next_offset
                )
                self._group_of_offsets(record.group)
            else:
                assert type(record) is Record
                self._replay(record.type, record.key, record.value, self.next_offset, -1)
                self.next_offset += 1
        if out.records:
            self.unwritten += out.records
            self.waiting += out.replies
            self.events += out.events
            return out.at_once
        return out.at_once + out.replies

    def commit_planned(self, commit: PlannedCommit) -> None:
        """As `commit`, for nearly every commit there is."""
        plan, offsets, log_offset = commit.plan, commit.offsets, self.next_offset
        if not self.unwritten:
            self.first_unwritten = log_offset
        for columns in plan.columns:
            self.state.offsets.replay_columns(plan.group_id, columns, offsets, commit.now, log_offset)
            size = len(columns.indexes)
            log_offset += size
            offsets = offsets[size:]
        self.next_offset = log_offset
        if plan.group_id not in self.state.groups:
            self._group_of_offsets(plan.group_id)
        self.unwritten.append(commit)
        self.waiting.append(_new(Reply, (commit.call, plan.answer)))

    @property
    def has_pending_writes(self) -> bool:
        return bool(self.unwritten) or bool(self.in_flight)

    # --- replay

    def load_chunk(self, chunk: bytes, size: int) -> None:
        """Whole batches of the log, as many as a chunk of it holds."""
        for header, offset, _, raw_key, raw_value, _ in scan_records(chunk, 0, size, with_headers=False):
            if header.attributes & CONTROL:
                self._bulk.forget()
                marker = parse_marker(raw_key, raw_value)
                if marker is not None:
                    for group_id in self.state.offsets.end_transaction(header.producer_id, marker.commit):
                        self._group_of_offsets(group_id)
            elif raw_key is not None:
                if header.attributes & TRANSACTIONAL:
                    self._load_record(raw_key, raw_value, offset, header.producer_id)
                elif not self._bulk.replay(raw_key, raw_value, offset):
                    self._load_record(raw_key, raw_value, offset, -1)
            self.next_offset = offset + 1

    def _load_record(self, raw_key: bytes, raw_value: bytes | None, offset: int, producer_id: int) -> None:
        record_type, key = decode_key(raw_key)
        if record_type in STREAMS_GROUP_RECORDS:
            self._bulk.forget()
            self._replay_foreign(record_type, foreign.StreamsKey(raw_key), raw_value)
            return
        if isinstance(key, UnknownRecord):
            if record_type not in self.skipped_types:
                self.skipped_types.add(record_type)
                logger.warning("skipping records of unknown type %d in shard %d", record_type, self.partition)
            return
        value = None if raw_value is None else decode_value(record_type, raw_value)
        self._replay(record_type, key, value, offset, producer_id)
        if record_type == OFFSET_COMMIT and value is not None and producer_id < 0:
            self._bulk.learn(raw_key, key.group, key.topic)
        else:
            self._bulk.forget()

    def _replay(self, record_type: int, key: Any, value: Any, log_offset: int, producer_id: int) -> None:
        state = self.state
        if record_type == OFFSET_COMMIT:
            state.offsets.replay(key, value, log_offset, producer_id)
            if value is not None:
                self._group_of_offsets(key.group)
        elif record_type == LEGACY_OFFSET_COMMIT:
            self._replay(OFFSET_COMMIT, *_as_offset_commit(key, value), log_offset, producer_id)
        elif record_type == GROUP_METADATA:
            if value is None:
                state.groups.pop(key.group, None)
            else:
                group = state.groups.get(key.group)
                if group is None:
                    group = state.groups[key.group] = ClassicGroup(key.group)
                state.foreign.pop(key.group, None)
                group.replay(value)
        elif record_type in foreign.FOREIGN_TYPES:
            self._replay_foreign(record_type, key, value)

    def _replay_foreign(self, record_type: int, key: Any, value: Any) -> None:
        """A record of a newer protocol. The group's offsets, if they came first, have made a simple group of it."""
        state = self.state
        is_end = value is None and record_type in foreign.GROUP_EPOCHS
        if value is not None or (is_end and key.group_id not in state.foreign):
            stand_in = state.groups.get(key.group_id)
            if stand_in is not None and stand_in.is_simple:
                del state.groups[key.group_id]
        foreign.replay(state.foreign, record_type, key, value)

    def _group_of_offsets(self, group_id: str) -> None:
        """An offset of a group that nobody knows makes a simple group."""
        if group_id not in self.state.groups and group_id not in self.state.foreign:
            self.state.groups[group_id] = ClassicGroup(group_id)

    def loaded(self, now: int) -> Outcome:
        """The log is replayed: members get a whole session to report."""
        self.status = Status.ACTIVE
        out = Outcome()
        for group in list(self.state.groups.values()):
            for member in group.members.values():
                session.heard_from(self.state, group, member, now)
            if len(group.members) > self.state.config.max_size:
                prepare_rebalance(self.state, group, now, "over capacity", "", out)
        if self.gone_topics:
            out.records += forget_topics(self.state, self.gone_topics).records
        if not out.records:
            self.gone_topics = []
        return out

    def fail(self, problem: Exception) -> None:
        self.status = Status.FAILED
        logger.error("shard %d cannot be loaded, its groups are not served: %s", self.partition, problem)


def _as_offset_commit(
    key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None
) -> tuple[OffsetCommitKey, OffsetCommitValue | None]:
    """What Kafka wrote before 0.9 means the same as what it writes now."""
    committed = None if value is None else OffsetCommitValue(value.offset, -1, value.metadata, value.commit_timestamp)
    return OffsetCommitKey(key.group, key.topic, key.partition), committed
