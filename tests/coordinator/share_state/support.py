"""A share coordinator with a host made for tests: time is a number, the disk a list of batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kohort.coordinator.api import Api
from kohort.coordinator.delivery.states import StateBatch
from kohort.coordinator.outcome import Headers, InPieces, Parked
from kohort.coordinator.runtime import Runtime
from kohort.coordinator.shard import Shard, Status, Write
from kohort.coordinator.share_state.delete_share_group_state import DELETE
from kohort.coordinator.share_state.initialize_share_group_state import INITIALIZE, InitializeAsked
from kohort.coordinator.share_state.keys import SharePartitionKey, coordinator_key
from kohort.coordinator.share_state.partition_api import Asked, Row
from kohort.coordinator.share_state.read_share_group_state import READ, ReadAsked
from kohort.coordinator.share_state.read_share_group_state_summary import READ_SUMMARY
from kohort.coordinator.share_state.share_group_offset import ShareGroupOffset
from kohort.coordinator.share_state.share_shard import ShareShard
from kohort.coordinator.share_state.state import ShareCoordinatorConfig, ShareState
from kohort.coordinator.share_state.upkeep import REDUNDANT_OFFSET, AskRedundantOffset, snapshot_cold_partitions
from kohort.coordinator.share_state.write_share_group_state import WRITE, WriteAsked
from kohort.protocol.record_batch import parse_header, read_records, verify_crc
from kohort.protocol.share_state_records import SHARE_GROUP_STATE
from tests.coordinator.support import START, FakeTopics

MAX_MESSAGE_BYTES = 1_048_588


class Call:
    def __init__(self, host: ShareHost) -> None:
        self.version = 0
        self.client_id = self.client_host = ""
        self.now, self.steady_ms = host.now, host.now - START + 1_000
        self.api: Api[Any, Any, Any]
        self.answer: Any = None

    def reply(self, response: Any) -> None:
        assert self.answer is None, "a second answer"
        self.answer = response


class ShareHost:
    """`ask` and its friends return the row; None while the disk is slow."""

    def __init__(self, **settings: Any) -> None:
        self.now = START
        self.topics = FakeTopics(orders=3)
        self.config = ShareCoordinatorConfig(**settings)
        self.batches: dict[int, list[bytes]] = {}
        self.is_slow = False
        self.on_the_way: list[Write[ShareState]] = []
        self.runtime = self._new_runtime()
        self.load()

    def _new_runtime(self) -> Runtime[ShareState]:
        return Runtime(self._new_shard, 50, MAX_MESSAGE_BYTES)

    def _new_shard(self, partition: int) -> ShareShard:
        return ShareShard(ShareState(partition, self.config, self.topics))

    def key(self, partition: int = 0, group: str = "g", topic: str = "orders") -> SharePartitionKey:
        topic_id = self.topics.topic_id(topic)
        assert topic_id is not None
        return SharePartitionKey(group, topic_id, partition)

    # --- requests

    def ask(self, api: Api[ShareState, Any, Row], asked: Asked) -> Call:
        call = Call(self)
        answer = self.runtime.submit(coordinator_key(asked.key), api, asked, call)
        if not isinstance(answer, Parked):
            call.reply(answer)
        self.settle()
        return call

    def initialize(self, key: SharePartitionKey | None = None, state_epoch: int = 0, start_offset: int = -1) -> Row:
        row: Row = self.ask(INITIALIZE, InitializeAsked(key or self.key(), state_epoch, start_offset)).answer
        return row

    def read(self, key: SharePartitionKey | None = None, leader_epoch: int = 0) -> Row:
        row: Row = self.ask(READ, ReadAsked(key or self.key(), leader_epoch)).answer
        return row

    def write(
        self, *batches: tuple[int, int, int, int], key: SharePartitionKey | None = None, state_epoch: int = 0,
        leader_epoch: int = 0, start_offset: int = -1, done_count: int = 0, headers: Headers = (),
    ) -> Row:  # fmt: skip
        rows = [StateBatch(*batch) for batch in batches]
        asked = WriteAsked(key or self.key(), state_epoch, leader_epoch, start_offset, done_count, rows, headers)
        row: Row = self.ask(WRITE, asked).answer
        return row

    def delete(self, key: SharePartitionKey | None = None) -> Row:
        row: Row = self.ask(DELETE, Asked(key or self.key())).answer
        return row

    def summary(self, key: SharePartitionKey | None = None, leader_epoch: int = 0) -> Row:
        row: Row = self.ask(READ_SUMMARY, ReadAsked(key or self.key(), leader_epoch)).answer
        return row

    def redundant_offset(self, key: SharePartitionKey | None = None) -> int:
        shard = self.shard_of(key)
        answer: Any = self.runtime.ask(shard, REDUNDANT_OFFSET, AskRedundantOffset(), Call(self))
        return int(answer.offset)

    def snapshot_cold_partitions(self, after_ms: int = 300_000) -> None:
        self.now += after_ms
        for shard in self.runtime.shards:
            shard.state.clock.set(self.now, self.now)
            self.runtime.begin_later(shard, InPieces(snapshot_cold_partitions(shard.state)))
        self.settle()

    def delete_topic(self, name: str) -> None:
        self.runtime.topics_deleted([(name, self.topics.delete(name))])
        self.settle()

    # --- the disk

    def settle(self) -> None:
        while True:
            for call, response in self.runtime.take_replies():
                call.reply(response)
            while self.runtime.go_on(self.now, self.now):
                pass
            if self.runtime.replies:
                continue
            if not self.runtime.dirty:
                break
            self.on_the_way += self.runtime.take_writes(self.now, self.now)
            if not self.is_slow:
                self.disk_catches_up()

    def disk_catches_up(self) -> None:
        writes, self.on_the_way = self.on_the_way, []
        for write in writes:
            assert write.problem is None
            for batch in write.batches:
                verify_crc(batch, 0, parse_header(batch))
                self.batches.setdefault(write.partition, []).append(batch)
            self.runtime.written(write, self.now)
        self.is_slow = False
        self.settle()

    def crash(self) -> None:
        """kill -9: what was on the way is lost, and memory is."""
        self.on_the_way = []
        self.runtime = self._new_runtime()
        self.load()

    def load(self) -> None:
        for shard in self.runtime.shards:
            if shard.status is not Status.ACTIVE:
                self.load_shard(shard)

    def load_shard(self, shard: Shard[ShareState], skip: int = 0) -> None:
        for batch in self.batches.get(shard.partition, [])[skip:]:
            list(shard.load_chunk(batch, len(batch)))
        list(self.runtime.loaded(shard, self.now, self.now))

    # --- looking

    def shard_of(self, key: SharePartitionKey | None = None) -> Shard[ShareState]:
        return self.runtime.shard_of(coordinator_key(key or self.key()))

    def known(self, key: SharePartitionKey | None = None) -> ShareGroupOffset:
        return self.shard_of(key).state.offsets[key or self.key()]

    def log(self, key: SharePartitionKey | None = None) -> list[tuple[int, Any, Headers]]:
        """(type, value, headers) of the durable records of the key's partition of the log."""
        found = []
        for batch in self.batches.get(self.shard_of(key).partition, []):
            for record in read_records(batch):
                assert record.key is not None
                kind, _ = SHARE_GROUP_STATE.decode_key(record.key)
                value = None if record.value is None else SHARE_GROUP_STATE.decode_value(kind, record.value)
                found.append((kind, value, tuple(record.headers)))
        return found

    def batches_of(self, key: SharePartitionKey | None = None) -> Sequence[tuple[int, int, int, int]]:
        return [tuple(batch) for batch in self.known(key).batches]  # type: ignore[misc]
