"""Recording and auditing a real Kafka of three nodes, with TLS, SCRAM and ACLs, as a user that may only read the log of
consumer offsets and describe things."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kohort.audit.decode.access import Access
from kohort.audit.decode.cluster_logs import logs_of_cluster
from kohort.audit.decode.fetch import fetched
from kohort.audit.decode.folders import find_logs
from kohort.broker.record.recorder import OFFSETS_TOPIC
from kohort.client.cluster import Cluster
from kohort.protocol.record_batch import parse_header
from tests.kafka.secure_cluster import NODES, SecureCluster

pytestmark = [pytest.mark.kafka, pytest.mark.story]

KOHORT = str(Path(sys.executable).with_name("kohort"))
TIMEOUT_S = 180
READER, PASSWORD = "reader", "reader-secret"
NOBODY = "nobody"
TOPIC, GROUPS = "orders", [f"shop-{number}" for number in range(12)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    users = {READER: PASSWORD, NOBODY: PASSWORD}
    with SecureCluster(tmp_path_factory.mktemp("cluster"), users) as made:
        made.allow(
            READER,
            ("TOPIC", OFFSETS_TOPIC, "READ"), ("TOPIC", "*", "DESCRIBE"), ("GROUP", "*", "DESCRIBE"),
        )  # fmt: skip
        admin = AdminClient({"bootstrap.servers": made.internal})
        for created in admin.create_topics([NewTopic(TOPIC, 6, 3)]).values():
            created.result(60)
        yield made


def kohort(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([KOHORT, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S)


class Work:
    """Real consumers that join, commit and leave, in a thread, until `stop`."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._over = threading.Event()
        self.rounds = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        producer = Producer({"bootstrap.servers": self._address, "log_level": 0})
        while not self._over.is_set():
            for partition in range(6):
                producer.produce(TOPIC, b"order", partition=partition)
            producer.flush(10)
            for group in GROUPS:
                self._join_and_commit(group)
            self.rounds += 1

    def _join_and_commit(self, group: str) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._address, "group.id": group, "enable.auto.commit": False,
                "auto.offset.reset": "earliest", "log_level": 0, "socket.timeout.ms": 10_000,
                "group.protocol": "consumer" if group.endswith(("1", "2")) else "classic",
            }
        )  # fmt: skip
        try:
            consumer.subscribe([TOPIC])
            deadline = monotonic() + 20
            while not self._over.is_set() and monotonic() < deadline and not consumer.assignment():
                consumer.poll(0.05)
            for _ in range(5):
                offsets = [TopicPartition(TOPIC, place.partition, self.rounds) for place in consumer.assignment()]
                if offsets:
                    consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            pass  # a coordinator is moving; the next round tries again
        finally:
            consumer.close()

    def wait_for_rounds(self, count: int) -> None:
        goal = self.rounds + count
        deadline = monotonic() + TIMEOUT_S
        while self.rounds < goal:
            assert monotonic() < deadline
            sleep(0.05)

    def stop(self) -> None:
        self._over.set()
        self._thread.join(TIMEOUT_S)


