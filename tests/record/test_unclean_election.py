"""An unclean election on a real Kafka of three nodes while it is recorded: what the cluster has lost, the recording
gives up, too, and says so."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kohort.broker.record.recorder import OFFSETS_TOPIC
from kohort.client.cluster import Cluster
from kohort.client.errors import ClientError
from kohort.coordinator.partitioner import partition_of
from kohort.protocol.messages.metadata import MetadataResponsePartition
from tests.kafka.secure_cluster import SecureCluster
from tests.record.test_secure_cluster import KOHORT, batches, bytes_in

pytestmark = [pytest.mark.kafka, pytest.mark.story]

PARTITIONS, WATCHED = 2, 0
TIMEOUT_S = 120
SETTINGS = {
    "offsets.topic.replication.factor": "2",
    "offsets.topic.num.partitions": str(PARTITIONS),
    "default.replication.factor": "2",
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "true",
    "replica.lag.time.max.ms": "2000",
}
GROUPS = [group for group in (f"g-{number}" for number in range(40)) if partition_of(group, PARTITIONS) == WATCHED]


def until(happened: Callable[[], bool], what: str) -> None:
    deadline = monotonic() + TIMEOUT_S
    while not happened():
        assert monotonic() < deadline, what
        sleep(0.2)


def commit(address: str, group: str, offset: int) -> None:
    def is_committed() -> bool:
        consumer = Consumer({"bootstrap.servers": address, "group.id": group, "log_level": 0})
        try:
            consumer.commit(offsets=[TopicPartition("t", 0, offset)], asynchronous=False)
        except KafkaException:
            return False  # the coordinator is moving
        finally:
            consumer.close()
        return True

    until(is_committed, f"a commit of {group}")


def watched(cluster: SecureCluster) -> MetadataResponsePartition | None:
    try:
        with Cluster(cluster.internal) as asked:
            parts = asked.metadata([OFFSETS_TOPIC]).topics[0].partitions
    except ClientError:
        return None
    return next((part for part in parts if part.partition_index == WATCHED), None)


def test_what_an_unclean_election_has_lost_is_given_up(tmp_path: Path) -> None:
    folder, topic_folder = tmp_path / "recording", f"{OFFSETS_TOPIC}-{WATCHED}"
    (tmp_path / "cluster").mkdir()
    with SecureCluster(tmp_path / "cluster", {"reader": "reader-secret"}, SETTINGS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.internal})
        admin.create_topics([NewTopic("t", 1, 2)])["t"].result(60)
        for number, group in enumerate(GROUPS[:5]):
            commit(cluster.internal, group, number)
        part = watched(cluster)
        assert part is not None
        leader, (follower,) = part.leader_id, [node for node in part.replica_nodes if node != part.leader_id]
        command = [KOHORT, "record", str(folder), "--bootstrap-server", cluster.internal]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            until(lambda: bool(bytes_in(folder / topic_folder)), "the recording")
            cluster.kill(follower)
            until(lambda: (now := watched(cluster)) is not None and follower not in now.isr_nodes, "a smaller ISR")
            for number, group in enumerate(GROUPS[5:11]):
                commit(cluster.internal, group, number)
            at_leader = cluster.data(leader) / topic_folder
            until(lambda: bytes_in(folder / topic_folder) == bytes_in(at_leader), "what only the leader has")
            cluster.kill(leader)
            cluster.start_again(follower)
            until(lambda: (now := watched(cluster)) is not None and now.leader_id == follower, "the election")
            commit(cluster.internal, GROUPS[0], 100)
            at_follower = cluster.data(follower) / topic_folder
            until(lambda: bytes_in(folder / topic_folder) == bytes_in(at_follower), "what the new leader has")
            process.send_signal(signal.SIGTERM)
            told = process.communicate(timeout=60)[1]
        finally:
            process.kill()
            process.wait()
        assert process.returncode == 0, told
        assert "the last 6 offsets of the recording are not in the log of the leader" in told
        assert batches(bytes_in(folder / topic_folder)) == batches(bytes_in(at_follower))
