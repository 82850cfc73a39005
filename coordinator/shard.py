"""One partition of __consumer_offsets: state, the batch that is open, and how the log becomes state."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from kohort.coordinator import foreign
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.events import Event
from kohort.coordinator.offsets.bulk_replay import BulkReplay
from kohort.coordinator.outcome import (
    AtomicRecords,
    CommitRecords,
    InPieces,
    LogEntry,
    OffsetTombstones,
    Outcome,
    PackedRecords,
    PlannedCommit,
    Reply,
)
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.log_records import (
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_RECORDS,
    GROUP_METADATA,
    OFFSET_COMMIT,
    SHARE_GROUP_METADATA,
    SHARE_GROUP_RECORDS,
    STREAMS_GROUP_METADATA,
    STREAMS_GROUP_RECORDS,
    UnknownRecord,
    decode_key,
    decode_value,
)
from kohort.protocol.messages.log_group_metadata import GroupMetadataKey, GroupMetadataValue
from kohort.protocol.messages.log_legacy_offset_commit import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.record_batch import CONTROL, TRANSACTIONAL, parse_marker, scan_records
from kohort.protocol.wire import Message

if TYPE_CHECKING:
    from kohort.coordinator.consumer.group import ConsumerGroup
    from kohort.coordinator.consumer.member import ConsumerMember

logger = logging.getLogger(__name__)

RECORDS_IN_STEP = 500  # of a replay: a step takes a few milliseconds
LARGE_RECORD_BYTES = 100_000


class Status(Enum):
    NOT_OWNED = "not owned"  # another node coordinates its groups, or nobody does
    LOADING = "loading"
    ACTIVE = "active"
    STALLED = "stalled"  # the disk is full: records wait for room
    FAILED = "failed"  # its log cannot be read: somebody has to repair it

    @property
    def error(self) -> ErrorCode:
        """What requests to a shard of this status are answered with."""
        comes_back = self in (Status.LOADING, Status.STALLED)
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if comes_back else ErrorCode.NOT_COORDINATOR


class Write:
    """Batches of one shard for its log, replies that wait for them, and events to tell when they are durable."""

    __slots__ = ("batches", "begun", "epoch", "events", "first_offset", "partition", "problem", "replies", "shard")

    def __init__(self, shard: Shard, first_offset: int, begun: int, replies: list[Reply], events: list[Event]) -> None:
        self.shard = shard
        self.partition = shard.partition
        self.epoch = shard.epoch
        self.begun = begun  # on the steady clock
        self.first_offset = first_offset
        self.batches: list[bytes] = []
        self.problem: Exception | None = None  # why there are no batches: a bug, and the write has failed
        self.replies = replies
        self.events = events


class Shard:
    def __init__(self, state: ShardState) -> None:
        self.state = state
        state.downgrade, state.downgrade_in_pieces = _downgrade, _downgrade_in_pieces
        self.partition = state.partition
        self.status = Status.LOADING
        self.is_abandoned = False  # a fresh object has taken its place, because a write failed or the log was deleted
        self.epoch = 0  # of our ownership of the log; the host sets it
        self.next_offset = 0  # of the log
        self.unwritten: list[LogEntry] = []
        self.first_unwritten = 0  # log offset of the first of them
        self.waiting: list[Reply] = []  # for `unwritten`
        self.events: list[Event] = []  # for `unwritten`
        self.in_flight: list[Write] = []  # handed to the host, oldest first
        self.stalled: Write | None = None  # the one of them that the disk has no room for
        self.jobs: list[InPieces] = []  # the first of them is in progress
        self.gone_topics: list[tuple[str, bytes]] = []  # deleted topics whose offsets may still be in the log
        self.skipped_types: set[int] = set()
        self.unreadable_count = 0  # records that were skipped while the log was loaded
        self.first_unreadable: tuple[int, str] | None = None  # its offset, and what is wrong
        self._bulk = BulkReplay(state.offsets)

    # --- live

    def apply(self, out: Outcome) -> None:
        """Replay the records and put them into the open batch, with the replies and events that wait for them."""
        if not self.unwritten:
            self.first_unwritten = self.next_offset
        for entry in out.records:
            if isinstance(entry, PlannedCommit):
                self.next_offset = self.state.offsets.replay_planned(entry, self.next_offset)
                if entry.group not in self.state.groups:
                    self._group_of_offsets(entry.group)
            elif isinstance(entry, CommitRecords):
                self._apply_commit(entry)
            elif isinstance(entry, PackedRecords):
                self.next_offset += entry.count
            elif isinstance(entry, OffsetTombstones):
                self.next_offset = self.state.offsets.replay_tombstones(entry, self.next_offset)
            else:
                for record in entry.records if isinstance(entry, AtomicRecords) else (entry,):
                    self._replay(record.type, record.key, record.value, self.next_offset, -1)
                    self.next_offset += 1
        self.unwritten += out.records
        self.waiting += out.replies
        self.events += out.events

    def _apply_commit(self, commit: CommitRecords) -> None:
        self.next_offset = self.state.offsets.replay_rows(
            commit.group, commit.topic, commit.topic_id, commit.rows, commit.now, self.next_offset, commit.expires
        )
        self._group_of_offsets(commit.group)

    @property
    def has_pending_writes(self) -> bool:
        return bool(self.unwritten) or bool(self.in_flight)

    def forgot_topics(self) -> None:
        """Forget deleted topics once the tombstones of all their offsets are durable."""
        if not self.jobs and not self.has_pending_writes:
            self.gone_topics = []

    # --- replay

    def load_chunk(self, chunk: bytes, size: int) -> Iterator[None]:
        """Replay whole batches of the log, as many as a chunk of it holds, and give way after some records."""
        in_step = 0
        for header, offset, _, raw_key, raw_value, _ in scan_records(chunk, 0, size, with_headers=False):
            in_step += 1
            if in_step > RECORDS_IN_STEP:
                in_step = 0
                yield
            try:
                if header.attributes & CONTROL:
                    self._load_marker(header.producer_id, raw_key, raw_value)
                elif raw_key is not None:
                    if header.attributes & TRANSACTIONAL:
                        yield from self._load_record(raw_key, raw_value, offset, header.producer_id)
                    elif not self._bulk.replay(raw_key, raw_value, offset):
                        yield from self._load_record(raw_key, raw_value, offset, -1)
            except MalformedMessage as problem:
                self._skip(offset, problem)
            self.next_offset = offset + 1

    def _skip(self, offset: int, problem: MalformedMessage) -> None:
        """Skip a record that cannot be read. It stays in the log, and the other groups of the shard are served."""
        self._bulk.forget()
        self.unreadable_count += 1
        if self.first_unreadable is None:
            self.first_unreadable = offset, str(problem)

    def _load_marker(self, producer_id: int, raw_key: bytes | None, raw_value: bytes | None) -> None:
        self._bulk.forget()
        marker = parse_marker(raw_key, raw_value)
        if marker is not None:
            for group_id in self.state.offsets.end_transaction(producer_id, marker.commit):
                self._group_of_offsets(group_id)

    def _load_record(self, raw_key: bytes, raw_value: bytes | None, offset: int, producer_id: int) -> Iterator[None]:
        record_type, key = decode_key(raw_key)
        if record_type in STREAMS_GROUP_RECORDS:
            self._bulk.forget()
            streams_key = foreign.StreamsKey(raw_key)
            self._make_room(streams_key.group_id, raw_value is None and record_type == STREAMS_GROUP_METADATA)
            foreign.replay(self.state, record_type, streams_key, raw_value)
            return
        if isinstance(key, UnknownRecord):
            if record_type not in self.skipped_types:
                self.skipped_types.add(record_type)
                logger.warning("skipping records of unknown type %d in shard %d", record_type, self.partition)
            return
        value = None if raw_value is None else decode_value(record_type, raw_value)
        if raw_value is not None and len(raw_value) > LARGE_RECORD_BYTES:
            yield  # a group with thousands of members takes as long to read as to make
        if record_type == GROUP_METADATA and value is not None:
            self.state.replace(ClassicGroup.restored(key.group, value))
        elif record_type in CONSUMER_GROUP_RECORDS:
            self._make_room(key.group_id, value is None and record_type == CONSUMER_GROUP_METADATA)
            _replay_consumer(self.state, key, value)
        elif record_type in SHARE_GROUP_RECORDS:
            self._make_room(key.group_id, value is None and record_type == SHARE_GROUP_METADATA)
            _replay_share(self.state, key, value)
        else:
            self._replay(record_type, key, value, offset, producer_id)
        if record_type == OFFSET_COMMIT and value is not None and producer_id < 0:
            self._bulk.learn(raw_key, key.group, key.topic)
        else:
            self._bulk.forget()

    def _replay(self, record_type: int, key: Message, value: Message | None, log_offset: int, producer_id: int) -> None:
        match key:
            case OffsetCommitKey():
                self._replay_offset(key, _value(OffsetCommitValue, value), log_offset, producer_id)
            case LegacyOffsetCommitKey():
                newer = _as_offset_commit(key, _value(LegacyOffsetCommitValue, value))
                self._replay_offset(*newer, log_offset, producer_id)
            case GroupMetadataKey():
                self._replay_group(key.group, _value(GroupMetadataValue, value))
            case _ if record_type in CONSUMER_GROUP_RECORDS:
                _replay_consumer(self.state, key, value)
            case _ if record_type in SHARE_GROUP_RECORDS:
                _replay_share(self.state, key, value)
            case _:
                raise AssertionError(f"a record of type {record_type}")

    def _replay_offset(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, log_offset: int, producer_id: int
    ) -> None:
        self.state.offsets.replay(key, value, log_offset, producer_id)
        if value is not None:
            self._group_of_offsets(key.group)

    def _replay_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        state = self.state
        group = state.groups.get(group_id)
        if value is None:
            if isinstance(group, ClassicGroup):
                state.end(group_id)
        elif isinstance(group, ClassicGroup):
            group.replay(value)
        else:
            state.replace(ClassicGroup.restored(group_id, value))

    def _make_room(self, group_id: str, is_gone: bool) -> None:
        """Before the record of a group of a newer protocol: offsets before it have made a simple group, which ends."""
        group = self.state.groups.get(group_id)
        if is_gone and isinstance(group, ClassicGroup) and group.is_simple:
            self.state.end(group_id)

    def _group_of_offsets(self, group_id: str) -> None:
        """An offset of a group that nobody knows makes a simple group."""
        if group_id not in self.state.groups:
            self.state.groups[group_id] = ClassicGroup(group_id)

    def begin(self) -> Generator[None, None, Outcome]:
        """The log is replayed: begin the sessions of members. At the end the groups are served."""
        if self.first_unreadable is not None:
            skipped = "%d records of shard %d cannot be read and were skipped, the first at offset %d: %s"
            logger.error(skipped, self.unreadable_count, self.partition, *self.first_unreadable)
        out = Outcome()
        in_step = 0
        for group in list(self.state.groups.values()):
            in_step += 1
            for _ in group.on_loaded(self.state, out):
                in_step += 1
                if in_step > RECORDS_IN_STEP:
                    in_step = 0
                    yield
            if in_step > RECORDS_IN_STEP:
                in_step = 0
                yield
        self.status = Status.ACTIVE
        return out

    def abandon(self, error: ErrorCode) -> list[Reply]:
        """Another object takes the place of this shard. Everyone who waits for an answer is told to come again."""
        self.is_abandoned = True
        waiting = [reply for write in self.in_flight for reply in write.replies] + self.waiting
        self.in_flight, self.waiting, self.unwritten = [], [], []
        out = Outcome()
        waiting += [(job.call, job.response) for job in self.jobs if job.call is not None and job.response is not None]
        self.jobs = []
        for call, response in waiting:
            out.reply_at_once(call, call.api.failed(response, call.version, error))
        for group in self.state.groups.values():
            group.abandon(error, out)
        return out.at_once

    def fail(self, problem: Exception) -> None:
        self.status = Status.FAILED
        logger.error("shard %d cannot be loaded, its groups are not served: %s", self.partition, problem)


Replay = Callable[[ShardState, Message, "Message | None"], None]

_consumer_replay: list[Replay] = []
_share_replay: list[Replay] = []


def _replay_consumer(state: ShardState, key: Message, value: Message | None) -> None:
    if not _consumer_replay:
        from kohort.coordinator.consumer.group import replay  # start-up pays for it only if there are such groups

        _consumer_replay.append(replay)  # an import statement takes as long as the replay of a record
    _consumer_replay[0](state, key, value)


def _replay_share(state: ShardState, key: Message, value: Message | None) -> None:
    if not _share_replay:
        from kohort.coordinator.share.group import replay  # as above

        _share_replay.append(replay)
    _share_replay[0](state, key, value)


def _downgrade(
    shard: ShardState,
    group: ConsumerGroup,
    gone: Sequence[str],
    joining: ConsumerMember | None,
    rebalances: bool,
    out: Outcome,
) -> bool:
    from kohort.coordinator.conversion import downgrade  # as above

    return downgrade(shard, group, gone, joining, rebalances, out)


def _downgrade_in_pieces(shard: ShardState, group: ConsumerGroup, trigger: str) -> Iterator[Outcome]:
    from kohort.coordinator.conversion import downgrade_in_pieces  # as above

    return downgrade_in_pieces(shard, group, trigger)


Value = TypeVar("Value", bound=Message)


def _value(kind: type[Value], value: Message | None) -> Value | None:
    assert value is None or isinstance(value, kind), value
    return value


def _as_offset_commit(
    key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None
) -> tuple[OffsetCommitKey, OffsetCommitValue | None]:
    """Convert a record of a Kafka before 0.9 into the record that Kafka writes now."""
    committed = None if value is None else OffsetCommitValue(value.offset, -1, value.metadata, value.commit_timestamp)
    return OffsetCommitKey(key.group, key.topic, key.partition), committed
