"""A story of many rebalances with real consumers: whoever asks the log at any moment is told what the members knew.

Consumers of confluent-kafka come, go, and come back (one is static), in a group that rebalances eagerly, and beside it
in one that does so cooperatively (more slowly, so it has fewer), in one whose partitions the broker assigns (KIP-848),
and in one of that kind that subscribes by a regular expression, for which a further topic is created in between. The
log is then read after the fact. tests/audit/crew.py says what can be equal.

A member of some groups must own by the log what it believes to own, at any moment: an eager member lets go of its
partitions before it joins the next generation, and a member of KIP-848 before it says that it has revoked them.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kohort.audit.moments import in_words
from kohort.audit.owners.group_history import from_folders
from kohort.audit.owners.time_machine import TimeMachine
from tests.audit.crew import Crew, Place
from tests.clients.group_broker import GroupBroker

PARTITIONS = 6
REBALANCES = {"eager": 50, "cooperative": 20, "server-side": 50, "regex": 12}  # at least
MOMENTS = 200
DEADLINE_S = 300.0  # for a busy machine, and for a session to expire; nothing is measured by it
EAGER, COOPERATIVE, SERVER_SIDE, REGEX = REBALANCES
CLASSIC = {"session.timeout.ms": 60_000, "heartbeat.interval.ms": 20}
NEW = {"group.protocol": "consumer"}
SETTINGS: dict[str, dict[str, Any]] = {
    EAGER: {"partition.assignment.strategy": "range", **CLASSIC},
    COOPERATIVE: {"partition.assignment.strategy": "cooperative-sticky", **CLASSIC},
    SERVER_SIDE: NEW,
    REGEX: NEW,
}
LATE_TOPIC = "regex-late"
BROKER = {
    "group_initial_rebalance_delay_ms": "0",
    "group_consumer_min_heartbeat_interval_ms": "20",
    "group_consumer_heartbeat_interval_ms": "20",
    "group_consumer_assignment_interval_ms": "0",
}

Told = tuple[Path, dict[str, Crew]]


def places(*topics: str) -> list[Place]:
    return [(topic, number) for topic in topics for number in range(PARTITIONS)]


def live_through(broker: GroupBroker, crews: dict[str, Crew], create: Any) -> None:
    """Members come and go until all groups have had their rebalances; then all go."""
    deadline = time.monotonic() + DEADLINE_S

    def lacks(crew: Crew, share: float = 1) -> bool:
        assert time.monotonic() < deadline, [(each.group, each.events[-9:]) for each in crews.values()]
        return len(broker.rebalances(crew.group)) < REBALANCES[crew.group] * share

    while any(lacks(crew) for crew in crews.values()):
        for crew in crews.values():
            crew.turn()
        if len(crews[REGEX].places) == PARTITIONS and not lacks(crews[REGEX], 0.5):
            create(LATE_TOPIC)
            crews[REGEX].places = set(places(REGEX, LATE_TOPIC))
    left = set[str]()
    while len(left) < len(crews):
        assert time.monotonic() < deadline, [(crew.group, crew.events[-9:]) for crew in crews.values()]
        left |= {crew.group for crew in crews.values() if crew.is_empty_after_one_more_left()}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The data folder of a broker that has stopped, and what the members of its groups have noted."""
    rng = random.Random(50)
    with GroupBroker(tmp_path_factory.mktemp("story"), **BROKER) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})

        def create(*topics: str) -> None:
            for done in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics]).values():
                done.result(DEADLINE_S)

        create(*SETTINGS)
        crews = {
            group: Crew(
                broker.address, group, rng, settings, ["^regex.*"] if group == REGEX else [group], places(group)
            )
            for group, settings in SETTINGS.items()
        }
        live_through(broker, crews, create)
        return broker.process.data, crews


@pytest.fixture(scope="module")
def machines(story: Told) -> dict[str, TimeMachine]:
    return {group: from_folders([str(story[0])], group)[0] for group in SETTINGS}


def owners(machine: TimeMachine, at_ms: int) -> dict[Place, str]:
    told = [owner for owner in machine.at(at_ms) if owner.member_id is not None]
    found = {(owner.topic, owner.partition): owner.member_id for owner in told if owner.member_id is not None}
    assert len(found) == len(told), "one owner each"
    return found


def random_moments(crew: Crew, rng: random.Random) -> list[tuple[int, dict[Place, str], dict[Place, int]]]:
    """Moments at which all members were at rest, with the owners and offsets of all partitions."""
    stretches = [(each, range(int(each.start * 1000) + 1, int(each.end * 1000))) for each in crew.settled]
    stretches = [(each, span) for each, span in stretches if span]
    assert len(stretches) > REBALANCES[crew.group] / 3, "few moments to choose from"
    chosen = [rng.choice(stretches) for _ in range(MOMENTS)]
    return [(rng.choice(span), settled.owners, settled.offsets) for settled, span in chosen]


@pytest.mark.parametrize("group", SETTINGS)
def test_at_200_moments_the_log_tells_what_the_members_knew(
    story: Told, machines: dict[str, TimeMachine], group: str
) -> None:
    for at_ms, owned, offsets in random_moments(story[1][group], random.Random(200)):
        assert owners(machines[group], at_ms) == owned, (group, at_ms)
        told = machines[group].at(at_ms)
        assert {(owner.topic, owner.partition): owner.offset for owner in told} == offsets, (group, at_ms)


@pytest.mark.parametrize("group", [EAGER, SERVER_SIDE, REGEX])
def test_at_any_moment_a_member_owns_what_it_believes_to_own(
    story: Told, machines: dict[str, TimeMachine], group: str
) -> None:
    crew = story[1][group]
    rng = random.Random(201)
    first, last = int(crew.events[0].time * 1000), int(crew.events[-1].time * 1000)
    seen = 0
    for _ in range(MOMENTS):
        at_ms = rng.randrange(first, last)
        believed = crew.believed_at((at_ms + 1) / 1000)  # the log's time has no smaller parts
        seen += bool(believed)
        assert believed.items() <= owners(machines[group], at_ms).items(), at_ms
    assert seen > MOMENTS / 4


@pytest.mark.parametrize("group", [COOPERATIVE, SERVER_SIDE, REGEX])
def test_the_command_prints_what_the_members_knew(story: Told, group: str) -> None:
    data, crews = story
    at_ms, owned, offsets = random_moments(crews[group], random.Random(202))[0]
    command = [str(Path(sys.executable).with_name("kohort")), "audit", "owners", str(data), "--group", group]
    done = subprocess.run(
        [*command, "--json", "--at", in_words(at_ms)], capture_output=True, text=True, check=True, timeout=120
    )
    rows = json.loads(done.stdout)
    assert {(row["topic"], row["partition"]): (row["member_id"], row["offset"]) for row in rows} == {
        place: (owner, offsets[place]) for place, owner in owned.items()
    }
