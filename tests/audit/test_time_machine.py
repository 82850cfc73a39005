"""A story of 50 rebalances with real consumers: whoever asks the log at any moment is told what the members knew.

Consumers of confluent-kafka come, go, and come back (one is static), in a group that rebalances eagerly, and beside it
in one that does so cooperatively (more slowly, so it has fewer). Each member notes what it is given, what is taken from
it, and when; and what it commits. The log is then read after the fact.

The log and a member know of a change at different times: a member hears of its partitions after they are in the log,
and lets go of them before (eager) or after (cooperative) the log says so. The difference is a message's travel time. So
what must be equal is compared at moments at which the members' view is settled: after all of them were told, and before
the next one comes or goes. An eager member must also own what it believes to own at any other moment: it lets go of its
partitions before it joins the next generation.
"""

from __future__ import annotations

import random
import time
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kohort.audit.owners.group_history import from_folders
from kohort.audit.owners.time_machine import TimeMachine
from tests.clients.group_broker import GroupBroker
from tests.clients.remote_consumer import ConsumerFailed, RemoteConsumer, Told

PARTITIONS = 6
MAX_MEMBERS = 4
REBALANCES = {"eager": 50, "cooperative": 20}  # at least
MOMENTS = 200
DEADLINE_S = 300.0  # for a busy machine, and for a session to expire; nothing is measured by it
EAGER, COOPERATIVE = "eager", "cooperative"
REBALANCING = (KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS)
STRATEGY = {EAGER: "range", COOPERATIVE: "cooperative-sticky"}


class Event(NamedTuple):
    """What a member was told."""

    time: float
    member: Member
    member_id: str
    gained: frozenset[int]
    lost: frozenset[int]


class Settled(NamedTuple):
    """A stretch of time in which nobody was told anything: what each partition's owner and offset was by then."""

    start: float
    end: float
    owners: dict[int, str]  # member ids
    offsets: dict[int, int]


class Member:
    """A consumer that notes what it is told."""

    def __init__(self, crew: Crew, name: str, instance_id: str | None) -> None:
        self.crew = crew
        self.name = name
        self.instance_id = instance_id
        self.owned: set[int] = set()
        settings = {
            "bootstrap.servers": crew.address,
            "client.id": name,
            "group.id": crew.group,
            "partition.assignment.strategy": STRATEGY[crew.group],
            "session.timeout.ms": 60_000,
            "heartbeat.interval.ms": 20,
            "topic.metadata.refresh.interval.ms": 30,  # the client looks up from its sleep so often, at heartbeats too
            "enable.auto.commit": False,
            "log_level": 0,
        }
        if instance_id is not None:
            settings["group.instance.id"] = instance_id
        self.consumer = RemoteConsumer(settings, [crew.group], self._note)

    def _note(self, told: Told) -> None:
        gained, lost = (frozenset(partition for _, partition in places) for places in (told.gained, told.lost))
        self.owned = (self.owned | gained) - lost
        self.crew.events.append(Event(told.time, self, told.member_id, gained, lost))

    def commit(self, offsets: dict[int, int]) -> None:
        self.consumer.commit({(self.crew.group, partition): offset for partition, offset in offsets.items()})

    def close(self) -> None:
        began = time.time()
        self.consumer.close()
        if self.consumer.was_killed:  # it believes nothing from then on
            self.crew.events.append(Event(began, self, "", frozenset(), frozenset(self.owned)))
            self.crew.events.sort(key=lambda event: event.time)


