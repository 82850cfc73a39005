"""Loading groups: in steps, again if the disk fails for a while; and a full disk, which costs no loading at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from kohort.broker.coordinator_host import CoordinatorHost
from kohort.broker.shard_loading import MAX_DELAY_S
from kohort.broker.shard_log import LocalShardLog
from kohort.broker.topics.catalog import CONSUMER_OFFSETS
from kohort.coordinator.shard import Status
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kohort.storage.disk import File, RealDisk, RealFile
from tests.broker.broker_box import BrokerBox, FakeConnection
from tests.broker.test_coordinator_host import error_of, send_commit, shard_of

GROUP = "g"


class FullDisk(RealDisk):
    """The real disk, without room for another record while `is_full`."""

    def __init__(self, topic: str = CONSUMER_OFFSETS) -> None:
        super().__init__()
        self._topic = topic
        self.is_full = False
        self.appends_left = -1  # until it is full by itself
        self.attempts = 0  # to append while it was full
        self.opened: list[str] = []

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:
        self.opened.append(path)
        file = super().open(path, create=create, truncate=truncate)
        is_log = self._topic in path and path.endswith(".log")
        return LimitedFile(self, path, os.dup(file.fileno())) if is_log else file


class LimitedFile(RealFile):
    def __init__(self, disk: FullDisk, path: str, fd: int) -> None:
        super().__init__(path, fd)
        self._disk = disk

    def append(self, data: bytes | bytearray | memoryview) -> None:
        if self._disk.appends_left == 0:
            self._disk.is_full = True
        self._disk.appends_left -= 1
        if self._disk.is_full:
            self._disk.attempts += 1
            super().append(data[:10])  # a part of it may still find room
            raise OSError(errno.ENOSPC, "No space left on device")
        super().append(data)


def a_box(tmp_path: Path, disk: RealDisk | None = None) -> BrokerBox:
    box = BrokerBox(tmp_path, disk, kohort_offsets_sync_before_reply="false", offsets_topic_num_partitions="2")
    if box.broker.catalog.get("t") is None:
        box.topic("t", partitions=2)
    box.broker.coordinator = CoordinatorHost(box.broker, box.clock)
    box.broker.coordinator.start()
    return box


def committed(box: BrokerBox, group_id: str = GROUP) -> int:
    client = FakeConnection()
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id, None, -1, None)])
    answer = box.send(ApiKey.OFFSET_FETCH, request, 8, client=client)
    (group,) = answer.groups
    return ErrorCode(group.error_code) if group.error_code else group.topics[0].partitions[0].committed_offset


# --- a full disk


def test_while_the_disk_is_full_a_shard_is_not_loaded_again_and_again(tmp_path: Path) -> None:
    disk = FullDisk()
    box = a_box(tmp_path, disk)
    send_commit(box, GROUP)
    box.pass_time()
    before = shard_of(box, GROUP)
    disk.is_full = True
    refused = send_commit(box, GROUP)
    box.pass_time()
    assert error_of(refused) is ErrorCode.NOT_COORDINATOR
    disk.opened.clear()
    for _ in range(60):
        assert error_of(send_commit(box, GROUP)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        box.pass_time(1_000)
    assert disk.opened == [], "nothing was read"
    assert disk.attempts < 10, "it is tried less often as time goes by"
    disk.is_full = False
    box.pass_time(int(MAX_DELAY_S * 1_000))
    assert shard_of(box, GROUP) is before
    again = send_commit(box, GROUP)
    box.pass_time()
    assert error_of(again) is ErrorCode.NONE
    log = box.broker.catalog.ensure_internal(CONSUMER_OFFSETS).partitions[before.partition].log
    assert log.log_end_offset == 3, "no record is missing, and none is there twice"
    box.close()
    box = a_box(tmp_path)
    assert committed(box) == 5
    box.close()


def test_a_shard_that_waits_for_room_goes_on_with_what_came_meanwhile(tmp_path: Path) -> None:
    disk = FullDisk()
    box = a_box(tmp_path, disk)
    send_commit(box, GROUP)
    box.pass_time()
    disk.is_full = True
    send_commit(box, GROUP)
    box.pass_time()
    topic = box.broker.catalog.get("t")
    assert topic is not None
    box.broker.catalog.make(box.broker.catalog.deletion_of([topic]))
    box.broker.coordinator.topics_deleted([topic])
    disk.is_full = False
    box.pass_time(1_000)
    box.pass_time()
    shard = shard_of(box, GROUP)
    assert (shard.status, shard.gone_topics, shard.state.offsets.count()) == (Status.ACTIVE, [], 0)
    box.close()


def test_batches_of_a_write_that_found_room_are_not_written_again(tmp_path: Path) -> None:
    disk = FullDisk()
    box = BrokerBox(tmp_path, disk, kohort_offsets_sync_before_reply="false", message_max_bytes="1000")
    box.topic("t", partitions=2)
    box.broker.coordinator = CoordinatorHost(box.broker, box.clock)
    box.broker.coordinator.start()
    send_commit(box, GROUP)
    box.pass_time()
    clients = [send_commit(box, GROUP) for _ in range(30)]
    disk.appends_left = 1
    box.pass_time()
    assert {error_of(client) for client in clients} == {ErrorCode.NOT_COORDINATOR}
    log = box.broker.catalog.ensure_internal(CONSUMER_OFFSETS).partitions[shard_of(box, GROUP).partition].log
    assert 1 < log.log_end_offset < 31, "some of it is there"
    disk.is_full = False
    box.pass_time(1_000)
    assert log.log_end_offset == 31
    again = send_commit(box, GROUP)
    box.pass_time()
    assert error_of(again) is ErrorCode.NONE
    box.close()


# --- problems that pass


class FailingLog(LocalShardLog):
    """Its first reads fail half-way."""

    problems: list[Exception]

    def read(self, partition: int, take: Callable[[bytes, int], Iterator[None]]) -> Iterator[None]:
        for step in super().read(partition, take):
            yield step
            if self.problems:
                raise self.problems.pop()


def a_loading_box(tmp_path: Path, *problems: Exception) -> BrokerBox:
    box = a_box(tmp_path)
    send_commit(box, GROUP)
    box.pass_time()
    box.close()
    box = BrokerBox(tmp_path, kohort_offsets_sync_before_reply="false", offsets_topic_num_partitions="2")
    log = FailingLog(box.broker, box.clock, CONSUMER_OFFSETS, sync_before_reply=False)
    log.problems = list(problems)
    box.broker.coordinator = CoordinatorHost(box.broker, box.clock, log)
    box.broker.coordinator.start()
    return box


def test_a_load_that_fails_for_a_while_is_tried_again(tmp_path: Path) -> None:
    problem = OSError(errno.EMFILE, "Too many open files")
    box = a_loading_box(tmp_path, problem, problem)
    assert committed(box) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    box.pass_time(1_000)
    assert committed(box) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    box.pass_time(1_000)
    assert committed(box) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the second time it waits for longer"
    box.pass_time(1_000)
    assert committed(box) == 5
    box.close()


def test_a_load_that_meets_a_bug_fails_its_shard_and_no_other(tmp_path: Path) -> None:
    box = a_loading_box(tmp_path, ValueError("a bug"))
    assert committed(box) == ErrorCode.NOT_COORDINATOR
    others = {shard.status for shard in box.broker.coordinator.runtime.shards} - {Status.FAILED}
    assert others == {Status.ACTIVE}
    box.close()
