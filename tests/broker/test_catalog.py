"""The topics and their file: what a change costs, and what is there after a crash, a full disk or a lost file."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kohort.broker.call import Call
from kohort.broker.config import Listener
from kohort.broker.coordinator_host import CoordinatorHost
from kohort.broker.steps import Done, Pause, take_steps
from kohort.broker.topics import catalog_file, create_partitions, create_topics
from kohort.broker.topics.catalog import CONSUMER_OFFSETS, Topic
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest
from kohort.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.storage.disk import FolderInUse
from kohort.storage.errors import FileDamaged
from tests.broker.broker_box import BrokerBox, FakeConnection
from tests.broker.small_files import FullDisk
from tests.broker.test_broker_configs import alter

FILE = "kohort-catalog.json"
BROKER, SET = 4, 0


def a_broker(folder: Path, disk: FullDisk | None = None) -> BrokerBox:
    box = BrokerBox(folder, disk)
    box.broker.advertised = [Listener("PLAINTEXT", "localhost", 9092)]
    return box


def shape(box: BrokerBox) -> dict[str, tuple[bytes, int, dict[str, str]]]:
    return {topic.name: (topic.id, len(topic.partitions), topic.configs) for topic in box.broker.catalog}


def the(box: BrokerBox, name: str) -> Topic:
    topic = box.broker.catalog.get(name)
    assert topic is not None
    return topic


# --- what a change costs


def ask_for(box: BrokerBox, names: list[str]) -> None:
    request = MetadataRequest([MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=True)
    answer = box.send(ApiKey.METADATA, request, 9)
    assert {topic.name: topic.error_code for topic in answer.topics} == dict.fromkeys(names, 0)


def create(box: BrokerBox, names: list[str]) -> None:
    request = CreateTopicsRequest([CreatableTopic(name, 1, 1) for name in names], 1_000)
    answer = box.send(ApiKey.CREATE_TOPICS, request, 5)
    assert {topic.name: topic.error_code for topic in answer.topics} == dict.fromkeys(names, 0)


@pytest.mark.parametrize("make", [ask_for, create], ids=["on demand", "CreateTopics"])
def test_many_topics_are_saved_with_few_syncs_and_in_proportion_to_their_number(tmp_path: Path, make: object) -> None:
    disk = FullDisk()
    box = a_broker(tmp_path, disk)
    create(box, [f"old-{number}" for number in range(1_000)])
    disk.written_bytes = disk.syncs = 0
    assert callable(make)
    make(box, [f"new-{number}" for number in range(1_000)])
    assert disk.written_bytes < 1_000 * 150
    assert disk.syncs <= 10
    box.crash()
    assert len(BrokerBox(tmp_path).broker.catalog) == 2_000


def test_a_change_costs_as_much_as_the_change(tmp_path: Path) -> None:
    disk = FullDisk()
    box = a_broker(tmp_path, disk)
    create(box, [f"old-{number}" for number in range(1_000)])
    catalog = box.broker.catalog
    for change in (
        lambda: catalog.create("new", 3, {}),
        lambda: catalog.make(catalog.growth_of([(the(box, "new"), 5)])),
        lambda: catalog.make(catalog.alteration_of([(the(box, "new"), {"retention.ms": "7"})])),
        lambda: catalog.make(catalog.deletion_of([the(box, "old-7")])),
    ):
        disk.written_bytes = disk.syncs = 0
        change()
        assert disk.written_bytes < 200
        assert disk.syncs == 1
    expected = shape(box)
    assert "old-7" not in expected
    assert expected["new"][1:] == (5, {"retention.ms": "7"})
    box.crash()
    again = BrokerBox(tmp_path)
    assert shape(again) == expected
    again.close()


def test_the_file_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_file, "REWRITE_ABOVE_BYTES", 2_000)
    box = a_broker(tmp_path)
    box.topic("t")
    for number in range(1_000):
        box.broker.catalog.make(box.broker.catalog.alteration_of([(the(box, "t"), {"retention.ms": str(number)})]))
    assert (tmp_path / FILE).stat().st_size < 4_500
    box.crash()
    again = BrokerBox(tmp_path)
    assert the(again, "t").configs == {"retention.ms": "999"}
    again.close()


@pytest.mark.parametrize("trouble", ["", "full while the new file is written", "full when it is finished", "crash"])
def test_changes_go_on_while_a_thread_writes_the_file_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    monkeypatch.setattr(catalog_file, "REWRITE_ABOVE_BYTES", 100)
    disk = FullDisk()
    box = a_broker(tmp_path, disk)
    catalog = box.broker.catalog
    pieces = []
    catalog.in_thread = lambda work, done: pieces.append((work, done))
    box.topic("gone")
    while not pieces:
        box.topic(f"before-{len(catalog)}")
    work, done = pieces.pop()
    box.topic("meanwhile")
    disk.is_full = trouble == "full while the new file is written"
    work()
    disk.is_full = False
    catalog.make(catalog.deletion_of([the(box, "gone")]))
    catalog.make(catalog.growth_of([(the(box, "meanwhile"), 2)]))
    if trouble != "crash":
        disk.is_full = trouble == "full when it is finished"
        done()
        disk.is_full = False
        box.topic("after")
    expected = shape(box)
    assert "gone" not in expected
    assert expected["meanwhile"][1] == 2
    box.crash()
    again = BrokerBox(tmp_path)
    assert shape(again) == expected
    again.close()


# --- while a thread waits for the disk


class Thread:
    """A thread that works when the test says so."""

    def __init__(self, box: BrokerBox) -> None:
        self.pieces: list[tuple[Callable[[], object], Callable[[], object]]] = []
        box.broker.catalog.save_in_thread = lambda work, done: self.pieces.append((work, done))

    def run(self) -> None:
        work, done = self.pieces.pop(0)
        work()
        done()


class Request:
    """A request that may have to wait."""

    def __init__(self, box: BrokerBox, api_key: ApiKey, version: int, request: Any) -> None:
        route = box.broker.apis.route(api_key, version)
        call = Call(FakeConnection(), route, "test")  # type: ignore[arg-type]
        call.now = call.steady_ms = box.now
        self.steps: Any = route.handler(box.broker, request, call)
        self.answer: Any = None
        self.go_on()

    def go_on(self) -> None:
        taken = take_steps(self.steps, 10**12)
        if isinstance(taken, Done):
            self.answer = taken.response
        else:
            assert isinstance(taken, Pause)
            taken.then(self.go_on)

    def hang_up(self) -> None:
        self.steps.close()
        self.go_on = lambda: None  # type: ignore[method-assign]


def creation(box: BrokerBox, *names: str) -> Request:
    return Request(box, ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest([CreatableTopic(n, 1, 1) for n in names], 1_000))


def growth(box: BrokerBox, name: str, count: int) -> Request:
    wanted = CreatePartitionsTopic(name, count, None)
    return Request(box, ApiKey.CREATE_PARTITIONS, 1, CreatePartitionsRequest([wanted], 1_000))


def deletion(box: BrokerBox, *names: str) -> Request:
    return Request(box, ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=list(names)))


def test_a_change_is_in_force_when_the_disk_has_it(tmp_path: Path) -> None:
    box = a_broker(tmp_path)
    thread = Thread(box)
    request = creation(box, "t")
    assert (request.answer, list(shape(box))) == (None, [])
    thread.run()
    assert request.answer.topics[0].error_code == 0
    assert list(shape(box)) == ["t"]
    box.close()


def test_changes_wait_for_each_other_and_then_look_again(tmp_path: Path) -> None:
    box = a_broker(tmp_path)
    box.broker.coordinator = CoordinatorHost(box.broker, box.clock)
    thread = Thread(box)
    first, second = creation(box, "t", "u"), creation(box, "t", "v")
    thread.run()
    assert [topic.error_code for topic in first.answer.topics] == [0, 0]
    deleted = deletion(box, "t", "u")
    thread.run()
    assert [topic.error_code for topic in second.answer.topics] == [ErrorCode.TOPIC_ALREADY_EXISTS, 0]
    assert list(shape(box)) == ["t", "u", "v"]
    thread.run()
    assert [topic.error_code for topic in deleted.answer.responses] == [0, 0]
    expected = shape(box)
    assert list(expected) == ["v"]
    assert not thread.pieces
    box.crash()
    again = BrokerBox(tmp_path)
    assert shape(again) == expected
    again.close()


def test_requests_that_come_together_do_not_share_the_last_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (create_topics, create_partitions):
        monkeypatch.setattr(module, "MAX_PARTITIONS", 3)
    box = a_broker(tmp_path)
    box.topic("t")
    thread = Thread(box)
    requests = [creation(box, "u"), creation(box, "v", "w"), growth(box, "t", 2), growth(box, "t", 2)]
    while thread.pieces:
        thread.run()
    created, second, *grown = [request.answer for request in requests]
    assert [topic.error_code for topic in created.topics] == [0]
    assert [topic.error_code for topic in second.topics] == [0, ErrorCode.POLICY_VIOLATION]
    assert [answer.results[0].error_code for answer in grown] == [ErrorCode.POLICY_VIOLATION] * 2
    assert {name: count for name, (_, count, _) in shape(box).items()} == {"t": 1, "u": 1, "v": 1}
    box.close()


def test_partitions_that_another_request_has_just_added_are_not_an_increase(tmp_path: Path) -> None:
    box = a_broker(tmp_path)
    box.topic("t")
    thread = Thread(box)
    requests = [growth(box, "t", 2), growth(box, "t", 2)]
    while thread.pieces:
        thread.run()
    codes = [request.answer.results[0].error_code for request in requests]
    assert codes == [0, ErrorCode.INVALID_PARTITIONS]
    box.close()


def test_a_change_is_made_even_if_the_client_hangs_up(tmp_path: Path) -> None:
    box = a_broker(tmp_path)
    box.broker.coordinator = CoordinatorHost(box.broker, box.clock)
    thread = Thread(box)
    created = creation(box, "t")
    created.hang_up()
    thread.run()
    assert list(shape(box)) == ["t"]
    deleted = deletion(box, "t")
    forgotten: list[str] = []
    box.broker.coordinator.topics_deleted = lambda topics: forgotten.extend(t.name for t in topics)  # type: ignore[method-assign]
    deleted.hang_up()
    thread.run()
    assert (list(shape(box)), forgotten) == ([], ["t"])
    box.close()


def test_changes_of_the_brokers_settings_wait_for_each_other(tmp_path: Path) -> None:
    box = a_broker(tmp_path)
    thread = Thread(box)

    def setting(name: str, value: str) -> Request:
        resource = AlterConfigsResource(BROKER, "", [AlterableConfig(name, SET, value)])
        return Request(box, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest([resource]))

    first, second = setting("log.retention.ms", "77000"), setting("log.retention.bytes", "88000")
    first.hang_up()
    assert box.broker.config.log_retention_ms != 77_000
    thread.run()
    assert box.broker.config.log_retention_ms == 77_000
    thread.run()
    assert second.answer.responses[0].error_code == 0
    assert (box.broker.config.log_retention_ms, box.broker.config.log_retention_bytes) == (77_000, 88_000)
    box.crash()
    again = BrokerBox(tmp_path)
    assert (again.broker.config.log_retention_ms, again.broker.config.log_retention_bytes) == (77_000, 88_000)
    again.close()


def test_a_full_disk_is_no_reason_to_wait_for_ever(tmp_path: Path) -> None:
    disk = FullDisk()
    box = a_broker(tmp_path, disk)
    box.topic("old")
    thread = Thread(box)
    first, second = creation(box, "t"), creation(box, "u")
    disk.is_full = True
    thread.run()
    assert first.answer.topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    disk.is_full = False
    thread.run()
    assert second.answer.topics[0].error_code == 0
    assert list(shape(box)) == ["old", "u"]
    box.close()


def test_who_cannot_wait_finishes_the_change_in_progress(tmp_path: Path) -> None:
    box = a_broker(tmp_path)
    thread = Thread(box)
    request = creation(box, "t")
    work, done = thread.pieces.pop()
    at_work = threading.Thread(target=work)
    at_work.start()
    box.broker.catalog.ensure_internal(CONSUMER_OFFSETS)
    at_work.join()
    assert list(shape(box)) == ["t", "__consumer_offsets"]
    assert request.answer is not None
    done()
    expected = shape(box)
    box.crash()
    again = BrokerBox(tmp_path)
    assert shape(again) == expected
    again.close()


# --- what can happen to the file


def test_a_change_that_was_cut_off_by_a_crash_has_not_happened(tmp_path: Path) -> None:
    box = a_broker(tmp_path)
    box.topic("t")
    expected = shape(box)
    whole = (tmp_path / FILE).read_bytes()
    box.topic("cut-off")
    box.crash()
    longer = (tmp_path / FILE).read_bytes()
    assert longer.startswith(whole)
    for size in range(len(whole) + 1, len(longer)):
        (tmp_path / FILE).write_bytes(longer[:size])
        box = BrokerBox(tmp_path)
        assert shape(box) == expected
        box.crash()
    (tmp_path / FILE).write_bytes(longer[:-1])
    box = BrokerBox(tmp_path)
    box.topic("later")
    box.crash()
    box = BrokerBox(tmp_path)
    assert list(shape(box)) == ["t", "later"]
    box.crash()


def test_a_change_that_the_disk_took_in_part_does_not_come_back(tmp_path: Path) -> None:
    disk = FullDisk()
    box = a_broker(tmp_path, disk)
    box.topic("t")
    disk.is_full = disk.tears = True
    with pytest.raises(OSError, match="No space"):
        box.topic("new")
    disk.is_full = disk.tears = False
    box.topic("later")
    box.crash()
    again = BrokerBox(tmp_path)
    assert list(shape(again)) == ["t", "later"]
    again.close()


def test_a_file_that_was_removed_is_written_anew(tmp_path: Path) -> None:
    box = a_broker(tmp_path)
    box.topic("t")
    (tmp_path / FILE).unlink()
    box.topic("u")
    box.crash()
    again = BrokerBox(tmp_path)
    assert list(shape(again)) == ["t", "u"]
    again.close()


def test_no_topic_is_made_in_a_data_folder_that_was_removed(tmp_path: Path) -> None:
    box = a_broker(tmp_path / "data")
    box.topic("t")
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(FileNotFoundError):
        box.topic("u")
    assert list(shape(box)) == ["t"]
    box.crash()


def test_damage_in_the_middle_is_refused(tmp_path: Path) -> None:
    box = a_broker(tmp_path)
    box.topic("t")
    box.topic("u")
    box.crash()
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes().replace(b'"t"', b'"t', 1))
    with pytest.raises(FileDamaged, match=f"{path} is damaged.*Put back a copy"):
        BrokerBox(tmp_path)


def test_the_file_of_a_newer_kohort_is_not_called_damaged(tmp_path: Path) -> None:
    box = a_broker(tmp_path)
    box.topic("t")
    box.crash()
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes().replace(b'{"version": 2}', b'{"version": 4}'))
    with pytest.raises(FileDamaged, match=f"^{path} has format 4, of a newer Kohort: start that one"):
        BrokerBox(tmp_path)


def test_a_value_that_cannot_be_is_damage(tmp_path: Path) -> None:
    box = a_broker(tmp_path)
    box.topic("t", retention_ms="5")
    box.crash()
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes().replace(b'"5"', b'"five"'))
    with pytest.raises(FileDamaged, match=f"{path} is damaged.*five.*Put back a copy"):
        BrokerBox(tmp_path)


def test_a_file_of_the_first_format_is_read(tmp_path: Path) -> None:
    row = {"name": "t", "id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": 3, "configs": {"retention.ms": "5"}}
    (tmp_path / FILE).write_text(json.dumps({"version": 1, "topics": [row]}, indent=1))
    for _ in range(2):  # the first start writes the present format
        box = BrokerBox(tmp_path)
        assert shape(box) == {"t": (bytes(15) + b"\1", 3, {"retention.ms": "5"})}
        box.close()


def test_a_lost_file_is_reported_and_topics_are_found_by_their_folders(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    box = a_broker(tmp_path)
    box.topic("t", partitions=2, retention_ms="5")
    box.append(b"record", partition=1)
    topic_id = the(box, "t").id
    box.close()
    assert FILE not in caplog.text
    (tmp_path / FILE).unlink()
    box = BrokerBox(tmp_path)
    assert shape(box) == {"t": (topic_id, 2, {})}
    assert re.search(rf"{FILE} is missing: topics are found by their folders, and have default settings", caplog.text)
    box.close()
    caplog.clear()
    BrokerBox(tmp_path).close()
    assert FILE not in caplog.text


def test_files_of_a_folder_that_is_in_use_are_not_read(tmp_path: Path) -> None:
    box = a_broker(tmp_path)
    for file in (FILE, "kohort-broker-configs.json"):
        (tmp_path / file).write_text("{")  # as if the other broker were just writing it
        with pytest.raises(FolderInUse):
            BrokerBox(tmp_path)
    box.crash()


def test_changed_defaults_reach_the_topics_that_do_not_set_them(tmp_path: Path) -> None:
    box = a_broker(tmp_path)
    box.topic("plain")
    box.topic("own", retention_ms="5")
    assert alter(box, "", log_retention_ms="77000") == 0
    assert the(box, "plain").config.log.retention_ms == 77_000
    assert the(box, "plain").partitions[0].log.config.retention_ms == 77_000
    assert the(box, "own").config.log.retention_ms == 5
    box.close()
