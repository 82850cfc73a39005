"""Recording, auditing, explaining and showing a real Kafka of three nodes, with TLS, SCRAM and ACLs, as a user that may
only read the log of consumer offsets and describe things."""

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
from tests.live.test_ui_command import row, ui, until

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


def test_a_reader_records_audits_asks_why_and_looks_while_a_leader_is_killed(
    cluster: SecureCluster, tmp_path: Path
) -> None:
    folder = tmp_path / "recording"
    config = str(cluster.client_properties(READER, PASSWORD))
    work = Work(cluster.internal)
    try:
        work.wait_for_rounds(1)
        with (
            ui("--bootstrap-server", cluster.secure, "--command-config", config) as page,
            recorder(cluster, folder) as process,
        ):
            work.wait_for_rounds(2)
            rebalances = explained(cluster, config)
            shown(page, work)
            victim = leader_with_most(cluster)
            cluster.kill(victim)
            work.wait_for_rounds(2)
            assert explained(cluster, config) > rebalances
            shown(page, work)
            owners = kohort(
                "audit", "owners", f"kafka://{cluster.secure}", "--group", GROUPS[0], "--at", "0s", "--json",
                "--command-config", config,
            )  # fmt: skip
            cluster.start_again(victim)
            work.wait_for_rounds(2)
            shown(page, work)
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


def explained(cluster: SecureCluster, config: str) -> int:
    """`kohort why` tells of each group who came last. Returns the generation or epoch of the last rebalances, added."""
    found = 0
    for group in (GROUPS[0], GROUPS[1]):  # a classic group, and one of KIP-848
        done = kohort("why", group, "--bootstrap-server", cluster.secure, "--command-config", config, "--json")
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert {each["type"] for each in told} == {"consumer" if group.endswith("1") else "classic"}
        assert {each["cause"]["code"] for each in told} <= {"group started", "member left", "member joined"}, told
        found += told[-1]["generation"]
    return found


def shown(page: str, work: Work) -> None:
    """The page has all groups, and goes on following them."""
    seen = {group: found for group in GROUPS if (found := until(lambda: row(page, group)))}  # noqa: B023
    assert seen.keys() == set(GROUPS)
    assert {found["type"] for found in seen.values()} == {"classic", "consumer"}
    before = [found["last_commit_ms"] for found in seen.values()]
    work.wait_for_rounds(1)
    until(lambda: all(row(page, group)["last_commit_ms"] > at for group, at in zip(GROUPS, before, strict=True)))  # type: ignore[index]


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


COMMANDS = {
    "record": "record DIR --bootstrap-server ADDRESS",
    "audit": "audit kafka://ADDRESS",
    "owners": "audit owners kafka://ADDRESS --group g --at 1h",
    "follow": "audit follow kafka://ADDRESS",
    "why": "why g --bootstrap-server ADDRESS",
    "ui": "ui --port 0 --bootstrap-server ADDRESS",
    "groups": "groups list --bootstrap-server ADDRESS",
    "group": "groups describe g --bootstrap-server ADDRESS",
    "topics": "topics describe orders --bootstrap-server ADDRESS",
    "transactions": "transactions describe t --bootstrap-server ADDRESS",
}
RIGHTS = dict.fromkeys(COMMANDS, f"the user needs READ and DESCRIBE on the topic {OFFSETS_TOPIC}") | {
    "groups": None,  # a cluster lists what the user may see: nothing
    "group": "the user has no right to this group (DESCRIBE to see it)",
    "topics": "the user has no right to this topic (DESCRIBE to see it",
    "transactions": "the user has no right to this transactional id (DESCRIBE to see it",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_user_may_not_do_is_told_in_words(cluster: SecureCluster, tmp_path: Path, name: str) -> None:
    def refused(address: str, user: str, password: str) -> str:
        words = COMMANDS[name].replace("DIR", str(tmp_path / "recording")).replace("ADDRESS", address).split()
        started = monotonic()
        done = kohort(*words, "--command-config", str(cluster.client_properties(user, password)))
        print(f"{name}: {monotonic() - started:.1f} s: {done.stderr.strip()}")
        assert done.returncode in (1, 2), done.stdout
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        return done.stderr

    assert "refuses the credentials of reader" in refused(cluster.secure, READER, "wrong")
    assert "no broker answers at 127.0.0.1:1" in refused("127.0.0.1:1", READER, PASSWORD)
    assert "speaks no TLS" in refused(cluster.internal.split(",")[0], READER, PASSWORD)
    if (needs := RIGHTS[name]) is not None:
        assert needs in refused(cluster.secure, NOBODY, PASSWORD)
