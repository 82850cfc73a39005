"""A disk that is full: what cannot be saved is not in force, and is there neither now nor after a restart."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from kohort.broker.topics.catalog import Catalog, Topic
from kohort.storage.disk import RealDisk
from tests.broker.broker_box import BrokerBox


class FullDisk(RealDisk):
    """The real disk, without room for another small file while `is_full`."""

    is_full = False

    def write_file(self, path: str, data: bytes, *, durable: bool = True) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().write_file(path, data, durable=durable)


def shape(box: BrokerBox) -> list[tuple[str, int, dict[str, str], int]]:
    return [
        (topic.name, len(topic.partitions), topic.configs, topic.config.log.retention_ms)
        for topic in box.broker.catalog
    ]


CHANGES: dict[str, Callable[[Catalog], object]] = {
    "create": lambda catalog: catalog.create("new", 3, {}),
    "more partitions": lambda catalog: catalog.add_partitions(_topic(catalog), 5),
    "settings": lambda catalog: catalog.set_configs(_topic(catalog), {"retention.ms": "7"}),
    "delete": lambda catalog: catalog.delete([_topic(catalog)]),
}


def _topic(catalog: Catalog) -> Topic:
    topic = catalog.get("t")
    assert topic is not None
    return topic


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_topics_that_the_disk_refuses_is_not_in_force(tmp_path: Path, change: str) -> None:
    disk = FullDisk()
    box = BrokerBox(tmp_path, disk)
    box.topic("t", partitions=2, retention_ms="5")
    box.topic("u")
    before = shape(box)
    disk.is_full = True
    with pytest.raises(OSError, match="No space left"):
        CHANGES[change](box.broker.catalog)
    assert shape(box) == before
    assert box.append(b"still there") == 0
    disk.is_full = False
    box.close()
    again = BrokerBox(tmp_path, disk)
    assert shape(again) == before
    CHANGES[change](again.broker.catalog)
    assert shape(again) != before
    again.close()
