"""The topics and their file: what a change costs, and what is there after a crash, a full disk or a lost file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kohort.broker.config import Listener
from kohort.broker.topics import catalog_file
from kohort.broker.topics.catalog import Topic
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.storage.disk import FolderInUse
from kohort.storage.errors import FileDamaged
from tests.broker.broker_box import BrokerBox
from tests.broker.small_files import FullDisk
from tests.broker.test_broker_configs import alter

FILE = "kohort-catalog.json"


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
        lambda: catalog.add_partitions([(the(box, "new"), 5)]),
        lambda: catalog.set_configs([(the(box, "new"), {"retention.ms": "7"})]),
        lambda: catalog.delete([the(box, "old-7")]),
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
        box.broker.catalog.set_configs([(the(box, "t"), {"retention.ms": str(number)})])
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
    catalog.delete([the(box, "gone")])
    catalog.add_partitions([(the(box, "meanwhile"), 2)])
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


def test_damage_in_the_middle_is_refused(tmp_path: Path) -> None:
    box = a_broker(tmp_path)
    box.topic("t")
    box.topic("u")
    box.crash()
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes().replace(b'"t"', b'"t', 1))
    with pytest.raises(FileDamaged, match=f"{path} is damaged.*Put back a copy"):
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
