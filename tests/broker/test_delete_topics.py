"""Deleted topics: they are gone, with their folders, whatever happens meanwhile; a new topic of that name is empty."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from kohort.broker.coordinator_host import CoordinatorHost
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest
from kohort.storage.disk import RealDisk
from kohort.storage.layout import RECOVERY_POINTS_FILE
from kohort.storage.log_directory import LogDirectory
from tests.broker.broker_box import BrokerBox


class Crash(BaseException):
    pass


class Disk(RealDisk):
    """Renaming a folder, or writing a checkpoint, ends in `problem`."""

    problem: BaseException | None = None
    spared = "kohort-catalog.json"

    def rename(self, source: str, target: str) -> None:
        if self.problem is not None and self.spared not in target:
            raise self.problem
        super().rename(source, target)


def a_broker(folder: Path, disk: Disk | None = None) -> BrokerBox:
    box = BrokerBox(folder, disk)
    box.broker.coordinator = CoordinatorHost(box.broker, box.clock)
    box.broker.coordinator.start()
    return box


def delete(box: BrokerBox, *names: str) -> dict[str, int]:
    answer = box.send(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(topic_names=list(names)), 5)
    return {each.name: each.error_code for each in answer.responses}


def folders(data: Path) -> list[str]:
    return sorted(path.name for path in data.iterdir() if path.is_dir())


@pytest.mark.parametrize("length", [213, 214, 248, 249])
def test_a_topic_with_a_long_name_can_be_deleted(tmp_path: Path, length: int) -> None:
    box = a_broker(tmp_path)
    long_name = "n" * length
    for name in (long_name, "other"):
        box.topic(name, partitions=12)
        box.append(b"old", topic=name, partition=11)
    assert delete(box, long_name, "other") == {long_name: 0, "other": 0}
    assert folders(tmp_path) == []
    box.close()
    box = a_broker(tmp_path)
    assert len(box.broker.catalog) == 0
    assert not box.broker.logs.failed
    box.topic(long_name, partitions=12)
    assert box.append(b"new", topic=long_name, partition=11) == 0
    box.close()


def test_deleting_a_topic_deletes_its_offline_partitions(tmp_path: Path) -> None:
    box = a_broker(tmp_path)
    box.topic("t", partitions=2)
    for partition in range(2):
        box.append(b"old", partition=partition)
    box.close()
    log = tmp_path / "t-0" / "00000000000000000000.log"
    log.write_bytes(b"?" * log.stat().st_size)
    box = a_broker(tmp_path)
    assert list(box.broker.logs.failed) == [("t", 0)]
    assert delete(box, "t") == {"t": 0}
    assert folders(tmp_path) == []
    assert not box.broker.logs.failed
    assert "t 0" not in (tmp_path / RECOVERY_POINTS_FILE).read_text()
    box.topic("t", partitions=2)
    assert box.append(b"new") == 0
    box.close()  # this is a clean stop: it would raise if a partition were offline


def test_deleting_a_topic_whose_folder_has_vanished(tmp_path: Path) -> None:
    box = a_broker(tmp_path)
    box.topic("t")
    box.append(b"old")
    box.close()
    (tmp_path / "t-0").rename(tmp_path.parent / f"{tmp_path.name}-elsewhere")
    box = a_broker(tmp_path)
    assert list(box.broker.logs.failed) == [("t", 0)]
    assert delete(box, "t") == {"t": 0}
    box.close()
    again = a_broker(tmp_path)
    assert (len(again.broker.catalog), again.broker.logs.failed) == (0, {})
    again.close()


def test_old_records_never_become_those_of_a_new_topic(tmp_path: Path) -> None:
    disk = Disk()
    box = a_broker(tmp_path, disk)
    for name in ("t", "u"):
        box.topic(name)
        box.append(b"old", topic=name)
    disk.problem = OSError(errno.EIO, "Input/output error")
    assert delete(box, "t", "u") == {"t": 0, "u": 0}
    assert (box.broker.catalog.get("t"), box.broker.catalog.get("u")) == (None, None)
    new = box.topic("t")
    assert box.fetch(0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert box.produce(b"").error_code != 0
    disk.problem = None
    box.crash()
    box = a_broker(tmp_path, disk)
    assert [(topic.name, topic.id) for topic in box.broker.catalog] == [("t", new.id)]
    assert folders(tmp_path) == []
    assert box.append(b"new") == 0
    assert [record.value for record in box.read_all()] == [b"new"]
    box.close()


def test_a_crash_in_the_middle_of_a_deletion_leaves_nothing_behind(tmp_path: Path) -> None:
    disk = Disk()
    box = a_broker(tmp_path, disk)
    box.topic("t", retention_ms="5")
    box.append(b"old")
    disk.problem = Crash()
    with pytest.raises(Crash):
        delete(box, "t")
    box.crash()
    disk.problem = None
    box = a_broker(tmp_path, disk)
    assert (len(box.broker.catalog), folders(tmp_path), box.broker.logs.failed) == (0, [], {})
    box.close()


def test_a_checkpoint_that_fails_does_not_keep_a_topic_from_being_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk, deleting topics makes room."""
    box = a_broker(tmp_path)
    box.topic("t")
    box.append(b"old")
    box.broker.logs.flush()
    box.broker.logs.checkpoint()
    assert "t 0 1" in (tmp_path / RECOVERY_POINTS_FILE).read_text()

    def checkpoint(self: LogDirectory) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(LogDirectory, "checkpoint", checkpoint)
        assert delete(box, "t") == {"t": 0}
    assert folders(tmp_path) == []
    box.topic("other")
    box.crash()
    box = a_broker(tmp_path)
    assert [topic.name for topic in box.broker.catalog] == ["other"]
    assert not box.broker.logs.failed
    box.close()
