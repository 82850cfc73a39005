"""The log of groups on this machine's disk, behind the seam that the coordinator's host knows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from kohort.broker.clock import CLOCK
from kohort.broker.config import Listener
from kohort.broker.coordinator_host import CoordinatorHost
from kohort.broker.shard_log import LocalShardLog, NotOwned, ShardLog
from kohort.broker.topics.catalog import CONSUMER_OFFSETS
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.record_batch import build_batch
from kohort.storage.errors import InvalidAppend
from tests.broker.broker_box import BrokerBox


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BrokerBox]:
    made = BrokerBox(tmp_path)
    yield made
    made.close()


@pytest.fixture
def log(box: BrokerBox) -> ShardLog:
    return LocalShardLog(box.broker, CLOCK, CONSUMER_OFFSETS, sync_before_reply=False)


class OneOfTwoNodes(LocalShardLog):
    """This node owns the even partitions; nobody owns the others."""

    def owner(self, partition: int) -> int | None:
        return super().owner(partition) if partition % 2 == 0 else None


@dataclass
class AWrite:
    partition: int
    epoch: int
    batches: list[bytes]


def append(log: ShardLog, epoch: int, base_offset: int, partition: int = 7) -> Exception | None:
    told: list[tuple[Sequence[AWrite], Exception | None]] = []
    write = AWrite(partition, epoch, [build_batch([(b"key", b"value")], timestamp=1, base_offset=base_offset)])
    log.append([write], 1, lambda writes, problem: told.append((writes, problem)))
    ((writes, problem),) = told
    assert list(writes) == [write]
    return problem


def read(log: ShardLog, partition: int = 7) -> bytes:
    chunks: list[bytes] = []

    def take(chunk: bytes, size: int) -> Iterator[None]:
        chunks.append(bytes(chunk[:size]))
        yield

    for _ in log.read(partition, take):
        pass
    return b"".join(chunks)


def test_a_log_that_does_not_exist_yet_is_empty_and_comes_with_the_first_append(box: BrokerBox, log: ShardLog) -> None:
    owned = log.own(7)
    assert (owned.end_offset, owned.size_bytes, read(log)) == (0, 0, b"")
    assert box.broker.catalog.get(CONSUMER_OFFSETS) is None
    assert append(log, owned.epoch, 0) is None
    assert len(read(log)) > 0


def test_an_append_of_an_earlier_epoch_is_refused_and_leaves_nothing(log: ShardLog) -> None:
    first = log.own(7)
    assert append(log, first.epoch, 0) is None
    log.release(7)
    assert isinstance(append(log, first.epoch, 1), NotOwned)
    second = log.own(7)
    assert second.end_offset == 1
    assert isinstance(append(log, first.epoch, 1), NotOwned)
    assert append(log, second.epoch, 1) is None
    log.release(7)
    assert log.own(7).end_offset == 2


def test_an_append_that_does_not_continue_the_log_is_refused(log: ShardLog) -> None:
    owned = log.own(7)
    assert isinstance(append(log, owned.epoch, 3), InvalidAppend)
    assert append(log, owned.epoch, 0) is None


def test_with_a_sync_before_the_reply_an_append_is_done_when_the_disk_has_it(box: BrokerBox) -> None:
    log = LocalShardLog(box.broker, CLOCK, CONSUMER_OFFSETS, sync_before_reply=True)
    batch = build_batch([(b"key", b"value")], timestamp=1)
    writes = [AWrite(partition, log.own(partition).epoch, [batch]) for partition in (7, 8, 9)]
    told: list[tuple[Sequence[AWrite], Exception | None]] = []
    log.append(writes, 1, lambda writes, problem: told.append((writes, problem)))
    assert told == []
    while not told:
        box.run_posted()
    assert told == [(writes, None)]
    topic = box.broker.catalog.get(CONSUMER_OFFSETS)
    assert topic is not None
    assert [topic.partitions[write.partition].log.recovery_point for write in writes] == [1, 1, 1]


def test_each_write_of_a_turn_is_told_how_it_went(box: BrokerBox) -> None:
    log = LocalShardLog(box.broker, CLOCK, CONSUMER_OFFSETS, sync_before_reply=False)
    batch = build_batch([(b"key", b"value")], timestamp=1)
    good, stale, misplaced = (
        AWrite(1, log.own(1).epoch, [batch]),
        AWrite(2, 99, [batch]),
        AWrite(3, log.own(3).epoch, [batch] * 2),
    )
    told: dict[int, Exception | None] = {}
    log.append([stale, good, misplaced], 1, lambda writes, problem: told.update({w.partition: problem for w in writes}))
    assert told[1] is None
    assert isinstance(told[2], NotOwned)
    assert isinstance(told[3], InvalidAppend)


def test_groups_of_a_partition_that_is_not_ours_are_sent_elsewhere(box: BrokerBox) -> None:
    log = OneOfTwoNodes(box.broker, box.clock, CONSUMER_OFFSETS, sync_before_reply=False)
    coordinator = box.broker.coordinator = CoordinatorHost(box.broker, box.clock, log)
    coordinator.start()
    box.broker.advertised = [Listener("PLAINTEXT", "here", 9092)]
    by_parity = {coordinator.runtime.shard_of(name).partition % 2: name for name in ("g", "h", "i", "j")}
    ours, others = by_parity[0], by_parity[1]
    found = box.send(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(key_type=0, coordinator_keys=[ours, others]), 4)
    assert [(each.node_id, each.host, each.error_code) for each in found.coordinators] == [
        (box.broker.config.node_id, "here", 0),
        (-1, "", ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ]
    beats = [box.send(ApiKey.HEARTBEAT, HeartbeatRequest(name, 1, "m"), 4).error_code for name in (ours, others)]
    assert beats == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NOT_COORDINATOR]


@pytest.mark.parametrize("version", [4, 5, 6])
def test_a_group_that_is_asked_for_alone_is_found_as_one_among_others(box: BrokerBox, version: int) -> None:
    log = OneOfTwoNodes(box.broker, box.clock, CONSUMER_OFFSETS, sync_before_reply=False)
    coordinator = box.broker.coordinator = CoordinatorHost(box.broker, box.clock, log)
    box.broker.advertised = [Listener("PLAINTEXT", "here", 9092)]

    def found(*groups: str) -> list[object]:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=list(groups))
        return list(box.send(ApiKey.FIND_COORDINATOR, request, version).coordinators)

    groups = ["g", "h", "i", "j", "日本", "a long id" * 1_000]
    assert len({coordinator.owner_of(group) for group in groups}) == 2, "some are ours, and some are not"
    for _ in range(2):  # the second time the answer may be remembered
        assert [found(group) for group in groups] == [[row] for row in found(*groups)]
        box.broker.advertised = [Listener("PLAINTEXT", "there", 9093)]
    coordinator.log = LocalShardLog(box.broker, box.clock, CONSUMER_OFFSETS, sync_before_reply=False)
    assert [found(group) for group in groups] == [[row] for row in found(*groups)], "groups have moved to this broker"
