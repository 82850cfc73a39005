"""Rolling restarts from the classic protocol to the one of KIP-848 and back, while a producer writes.

Three members are replaced one after another, as an application's new release would replace them. The group goes on
meanwhile: every record is consumed and committed, and at no time a partition has two owners.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients import group_programs as programs
from tests.clients.group_checks import MemberProcess
from tests.clients.server_side import Assignors, WatchedScenario, abandoned_at_the_end, group_broker, specs, starter

# confluent-kafka's cooperative-sticky leaves user data in the assignments, and a group with such assignments cannot be
# upgraded while it has members: a real Kafka refuses as we do (see the second test).
CLASSIC: dict[programs.Program, Assignors] = {
    programs.confluent: {
        "confluent-eager": "range",
        "confluent-roundrobin": "roundrobin",
        "confluent-static": "range",
    },
    programs.java: {
        "java-eager": "range",
        "java-cooperative": "cooperative-sticky",
        "java-static": "cooperative-sticky",
    },
}
SERVER_SIDE = {program: dict.fromkeys(assignors, "consumer") for program, assignors in CLASSIC.items()}
MEMBERS = (1, 2, 3)


class RollingRestart:
    """Members by number, each one process per client."""

    def __init__(self, scenario: WatchedScenario) -> None:
        self._scenario = scenario
        self._running: dict[int, list[MemberProcess]] = {}

    def start(self, number: int, protocol: dict[programs.Program, Assignors]) -> None:
        address = self._scenario.broker.address
        self._running[number] = [
            self._scenario.start(f"member-{number}-{index}", program(address, specs(assignors, number)), assignors)
            for index, (program, assignors) in enumerate(protocol.items())
        ]

    def replace(self, number: int, protocol: dict[programs.Program, Assignors]) -> None:
        self._scenario.close(*self._running[number])
        self.start(number, protocol)


def types(scenario: WatchedScenario) -> set[str]:
    return {"classic" if scenario.broker.describe(group).epoch is None else "consumer" for group in scenario.groups}


@pytest.mark.story
@pytest.mark.kafka
def test_members_change_their_protocol_one_by_one_and_back_and_lose_nothing(tmp_path: Path) -> None:
    groups = [group for assignors in CLASSIC.values() for group in assignors]
    with group_broker(tmp_path) as broker, abandoned_at_the_end(WatchedScenario(broker, groups, tmp_path)) as scenario:
        rolling = RollingRestart(scenario)
        for number in MEMBERS:
            rolling.start(number, CLASSIC)
        scenario.settle("three classic members")
        assert types(scenario) == {"classic"}
        for number in MEMBERS:
            rolling.replace(number, SERVER_SIDE)
            scenario.settle(f"member {number} has upgraded")
            assert types(scenario) == {"consumer"}
        for number in MEMBERS:
            rolling.replace(number, CLASSIC)
            scenario.settle(f"member {number} is back")
        assert types(scenario) == {"classic"}
        scenario.finish()


@pytest.mark.story
def test_a_group_with_user_data_in_its_assignments_stays_classic_and_goes_on(tmp_path: Path) -> None:
    """confluent-kafka's cooperative-sticky writes such data for members that owned partitions before. When all members
    have left, the group can change."""
    classic = programs.confluent, {"sticky": "cooperative-sticky"}
    server_side = programs.confluent, {"sticky": "consumer"}
    with (
        group_broker(tmp_path) as broker,
        abandoned_at_the_end(WatchedScenario(broker, ["sticky"], tmp_path)) as scenario,
    ):
        start = starter(scenario, {1: [classic], 2: [classic], 3: [server_side]})
        members = start(1)
        scenario.settle("one classic member")
        members += start(2)
        scenario.settle("two classic members")
        (refused,) = start(3)
        assert "The group id does not exist" in scenario.wait_until_refused(refused)
        scenario.settle("a third one was refused")
        assert types(scenario) == {"classic"}
        scenario.close(*members)
        start(3)
        scenario.settle("the group was empty")
        assert types(scenario) == {"consumer"}
        scenario.finish()
