"""Heartbeats of classic members in consumer groups are answered by a pulse as the normal handler would answer them."""

from __future__ import annotations

from random import Random

import pytest

from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.protocol.error_codes import ErrorCode
from tests.coordinator.consumer.migrants import ClassicMember, a_classic_group, a_mixed_group
from tests.coordinator.consumer.test_fast_path import CountingHost
from tests.coordinator.consumer.words import Group
from tests.coordinator.support import Call, FakeTopics

NONE, REBALANCE = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS
CONSUMERS = ("new", "newer")


class Migration:
    """A group that has members of both protocols, on a host with the fast path or without it."""

    def __init__(self, seed: int, knows_again: bool) -> None:
        self.random = Random(seed)
        topics = FakeTopics(orders=6, payments=2)
        self.host = CountingHost(topics=topics, partition_count=2, knows_again=knows_again)
        is_static = seed % 3 == 0
        self.group, self.members = a_classic_group("a", "b", "c", partitions=6, host=self.host, static=is_static)
        self.story: list[object] = []
        self.calls: list[Call] = []  # heartbeats; the normal handler lets them wait for what is being written

    def happen(self) -> None:
        for _ in range(60):
            for _ in range(self.random.randrange(1, 4)):
                for member in self.members:
                    self._beat(member)
                self._consumers()
                self.host.advance(self.random.choice([0, 1, 500, 1_000, 3_000]))
            self._disturb()
        self.host.disk_catches_up()

    def _beat(self, member: ClassicMember) -> None:
        call = member.learn().send_heartbeat()
        self.calls.append(call)
        must_join = call.is_answered and call.error is REBALANCE
        if must_join and self.random.randrange(3) and not self.host.disk.is_slow:
            member.say()
            joined = member.join()
            if joined.is_answered and joined.error is NONE:
                synced = member.sync()
                self.story.append((member.name, synced.answer.assignment if synced.is_answered else None))

    def _consumers(self) -> None:
        group = self.host.state_of(self.group.group_id).groups.get(self.group.group_id)
        if not isinstance(group, ConsumerGroup):
            return
        for name in CONSUMERS:
            if (member := group.members.get(name)) is not None:
                name_of = self.host.topics.name_of
                owned = {known: list(parts) for topic, parts in member.assigned.items() if (known := name_of(topic))}
                self.calls.append(self.group.send(name, member.epoch, owned))

    def _disturb(self) -> None:
        host, group, random = self.host, self.group, self.random
        name, member = random.choice(CONSUMERS), random.choice(self.members)
        what = random.choice(
            ["join", "join", "leave", "rejoin", "silence", "grow", "clock", "slow", "fast", "crash", "beat", "nothing"]
        )
        self.story.append(what)
        if what == "join":
            group.send(name, 0, {}, subscribed_topic_names=["orders"], rebalance_timeout_ms=60_000)
        elif what == "leave":
            group.send(name, -1)
        elif what == "rejoin" and not host.disk.is_slow:
            member.say()
            member.join()
        elif what == "silence":
            host.advance(random.choice([4_000, 12_000]))
        elif what == "grow":
            host.topics.grow("orders", host.topics.partition_count("orders") + 1)
        elif what == "clock":
            host.set_clock(random.randrange(-20_000, 20_000))
        elif what == "slow":
            host.disk.is_slow = True
        elif what == "fast":
            host.disk_catches_up()
        elif what == "crash":
            host.disk.is_slow = False
            host.crash()
        elif what == "beat":
            group.send(member.member_id, member.generation)  # in the newer protocol


@pytest.mark.parametrize("seed", range(40))
def test_a_migrating_group_does_the_same_with_the_fast_path_and_without_it(seed: int) -> None:
    fast, slow = Migration(seed, knows_again=True), Migration(seed, knows_again=False)
    fast.happen()
    slow.happen()
    assert fast.story == slow.story
    for one, other in zip(fast.calls, slow.calls, strict=True):
        assert one.is_answered or not other.is_answered
        assert not other.is_answered or one.error is other.error
    assert fast.host.disk.batches == slow.host.disk.batches
    assert slow.host.beats == 0


def test_the_stories_take_the_fast_path() -> None:
    stories = [Migration(seed, knows_again=True) for seed in range(10)]
    for story in stories:
        story.happen()
    assert sum(story.host.beats for story in stories) > 100


def a_group_that_beats() -> tuple[Group, list[ClassicMember]]:
    group, members = a_mixed_group("a", "b")
    assert [member.heartbeat() for member in members] == [NONE, NONE]
    shard = group.host.state_of(group.group_id)
    for member in members:
        assert group.object.pulse(shard, member.member_id, None, member.generation) is not None
    return group, members


def test_a_heartbeat_keeps_the_session_of_a_classic_member_alive() -> None:
    group, (a, b) = a_group_that_beats()
    for _ in range(4):
        group.host.advance(a.session_timeout_ms - 1_000)
        assert a.heartbeat() in (NONE, REBALANCE)
    assert (a.member_id in group.object.members, b.member_id in group.object.members) == (True, False)


def test_a_new_target_ends_the_fast_path_of_a_classic_member() -> None:
    group, (a, _) = a_group_that_beats()
    group.host.advance(1_000)
    group.join("another")
    assert group.object.assignment_epoch > a.generation
    assert a.heartbeat() is REBALANCE


def test_a_member_that_waits_for_partitions_has_no_fast_path() -> None:
    group, (a, _) = a_group_that_beats()
    shard = group.host.state_of(group.group_id)
    group.host.advance(1_000)
    group.join("another")
    assert group.object.pulse(shard, a.member_id, None, a.generation + 1) is None