@contextmanager
def recorder(cluster: SecureCluster, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [KOHORT, "record", str(folder), "--bootstrap-server", cluster.secure, *arguments]
    command += ["--command-config", str(cluster.client_properties(READER, PASSWORD))]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def batches(data: bytes) -> list[bytes]:
    found, position = [], 0
    while position < len(data):
        size = parse_header(data, position).size_bytes
        found.append(data[position : position + size])
        position += size
    return found


def bytes_in(folder: Path) -> bytes:
    return b"".join(log.read_bytes() for log in sorted(folder.glob("*.log")))


def leader_with_most(cluster: SecureCluster) -> int:
    """The node whose death hurts most, and is not the first bootstrap address."""
    with Cluster(cluster.internal) as asked:
        leaders = [part.leader_id for part in asked.metadata([OFFSETS_TOPIC]).topics[0].partitions]
    return max(NODES[1:], key=leaders.count)


def test_a_reader_records_and_audits_while_a_leader_is_killed(cluster: SecureCluster, tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    config = str(cluster.client_properties(READER, PASSWORD))
    work = Work(cluster.internal)
    try:
        work.wait_for_rounds(1)
        with recorder(cluster, folder) as process:
            work.wait_for_rounds(2)
            victim = leader_with_most(cluster)
            cluster.kill(victim)
            work.wait_for_rounds(2)
            owners = kohort(
                "audit", "owners", f"kafka://{cluster.secure}", "--group", GROUPS[0], "--at", "0s", "--json",
                "--command-config", config,
            )  # fmt: skip
            cluster.start_again(victim)
            work.wait_for_rounds(2)
            process.send_signal(signal.SIGTERM)
            told = process.communicate(timeout=TIMEOUT_S)[1]
        assert process.returncode == 0, told
        assert "looking for the leaders" in told
        assert owners.returncode == 0, owners.stderr
        assert {row["topic"] for row in json.loads(owners.stdout)} == {TOPIC}
    finally:
        work.stop()
    with recorder(cluster, folder, "--once") as process:  # it goes on where it was
        told = process.communicate(timeout=TIMEOUT_S)[1]
        assert process.returncode == 0, told
    compare(cluster, folder)
    audits_agree(cluster, folder, config, tmp_path)


def compare(cluster: SecureCluster, folder: Path) -> None:
    """The recording has the batches of the cluster's log: those that leaders send, and those on their disks."""
    count = epochs = 0
    with Cluster(cluster.internal) as asked:
        parts = asked.metadata([OFFSETS_TOPIC]).topics[0].partitions
    leaders = {part.partition_index: part.leader_id for part in parts}
    for log in logs_of_cluster(Access({"bootstrap.servers": cluster.internal})).folders:
        if not log.keeps_groups:
            continue
        name = f"{OFFSETS_TOPIC}-{log.log_partition}"
        ours = batches(bytes_in(folder / name))
        with fetched(log, 0) as there:
            assert ours == batches(bytes_in(Path(there.path))), name
        assert ours == batches(bytes_in(cluster.data(leaders[log.log_partition]) / name)), name
        count += len(ours)
        epochs = max([epochs, *(parse_header(one).partition_leader_epoch for one in ours)])
    print(f"{count} batches are the same")
    assert count > 100
    assert epochs > 0, "there has been an election"


def audits_agree(cluster: SecureCluster, folder: Path, config: str, tmp_path: Path) -> None:
    """Of the recording, and of the cluster over the network."""
    found: list[dict[str, Any]] = []
    for place, more in ((str(folder), []), (f"kafka://{cluster.secure}", ["--command-config", config])):
        report = str(tmp_path / "report.html")
        done = kohort("audit", place, *more, "--report", report, "--json", "--fail-on", "critical")
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
        assert PASSWORD not in Path(report).read_text()
    recorded, over_the_wire = found
    assert recorded["new_records"] <= over_the_wire["new_records"], "a recording has no transactions"
    assert over_the_wire["log_folders"] == len(find_logs([str(folder)])[0])
    assert [_words(one) for one in recorded["findings"]] == [_words(one) for one in over_the_wire["findings"]]


def _words(finding: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(finding[name] for name in ("check", "group_id", "topic", "partition", "message"))


@pytest.mark.parametrize("command", [("record", "DIR"), ("audit",), ("audit", "owners"), ("audit", "follow")])
def test_what_a_user_may_not_do_is_told_in_words(
    cluster: SecureCluster, tmp_path: Path, command: tuple[str, ...]
) -> None:
    def refused(address: str, user: str, password: str) -> str:
        config = str(cluster.client_properties(user, password))
        if command[0] == "record":
            place = [str(tmp_path / "recording"), "--bootstrap-server", address]
        else:
            place = [f"kafka://{address}"] + (["--group", "g", "--at", "1h"] if "owners" in command else [])
        started = monotonic()
        done = kohort(*[word for word in command if word != "DIR"], *place, "--command-config", config)
        print(f"{' '.join(command)}: {monotonic() - started:.1f} s: {done.stderr.strip()}")
        assert done.returncode in (1, 2)
        assert len(done.stderr.strip().splitlines()) == 1
        return done.stderr

    assert "refuses the credentials of reader" in refused(cluster.secure, READER, "wrong")
    assert f"the user needs READ and DESCRIBE on the topic {OFFSETS_TOPIC}" in refused(cluster.secure, NOBODY, PASSWORD)
    assert "no broker answers at 127.0.0.1:1" in refused("127.0.0.1:1", READER, PASSWORD)
    assert "speaks no TLS" in refused(cluster.internal.split(",")[0], READER, PASSWORD)
