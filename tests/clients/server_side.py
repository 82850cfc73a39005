"""Brokers and starts for stories in which the broker assigns the partitions (KIP-848).

KOHORT_TEST_BROKER=kafka tells the same stories to a real Kafka, which must pass them too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.clients import group_programs as programs
from tests.clients.group_broker import AnyBroker, GroupBroker, KafkaBroker
from tests.clients.group_checks import MemberProcess, Scenario
from tests.clients.ownership import Span, interrupted

Assignors = dict[str, str]  # group name -> assignor; a group whose name contains "static" has static members
Crew = Sequence[tuple[programs.Program, Assignors]]  # processes that come and go together

AnyScenario = TypeVar("AnyScenario", bound=Scenario)

# librdkafka gives up a heartbeat that is not answered within this time, and then never learns of an assignment that the
# answer brought (docs/clients.md, known client problems). So it is as long as the broker may stand still on a busy
# machine, and not as short as would be good for the story.
HEARTBEAT_MS = 5_000
CONSUMER_SESSION_MS = 15_000
SETTINGS = {
    "group_initial_rebalance_delay_ms": "200",
    "group_consumer_min_session_timeout_ms": str(CONSUMER_SESSION_MS),
    "group_consumer_session_timeout_ms": str(CONSUMER_SESSION_MS),
    "group_consumer_heartbeat_interval_ms": str(HEARTBEAT_MS),
}


def group_broker(folder: Path, **overrides: str) -> GroupBroker | KafkaBroker:
    kind = KafkaBroker if os.environ.get("KOHORT_TEST_BROKER") == "kafka" else GroupBroker
    return kind(folder, **SETTINGS | overrides)


class WatchedScenario(Scenario):
    """Also checks after each step that no partition had two owners at any time."""

    def __init__(self, broker: AnyBroker, groups: Sequence[str], folder: Path) -> None:
        super().__init__(broker, groups, folder)
        self._refused: dict[MemberProcess, str | None] = {}  # with what they were told

    def wait_until_refused(self, member: MemberProcess) -> str:
        """The member must fail. Returns the error that it saw, and ends it."""
        self._refused[member] = None
        self.until(lambda: self._refused[member] is not None, f"{member.name} is refused")
        self.kill(member)
        return self._refused[member] or ""

    def _take(self, member: MemberProcess, event: dict[str, Any]) -> None:
        if event["event"] == "problem" and member in self._refused:
            self._refused[member] = event["text"]
        else:
            super()._take(member, event)

    def settle(self, what: str) -> None:
        super().settle(what)
        for group in self.groups:
            assert self.ownership[group].owned_twice() == [], (what, group)


class ServerSideScenario(WatchedScenario):
    """Also checks after each step that nobody had to give up a partition that it kept."""

    def __init__(self, broker: AnyBroker, groups: Sequence[str], folder: Path) -> None:
        super().__init__(broker, groups, folder)
        self._settled: dict[str, dict[int, Span]] = {}
        self.epochs: dict[str, int | None] = {}

    def settle(self, what: str) -> None:
        super().settle(what)
        for group in self.groups:
            now = self.ownership[group].current()
            assert interrupted(self._settled.get(group, now), now) == [], (what, group)
            self._settled[group] = now
            self.epochs[group] = self.broker.describe(group).epoch

    def settle_unchanged(self, what: str) -> None:
        """Everyone carries on: no partition was given up, and no epoch has begun."""
        owned, epochs = dict(self._settled), dict(self.epochs)
        self.settle(what)
        assert self._settled == owned, what
        assert self.epochs == epochs, what

    def duplicates(self) -> dict[str, int]:
        return {group: self.ledgers[group].duplicates() for group in self.groups}


def specs(assignors: Assignors, number: int) -> list[str]:
    """The memberships of member `number`, as the programs take them."""
    return [
        f"{group}={assignor}" + (f"=instance-{number}" if "static" in group else "")
        for group, assignor in assignors.items()
    ]


@contextmanager
def abandoned_at_the_end(scenario: AnyScenario) -> Iterator[AnyScenario]:
    try:
        yield scenario
    finally:
        scenario.abandon()


def starter(scenario: Scenario, crews: dict[int, Crew]) -> Callable[[int], list[MemberProcess]]:
    """Starts all processes of the first, second or third member."""

    def start(number: int) -> list[MemberProcess]:
        return [
            scenario.start(
                f"member-{number}-{index}",
                program(scenario.broker.address, specs(assignors, number)),
                assignors,
            )
            for index, (program, assignors) in enumerate(crews[number])
        ]

    return start
