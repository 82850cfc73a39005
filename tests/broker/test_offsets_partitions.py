"""The number of partitions of __consumer_offsets is that of its log, since it decides where a group's offsets are."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.client import ask
from kohort.client.cluster import Cluster
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.storage.errors import FileDamaged
from tests.broker.broker_box import BrokerBox
from tests.clients.kohort import KohortProcess

TOPIC = "__consumer_offsets"
GROUPS = [f"group-{number}" for number in range(60)]
OFFSETS = {("orders", 0): 7}
CATALOG = "kohort-catalog.json"


def commit(client: Cluster, groups: list[str]) -> None:
    client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("orders", 1, 1)]))
    for group in groups:
        ask.commit(client, group, OFFSETS)


def groups_with_offsets(client: Cluster) -> list[str]:
    return [group for group in GROUPS if ask.committed_offsets(client, group) == OFFSETS]


def written_with(folder: Path, partitions: int, *, groups: list[str] = GROUPS) -> Path:
    """A data folder without Kohort's file of topics, as Kafka leaves it."""
    with (
        KohortProcess(folder, offsets_topic_num_partitions=str(partitions)) as broker,
        Cluster(broker.address) as client,
    ):
        commit(client, groups)
    (broker.data / CATALOG).unlink()
    return broker.data


def make_all_folders(data: Path, partitions: int) -> None:
    for partition in range(partitions):
        (data / f"{TOPIC}-{partition}").mkdir(exist_ok=True)


@pytest.mark.parametrize("partitions", [1, 7, 49, 64])
def test_a_log_with_another_number_of_partitions_is_read_as_it_was_written(tmp_path: Path, partitions: int) -> None:
    data = written_with(tmp_path, partitions)
    make_all_folders(data, partitions)
    for _ in range(2):  # the second time the file of topics says it
        with KohortProcess(tmp_path) as broker, Cluster(broker.address) as client:
            assert groups_with_offsets(client) == GROUPS
            assert ask.partition_counts(client, [TOPIC]) == {TOPIC: partitions}
    assert f"{TOPIC} has {partitions} partitions, not offsets.topic.num.partitions=50" in broker.log_tail()


@pytest.mark.parametrize("groups", [GROUPS, GROUPS[:3]], ids=["many groups", "few groups"])
def test_a_lost_file_of_topics_does_not_change_the_number(tmp_path: Path, groups: list[str]) -> None:
    """Kohort makes a folder with the first record, so some folders are missing; that of the last partition, too."""
    data = written_with(tmp_path, 50, groups=groups)
    assert len(list(data.glob(f"{TOPIC}-*"))) < 50
    with KohortProcess(tmp_path) as broker, Cluster(broker.address) as client:
        assert groups_with_offsets(client) == groups
        assert ask.partition_counts(client, [TOPIC]) == {TOPIC: 50}


def test_a_number_that_cannot_be_known_is_refused(tmp_path: Path) -> None:
    data = written_with(tmp_path, 30)
    make_all_folders(data, 30)
    missing = data / f"{TOPIC}-11"
    for file in missing.iterdir():
        file.unlink()
    missing.rmdir()
    (data / "recovery-point-offset-checkpoint").unlink()
    (data / ".kafka_cleanshutdown").unlink()
    with pytest.raises(FileDamaged, match=f"29 folders of {TOPIC}, the last of them 29, and these do not fit to 50"):
        BrokerBox(data)
    with KohortProcess(tmp_path, offsets_topic_num_partitions="30") as broker, Cluster(broker.address) as client:
        assert len(groups_with_offsets(client)) > len(GROUPS) // 2


def test_the_number_cannot_be_changed(tmp_path: Path) -> None:
    """Kafka allows it, and looks for most groups in other partitions after the next restart."""
    with KohortProcess(tmp_path) as broker, Cluster(broker.address) as client:
        commit(client, GROUPS)
        for validate_only in (True, False):
            wanted = CreatePartitionsRequest([CreatePartitionsTopic(TOPIC, 100, None)], 1_000, validate_only)
            result = client.send(ApiKey.CREATE_PARTITIONS, wanted).results[0]
            assert result.error_code == ErrorCode.INVALID_PARTITIONS
            assert "groups would no longer find their offsets" in result.error_message
    with KohortProcess(tmp_path) as broker, Cluster(broker.address) as client:
        assert groups_with_offsets(client) == GROUPS
