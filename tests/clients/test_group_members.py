"""Groups of three members of each client, through everything that can happen to a group."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients import group_programs as programs
from tests.clients.group_broker import GroupBroker
from tests.clients.group_checks import MemberProcess, Scenario

Start = Callable[[int], MemberProcess]  # the number of the member: a static one comes back as the same instance


def through_everything(scenario: Scenario, start: Start, *, carries_on: bool = True) -> None:
    """`carries_on`: the members of these groups survive a restart of the broker without a rebalance."""
    start(1)
    second = start(2)
    scenario.settle("two members")
    third = start(3)
    scenario.settle("one joins")

    before = {group: scenario.broker.rebalances(group) for group in scenario.groups}
    scenario.broker.restart()
    scenario.settle("the broker is restarted")
    scenario.broker.kill()
    scenario.broker.start_again()
    scenario.settle("the broker is killed")
    if carries_on:
        assert {group: scenario.broker.rebalances(group) for group in scenario.groups} == before

    scenario.kill(third)
    scenario.settle("one is killed")
    start(3)
    scenario.settle("it comes back")
    scenario.close(second)
    scenario.settle("one leaves")
    scenario.finish()


def run(tmp_path: Path, program: programs.Program, assignors: dict[str, str], *, carries_on: bool = True) -> None:
    """`assignors`: group name -> assignor; a group called static has static members."""

    def start(number: int) -> MemberProcess:
        specs = [
            f"{group}={assignor}" + (f"=instance-{number}" if group == "static" else "")
            for group, assignor in assignors.items()
        ]
        return scenario.start(f"member-{number}", program(broker.address, specs), assignors)

    with GroupBroker(tmp_path, group_initial_rebalance_delay_ms="200") as broker:
        scenario = Scenario(broker, assignors, tmp_path)
        try:
            through_everything(scenario, start, carries_on=carries_on)
        finally:
            scenario.abandon()


def test_confluent_kafka(tmp_path: Path) -> None:
    assignors = {
        "range": "range",
        "roundrobin": "roundrobin",
        "cooperative": "cooperative-sticky",
        "static": "range",
    }
    run(tmp_path, programs.confluent, assignors)


def test_kafka_python(tmp_path: Path) -> None:
    run(tmp_path, programs.kafka_python, {"range": "range", "cooperative": "cooperative-sticky", "static": "range"})


def test_aiokafka(tmp_path: Path) -> None:
    run(tmp_path, programs.aiokafka, {"range": "range", "roundrobin": "roundrobin"})


@pytest.mark.kafka
def test_java(tmp_path: Path) -> None:
    assignors = {"range": "range", "sticky": "sticky", "cooperative": "cooperative-sticky", "static": "range"}
    run(tmp_path, programs.java, assignors)


def test_franz_go(tmp_path: Path) -> None:
    run(tmp_path, programs.franz_go, {"range": "range", "cooperative": "cooperative-sticky", "static": "range"})
