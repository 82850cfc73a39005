"""The server-side assignors (KIP-848): against those of Kafka's coordinator, and the promises that they keep."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.coordinator.assignors.java_order import timeline_capacity, timeline_order
from kohort.coordinator.assignors.server_side import ServerGroup, Subscriber, Targets
from tests.coordinator.assignors.server_groups import (
    World,
    assigned,
    in_order_of_a_map,
    pairs,
    target_text,
    told,
)
from tests.kafka.jars import java

PROGRAM = Path(__file__).parents[2] / "clients" / "java" / "ServerAssignors.java"
SEED = 848
WORLDS = 300
FIRST_CAPACITY = 2  # of a TimelineHashMap


# --- against Kafka


@pytest.mark.kafka
def test_everybody_gets_what_kafkas_coordinator_would_give() -> None:
    """Also the order is the same in which targets are written to the log: it decides what is taken away later."""
    random = Random(SEED)
    lines: list[str] = []
    ours: list[str] = []
    unchanged: list[set[str]] = []
    for _ in range(WORLDS):
        world = World(random)
        for _ in range(random.choice((1, 2, 3))):
            lines += told(world.assignor, world)
            before = {member_id: member.target for member_id, member in world.subscribers.items()}
            targets = assigned(world.assignor, world.group())
            ours.append(_answer(targets))
            unchanged.append({each for each in targets if pairs([targets[each]]) == pairs([before[each]])})
            world.keep(targets)
            world.pass_time()
    answers = java(str(PROGRAM), stdin="\n".join(lines) + "\n").splitlines()
    assert len(answers) == len(ours)
    for mine, kafkas, same in zip(ours, answers, unchanged, strict=True):
        assert _by_member(mine, same) == _by_member(kafkas, same)


def _answer(targets: Targets) -> str:
    return " ".join(f"{member_id} {target_text(target)}" for member_id, target in targets.items())


def _by_member(answer: str, unchanged: set[str]) -> list[tuple[str, str]]:
    """A target that stays as it was is not written, so that its order does not matter."""
    words = answer.split(" ")
    return [
        (member_id, "unchanged" if member_id in unchanged else target)
        for member_id, target in zip(words[::2], words[1::2], strict=True)
    ]


@pytest.mark.kafka
def test_members_come_in_the_order_of_kafkas_timeline_hash_map() -> None:
    random = Random(SEED)
    lines: list[str] = []
    ours = []
    for _ in range(200):
        members: dict[str, None] = {}
        capacity = FIRST_CAPACITY
        for _ in range(random.randint(1, 60)):
            if members and random.random() < 0.3:
                gone = random.choice(list(members))
                del members[gone]
                lines.append(f"remove {gone}")
                continue
            is_known = members and random.random() < 0.3
            member_id = random.choice(list(members)) if is_known else f"m{random.randrange(10**9)}"
            capacity = timeline_capacity(capacity, len(members) + 1)
            members.setdefault(member_id)
            lines.append(f"put {member_id}")
        lines.append("keys")
        ours.append(" ".join(timeline_order(members, capacity)))
    assert java(str(PROGRAM), stdin="\n".join(lines) + "\n").splitlines() == ours


# --- what they promise


@st.composite
def worlds(draw: st.DrawFn) -> World:
    return World(Random(draw(st.integers(0, 2**32))))


@settings(deadline=None)
@given(worlds(), st.integers(0, 3))
def test_each_partition_of_a_subscribed_topic_has_one_owner_who_subscribes_to_it(world: World, rounds: int) -> None:
    for _ in range(rounds + 1):
        targets = assigned(world.assignor, world.group())
        subscribed = {topic for member in world.subscribers.values() for topic in member.topics}
        wanted = sorted((topic, number) for topic in subscribed for number in range(world.counts[topic]))
        assert pairs(targets.values()) == wanted
        for member_id, target in targets.items():
            assert set(target) <= set(world.subscribers[member_id].topics)
        world.keep(targets)
        world.pass_time()


@settings(deadline=None)
@given(worlds(), st.integers(0, 3))
def test_loads_differ_by_one_at_most_if_all_subscribe_to_the_same(world: World, rounds: int) -> None:
    world.is_equal = True
    topics = list(world.counts)
    for _ in range(rounds + 1):
        world.subscribers = {
            member_id: Subscriber(topics, member.target, member.instance_id)
            for member_id, member in world.subscribers.items()
        }
        targets = assigned("uniform", world.group())
        loads = [len(pairs([target])) for target in targets.values()]
        assert max(loads) - min(loads) <= 1
        world.keep(targets)
        world.pass_time()


@settings(deadline=None)
@given(worlds())
def test_nothing_moves_if_nothing_has_changed(world: World) -> None:
    world.keep(assigned(world.assignor, world.group()))
    again = assigned(world.assignor, world.group())
    assert {each: pairs([again[each]]) for each in again} == {
        member_id: pairs([member.target]) for member_id, member in world.subscribers.items()
    }


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(1, 100), st.randoms(use_true_random=False))
def test_when_one_leaves_only_its_partitions_move(members: int, partitions: int, random: Random) -> None:
    topic = bytes(15) + b"\x01"
    ids = [f"m{random.random()}" for _ in range(members + 1)]
    group = _equal(dict.fromkeys(ids, Subscriber([topic])), topic, partitions)
    targets = assigned("uniform", group)
    gone = random.choice(ids)
    left = {each: Subscriber([topic], targets[each]) for each in ids if each != gone}
    after = assigned("uniform", _equal(left, topic, partitions))
    for member_id in left:
        assert set(targets[member_id].get(topic, ())) <= set(after[member_id].get(topic, ()))


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(1, 100), st.randoms(use_true_random=False))
def test_when_one_joins_it_gets_its_share_and_nobody_else_gets_more(
    members: int, partitions: int, random: Random
) -> None:
    topic = bytes(15) + b"\x01"
    ids = [f"m{random.random()}" for _ in range(members)]
    targets = assigned("uniform", _equal(dict.fromkeys(ids, Subscriber([topic])), topic, partitions))
    grown = {each: Subscriber([topic], targets[each]) for each in ids} | {"new": Subscriber([topic])}
    after = assigned("uniform", _equal(grown, topic, partitions))
    for member_id in ids:
        assert set(after[member_id].get(topic, ())) <= set(targets[member_id].get(topic, ()))


@settings(deadline=None)
@given(worlds(), st.integers(0, 3))
def test_nobody_below_its_share_loses_a_partition(world: World, rounds: int) -> None:
    """uniform, if all subscribe to the same: whatever moves comes from a member that has more than the others."""
    world.is_equal = True
    for _ in range(rounds + 1):
        _subscribe_all(world)
        share = sum(world.counts.values()) // len(world.subscribers)
        targets = assigned("uniform", world.group())
        for member_id, member in world.subscribers.items():
            before = set(pairs([member.target]))
            if len(before) <= share:
                assert before <= set(pairs([targets[member_id]]))
        world.keep(targets)
        world.pass_time()


def _subscribe_all(world: World) -> None:
    topics = list(world.counts)
    world.subscribers = {
        member_id: Subscriber(topics, member.target, member.instance_id)
        for member_id, member in world.subscribers.items()
    }


@settings(deadline=None)
@given(worlds(), st.integers(0, 3))
def test_a_partition_goes_only_to_a_member_that_ends_with_no_more_than_the_giver(world: World, rounds: int) -> None:
    """uniform, whoever subscribes to what; one more, if the number of partitions does not come out even."""
    world.assignor = "uniform"
    for _ in range(rounds + 1):
        targets = assigned("uniform", world.group())
        loads = {member_id: len(pairs([target])) for member_id, target in targets.items()}
        owner = {place: member_id for member_id, target in targets.items() for place in pairs([target])}
        for member_id, member in world.subscribers.items():
            for place in pairs([member.target]):
                if place[0] in member.topics and owner[place] != member_id:
                    assert loads[owner[place]] <= loads[member_id] + 1
        world.keep(targets)
        world.pass_time()


@settings(deadline=None)
@given(worlds())
def test_range_gives_each_subscriber_of_a_topic_one_range_of_the_same_length_or_one_more(world: World) -> None:
    targets = assigned("range", world.group())
    for topic, count in world.counts.items():
        subscribers = [each for each, member in world.subscribers.items() if topic in member.topics]
        ranges = [sorted(targets[each].get(topic, ())) for each in subscribers]
        assert all(each == list(range(each[0], each[0] + len(each))) for each in ranges if each)
        lengths = [len(each) for each in ranges]
        assert not lengths or (max(lengths) - min(lengths) <= 1 and sum(lengths) == count)


@settings(deadline=None)
@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_members_changes_no_range_and_no_load(world: World, random: Random) -> None:
    """Ranges go by ids. uniform may give a member another partition then, but everybody as many as before."""
    world.is_equal = True
    _subscribe_all(world)
    shuffled = list(world.subscribers)
    random.shuffle(shuffled)
    group = world.group()
    other = ServerGroup({each: world.subscribers[each] for each in shuffled}, group.partition_counts, True)
    ranges = assigned("range", group)
    assert {each: pairs([target]) for each, target in assigned("range", other).items()} == {
        each: pairs([target]) for each, target in ranges.items()
    }
    one, two = (sorted(len(pairs([t])) for t in assigned("uniform", each).values()) for each in (group, other))
    assert one == two


def _equal(members: dict[str, Subscriber], topic: bytes, partitions: int) -> ServerGroup:
    return ServerGroup(in_order_of_a_map(members), {topic: partitions}, has_equal_subscriptions=True)


def test_range_cuts_topics_of_the_same_size_at_the_same_places() -> None:
    one, two = bytes(15) + b"\x01", bytes(15) + b"\x02"
    members = {name: Subscriber([one, two]) for name in ("b", "a", "c")}
    targets = assigned("range", ServerGroup(members, {one: 5, two: 5}, has_equal_subscriptions=True))
    assert {name: [list(part) for part in target.values()] for name, target in targets.items()} == {
        "a": [[0, 1], [0, 1]],
        "b": [[2, 3], [2, 3]],
        "c": [[4], [4]],
    }


def test_range_puts_static_members_first_by_their_instance_ids() -> None:
    topic = bytes(15) + b"\x01"
    members = {"a": Subscriber([topic]), "z": Subscriber([topic], {}, "i1"), "y": Subscriber([topic], {}, "i2")}
    targets = assigned("range", ServerGroup(members, {topic: 3}, has_equal_subscriptions=True))
    assert {name: list(target[topic]) for name, target in targets.items()} == {"z": [0], "y": [1], "a": [2]}
