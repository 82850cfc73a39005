"""Share groups of real clients: every record is accepted once, or rejected, or archived; none is lost.

KOHORT_TEST_BROKER=kafka tells the same stories to a real Kafka.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.group_broker import AnyBroker, GroupBroker, KafkaBroker
from tests.clients.share_checks import ShareScenario, confluent, franz_go, java
from tests.clients.share_log import verdict

SETTINGS = {"group_share_assignment_interval_ms": "0"}

Program = Callable[..., list[str]]  # of the broker's address and members; returns the command line


@contextmanager
def sharers(folder: Path, partitions: int, **settings: str) -> Iterator[tuple[AnyBroker, ShareScenario]]:
    kind = KafkaBroker if os.environ.get("KOHORT_TEST_BROKER") == "kafka" else GroupBroker
    with kind(folder, **SETTINGS | settings) as broker:
        scenario = ShareScenario(broker, folder, partitions)
        try:
            yield broker, scenario
        finally:
            scenario.abandon()


def check(summary: dict[str, int], folder: Path) -> None:
    assert summary["delivered"] == summary["records"]
    assert summary["decided twice"] == summary["unexplained"] == 0
    assert verdict(folder) == (summary["records"], 0, 0)


@pytest.mark.kafka
def test_java_members_share_records_through_a_restart(tmp_path: Path) -> None:
    with sharers(tmp_path, 5) as (broker, scenario):  # one for each member
        scenario.produce(1_500)
        scenario.start("crew", java(broker.address, "i=implicit", "e=explicit", "n=renew", "l=release", "j=reject"))
        scenario.until_delivered(600)
        scenario.end_broker(broker.restart)
        scenario.produce(1_500)
        summary = scenario.finish()
    check(summary, tmp_path)
    assert summary["renewed"]
    assert summary["rejected"]
    assert summary["released"]


@pytest.mark.kafka
@pytest.mark.parametrize("program", [franz_go, confluent])
def test_members_of_other_clients_share_records(tmp_path: Path, program: Program) -> None:
    with sharers(tmp_path, 4) as (broker, scenario):
        scenario.produce(3_000)
        scenario.start("crew", program(broker.address, "i=explicit", "e=explicit", "l=release", "j=reject"))
        summary = scenario.finish()
    check(summary, tmp_path)
    assert summary["rejected"]
    assert summary["released"]


@pytest.mark.story
@pytest.mark.kafka
def test_eight_members_share_a_hundred_thousand_records_through_kills_and_restarts(tmp_path: Path) -> None:
    with sharers(tmp_path, 6) as (broker, scenario):
        scenario.start("java", java(broker.address, "i1=implicit", "i2=implicit", "n=renew", "l=release", "j=reject"))
        victim = scenario.start("victim", java(broker.address, "v=explicit"))
        scenario.start("go", franz_go(broker.address, "g=explicit"))
        scenario.start("python", confluent(broker.address, "p=explicit"))
        scenario.produce(30_000)
        scenario.until_delivered(15_000)
        scenario.kill(victim)
        scenario.until_delivered(25_000)
        scenario.start("newcomer", java(broker.address, "w=explicit"))
        scenario.produce(30_000)
        scenario.until_delivered(40_000)
        scenario.end_broker(broker.restart)
        scenario.produce(40_000)
        scenario.until_delivered(75_000)
        scenario.end_broker(scenario.kill_broker)
        summary = scenario.finish()
    check(summary, tmp_path)
    assert summary["records"] > 99_990


@pytest.mark.story
@pytest.mark.kafka
def test_no_record_is_finished_twice_through_eight_ends_of_the_broker(tmp_path: Path) -> None:
    with sharers(tmp_path, 6) as (broker, scenario):
        kinds = "i1=implicit", "i2=implicit", "n=renew", "e1=explicit", "e2=explicit"
        scenario.start("java", java(broker.address, *kinds))
        scenario.start("go", franz_go(broker.address, "g=explicit"))
        scenario.start("python", confluent(broker.address, "p=explicit"))
        for number in range(8):
            scenario.produce(12_000)
            scenario.until_delivered(12_000 * number + 1_200 * (number + 1))
            scenario.end_broker(scenario.kill_broker if number % 2 else broker.restart)
        summary = scenario.finish()
    check(summary, tmp_path)
