"""uniform (KIP-848), if members subscribe to different topics: loads come as near to each other as the subscriptions
allow, and members keep as many as possible of the partitions that they had.

1. Everybody keeps what it had and still subscribes to.
2. Free partitions go to the least loaded subscribers, topic by topic: first the topics with the most partitions per
   subscriber, since those leave the least choice.
3. Topic by topic, partitions go from the most to the least loaded subscribers. This is repeated until nothing moves,
   but not more often than MAX_ROUNDS.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from struct import Struct

from kohort.coordinator.api import Steps, in_slices
from kohort.coordinator.assignors.java_order import capacity_for
from kohort.coordinator.assignors.server_side import (
    TOPICS_IN_STEP,
    Assigning,
    Draft,
    ServerGroup,
    Targets,
    TopicId,
    as_many_steps,
)

MAX_ROUNDS = 16
FREE = -1  # the owner of a partition that nobody has
SUBSCRIPTIONS_IN_STEP = 100
PYTHON = 10  # the loops of this module take ten times as long for an element as C code

_signed_words = Struct(">qq").unpack  # Kafka compares topic ids as two signed numbers


def assign_uniformly_unequal(group: ServerGroup) -> Assigning:
    return (yield from _Unequal(group).assign())


class _Unequal:
    def __init__(self, group: ServerGroup) -> None:
        self._group = group
        self._member_ids = list(group.members)
        self._subscribers: dict[TopicId, list[int]] = {}  # by their numbers in _member_ids
        self._owners: dict[TopicId, list[int]] = {}  # by partition
        self._loads = [0] * len(self._member_ids)
        self._drafts: dict[int, Draft] = {}

    def assign(self) -> Assigning:
        yield from self._find_subscribers()
        if not self._subscribers:
            return {}
        yield from self._keep()
        yield from self._give_away()
        yield from self._balance()
        targets: Targets = {}
        for number, (member_id, member) in enumerate(self._group.members.items()):
            draft = self._drafts.get(number)
            targets[member_id] = member.target if draft is None else (yield from draft.target_in_steps())
            yield
        return targets

    def _find_subscribers(self) -> Steps[None]:
        for number, member in enumerate(self._group.members.values()):
            for some in in_slices(member.topics, SUBSCRIPTIONS_IN_STEP):
                for topic in some:
                    self._subscribers.setdefault(topic, []).append(number)
                if len(some) == SUBSCRIPTIONS_IN_STEP:
                    yield
            yield
        for some in in_slices(self._subscribers, TOPICS_IN_STEP):
            for topic in some:
                count = self._group.partition_counts[topic]
                self._owners[topic] = [FREE] * count
                yield from as_many_steps(count)
            yield

    def _keep(self) -> Steps[None]:
        for number, member in enumerate(self._group.members.values()):
            subscribed = frozenset(member.topics)
            yield from as_many_steps(len(subscribed))
            for some in in_slices(member.target.items(), TOPICS_IN_STEP):
                for topic, partitions in some:
                    if topic not in subscribed:
                        (yield from self._draft(number)).remove_topic(topic)
                        continue
                    self._loads[number] += len(partitions)
                    owners = self._owners[topic]
                    for partition in partitions:
                        owners[partition] = number
                    yield from as_many_steps(PYTHON * len(partitions))
                if len(some) == TOPICS_IN_STEP:
                    yield
            yield

    def _give_away(self) -> Steps[None]:
        with_free = [topic for topic, owners in self._owners.items() if FREE in owners]
        for topic in self._ranked(with_free):
            subscribers, owners = self._subscribers[topic], self._owners[topic]
            balancer = _Balancer(self._loads, subscribers)
            yield from as_many_steps(PYTHON * len(subscribers))
            for some in in_slices(enumerate(owners), TOPICS_IN_STEP):
                for partition, owner in some:
                    if owner == FREE:
                        yield from self._give(topic, partition, balancer.next_least_loaded())
                if len(some) == TOPICS_IN_STEP:
                    yield

    def _ranked(self, topics: Sequence[TopicId]) -> list[TopicId]:
        def rank(topic: TopicId) -> tuple[float, int, tuple[int, ...]]:
            subscribers = len(self._subscribers[topic])
            return -self._group.partition_counts[topic] / subscribers, subscribers, _signed_words(topic)

        return sorted(topics, key=rank)

    def _balance(self) -> Steps[None]:
        topics = self._ranked([topic for topic, members in self._subscribers.items() if len(members) > 1])
        last_moved = -1  # index of the last topic in which something moved; 0 after the first topic in any case
        for _ in range(MAX_ROUNDS):
            for index, topic in enumerate(topics):
                if index == last_moved:
                    return  # nothing has moved since this topic was last looked at
                moved = yield from self._balance_topic(topic)
                if moved or last_moved == -1:
                    last_moved = index
                yield

    def _balance_topic(self, topic: TopicId) -> Steps[bool]:
        subscribers, owners = self._subscribers[topic], self._owners[topic]
        loads = [self._loads[number] for number in subscribers]
        yield from as_many_steps(len(loads))
        if max(loads) - min(loads) <= 1:
            return False
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
        balancer = _Balancer(self._loads, subscribers)
        yield from as_many_steps(PYTHON * (len(subscribers) + len(owners)))
        moved = False
        while not balancer.is_balanced():
            giver = balancer.next_most_loaded()
            while giver is not None and not owned.get(giver):
                balancer.leave_out_most_loaded()
                giver = balancer.next_most_loaded()
            if giver is None:
                break
            partition = owned[giver].pop()
            taker = balancer.next_least_loaded()
            if balancer.is_balanced():
                break
            (yield from self._draft(giver)).remove(topic, partition)
            self._loads[giver] -= 1
            yield from self._give(topic, partition, taker)
            moved = True
        return moved

    def _give(self, topic: TopicId, partition: int, number: int) -> Steps[None]:
        fair_share = ceil(self._group.partition_counts[topic] / len(self._subscribers[topic]))
        (yield from self._draft(number)).add(topic, partition, capacity_for(int(fair_share / 0.75) + 1))
        self._owners[topic][partition] = number
        self._loads[number] += 1
        yield

    def _draft(self, number: int) -> Steps[Draft]:
        draft = self._drafts.get(number)
        if draft is None:
            before = self._group.members[self._member_ids[number]].target
            draft = self._drafts[number] = yield from Draft.in_steps(before)
        return draft


class _Balancer:
    """Says who is to give up a partition next, and who is to get it.

    The members are sorted by their loads. Two ranges of them are looked at: the least loaded, from the left, and the
    most loaded, from the right. All members of a range begin with the same load. When each of them has got (or given
    up) one, the range's load rises (or falls) by one, and the range takes in the neighbours that have this load.

    `loads` changes while partitions move, but a range asks only for loads of members outside of it.
    """

    def __init__(self, loads: Sequence[int], members: Sequence[int]) -> None:
        self._loads = loads
        self._members = sorted(members, key=lambda number: (loads[number], number))
        self._least_end = 0
        self._least_load = loads[self._members[0]] - 1
        self._next_least = 0
        self._most_start = self._most_end = len(members)
        self._most_load = loads[self._members[-1]] + 1
        self._next_most = len(members) - 1

    def is_balanced(self) -> bool:
        return self._most_load - self._least_load <= 1

    def next_least_loaded(self) -> int:
        if self._next_least >= self._least_end:
            self._least_load += 1
            while self._least_end < len(self._members) and self._load_at(self._least_end) == self._least_load:
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return self._members[self._next_least - 1]

    def next_most_loaded(self) -> int | None:
        if self._next_most < self._most_start:
            if self._most_end <= self._most_start and self._most_start > 0:
                self._most_load = self._load_at(self._most_start - 1)  # all members of the range were left out
            else:
                self._most_load -= 1
            while self._most_start > 0 and self._load_at(self._most_start - 1) == self._most_load:
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return None
        self._next_most -= 1
        return self._members[self._next_most + 1]

    def leave_out_most_loaded(self) -> None:
        """The member that `next_most_loaded` returned last has nothing to give up."""
        members, place, end = self._members, self._next_most + 1, self._most_end - 1
        members[place], members[end] = members[end], members[place]
        self._most_end -= 1

    def _load_at(self, place: int) -> int:
        return self._loads[self._members[place]]