class Crew:
    """The members of one group, polled in turn."""

    def __init__(self, address: str, group: str, rng: random.Random) -> None:
        self.address = address
        self.group = group  # its topic has the same name
        self.events: list[Event] = []
        self.settled: list[Settled] = []
        self._members: list[Member] = []
        self._offsets: dict[int, int] = {}
        self._rng = rng
        self._numbers = count(1)
        self._static_is_here = False
        self._settled_since: float | None = None

    def turn(self, *, is_over: bool = False) -> bool:
        """Poll everybody. When all have their partitions, they commit, rest for a turn, and one comes or goes.

        Whether they are at rest. When the story is over, they stay so.
        """
        for member in self._members:
            member.consumer.poll(0.002)
        if not self._members:
            self._act()
        elif not self._is_settled():
            self._settled_since = None
        elif self._settled_since is None:
            self._settled_since = time.time() if self._commit() else None
        elif not is_over:
            self._remember(self._settled_since, time.time())
            self._settled_since = None
            self._act()
        return self._settled_since is not None

    def _act(self) -> None:
        """One member comes or goes; a static one goes without leaving, and comes back."""
        if len(self._members) >= MAX_MEMBERS or (len(self._members) > 1 and self._rng.random() < 0.5):
            self._close(self._rng.choice(self._members))
        else:
            self._join()

    def _join(self) -> None:
        static = None if self._static_is_here else "the-static-one"
        self._static_is_here = True
        self._members.append(Member(self, f"{self.group}-{next(self._numbers)}", static))

    def _close(self, member: Member) -> None:
        self._members.remove(member)
        member.close()
        if member.instance_id is not None:  # it stays a member of the group until it is back
            self._members.append(Member(self, member.name, member.instance_id))

    def _is_settled(self) -> bool:
        owned = [partition for member in self._members for partition in member.owned]
        return sorted(owned) == list(range(PARTITIONS)) and all(member.owned for member in self._members)

    def _commit(self) -> bool:
        """False if a rebalance is going on that the members have not noticed."""
        for member in self._members:
            offsets = {
                partition: self._offsets.get(partition, 5) + self._rng.randint(-5, 9) for partition in member.owned
            }
            try:
                member.commit({partition: max(0, offset) for partition, offset in offsets.items()})
            except ConsumerFailed as problem:
                if problem.code not in REBALANCING:
                    raise
                return False
            self._offsets |= {partition: max(0, offset) for partition, offset in offsets.items()}
        return True

    def _remember(self, start: float, end: float) -> None:
        """Unless somebody was told something meanwhile."""
        if not any(start <= event.time <= end for event in self.events):
            owners = {partition: member.consumer.member_id() for member in self._members for partition in member.owned}
            self.settled.append(Settled(start, end, owners, dict(self._offsets)))

    def is_empty_after_one_more_left(self) -> bool:
        """Leave one by one, each while all are at rest, since librdkafka may hang in a close during a rebalance.

        The static one is the last, since its partitions go to nobody.
        """
        if self._members and self.turn(is_over=True):
            member = min(self._members, key=lambda member: member.instance_id is not None)
            self._members.remove(member)
            member.close()
        return not self._members

    def believed_at(self, moment: float) -> dict[int, str]:
        """What members believed to own, by what they were told until then."""
        believed: dict[int, str] = {}
        owner: dict[int, Member] = {}
        for event in self.events:
            if event.time > moment:
                break
            for partition in event.lost:
                if owner.get(partition) is event.member:
                    del owner[partition], believed[partition]
            for partition in event.gained:
                owner[partition], believed[partition] = event.member, event.member_id
        return believed


def live_through(broker: GroupBroker, crews: list[Crew]) -> None:
    """Members come and go until both groups have had their rebalances; then all go."""
    deadline = time.monotonic() + DEADLINE_S
    while any(len(broker.rebalances(crew.group)) < REBALANCES[crew.group] for crew in crews):
        assert time.monotonic() < deadline, [(crew.group, crew.events[-9:]) for crew in crews]
        for crew in crews:
            crew.turn()
    left = set[str]()
    while len(left) < len(crews):
        assert time.monotonic() < deadline, [(crew.group, crew.events[-9:]) for crew in crews]
        left |= {crew.group for crew in crews if crew.is_empty_after_one_more_left()}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Crew]]:
    """The data folder of a broker that has stopped, and what the members of its two groups have noted."""
    rng = random.Random(50)
    with GroupBroker(tmp_path_factory.mktemp("story"), group_initial_rebalance_delay_ms="0") as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        for done in admin.create_topics([NewTopic(group, PARTITIONS, 1) for group in STRATEGY]).values():
            done.result(DEADLINE_S)
        crews = {group: Crew(broker.address, group, rng) for group in STRATEGY}
        live_through(broker, list(crews.values()))
        return broker.process.data, crews


@pytest.fixture(scope="module")
def machines(story: tuple[Path, dict[str, Crew]]) -> dict[str, TimeMachine]:
    return {group: from_folders([str(story[0])], group)[0] for group in STRATEGY}


def owners(machine: TimeMachine, at_ms: int) -> dict[int, str]:
    told = machine.at(at_ms)
    found = {owner.partition: owner.member_id for owner in told if owner.member_id is not None}
    assert len(found) == len([owner for owner in told if owner.member_id is not None]), "one owner each"
    return found


@pytest.mark.parametrize("group", STRATEGY)
def test_at_200_moments_the_log_tells_what_the_members_knew(
    story: tuple[Path, dict[str, Crew]], machines: dict[str, TimeMachine], group: str
) -> None:
    crew, machine = story[1][group], machines[group]
    rng = random.Random(200)
    stretches = [(each, range(int(each.start * 1000) + 1, int(each.end * 1000))) for each in crew.settled]
    stretches = [(each, span) for each, span in stretches if span]
    assert len(stretches) > REBALANCES[group] / 3, "few moments to choose from"
    for _ in range(MOMENTS):
        settled, span = rng.choice(stretches)
        at_ms = rng.choice(span)
        assert owners(machine, at_ms) == settled.owners, (group, at_ms)
        told = machine.at(at_ms)
        assert {owner.partition: owner.offset for owner in told} == settled.offsets, (group, at_ms)


def test_at_any_moment_an_eager_member_owns_what_it_believes_to_own(
    story: tuple[Path, dict[str, Crew]], machines: dict[str, TimeMachine]
) -> None:
    crew = story[1][EAGER]
    rng = random.Random(201)
    first, last = int(crew.events[0].time * 1000), int(crew.events[-1].time * 1000)
    seen = 0
    for _ in range(MOMENTS):
        at_ms = rng.randrange(first, last)
        believed = crew.believed_at((at_ms + 1) / 1000)  # the log's time has no smaller parts
        seen += bool(believed)
        assert believed.items() <= owners(machines[EAGER], at_ms).items(), at_ms
    assert seen > MOMENTS / 4
