"""Groups of three members of each client on a topic of twelve partitions, through what can happen to a group.

Several groups of one client go through the steps together, each process being a member of each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.clients import group_programs as programs
from tests.clients.group_broker import GroupBroker
from tests.clients.group_checks import SESSION_MS, MemberProcess, Scenario

Assignors = dict[str, str]  # group name -> assignor
Crew = Sequence[tuple[programs.Program, Assignors]]  # processes that come and go together


def through_everything(
    scenario: Scenario, start: Callable[[int], list[MemberProcess]], carries_on: bool = True
) -> None:
    """`carries_on`: these members survive a restart of the broker without a rebalance."""
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

    scenario.kill(*third)
    scenario.settle("one is killed")
    start(3)
    scenario.settle("it comes back")
    scenario.close(*second)
    scenario.settle("one leaves")
    scenario.finish()


def through_everything_anew(scenario: Scenario, start: Callable[[int], list[MemberProcess]]) -> None:
    """For clients that join again when the broker comes back."""
    through_everything(scenario, start, carries_on=False)


def static_members_come_back(scenario: Scenario, start: Callable[[int], list[MemberProcess]]) -> None:
    members = {number: start(number) for number in (1, 2, 3)}
    scenario.settle("three members")
    before = {group: scenario.broker.rebalances(group) for group in scenario.groups}
    scenario.kill(*members[2])
    start(2)
    scenario.settle("one was killed and is back")
    for number in (1, 3):  # one of the three leads the group
        scenario.close(*members[number])
        start(number)
        scenario.settle("one was closed and is back")
    assert {group: scenario.broker.rebalances(group) for group in scenario.groups} == before
    scenario.finish()


def run(tmp_path: Path, crews: dict[int, Crew], steps: Callable[..., None], session_ms: int = SESSION_MS) -> None:
    """`crews`: who is the first, second and third member; members of a group called static... are static."""

    def start(number: int) -> list[MemberProcess]:
        started = []
        for index, (program, assignors) in enumerate(crews[number]):
            specs = [
                f"{group}={assignor}" + (f"=instance-{number}" if group.startswith("static") else "")
                for group, assignor in assignors.items()
            ]
            command = program(broker.address, specs, session_ms)
            started.append(scenario.start(f"member-{number}-{index}", command, assignors))
        return started

    groups = dict.fromkeys(group for crew in crews.values() for _, assignors in crew for group in assignors)
    with GroupBroker(tmp_path, group_initial_rebalance_delay_ms="200") as broker:
        scenario = Scenario(broker, groups, tmp_path)
        try:
            steps(scenario, start)
        finally:
            scenario.abandon()


def three_of(program: programs.Program, assignors: Assignors) -> dict[int, Crew]:
    return {number: [(program, assignors)] for number in (1, 2, 3)}


def test_confluent_kafka(tmp_path: Path) -> None:
    assignors = {"range": "range", "roundrobin": "roundrobin", "cooperative": "cooperative-sticky", "static": "range"}
    run(tmp_path, three_of(programs.confluent, assignors), through_everything)


def test_kafka_python(tmp_path: Path) -> None:
    assignors = {"range": "range", "cooperative": "cooperative-sticky", "static": "range"}
    run(tmp_path, three_of(programs.kafka_python, assignors), through_everything)


def test_aiokafka(tmp_path: Path) -> None:
    run(tmp_path, three_of(programs.aiokafka, {"range": "range", "roundrobin": "roundrobin"}), through_everything)


@pytest.mark.kafka
def test_java(tmp_path: Path) -> None:
    assignors = {"range": "range", "sticky": "sticky", "cooperative": "cooperative-sticky", "static": "range"}
    run(tmp_path, three_of(programs.java, assignors), through_everything)


@pytest.mark.kafka
def test_verifiable_consumer(tmp_path: Path) -> None:
    """With the Java client's default metadata.recovery.strategy, which may make it join again after a restart."""
    run(tmp_path, three_of(programs.verifiable_consumer, {"verifiable": "RoundRobinAssignor"}), through_everything_anew)


def test_franz_go(tmp_path: Path) -> None:
    """It tries a few times to connect for a heartbeat, and joins again if the broker was not back by then."""
    assignors = {"range": "range", "cooperative": "cooperative-sticky", "static": "range"}
    run(tmp_path, three_of(programs.franz_go, assignors), through_everything_anew)


def test_kafkajs(tmp_path: Path) -> None:
    """After a restart it mostly carries on, and sometimes joins again as a new member."""
    assignors = {"first": "RoundRobinAssigner", "second": "RoundRobinAssigner"}
    run(tmp_path, three_of(programs.kafkajs, assignors), through_everything_anew)


@pytest.mark.kafka
def test_clients_of_several_languages_in_one_group(tmp_path: Path) -> None:
    eager = {"range": "range", "roundrobin": "roundrobin"}
    all_three = eager | {"cooperative": "cooperative-sticky"}
    crews: dict[int, Crew] = {
        1: [(programs.confluent, all_three), (programs.kafka_python, eager)],
        2: [(programs.java, all_three)],
        3: [(programs.franz_go, all_three), (programs.aiokafka, eager)],
    }
    run(tmp_path, crews, through_everything_anew)


@pytest.mark.kafka
def test_static_members_that_come_back_within_their_session_cause_no_rebalance(tmp_path: Path) -> None:
    crew: Crew = [
        (programs.confluent, {"static-confluent": "range", "static-cooperative": "cooperative-sticky"}),
        (programs.java, {"static-java": "range"}),
        (programs.franz_go, {"static-franz-go": "roundrobin"}),
        (programs.kafka_python, {"static-kafka-python": "range"}),
        (programs.aiokafka, {"static-aiokafka": "range"}),
    ]
    run(tmp_path, dict.fromkeys((1, 2, 3), crew), static_members_come_back, session_ms=120_000)
