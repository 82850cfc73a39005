"""A disk that is full: what cannot be saved is not in force, and is there neither now nor after a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kohort.broker.config import Listener
from kohort.broker.coordinator_host import CoordinatorHost
from kohort.broker.topics.catalog import Catalog, Topic
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.broker_box import BrokerBox
from tests.broker.small_files import FullDisk
from tests.broker.test_broker_configs import alter


def shape(box: BrokerBox) -> list[tuple[str, int, dict[str, str], int]]:
    return [
        (topic.name, len(topic.partitions), topic.configs, topic.config.log.retention_ms)
        for topic in box.broker.catalog
    ]


CHANGES: dict[str, Callable[[Catalog], object]] = {
    "create": lambda catalog: catalog.create("new", 3, {}),
    "more partitions": lambda catalog: catalog.make(catalog.growth_of([(_topic(catalog), 5)])),
    "settings": lambda catalog: catalog.make(catalog.alteration_of([(_topic(catalog), {"retention.ms": "7"})])),
    "delete": lambda catalog: catalog.make(catalog.deletion_of([_topic(catalog)])),
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


def test_clients_are_told_to_come_again_while_topics_cannot_be_saved(tmp_path: Path) -> None:
    disk = FullDisk()
    box = BrokerBox(tmp_path, disk)
    box.broker.advertised = [Listener("PLAINTEXT", "localhost", 9092)]
    box.broker.coordinator = CoordinatorHost(box.broker, box.clock)
    box.broker.coordinator.start()
    box.topic("t")
    disk.is_full = True
    found = box.send(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    assert found.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    shown = box.send(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(name="new")]), 9)
    assert shown.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    created = box.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("new", 1, 1, (), ())]), 5)
    assert created.topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    grown = box.send(ApiKey.CREATE_PARTITIONS, CreatePartitionsRequest([CreatePartitionsTopic("t", 3, None)]), 3)
    assert grown.results[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    deleted = box.send(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(topic_names=["t", "nowhere"]), 5)
    assert {each.name: each.error_code for each in deleted.responses} == {
        "t": ErrorCode.KAFKA_STORAGE_ERROR,
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert alter(box, "1", log_retention_ms="5") == ErrorCode.KAFKA_STORAGE_ERROR
    disk.is_full = False
    found = box.send(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(coordinator_keys=["g"]), 4)
    assert found.coordinators[0].error_code == ErrorCode.NONE
    box.close()
