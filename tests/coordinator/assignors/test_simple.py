"""The simple assignor of share groups (KIP-932): against that of Kafka's coordinator, and the promises it keeps."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.coordinator.api import all_steps
from kohort.coordinator.assignors.server_side import Subscriber, Target, Targets, TopicId
from kohort.coordinator.assignors.simple import SharingGroup, assign_simply
from tests.coordinator.assignors.server_groups import World, in_order_of_a_map, pairs, target_text, told, written
from tests.kafka.jars import java

PROGRAM = Path(__file__).parents[2] / "clients" / "java" / "ServerAssignors.java"
SEED = 932
WORLDS = 300
ONE, TWO = bytes(15) + b"\x01", bytes(15) + b"\x02"


class SharingWorld(World):
    """Some partitions are not initialized yet. Kafka's assignor takes small topics and many members, too."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.not_initialized: set[tuple[TopicId, int]] = set()
        self._forget_some()

    def _count(self) -> int:
        return self._random.choice((1, 1, 2, 3, 4, 6, 10, 20, 60))

    def _start_from_any_target(self) -> None:
        """A partition may have several members."""
        owned: dict[str, dict[TopicId, list[int]]] = {member_id: {} for member_id in self.subscribers}
        for topic, count in self.counts.items():
            for partition in self._random.sample(range(count), count):
                for member_id in self._random.sample(
                    list(owned), min(self._random.choice((0, 1, 1, 2, 5)), len(owned))
                ):
                    owned[member_id].setdefault(topic, []).append(partition)
        self.keep({member_id: dict(target) for member_id, target in owned.items()})

    def _forget_some(self) -> None:
        """Not what a member has: then Kafka's assignor can fail, and it never comes to that."""
        if self._random.random() < 0.3:
            held = set(pairs([member.target for member in self.subscribers.values()]))
            all_places = [(topic, each) for topic, count in self.counts.items() for each in range(count)]
            places = [place for place in all_places if place not in held]
            self.not_initialized = set(self._random.sample(places, self._random.randint(0, len(places))))

    def pass_time(self) -> None:
        super().pass_time()
        self.not_initialized = set()  # none of them is ever lost: all are initialized some time later

    def sharing_group(self) -> SharingGroup:
        assignable = {
            topic: [each for each in range(count) if (topic, each) not in self.not_initialized]
            for topic, count in self.counts.items()
        }
        return SharingGroup(in_order_of_a_map(self.subscribers), assignable, self.is_equal)


def shared_out(group: SharingGroup) -> Targets:
    targets = all_steps(assign_simply(group))
    return {member_id: targets.get(member_id, {}) for member_id in group.members}


# --- against Kafka


@pytest.mark.kafka
def test_everybody_gets_what_kafkas_coordinator_would_give() -> None:
    """Also the order is the same in which targets are written to the log: it decides what is taken away later."""
    random = Random(SEED)
    lines: list[str] = []
    ours: list[list[tuple[str, str]]] = []
    unchanged: list[set[str]] = []
    for _ in range(WORLDS):
        world = SharingWorld(random)
        for _ in range(random.choice((1, 2, 3, 5))):
            lines += [f"not {written(topic)} {partition}" for topic, partition in world.not_initialized]
            lines += told("simple", world)
            before = {member_id: member.target for member_id, member in world.subscribers.items()}
            targets = shared_out(world.sharing_group())
            same = {each for each in targets if pairs([targets[each]]) == pairs([before[each]])}
            ours.append([(each, "" if each in same else target_text(targets[each])) for each in targets])
            unchanged.append(same)
            world.keep(targets)
            world.pass_time()
    answers = java(str(PROGRAM), stdin="\n".join(lines) + "\n").splitlines()
    assert len(answers) == len(ours)
    for mine, kafkas, same in zip(ours, answers, unchanged, strict=True):
        words = kafkas.split(" ")
        theirs = [(each, "" if each in same else text) for each, text in zip(words[::2], words[1::2], strict=True)]
        assert mine == theirs


# --- what it promises


@st.composite
def worlds(draw: st.DrawFn) -> SharingWorld:
    return SharingWorld(Random(draw(st.integers(0, 2**32))))


