"""Members of a group that come and go, and note what they are told: for stories that the log must tell in the same way.

Consumers of confluent-kafka, each in a process of its own. Each member notes what it is given, what is taken from it,
and when; and what it commits.

The log and a member know of a change at different times: a member hears of its partitions after they are in the log,
and lets go of them before or after the log says so. The difference is a message's travel time. So what must be equal is
compared at moments at which the members' view is settled: after all of them were told, and before the next one comes or
goes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from confluent_kafka import KafkaError

from tests.clients.remote_consumer import ConsumerFailed, RemoteConsumer, Told

MAX_MEMBERS = 4
REBALANCING = (KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS, KafkaError.STALE_MEMBER_EPOCH)
STATIC = "the-static-one"

Place = tuple[str, int]  # topic and partition
Settings = Mapping[str, Any]  # of a consumer


class Event(NamedTuple):
    """What a member was told."""

    time: float
    member: Member
    member_id: str
    gained: frozenset[Place]
    lost: frozenset[Place]


class Settled(NamedTuple):
    """A stretch of time in which nobody was told anything: what each partition's owner and offset was by then."""

    start: float
    end: float
    owners: dict[Place, str]  # member ids
    offsets: dict[Place, int]


class Member:
    """A consumer that notes what it is told."""

    def __init__(self, crew: Crew, name: str, instance_id: str | None, settings: Settings) -> None:
        self.crew = crew
        self.name = name
        self.instance_id = instance_id
        self.owned: set[Place] = set()
        settings = {
            "bootstrap.servers": crew.address,
            "client.id": name,
            "group.id": crew.group,
            "topic.metadata.refresh.interval.ms": 30,  # the client looks up from its sleep so often, at heartbeats too
            "enable.auto.commit": False,
            "log_level": 0,
            **settings,
        }
        if instance_id is not None:
            settings["group.instance.id"] = instance_id
        self.consumer = RemoteConsumer(settings, crew.topics, self._note)

    def _note(self, told: Told) -> None:
        self.owned = (self.owned | told.gained) - told.lost
        self.crew.events.append(Event(told.time, self, told.member_id, told.gained, told.lost))

    def close(self) -> None:
        began = time.time()
        self.consumer.close()
        if self.consumer.was_killed:  # it believes nothing from then on
            self.crew.events.append(Event(began, self, "", frozenset(), frozenset(self.owned)))
            self.crew.events.sort(key=lambda event: event.time)


class Crew:
    """The members of one group, polled in turn. `places`: what they shall own together."""

    def __init__(
        self, address: str, group: str, rng: random.Random, settings: Settings, topics: Sequence[str],
        places: Sequence[Place], steps: tuple[int, int] = (-5, 9),
    ) -> None:  # fmt: skip
        """`steps`: by how much an offset differs from the one committed before."""
        self.address = address
        self.group = group
        self.topics = list(topics)
        self.places = set(places)
        self.settings = settings  # of members that come
        self.members: list[Member] = []
        self.events: list[Event] = []
        self.settled: list[Settled] = []
        self._offsets: dict[Place, int] = {}
        self._steps = steps
        self._rng = rng
        self._numbers = count(1)
        self._static_is_here = False
        self._settled_since: float | None = None

    def turn(self, *, is_over: bool = False) -> bool:
        """Poll everybody. When all have their partitions, they commit, rest for a turn, and one comes or goes.

        Whether they are at rest. When the story is over, they stay so.
        """
        for member in self.members:
            member.consumer.poll(0.002)
        if not self.members:
            self._act()
        elif not self._is_settled():
            self._settled_since = None
        elif self._settled_since is None:
            self._settled_since = time.time() if self._commit() else None
        elif not is_over:
            self.remember()
            self._act()
        return self._settled_since is not None

    def settle(self, deadline: float) -> None:
        """For stories with a script: until all have their partitions, have committed, and have rested for a turn."""
        turns = 0
        while turns < 2:
            assert time.monotonic() < deadline, (self.group, [member.owned for member in self.members])
            turns = turns + 1 if self.turn(is_over=True) else 0
        self.remember()

    def remember(self) -> None:
        """The members were at rest until now, unless somebody was told something meanwhile."""
        start, end = self._settled_since or time.time(), time.time()
        self._settled_since = None
        if not any(start <= event.time <= end for event in self.events):
            owners = {place: member.consumer.member_id() for member in self.members for place in member.owned}
            self.settled.append(Settled(start, end, owners, dict(self._offsets)))

    def _act(self) -> None:
        """One member comes or goes; a static one goes without leaving, and comes back."""
        if len(self.members) >= MAX_MEMBERS or (len(self.members) > 1 and self._rng.random() < 0.5):
            self.close(self._rng.choice(self.members))
        else:
            self.join(None if self._static_is_here else STATIC)

    def join(self, instance_id: str | None = None) -> Member:
        self._static_is_here = self._static_is_here or instance_id is not None
        member = Member(self, f"{self.group}-{next(self._numbers)}", instance_id, self.settings)
        self.members.append(member)
        return member

    def close(self, member: Member) -> None:
        self.members.remove(member)
        member.close()
        if member.instance_id is not None:  # it stays a member of the group until it is back
            self.members.append(Member(self, member.name, member.instance_id, self.settings))

    def leave(self, member: Member) -> None:
        """Also a static member does not come back."""
        self.members.remove(member)
        member.close()

    def kill(self, member: Member) -> None:
        """Its session has to expire before somebody else gets its partitions."""
        self.members.remove(member)
        began = time.time()
        member.consumer.kill()
        self.events.append(Event(began, member, "", frozenset(), frozenset(member.owned)))

    def _is_settled(self) -> bool:
        owned = [place for member in self.members for place in member.owned]
        return sorted(owned) == sorted(self.places) and all(member.owned for member in self.members)

    def _commit(self) -> bool:
        """False if a rebalance is going on that the members have not noticed."""
        for member in self.members:
            offsets = {
                place: max(0, self._offsets.get(place, 5) + self._rng.randint(*self._steps))
                for place in sorted(member.owned)
            }
            try:
                member.consumer.commit(offsets)
            except ConsumerFailed as problem:
                if problem.code not in REBALANCING:
                    raise
                return False
            self._offsets |= offsets
        return True

    def is_empty_after_one_more_left(self) -> bool:
        """Leave one by one, each while all are at rest, since librdkafka may hang in a close during a rebalance.

        The static one is the last, since its partitions go to nobody.
        """
        if self.members and self.turn(is_over=True):
            self.leave(min(self.members, key=lambda member: member.instance_id is not None))
        return not self.members

    def believed_at(self, moment: float) -> dict[Place, str]:
        """What members believed to own, by what they were told until then."""
        believed: dict[Place, str] = {}
        owner: dict[Place, Member] = {}
        for event in self.events:
            if event.time > moment:
                break
            for place in event.lost:
                if owner.get(place) is event.member:
                    del owner[place], believed[place]
            for place in event.gained:
                owner[place], believed[place] = event.member, event.member_id
        return believed
