"""Heartbeats that recur are answered by a pulse, and whatever happens around them, as the normal handler would."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from kohort.coordinator.config import ConsumerGroupSettings
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.group import Pulse
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import response_encoder
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.coordinator.consumer.words import Answer, Group, a_group, next_target
from tests.coordinator.members import commit
from tests.coordinator.support import Call, FakeTopics, Host
from tests.coordinator.test_recurring_commit import log_of

ENCODE = response_encoder(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)


# --- random stories


class CountingHost(Host):
    """Counts the heartbeats that a pulse has answered."""

    beats = 0

    def _beat(self, raw: bytes) -> Any:
        response = super()._beat(raw)
        self.beats += response is not None
        return response


class Story:
    """The same happens on two hosts, one of which has the fast path.

    Either members bring regular expressions, or somebody sets the clock: topics are looked through again after a time
    that the normal handler counts on the wall clock, and a pulse on the steady one.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.has_regexes = seed % 2 == 1
        topics = {"orders": 6, "payments": 2}
        self.hosts = [
            CountingHost(
                topics=FakeTopics(**topics), partition_count=2, knows_again=knows,
                consumer_regex_refresh_interval_ms=60_000,
            )
            for knows in (True, False)
        ]  # fmt: skip
        self.groups = [Group(host) for host in self.hosts]
        self.calls: list[list[Call]] = [[], []]

    def happen(self) -> None:
        for _ in range(60):
            members = [(f"m{number}", self.random.randrange(3)) for number in range(4)]
            for _ in range(self.random.randrange(1, 5)):
                for member_id, how in members:
                    self._beat(member_id, how)
                self._pass(self.random.choice([0, 1, 500, 3_000, 5_000]))
            self._disturb()
        for host in self.hosts:
            host.disk_catches_up()

    def _beat(self, member_id: str, how: int) -> None:
        """`how` much it says: nothing, what it has, or everything."""
        member = self.known(member_id)
        if member is None:
            return
        name_of = self.hosts[1].topics.name_of
        owned = {name: list(parts) for topic, parts in member.assigned.items() if (name := name_of(topic))}
        said: dict[str, Any] = {"owned": owned} if how else {}
        if how == 2:
            said |= {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": list(member.topic_names)}
        self._send(member_id, member.epoch, **said, instance_id=member.instance_id)

    def known(self, member_id: str) -> Any:
        """The member, as the host without a fast path has it."""
        group = self.hosts[1].state_of("billing").groups.get("billing")
        return group.members.get(member_id) if isinstance(group, ConsumerGroup) else None

    def _send(self, member_id: str, epoch: int, **said: Any) -> None:
        for group, calls in zip(self.groups, self.calls, strict=True):
            calls.append(group.send(member_id, epoch, **said))

    def _pass(self, ms: int) -> None:
        for host in self.hosts:
            host.advance(ms)

    def _disturb(self) -> None:
        random = self.random
        what = random.choice(
            ["join", "join", "leave", "wish", "commit", "settings", "topic", "grow", "clock", "crash", "slow", "fail",
             "silence", "nothing", "nothing", "nothing"]
        )  # fmt: skip
        number = random.randrange(4)
        member_id, instance_id = f"m{number}", f"i{number}" if number == 0 else None
        epoch = getattr(self.known(member_id), "epoch", 2)
        if what == "join":
            wish: dict[str, Any] = {"subscribed_topic_names": ["orders"]}
            if self.has_regexes and random.randrange(2):
                wish = {"subscribed_topic_regex": "ord.*|t.*"}
            self._send(member_id, 0, owned={}, rebalance_timeout_ms=60_000, instance_id=instance_id, **wish)
        elif what == "leave":
            self._send(member_id, random.choice([-1, -2]) if instance_id else -1, instance_id=instance_id)
        elif what == "wish":
            self._send(member_id, epoch, subscribed_topic_names=random.choice([["orders"], ["orders", "payments"]]))
        elif what == "silence":
            self._pass(random.choice([44_000, 60_001]))
        else:
            grown, ms = 6 + random.randrange(3), random.choice([-1, 1]) * random.randrange(20_000)
            for host, calls in zip(self.hosts, self.calls, strict=True):
                self._change(host, calls, what, member_id, epoch, grown, ms)

    def _change(
        self, host: Host, calls: list[Call], what: str, member_id: str, epoch: int, grown: int, ms: int
    ) -> None:
        if what == "fail" and host.disk.on_the_way:
            host.disk_fails()
            host.load()
        host.disk_catches_up()
        match what:
            case "commit":
                for offset in range(3):
                    offsets = {("orders", 0): offset}
                    calls.append(commit(host, "billing", offsets, generation=epoch, member_id=member_id))
            case "settings":
                interval_ms = 5_000 + abs(ms) // 10
                own = ConsumerGroupSettings(heartbeat_interval_ms=interval_ms, session_timeout_ms=45_000 + grown)
                host.runtime.consumer.change_group("billing", own)
            case "topic":
                if host.topics.topic_id("t1"):
                    host.delete_topic("t1")
                else:
                    host.topics.create("t1", 1)
            case "grow" if grown > host.topics.partition_count("orders"):
                host.topics.grow("orders", grown)
            case "clock" if not self.has_regexes:
                host.set_clock(ms)
            case "crash":
                host.crash()
            case "slow":
                host.disk.is_slow = True


def waited_in_vain(call: Call) -> bool:
    """Unlike a pulse, the normal handler's answer waits for a write of its shard, and that has failed."""
    return getattr(call.answer, "error_code", ErrorCode.NONE) == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("seed", range(40))
def test_what_a_pulse_says_and_leaves_is_what_the_normal_handler_does(seed: int) -> None:
    story = Story(seed)
    story.happen()
    quick, plain = story.hosts
    for left, right in zip(*story.calls, strict=True):
        assert left.is_answered == right.is_answered
        if left.is_answered and not waited_in_vain(right):
            assert left.answer == right.answer
            if left.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
                assert bytes(ENCODE(left.answer)) == bytes(ENCODE(right.answer))
    assert story.groups[0].describe() == story.groups[1].describe()
    assert log_of(quick) == log_of(plain)


def test_most_heartbeats_of_the_stories_take_the_fast_path() -> None:
    beats = total = 0
    for seed in range(5):
        story = Story(seed)
        story.happen()
        beats += story.hosts[0].beats
        total += len(story.calls[0])
        assert story.hosts[1].beats == 0
    assert beats > total / 4


# --- one by one


def pulse_of(group: Group, member_id: str = "m1", epoch: int = 2, instance_id: str | None = None) -> Pulse | None:
    request = ConsumerGroupHeartbeatRequest("billing", member_id, epoch)
    request.instance_id = instance_id
    return group.host.runtime.pulse(request)


def at_rest(**fields: Any) -> tuple[Group, Pulse]:
    group = a_group()
    group.join("m1", **fields)
    group.beat("m1", 2, instance_id=fields.get("instance_id"))
    next_target(group)
    pulse = pulse_of(group)
    assert pulse is not None
    assert pulse.beats(group.host.steady_ms)
    return group, pulse


def somebody_joins(group: Group) -> None:
    group.join("m2")


def it_leaves(group: Group) -> None:
    group.leave("m1")


def its_session_ends(group: Group) -> None:
    group.host.advance(45_000)


def it_leaves_for_a_while(group: Group) -> None:
    group.leave("m1", -2, instance_id="i1")


def it_wants_something_else(group: Group) -> None:
    group.beat("m1", 2, subscribed_topic_names=["payments"])


def it_says_another_rack(group: Group) -> None:
    group.beat("m1", 2, rack_id="r2")


def a_topic_is_created(group: Group) -> None:
    group.host.topics.create("another", 1)


def a_setting_changes(group: Group) -> None:
    group.host.runtime.consumer.change_group("billing", ConsumerGroupSettings(heartbeat_interval_ms=6_000))


def a_write_fails(group: Group) -> None:
    group.host.disk.is_slow = True
    group.send("m2", 0, {}, rebalance_timeout_ms=1, subscribed_topic_names=[])
    group.host.disk_fails()


def the_group_is_another_object(group: Group) -> None:
    group.host.state_of("billing").replace(ConsumerGroup("billing"))


def the_disk_stalls(group: Group) -> None:
    group.host.disk.is_slow = True
    commit(group.host, "billing", {("orders", 0): 1}, generation=2, member_id="m1")
    group.host.advance(2_000)


@pytest.mark.parametrize(
    "event",
    [
        somebody_joins, it_leaves, its_session_ends, it_leaves_for_a_while, it_wants_something_else,
        it_says_another_rack, a_topic_is_created, a_setting_changes, a_write_fails,
        the_group_is_another_object, the_disk_stalls,
    ],
)  # fmt: skip
def test_a_pulse_is_no_answer_any_more_when(event: Callable[[Group], None]) -> None:
    group, pulse = at_rest(instance_id="i1")
    event(group)
    assert not pulse.beats(group.host.steady_ms)


def test_who_speaks_under_another_name_or_epoch_has_no_pulse() -> None:
    group, _ = at_rest(instance_id="i1")
    assert pulse_of(group, "m2") is None
    assert pulse_of(group, epoch=3) is None
    assert pulse_of(group, epoch=0) is None
    assert pulse_of(group, epoch=-1) is None
    assert pulse_of(group, instance_id="i2") is None
    assert pulse_of(group, instance_id="i1") is not None


def test_a_member_on_its_way_has_no_pulse() -> None:
    group, _ = at_rest()
    group.join("m2")
    group.beat("m1", 2)
    assert pulse_of(group) is None
    assert pulse_of(group, "m2", 3) is None
    group.beat("m1", 2, {"orders": [0, 1]})
    assert pulse_of(group, epoch=3) is not None


def test_a_pulse_begins_only_when_all_is_durable() -> None:
    group, _ = at_rest()
    group.host.disk.is_slow = True
    commit(group.host, "billing", {("orders", 0): 1}, generation=2, member_id="m1")
    assert pulse_of(group) is None
    group.host.disk_catches_up()
    assert pulse_of(group) is not None


def test_a_pulse_keeps_the_session_alive() -> None:
    group, pulse = at_rest()
    for _ in range(10):
        group.host.advance(44_999)
        assert pulse.beats(group.host.steady_ms)
    group.host.advance(45_000)
    assert group.state == "Empty"


def test_members_with_a_regular_expression_have_the_fast_path_until_topics_must_be_looked_through() -> None:
    group = a_group(consumer_regex_refresh_interval_ms=60_000)
    group.join("m1", None, subscribed_topic_regex="ord.*")
    assert group.beat("m1", 1) == Answer(2, {"orders": [0, 1, 2]})
    group.host.advance(11_000)
    pulse = pulse_of(group)
    assert pulse is not None
    for _ in range(4):
        assert pulse.beats(group.host.steady_ms)
        group.host.advance(10_000)
    assert pulse.beats(group.host.steady_ms)
    group.host.advance(10_000)
    assert not pulse.beats(group.host.steady_ms)


def test_commits_do_not_move_the_session_on_either_path() -> None:
    group, _ = at_rest()
    for offset in range(44):
        group.host.advance(1_000)
        call = commit(group.host, "billing", {("orders", 0): offset}, generation=2, member_id="m1")
        assert call.answer.topics[0].partitions[0].error_code == 0
    group.host.advance(1_000)
    assert group.beat("m1", 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_commits_of_a_member_have_a_fast_path_in_its_epoch_alone() -> None:
    group, _ = at_rest()
    shard = group.host.state_of("billing")
    known = group.object
    assert known.commit_pulse(shard, "m1", None, 3) is None
    assert known.commit_pulse(shard, "m2", None, 2) is None
    pulse = known.commit_pulse(shard, "m1", None, 2)
    assert pulse is not None
    assert pulse.beats(group.host.steady_ms)
    group.beat("m1", 2, rack_id="r2")
    assert not pulse.beats(group.host.steady_ms)
