"""A story of rebalances on a real Kafka with real clients, recorded while it happened. Then the cluster compacts its
log. Whoever asks the recording is still told what the members knew."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from kohort.audit.decode import whole_tables
from kohort.audit.decode.folders import find_logs
from kohort.audit.moments import in_words
from kohort.audit.owners.group_history import from_folders
from kohort.audit.owners.time_machine import TimeMachine
from kohort.broker.record.recorder import OFFSETS_TOPIC
from tests.audit.crew import Crew, Place
from tests.kafka.server import KafkaServer

pytestmark = [pytest.mark.kafka, pytest.mark.story]

KOHORT = str(Path(sys.executable).with_name("kohort"))
PARTITIONS = 6
REBALANCES = 50
MOMENTS = 200
TIMEOUT_S = 400.0
EAGER, SERVER_SIDE = "eager", "server-side"
SETTINGS: dict[str, dict[str, Any]] = {
    EAGER: {"partition.assignment.strategy": "range", "session.timeout.ms": 60_000, "heartbeat.interval.ms": 20},
    SERVER_SIDE: {"group.protocol": "consumer"},
}
BROKER = {
    "offsets.topic.num.partitions": "2",
    "log.cleaner.backoff.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "50",
}


class Told(NamedTuple):
    recording: Path
    crews: dict[str, Crew]
    kept: dict[str, int]  # generations and epochs that the cluster still has, by group


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("story")
    recording = folder / "recording"
    with KafkaServer(folder / "kafka", BROKER) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.address})
        for done in admin.create_topics([NewTopic(group, PARTITIONS, 1) for group in SETTINGS]).values():
            done.result(TIMEOUT_S)
        command = [KOHORT, "record", str(recording), "--bootstrap-server", kafka.address]
        recorder = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            crews = live_through(kafka.address, recording)
        finally:
            recorder.send_signal(signal.SIGTERM)
            news = recorder.communicate(timeout=60)[1]
        assert recorder.returncode == 0, news
        subprocess.run([*command, "--once"], check=True, timeout=TIMEOUT_S)
        compact_away(admin, kafka.address, recording)
        yield Told(recording, crews, {group: numbers_in([f"kafka://{kafka.address}"], group) for group in SETTINGS})


def live_through(address: str, recording: Path) -> dict[str, Crew]:
    """Until there were as many rebalances. A static member that comes back in time makes none, so the recording is
    asked how many there were."""
    deadline = time.monotonic() + TIMEOUT_S
    rng = random.Random(17)
    crews = {
        group: Crew(address, group, rng, settings, [group], [(group, number) for number in range(PARTITIONS)])
        for group, settings in SETTINGS.items()
    }
    goals = dict.fromkeys(crews, REBALANCES)
    try:
        while busy := [group for group, crew in crews.items() if len(crew.settled) < goals[group]]:
            assert time.monotonic() < deadline, [len(crew.settled) for crew in crews.values()]
            for group in busy:
                crews[group].turn()
                if len(crews[group].settled) >= goals[group]:
                    goals[group] += max(0, REBALANCES - numbers_in([str(recording)], group))
    finally:
        for member in [member for crew in crews.values() for member in crew.members]:
            member.consumer.kill()
    return crews


def compact_away(admin: AdminClient, address: str, recording: Path) -> None:
    """Let segments be full at once, and clean all but the last."""
    settings = {"segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "1000"}
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
    ]
    topic = ConfigResource(ResourceType.TOPIC, OFFSETS_TOPIC, incremental_configs=entries)
    for done in admin.incremental_alter_configs([topic]).values():
        done.result(60)
    deadline = time.monotonic() + TIMEOUT_S
    recorded = {group: numbers_in([str(recording)], group) for group in SETTINGS}
    offset = 0
    while any(numbers_in([f"kafka://{address}"], group) > recorded[group] / 3 for group in SETTINGS):
        assert time.monotonic() < deadline, "the cluster does not compact its log"
        for group in ("one", "another", "a third"):  # a record behind the others begins a new segment
            consumer = Consumer({"bootstrap.servers": address, "group.id": group})
            consumer.commit(offsets=[TopicPartition(EAGER, 0, offset := offset + 1)], asynchronous=False)
            consumer.close()
        time.sleep(1)


def numbers_in(paths: list[str], group: str) -> int:
    """How many generations, or epochs, of the group the log has."""
    folders, problems = find_logs(paths)
    assert problems == []
    rows = [row for one in folders for row in whole_tables(one, ["group_generations"])["group_generations"].to_pylist()]
    return len({row["generation"] for row in rows if row["group_id"] == group and row["generation"] is not None})


def owners(machine: TimeMachine, at_ms: int) -> dict[Place, str]:
    return {(each.topic, each.partition): each.member_id for each in machine.at(at_ms) if each.member_id is not None}


@pytest.mark.parametrize("group", SETTINGS)
def test_the_recording_tells_what_the_members_knew_although_the_cluster_has_forgotten_it(
    told: Told, group: str
) -> None:
    crew = told.crews[group]
    recorded = numbers_in([str(told.recording)], group)
    print(f"{group}: {recorded} generations recorded, {told.kept[group]} left on the cluster")
    assert recorded >= REBALANCES
    assert told.kept[group] <= recorded / 3
    machine, problems = from_folders([str(told.recording)], group)
    assert problems == []
    rng = random.Random(200)
    first, last = int(crew.events[0].time * 1000), int(crew.events[-1].time * 1000)
    for _ in range(MOMENTS):  # any moments: what a member believes to own is its own
        at_ms = rng.randrange(first, last)
        assert crew.believed_at((at_ms + 1) / 1000).items() <= owners(machine, at_ms).items(), at_ms
    stretches = [(each, range(int(each.start * 1000) + 1, int(each.end * 1000))) for each in crew.settled]
    stretches = [(each, span) for each, span in stretches if span]
    assert len(stretches) > REBALANCES / 3
    for _ in range(MOMENTS):  # moments of rest: all owners and offsets
        settled, span = rng.choice(stretches)
        at_ms = rng.choice(span)
        assert owners(machine, at_ms) == settled.owners, at_ms
        assert {(each.topic, each.partition): each.offset for each in machine.at(at_ms)} == settled.offsets, at_ms
    done = subprocess.run(
        [KOHORT, "audit", "owners", str(told.recording), "--group", group, "--at", in_words(at_ms)],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert all(member_id in done.stdout for member_id in settled.owners.values())