@settings(deadline=None)
@given(worlds(), st.integers(0, 3))
def test_nobody_gets_what_it_does_not_want_if_all_want_the_same(world: SharingWorld, rounds: int) -> None:
    world.is_equal = True
    for _ in range(rounds + 1):
        _want_all(world)
        targets = shared_out(world.sharing_group())
        for member_id, target in targets.items():
            assert set(target) <= set(world.subscribers[member_id].topics)
            assert all(len(set(numbers)) == len(numbers) for numbers in target.values())
        world.keep(targets)
        world.pass_time()


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.randoms(use_true_random=False))
def test_a_new_group_shares_each_partition_among_equally_many_members(
    members: int, partitions: int, random: Random
) -> None:
    ids = [f"m{random.random()}-{each}" for each in range(members)]
    group = SharingGroup(in_order_of_a_map(dict.fromkeys(ids, Subscriber([ONE]))), {ONE: range(partitions)}, True)
    targets = shared_out(group)
    sharing = -(-members // partitions)
    holders = _holders(targets)
    assert set(holders) == {(ONE, each) for each in range(partitions)}
    assert max(holders.values()) == sharing
    loads = [len(pairs([target])) for target in targets.values()]
    assert min(loads) >= 1
    assert max(loads) <= -(-sharing * partitions // members)


@settings(deadline=None)
@given(worlds(), st.integers(0, 4))
def test_every_partition_has_a_member_and_none_has_too_many(world: SharingWorld, rounds: int) -> None:
    world.is_equal = True
    world.not_initialized = set()
    for _ in range(rounds + 1):
        _want_all(world)
        places = {(topic, each) for topic, count in world.counts.items() for each in range(count)}
        targets = shared_out(world.sharing_group())
        sharing = -(-len(world.subscribers) // len(places))
        holders = _holders(targets)
        assert set(holders) == places
        assert max(holders.values()) <= sharing
        quota = -(-sharing * len(places) // len(world.subscribers))
        assert max(len(pairs([target])) for target in targets.values()) <= quota
        world.keep(targets)
        world.pass_time()


@settings(deadline=None)
@given(worlds())
def test_nothing_moves_if_nothing_has_changed(world: SharingWorld) -> None:
    """A member that was one short of its quota may still get what it could not have in the first round."""
    world.keep(shared_out(world.sharing_group()))
    again = shared_out(world.sharing_group())
    for member_id, member in world.subscribers.items():
        assert set(pairs([member.target])) <= set(pairs([again[member_id]]))


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(1, 60), st.randoms(use_true_random=False))
def test_when_one_leaves_nobody_below_its_quota_loses_a_partition(
    members: int, partitions: int, random: Random
) -> None:
    ids = [f"m{random.random()}-{each}" for each in range(members + 1)]
    fresh = SharingGroup(in_order_of_a_map(dict.fromkeys(ids, Subscriber([ONE]))), {ONE: range(partitions)}, True)
    targets = shared_out(fresh)
    gone = random.choice(ids)
    left = {each: Subscriber([ONE], targets[each]) for each in ids if each != gone}
    after = shared_out(SharingGroup(in_order_of_a_map(left), {ONE: range(partitions)}, True))
    sharing_before, sharing = -(-len(ids) // partitions), -(-members // partitions)
    if sharing_before == sharing and partitions % len(ids) == partitions % members == 0:
        for member_id in left:
            assert set(targets[member_id].get(ONE, ())) <= set(after[member_id].get(ONE, ()))
    assert set(_holders(after)) == {(ONE, each) for each in range(partitions)}


def test_three_members_share_two_partitions() -> None:
    members = dict.fromkeys(("a", "b", "c"), Subscriber([ONE]))
    targets = shared_out(SharingGroup(members, {ONE: range(2)}, has_equal_subscriptions=True))
    assert {each: list(target[ONE]) for each, target in targets.items()} == {"a": [0, 1], "b": [1], "c": [0]}


def test_members_with_different_wishes_share_each_topic_by_itself() -> None:
    members = {"a": Subscriber([ONE]), "b": Subscriber([TWO]), "c": Subscriber([ONE, TWO])}
    targets = shared_out(SharingGroup(members, {ONE: range(4), TWO: range(2)}, has_equal_subscriptions=False))
    assert {each: {topic: len(numbers) for topic, numbers in target.items()} for each, target in targets.items()} == {
        "a": {ONE: 2},
        "b": {TWO: 1},
        "c": {ONE: 2, TWO: 1},
    }


def test_a_partition_that_is_not_initialized_is_nobodys() -> None:
    members = dict.fromkeys(("a", "b"), Subscriber([ONE]))
    targets = shared_out(SharingGroup(members, {ONE: [2]}, has_equal_subscriptions=True))
    assert [list(target[ONE]) for target in targets.values()] == [[2], [2]]
    assert shared_out(SharingGroup(members, {ONE: []}, has_equal_subscriptions=True)) == {"a": {}, "b": {}}


def test_nobody_is_assigned_anything_in_a_group_without_members_or_topics() -> None:
    assert shared_out(SharingGroup({}, {}, has_equal_subscriptions=True)) == {}
    for is_equal in (True, False):
        assert shared_out(SharingGroup({"a": Subscriber([])}, {}, is_equal)) == {"a": {}}


def _want_all(world: SharingWorld) -> None:
    topics = list(world.counts)
    world.subscribers = {
        member_id: Subscriber(topics, member.target) for member_id, member in world.subscribers.items()
    }


def _holders(targets: dict[str, Target] | Targets) -> Counter[tuple[TopicId, int]]:
    return Counter(place for target in targets.values() for place in pairs([target]))
