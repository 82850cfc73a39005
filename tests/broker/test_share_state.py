"""The share coordinator inside a broker: its topic, its APIs on the wire, restarts, kills, a full disk, trimming."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.broker.call import Call
from kohort.broker.config import Listener
from kohort.broker.share.persister import SharePartitionKey, SharePartitionState, ShareStateSummary, StateBatch
from kohort.broker.topics.catalog import SHARE_GROUP_STATE
from kohort.coordinator.share_state.headers import Cause, share_state_headers
from kohort.coordinator.share_state.keys import coordinator_key
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from kohort.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.record_batch import build_batch
from tests.broker.broker_box import BrokerBox, FakeConnection
from tests.broker.test_shard_loading import FullDisk

NONE = (ErrorCode.NONE, None)


class ShareBox(BrokerBox):
    def __init__(self, folder: Path, disk: Any = None, **settings: str) -> None:
        own = {"kohort_offsets_sync_before_reply": "false"}
        super().__init__(folder, disk, **{**own, **settings})
        if self.broker.catalog.get("t") is None:
            self.topic("t", partitions=3)
        self.broker.clock = self.clock
        self.broker.coordinator = self.broker.make_coordinator()
        self.broker.advertised = [Listener("PLAINTEXT", "localhost", 9092)]
        self.answers: list[Any] = []

    @property
    def topic_id(self) -> bytes:
        topic = self.broker.catalog.get("t")
        assert topic is not None
        return topic.id

    def key(self, partition: int = 0, group: str = "g") -> SharePartitionKey:
        return SharePartitionKey(group, self.topic_id, partition)

    # --- as leaders ask

    def last(self) -> Any:
        self.pass_time()
        (answer,) = self.answers
        self.answers.clear()
        return answer

    def _done(self, error: ErrorCode, message: str | None) -> None:
        self.answers.append((error, message))

    def initialize(self, state_epoch: int = 0, start_offset: int = -1, partition: int = 0) -> Any:
        self.broker.share_state.initialize(self.key(partition), state_epoch, start_offset, self._done)
        return self.last()

    def write(self, *batches: tuple[int, int, int, int], start_offset: int = -1, partition: int = 0) -> Any:
        rows = [StateBatch(*batch) for batch in batches]
        headers = share_state_headers(Cause.ACKNOWLEDGE, "m-1")
        self.broker.share_state.write(self.key(partition), 0, 0, start_offset, 0, rows, headers, self._done)
        return self.last()

    def read(self, partition: int = 0, leader_epoch: int = 0) -> SharePartitionState:
        self.broker.share_state.read(self.key(partition), leader_epoch, self.answers.append)
        state: SharePartitionState = self.last()
        return state

    def summary(self, partition: int = 0) -> ShareStateSummary:
        self.broker.share_state.read_summary(self.key(partition), 0, self.answers.append)
        summary: ShareStateSummary = self.last()
        return summary

    def delete(self, partition: int = 0) -> Any:
        self.broker.share_state.delete(self.key(partition), self._done)
        return self.last()

    # --- the wire

    def ask(self, api_key: ApiKey, request: Any, version: int = 0) -> Any:
        return self.send(api_key, request, version)

    def log(self, partition: int = 0) -> Any:
        shard = self.broker.share_coordinator.runtime.shard_of(_text(self.key(partition)))
        place = self.broker.catalog.partition(SHARE_GROUP_STATE, shard.partition)
        assert place is not None
        return place.log


def _text(key: SharePartitionKey) -> str:
    return coordinator_key(key)


def write_later(box: ShareBox, start_offset: int) -> None:
    box.broker.share_state.write(box.key(), 0, 0, start_offset, 0, (), (), box._done)
    box.pass_time()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[ShareBox]:
    made = ShareBox(tmp_path)
    yield made
    made.close()


# --- as leaders ask


def test_what_a_leader_writes_it_reads_again(box: ShareBox) -> None:
    assert box.initialize(start_offset=5) == NONE
    assert box.write((5, 7, 2, 1), (8, 9, 0, 2)) == NONE
    assert box.read() == SharePartitionState(
        ErrorCode.NONE, None, 0, 5, [StateBatch(5, 7, 2, 1), StateBatch(8, 9, 0, 2)]
    )
    assert box.summary() == ShareStateSummary(ErrorCode.NONE, None, 0, 0, 5, 0)
    assert box.delete() == NONE
    assert box.read().error is ErrorCode.INVALID_REQUEST


def test_the_topic_comes_with_the_first_state_and_has_kafkas_settings(box: ShareBox) -> None:
    assert box.summary().start_offset == -1
    assert box.broker.catalog.get(SHARE_GROUP_STATE) is None
    box.initialize()
    topic = box.broker.catalog.get(SHARE_GROUP_STATE)
    assert topic is not None
    assert len(topic.partitions) == 50
    assert topic.is_internal
    assert topic.configs == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "1",
        "retention.ms": "-1",
        "segment.bytes": "104857600",
    }


def test_settings_say_how_many_partitions_and_how_many_updates(tmp_path: Path) -> None:
    box = ShareBox(
        tmp_path,
        share_coordinator_state_topic_num_partitions="3",
        share_coordinator_state_topic_segment_bytes="2000000",
        share_coordinator_snapshot_update_records_per_snapshot="2",
    )
    box.initialize()
    topic = box.broker.catalog.get(SHARE_GROUP_STATE)
    assert topic is not None
    assert (len(topic.partitions), topic.config.log.segment_bytes) == (3, 2_000_000)
    assert box.broker.share_coordinator.runtime.shards[0].state.config.updates_per_snapshot == 2
    box.close()


def test_states_are_there_after_a_restart_and_after_a_crash(tmp_path: Path) -> None:
    for is_crash in (False, True):
        box = ShareBox(tmp_path)
        for partition in range(3):
            box.initialize(partition=partition)
            box.write((0, 9, 2, 1), start_offset=partition, partition=partition)
        if is_crash:
            box.crash()
        else:
            box.broker.share_coordinator.stop()
            box.close()
        box = ShareBox(tmp_path)
        for partition in range(3):
            assert box.read(partition).start_offset == partition
        box.close()


def test_states_of_a_deleted_topic_are_gone_and_do_not_come_back(tmp_path: Path) -> None:
    box = ShareBox(tmp_path)
    old = box.key()
    box.initialize(start_offset=7)
    box.ask(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000), 5)
    box.pass_time()
    assert [key for shard in box.broker.share_coordinator.runtime.shards for key in shard.state.offsets] == []
    box.crash()
    box = ShareBox(tmp_path)
    assert box.key() != old
    assert box.read().error is ErrorCode.INVALID_REQUEST
    box.close()


def test_if_its_own_topic_is_deleted_everything_is_forgotten(box: ShareBox) -> None:
    box.initialize(start_offset=7)
    box.ask(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(topic_names=[SHARE_GROUP_STATE], timeout_ms=1_000), 5)
    box.pass_time()
    assert box.read().error is ErrorCode.INVALID_REQUEST
    assert box.initialize(start_offset=8) == NONE
    assert box.read().start_offset == 8


def test_a_client_may_create_the_topic_with_fewer_partitions(box: ShareBox) -> None:
    assert box.summary().start_offset == -1  # there are 50 shards
    box.ask(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic(SHARE_GROUP_STATE, 2, 1, (), ())]), 5)
    box.pass_time()
    assert len(box.broker.share_coordinator.runtime.shards) == 2
    assert box.initialize() == NONE


# --- the disk


def test_the_answer_waits_for_the_sync(tmp_path: Path) -> None:
    box = ShareBox(tmp_path, kohort_offsets_sync_before_reply="true")
    box.broker.share_state.initialize(box.key(), 0, 5, box._done)
    box.pass_time()
    assert box.answers == []
    while not box.answers:
        box.run_posted()
        box.pass_time()
    assert box.answers == [NONE]
    box.close()


def test_while_the_disk_is_full_leaders_are_told_so_and_nothing_is_lost(tmp_path: Path) -> None:
    disk = FullDisk(SHARE_GROUP_STATE)
    box = ShareBox(tmp_path, disk)
    box.initialize(start_offset=0)
    disk.is_full = True
    write_later(box, start_offset=3)
    unable = "Unable to write share group state: "
    assert box.last() == (ErrorCode.NOT_COORDINATOR, f"{unable}This is not the correct coordinator.")
    write_later(box, start_offset=4)
    loading = f"{unable}The coordinator is loading and hence can't process requests."
    assert box.last() == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, loading)
    disk.is_full = False
    box.pass_time(30_000)
    assert box.read().start_offset == 3, "its write found room in the end"
    assert box.write((3, 5, 2, 1)) == NONE
    box.crash()
    box = ShareBox(tmp_path)
    assert box.read().batches == [StateBatch(3, 5, 2, 1)]
    box.close()


def test_a_disk_that_fails_makes_the_shard_load_its_log_again(tmp_path: Path) -> None:
    box = ShareBox(tmp_path)
    box.initialize(start_offset=7)
    box.broker.share_coordinator.log.release(_shard(box))  # an append that comes now is refused
    write_later(box, start_offset=9)
    assert box.last()[0] is ErrorCode.NOT_COORDINATOR
    box.pass_time(1_000)
    assert box.read().start_offset == 7
    assert box.write((7, 7, 2, 1)) == NONE
    box.close()


def _shard(box: ShareBox) -> int:
    return box.broker.share_coordinator.runtime.shard_of(_text(box.key())).partition


def test_the_log_is_trimmed_behind_the_oldest_snapshot_that_is_needed(tmp_path: Path) -> None:
    box = ShareBox(tmp_path, share_coordinator_snapshot_update_records_per_snapshot="2")
    box.initialize()
    for number in range(7):  # u u s u u s u
        box.write((number, number, 2, 1), start_offset=0)
    log = box.log()
    assert (log.log_start_offset, log.log_end_offset) == (0, 8)
    box.pass_time(300_000)
    assert log.log_start_offset == 6
    box.crash()
    box = ShareBox(tmp_path)
    assert box.read().batches == [StateBatch(0, 6, 2, 1)]
    box.close()


def test_share_partitions_that_are_quiet_do_not_keep_the_log_from_being_trimmed(box: ShareBox) -> None:
    box.initialize()
    box.write((0, 4, 2, 1), start_offset=0)
    for _ in range(3):
        box.pass_time(300_000)
    log = box.log()
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)
    assert box.read().batches == [StateBatch(0, 4, 2, 1)]


def test_without_the_file_of_topics_states_are_found_where_they_were_written(tmp_path: Path) -> None:
    box = ShareBox(tmp_path, share_coordinator_state_topic_num_partitions="30")
    for partition in range(3):
        box.initialize(partition=partition, start_offset=partition)
    keys = [box.key(partition) for partition in range(3)]
    folders = {int(path.name.rpartition("-")[2]) for path in tmp_path.glob(f"{SHARE_GROUP_STATE}-*")}
    assert len(folders) == 3
    box.crash()
    (tmp_path / "kohort-catalog.json").unlink()
    for partition in set(range(30)) - folders:  # Kafka makes all of them at once
        (tmp_path / f"{SHARE_GROUP_STATE}-{partition}").mkdir()
    box = ShareBox(tmp_path)
    assert len(box.broker.share_coordinator.runtime.shards) == 30
    for partition, key in enumerate(keys):
        shard = box.broker.share_coordinator.runtime.shard_of(_text(key))
        assert shard.state.offsets[key].start_offset == partition
    box.close()


# --- clients


def test_clients_cannot_write_into_the_topic(box: ShareBox) -> None:
    box.initialize()
    answer = box.produce(build_batch([(b"k", b"v")], timestamp=box.now), topic=SHARE_GROUP_STATE)
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_clients_cannot_add_partitions_to_the_topic(box: ShareBox) -> None:
    """Share groups would look for their states in other partitions than they are in."""
    box.initialize()
    request = CreatePartitionsRequest([CreatePartitionsTopic(SHARE_GROUP_STATE, 60, None)])
    (answer,) = box.ask(ApiKey.CREATE_PARTITIONS, request, 3).results
    assert answer.error_code == ErrorCode.INVALID_PARTITIONS


def test_metadata_creates_the_topic_as_the_share_coordinator_would(box: ShareBox) -> None:
    request = MetadataRequest([MetadataRequestTopic(name=SHARE_GROUP_STATE)], True)
    answer = box.ask(ApiKey.METADATA, request, 9)
    (topic,) = answer.topics
    assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (0, True, 50)
    made = box.broker.catalog.get(SHARE_GROUP_STATE)
    assert made is not None
    assert made.configs["cleanup.policy"] == "delete"


def test_find_coordinator_knows_share_partitions_and_creates_the_topic(box: ShareBox) -> None:
    key = _text(box.key(1))
    answer = box.ask(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("", 2, [key, "g:x:1"]), 6)
    assert [(found.key, found.error_code, found.node_id) for found in answer.coordinators] == [
        (key, 0, 1),
        ("g:x:1", ErrorCode.INVALID_REQUEST, -1),
    ]
    assert box.broker.catalog.get(SHARE_GROUP_STATE) is not None


# --- APIs 83 to 87


def initialize_request(box: ShareBox, *partitions: int, group: str = "g") -> Any:
    rows = [initialize_share_group_state.PartitionData(each, 3, 10 * each) for each in partitions]
    topics = [initialize_share_group_state.InitializeStateData(box.topic_id, rows)]
    return initialize_share_group_state.InitializeShareGroupStateRequest(group, topics)


def test_the_apis_on_the_wire(box: ShareBox) -> None:
    box.broker.catalog.ensure_internal(SHARE_GROUP_STATE)

    def ask(api_key: ApiKey, request: Any, version: int = 0) -> Any:
        """The handler waits for the disk, which needs a turn of the event loop."""
        route = box.broker.apis.route(api_key, version)
        call = Call(FakeConnection(), route, "test")  # type: ignore[arg-type]
        steps: Any = route.handler(box.broker, request, call)
        while True:
            try:
                if next(steps) is not None:
                    box.pass_time()
            except StopIteration as end:
                return end.value

    answer = ask(ApiKey.INITIALIZE_SHARE_GROUP_STATE, initialize_request(box, 0, 2, 3))
    Initialized = initialize_share_group_state.PartitionResult
    unknown = "This server does not host this topic-partition."
    assert answer.results == [
        initialize_share_group_state.InitializeStateResult(
            box.topic_id, [Initialized(0, 0, None), Initialized(2, 0, None), Initialized(3, 3, unknown)]
        )
    ]

    batches = [write_share_group_state.StateBatch(20, 24, 2, 1)]
    data = [write_share_group_state.PartitionData(2, 3, 0, -1, 5, batches)]
    topics = [write_share_group_state.WriteStateData(box.topic_id, data)]
    request = write_share_group_state.WriteShareGroupStateRequest("g", topics)
    answer = ask(ApiKey.WRITE_SHARE_GROUP_STATE, request, 1)
    Written = write_share_group_state.PartitionResult
    assert answer.results == [write_share_group_state.WriteStateResult(box.topic_id, [Written(2, 0, None)])]

    topics_read = [
        read_share_group_state.ReadStateData(
            box.topic_id, [read_share_group_state.PartitionData(2, 4), read_share_group_state.PartitionData(1, 4)]
        )
    ]
    answer = ask(ApiKey.READ_SHARE_GROUP_STATE, read_share_group_state.ReadShareGroupStateRequest("g", topics_read))
    found, missing = answer.results[0].partitions
    rows = [read_share_group_state.StateBatch(20, 24, 2, 1)]
    assert found == read_share_group_state.PartitionResult(2, 0, None, 3, 20, rows)
    assert missing.error_code == ErrorCode.INVALID_REQUEST

    summaries = read_share_group_state_summary
    asked = [summaries.ReadStateSummaryData(box.topic_id, [summaries.PartitionData(2, 0)])]
    answer = ask(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, summaries.ReadShareGroupStateSummaryRequest("g", asked), 1)
    assert answer.results[0].partitions == [summaries.PartitionResult(2, 0, None, 3, 4, 20, 5)]

    gone = [delete_share_group_state.DeleteStateData(box.topic_id, [delete_share_group_state.PartitionData(2)] * 2)]
    answer = ask(ApiKey.DELETE_SHARE_GROUP_STATE, delete_share_group_state.DeleteShareGroupStateRequest("g", gone))
    assert answer.results[0].partitions == [delete_share_group_state.PartitionResult(2, 0, None)]
    assert box.read(2).error is ErrorCode.INVALID_REQUEST


def test_a_request_without_group_topics_or_partitions_gets_an_empty_answer(box: ShareBox) -> None:
    api_key = ApiKey.INITIALIZE_SHARE_GROUP_STATE
    assert box.ask(api_key, initialize_request(box, 0, group="")).results == []
    assert box.ask(api_key, initialize_request(box)).results == []
    assert box.ask(api_key, initialize_share_group_state.InitializeShareGroupStateRequest("g", [])).results == []


def test_nobody_coordinates_share_partitions_before_the_topic_exists(box: ShareBox) -> None:
    answer = box.ask(ApiKey.INITIALIZE_SHARE_GROUP_STATE, initialize_request(box, 0))
    (result,) = answer.results[0].partitions
    assert (result.error_code, result.error_message) == (
        ErrorCode.NOT_COORDINATOR,
        "Unable to initialize share group state: This is not the correct coordinator.",
    )
    assert box.broker.catalog.get(SHARE_GROUP_STATE) is None
