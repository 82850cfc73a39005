"""One partition of __consumer_offsets: how its records become groups and offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from kohort.coordinator import foreign
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.offsets.bulk_replay import BulkReplay
from kohort.coordinator.offsets.expiration import forget_topics
from kohort.coordinator.outcome import (
    AtomicRecords,
    CommitRecords,
    LogEntry,
    MarkerRecord,
    OffsetTombstones,
    Outcome,
    PackedRecords,
    PlannedCommit,
    StepRecords,
    TransactionalCommit,
)
from kohort.coordinator.shard import RECORDS_IN_STEP, Shard
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.log_records import (
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_RECORDS,
    CONSUMER_OFFSETS,
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
from kohort.protocol.record_batch import CONTROL, TRANSACTIONAL, BatchHeader, parse_marker, scan_records
from kohort.protocol.txn_marker import TxnMarker
from kohort.protocol.wire import Message

if TYPE_CHECKING:
    from kohort.coordinator.consumer.group import ConsumerGroup
    from kohort.coordinator.consumer.member import ConsumerMember

LARGE_RECORD_BYTES = 100_000


class GroupShard(Shard[ShardState]):
    types = CONSUMER_OFFSETS

    def __init__(self, state: ShardState) -> None:
        super().__init__(state)
        state.downgrade, state.downgrade_in_pieces = _downgrade, _downgrade_in_pieces
        self._bulk = BulkReplay(state.offsets)

    # --- live

    def replay_entries(self, entries: Sequence[LogEntry]) -> None:
        for entry in entries:
            if isinstance(entry, PlannedCommit):  # by far the most frequent one
                state = self.state
                self.next_offset = state.offsets.replay_planned(entry, self.next_offset)
                if entry.group not in state.groups:
                    self._group_of_offsets(entry.group)
            elif isinstance(entry, StepRecords):
                entry.replay()
                self.next_offset += len(entry.fields)
            elif isinstance(entry, CommitRecords):
                self._apply_commit(entry)
            elif isinstance(entry, PackedRecords):
                self.next_offset += entry.count
            elif isinstance(entry, OffsetTombstones):
                self.next_offset = self.state.offsets.replay_tombstones(entry, self.next_offset)
            elif isinstance(entry, TransactionalCommit):
                wall = self.state.clock.wall
                self.next_offset = self.state.offsets.replay_transactional(entry, self.next_offset, wall)
                self._group_of_offsets(entry.parts[0].group)
            elif isinstance(entry, MarkerRecord):
                self.replay_marker(entry.marker, self.next_offset, self.state.clock.wall)
                self.next_offset += 1
            else:
                for record in entry.records if isinstance(entry, AtomicRecords) else (entry,):
                    self.replay(record.type, record.key, record.value, self.next_offset)
                    self.next_offset += 1

    def _apply_commit(self, commit: CommitRecords) -> None:
        self.next_offset = self.state.offsets.replay_rows(
            commit.group, commit.topic, commit.topic_id, commit.rows, commit.now, self.next_offset, commit.expires
        )
        self._group_of_offsets(commit.group)

    # --- replay

    def load_chunk(self, chunk: bytes, size: int) -> Iterator[None]:
        """Replay whole batches of the log, as many as a chunk of it holds, and give way after some records."""
        in_step = 0
        for header, offset, time, raw_key, raw_value, _ in scan_records(chunk, 0, size, with_headers=False):
            in_step += 1
            if in_step > RECORDS_IN_STEP:
                in_step = 0
                yield
            try:
                if header.attributes & CONTROL:
                    self._load_marker(header, raw_key, raw_value, offset, time)
                elif raw_key is not None:
                    if header.attributes & TRANSACTIONAL and header.producer_id >= 0:
                        self.state.offsets.pending.begin(header.producer_id, header.producer_epoch, offset, time)
                        yield from self._load_record(raw_key, raw_value, offset, header.producer_id)
                    elif not self._bulk.replay(raw_key, raw_value, offset):
                        yield from self._load_record(raw_key, raw_value, offset, -1)
            except MalformedMessage as problem:
                self.skip(offset, problem)
            self.next_offset = offset + 1

    def skip(self, offset: int, problem: MalformedMessage) -> None:
        self._bulk.forget()
        super().skip(offset, problem)

    def _load_marker(
        self, header: BatchHeader, raw_key: bytes | None, raw_value: bytes | None, offset: int, time: int
    ) -> None:
        self._bulk.forget()
        read = parse_marker(raw_key, raw_value)
        if read is not None:
            marker = TxnMarker(header.producer_id, header.producer_epoch, read.commit, read.coordinator_epoch, 0)
            self.replay_marker(marker, offset, time)

    def _load_record(self, raw_key: bytes, raw_value: bytes | None, offset: int, producer_id: int) -> Iterator[None]:
        record_type, key = decode_key(raw_key)
        if record_type in STREAMS_GROUP_RECORDS:
            self._bulk.forget()
            streams_key = foreign.StreamsKey(raw_key)
            self._make_room(streams_key.group_id, raw_value is None and record_type == STREAMS_GROUP_METADATA)
            foreign.replay(self.state, record_type, streams_key, raw_value)
            return
        if isinstance(key, UnknownRecord):
            self.skip_type(record_type)
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
            self.replay(record_type, key, value, offset, producer_id)
        if record_type == OFFSET_COMMIT and value is not None and producer_id < 0:
            self._bulk.learn(raw_key, key.group, key.topic)
        else:
            self._bulk.forget()

    def replay(
        self, record_type: int, key: Message, value: Message | None, log_offset: int, producer_id: int = -1
    ) -> None:
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

    def replay_marker(self, marker: TxnMarker, log_offset: int, now: int) -> None:
        for group_id in self.state.offsets.end_transaction(marker, log_offset, now):
            self._group_of_offsets(group_id)

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

    def on_loaded(self, out: Outcome) -> Iterator[None]:
        """Begin the sessions of members."""
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

    def on_abandoned(self, error: ErrorCode, out: Outcome) -> None:
        for group in self.state.groups.values():
            group.abandon(error, out)

    def forget_topics(self, topics: Sequence[tuple[str, bytes]]) -> Iterator[Outcome]:
        return forget_topics(self.state, topics)


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
