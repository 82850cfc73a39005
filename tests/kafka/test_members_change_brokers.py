"""Members of KIP-848 groups carry on when Kohort takes the place of a Kafka, and when a Kafka takes it back.

Both brokers run on the same data folder and the same port, one after the other. The members are real clients that go
on running meanwhile. They own the same partitions, in the same epochs, at every change.
"""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import pytest

from kohort.broker.dump import dump
from kohort.coordinator.partitioner import partition_of
from kohort.printable import printable_json
from tests.clients import group_programs as programs
from tests.clients.group_broker import AnyBroker
from tests.clients.kohort import KohortProcess
from tests.clients.server_side import SETTINGS, Crew, ServerSideScenario, abandoned_at_the_end, starter
from tests.kafka.jars import dump_log
from tests.kafka.server import OFFSETS_PARTITIONS, KafkaServer

HEADER_VALUES = re.compile(r" headerValues: \[[^]]*\]")
# Records of a group, a member, the group's target, a member's target, a current assignment, a regular expression.
RECORD_TYPES = (3, 5, 6, 7, 8, 16)
# A Kafka that was killed registers again when the session of its former life is over.
KAFKA_SETTINGS = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}


class KafkaOrKohort(AnyBroker):
    """A Kafka that can be replaced by a Kohort on its files, and back."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        """Both have these settings; Kafka does not mind those that it does not know."""
        self._folder = folder
        self._settings = settings
        with_dots = {name.replace("_", "."): value for name, value in settings.items()}
        self._kafka = KafkaServer(folder / "kafka", with_dots | KAFKA_SETTINGS)
        self._kohort: KohortProcess | None = None
        self.address = self._kafka.address
        self.data = self._kafka.data

    def become_kohort(self) -> None:
        """Kafka is killed. Stopping, it would announce a leader epoch above Kohort's, which is 0 for ever: librdkafka
        would ignore what Kohort says about leaders, as long as the client runs."""
        self._kill_kafka()
        self._kohort = KohortProcess(
            self._folder / "kohort", listeners=f"PLAINTEXT://{self.address}", log_dirs=str(self.data), **self._settings
        )

    def become_kafka(self, copied_to: Path) -> None:
        """Kafka believes that it crashed: it checks every batch and builds the indexes anew."""
        self._stop_kohort()
        for log in self.data.glob("__*-*/*.log"):
            (copied_to / log.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(log, copied_to / log.parent.name)
        self._kafka.start_again()

    def _kill_kafka(self) -> None:
        self._forget_client()
        self._kafka.process.kill()
        self._kafka.process.wait()

    def _stop_kohort(self) -> None:
        self._forget_client()
        kohort, self._kohort = self._kohort, None
        assert kohort is not None
        assert kohort.stop() == 0, kohort.log_tail()

    def __enter__(self) -> KafkaOrKohort:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._kohort is not None:
            self._stop_kohort()
        else:
            self._kill_kafka()


def check_dump(logs: Path, groups: Sequence[str]) -> None:
    """Kafka's kafka-dump-log and `kohort dump` print the same of these groups, with records of all types."""
    partitions = sorted({partition_of(group, OFFSETS_PARTITIONS) for group in groups})
    files = [logs / f"__consumer_offsets-{partition}" / f"{0:020d}.log" for partition in partitions]
    printed, complaints = dump_log("--offsets-decoder", "--files", ",".join(map(str, files)))
    assert complaints == ""
    ours = io.StringIO()
    assert dump([str(file) for file in files], out=ours) == 0
    shown = HEADER_VALUES.sub("", ours.getvalue()).splitlines()
    assert shown == [printable_json(line) for line in printed.splitlines()]
    assert "isvalid: false" not in printed
    for group in groups:
        for record_type in RECORD_TYPES if "regex" in group else RECORD_TYPES[:-1]:
            assert f'key: {{"type":"{record_type}","data":{{"groupId":"{group}"' in printed, (group, record_type)


@pytest.mark.story
@pytest.mark.kafka
def test_members_carry_on_from_kafka_to_kohort_and_back(tmp_path: Path) -> None:
    crew: Crew = [
        (programs.java, {"java-dynamic": "consumer", "java-static": "consumer-range", "java-regex": "consumer-regex"}),
        (programs.confluent, {"confluent-dynamic": "consumer", "confluent-static": "consumer"}),
    ]
    groups = [group for _, assignors in crew for group in assignors]
    with (
        KafkaOrKohort(tmp_path, SETTINGS) as broker,
        abandoned_at_the_end(ServerSideScenario(broker, groups, tmp_path)) as scenario,
    ):
        start = starter(scenario, dict.fromkeys((1, 2, 3), crew))
        start(1)
        start(2)
        scenario.settle("two members, on Kafka")
        broker.become_kohort()
        scenario.settle_unchanged("Kohort goes on")
        third = start(3)
        scenario.settle("one joins, on Kohort")
        broker.become_kafka(copied_to=tmp_path / "logs")
        scenario.settle_unchanged("Kafka goes on")
        scenario.close(*third)
        scenario.settle("one leaves, on Kafka")
        scenario.finish()
    check_dump(tmp_path / "logs", groups)
