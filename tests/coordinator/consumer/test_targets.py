"""Target assignments: when they are computed, by which assignor, and how those of large groups come in pieces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from kohort.coordinator import api
from kohort.coordinator.api import all_steps
from kohort.coordinator.assignors.java_order import timeline_capacity
from kohort.coordinator.assignors.server_side import Targets
from kohort.coordinator.config import ConsumerGroupSettings
from kohort.coordinator.consumer import target
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.subscriptions import Subscriptions
from kohort.coordinator.consumer.target import Plan, moved_partitions
from kohort.coordinator.planning import SMALL_GROUP
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.log_records import (
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
)
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.coordinator.consumer.words import Answer, Group, a_group, next_target
from tests.coordinator.support import FakeTopics, Host


def in_target(group: Group) -> dict[str, dict[str, list[int]]]:
    return {
        member.member_id: {
            topic.topic_name: list(topic.partitions) for topic in member.target_assignment.topic_partitions
        }
        for member in group.describe().members
    }


# --- when


def test_a_target_comes_at_most_once_in_an_interval() -> None:
    group = a_group()
    group.join("m1")
    assert group.join("m2") == Answer(2, {})
    assert (group.state, group.describe().group_epoch, group.describe().assignment_epoch) == ("Assigning", 3, 2)
    group.host.advance(999)
    assert group.beat("m2", 2) == Answer(2, None)
    assert group.state == "Assigning"
    group.host.advance(1)
    assert group.beat("m2", 2) == Answer(3, None)
    assert group.state == "Reconciling"


def test_while_the_target_waits_members_follow_the_old_one() -> None:
    group = a_group()
    group.join("m1")
    next_target(group)
    group.join("m2")
    group.join("m3")
    assert group.beat("m1", 2) == Answer(2, {"orders": [0, 1]})
    assert group.beat("m1", 2, {"orders": [0, 1]}) == Answer(3, None)
    assert group.beat("m2", 3) == Answer(3, {"orders": [2]})
    assert group.state == "Assigning"


def test_an_interval_of_0_means_at_once() -> None:
    group = a_group(consumer=ConsumerGroupSettings(assignment_interval_ms=0))
    group.join("m1")
    assert group.join("m2") == Answer(3, {})
    assert group.join("m3") == Answer(4, {})


def test_a_group_may_have_its_own_interval() -> None:
    group = a_group()
    group.host.runtime.consumer.change_group("billing", ConsumerGroupSettings(assignment_interval_ms=0))
    group.join("m1")
    assert group.join("m2") == Answer(3, {})


def test_the_interval_holds_over_a_restart() -> None:
    group = a_group()
    group.join("m1")
    group.host.crash()
    assert group.join("m2") == Answer(2, {})
    next_target(group)
    assert group.beat("m2", 2) == Answer(3, None)


def test_a_wall_clock_that_is_set_back_does_not_hold_up_the_next_target() -> None:
    group = a_group()
    group.join("m1")
    group.host.set_clock(-3_600_000)
    assert group.join("m2") == Answer(3, {})


def test_only_targets_that_change_are_written() -> None:
    group = a_group(partitions=4)
    group.join("m1")
    next_target(group)
    group.join("m2")
    next_target(group)
    size = len(group.log())
    group.host.topics.create("later", 1)
    group.join("m3", ["payments"])
    records = [(kind, getattr(key, "member_id", None)) for kind, key, _ in group.log(start=size)]
    written = [member_id for kind, member_id in records if kind == CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER]
    assert written == ["m3"]
    assert (CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, None) in records


# --- in which order


@pytest.mark.parametrize(
    ("replaced", "order"),
    [
        # In these orders Java's own HashMap goes through its keys.
        ("b", "cdefgxijklmn"),
        ("m", "bcdefgijklnx"),
    ],
    ids=["the old member goes first", "the new member comes first, and the map grows"],
)
def test_a_replaced_static_member_goes_before_or_after_the_new_one_comes_as_kafkas_map_has_them(
    replaced: str, order: str
) -> None:
    members = {member_id: ConsumerMember(member_id) for member_id in "bcdefgijklmn"}
    plan = Plan(
        epoch=2,
        members=members,
        capacity=timeline_capacity(2, len(members)),
        targets={},
        subscriptions=Subscriptions(),
        is_equal=True,
        assignor="uniform",
        topics=FakeTopics(),
        updated=ConsumerMember("x"),
        replaced=members[replaced],
    )
    assert "".join(all_steps(plan.compute())) == order


# --- by whom


def test_the_first_assignor_of_the_settings_is_the_usual_one() -> None:
    group = a_group(partitions=4, consumer_assignors=("range", "uniform"))
    group.join("m1", ["orders", "payments"])
    assert group.describe().assignor_name == "range"


def test_the_assignor_that_most_members_ask_for_is_taken() -> None:
    group = a_group()
    group.join("m1", server_assignor="range")
    assert group.describe().assignor_name == "range"
    group.join("m2", server_assignor="uniform")
    group.join("m3", server_assignor="uniform")
    assert group.describe().assignor_name == "uniform"
    group.leave("m2")
    group.beat("m3", 2, server_assignor="range")
    assert group.describe().assignor_name == "range"


def test_range_gives_neighbours_of_all_topics_to_the_same_members() -> None:
    group = Group(Host(topics=FakeTopics(a=2, b=2)))
    for member_id in ("m1", "m2"):
        group.join(member_id, ["a", "b"], server_assignor="range")
        next_target(group)
    group.beat("m1", 2)
    assert in_target(group) == {"m1": {"a": [0], "b": [0]}, "m2": {"a": [1], "b": [1]}}


def test_members_with_other_wishes_get_only_those() -> None:
    group = a_group(partitions=4)
    group.join("m1", ["orders"])
    next_target(group)
    group.join("m2", ["orders", "payments"])
    shares = in_target(group)
    assert shares["m1"].keys() == {"orders"}
    assert shares["m2"]["payments"] == [0, 1]
    assert sorted(shares["m1"]["orders"] + shares["m2"]["orders"]) == [0, 1, 2, 3]


def test_a_newcomer_that_wants_nothing_leaves_all_partitions_to_those_who_want_them() -> None:
    """It bumps no epoch. Kafka 4.3.1 takes it for a member that wants what the others want, if a target is due then."""
    for assignor in ("uniform", "range"):
        group = a_group(partitions=4, consumer_assignors=(assignor,))
        group.join("m1")
        next_target(group)
        group.join("m2")
        group.leave("m2")
        next_target(group)
        assert group.state == "Assigning"
        assert group.join("m3", []) == Answer(4, {})
        assert in_target(group) == {"m1": {"orders": [0, 1, 2, 3]}, "m3": {}}


def test_moved_partitions_are_those_with_another_owner_than_before() -> None:
    t, u = b"T" * 16, b"U" * 16
    before: Targets = {"m1": {t: (0, 1, 2)}, "m2": {u: (0,)}}
    assert all_steps(moved_partitions(before, {"m1": {t: (0, 1)}, "m2": {u: (0,), t: (2,)}}, None)) == 1
    assert all_steps(moved_partitions(before, {"m1": {t: (0,)}}, None)) == 0  # nobody has got the others yet
    assert all_steps(moved_partitions({}, {"m1": {t: (0, 1)}}, None)) == 0
    assert all_steps(moved_partitions(before, {"m1": {u: (0,)}, "m2": {t: (0, 1, 2)}}, None)) == 4


# --- large groups: in pieces, between which anything may happen


class Pieces:
    """A large group. The host does a piece of the work when it is told to; requests come between two pieces."""

    def __init__(self, member_count: int = 4, partitions: int = SMALL_GROUP + 200) -> None:
        self.group = Group(Host(topics=FakeTopics(orders=partitions, payments=2)))
        self.host = self.group.host
        self.partitions = partitions
        for number in range(member_count):
            self.group.join(f"m{number}", instance_id=f"i{number}")
            next_target(self.group)

    def begin(self, newcomer: str = "new") -> Iterator[None]:
        """Somebody joins, so that there must be a new target. Each step does one piece of the work for it."""
        runtime = self.host.runtime
        go_on = runtime.go_on
        runtime.go_on = lambda now, wall: False  # type: ignore[method-assign]
        self.call = self.group.send(newcomer, 0, {}, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"])
        while self.host.runtime is runtime and go_on(self.host.steady_ms, self.host.now):
            self.host.settle()
            yield
        runtime.go_on = go_on  # type: ignore[method-assign]
        self.host.settle()

    def is_assigning(self) -> bool:
        return self.group.object.is_assigning

    def settle(self) -> None:
        """Let every member heartbeat until nothing changes any more; each reports what it was told."""
        group = self.group
        for _ in range(12):
            next_target(group)
            for member in list(group.object.members.values()):
                owned = {"orders": [p for each in member.assigned.values() for p in each]}
                group.beat(member.member_id, member.epoch, owned)

    def check(self) -> None:
        """Everybody has about the same number of partitions, and each partition has one owner."""
        self.settle()
        assert self.group.state == "Stable"
        owners = Counter(p for share in in_target(self.group).values() for p in share.get("orders", ()))
        assert owners == Counter(range(self.partitions))
        sizes = [sum(map(len, share.values())) for share in in_target(self.group).values()]
        assert max(sizes) - min(sizes) <= 1
        before = self.group.describe()
        self.host.crash()
        assert self.group.describe() == before


def nothing(large: Pieces) -> None:
    pass


def somebody_joins(large: Pieces) -> None:
    large.group.join("late")


def somebody_leaves(large: Pieces) -> None:
    large.group.leave("m1")


def the_newcomer_leaves(large: Pieces) -> None:
    large.group.leave("new")


def somebody_is_replaced(large: Pieces) -> None:
    large.group.leave("m2", -2, instance_id="i2")
    large.group.join("m2-again", instance_id="i2")


def somebody_wants_another_topic(large: Pieces) -> None:
    member = large.group.object.members["m1"]
    large.group.beat("m1", member.epoch, subscribed_topic_names=["orders", "payments"])


def the_broker_is_killed(large: Pieces) -> None:
    large.host.crash()


def a_write_fails(large: Pieces) -> None:
    large.host.disk.is_slow = True
    large.group.send("late", 0, {}, rebalance_timeout_ms=60_000, subscribed_topic_names=["orders"])
    large.host.disk_fails()
    large.host.load()


EVENTS: list[Callable[[Pieces], None]] = [
    nothing, somebody_joins, somebody_leaves, the_newcomer_leaves, somebody_is_replaced, somebody_wants_another_topic,
    the_broker_is_killed, a_write_fails,
]  # fmt: skip


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a group which is just large enough is computed and written in many pieces."""
    monkeypatch.setattr(target, "STEPS_IN_PIECE", 1)
    monkeypatch.setattr(api, "ELEMENTS_IN_STEP", 2)


def test_the_target_of_a_large_group_does_not_hold_up_the_heartbeats_of_other_members() -> None:
    large = Pieces()
    large.settle()
    work = large.begin()
    next(work)
    member = large.group.object.members["m0"]
    assert large.group.state == "Assigning"
    assert large.is_assigning()
    assert large.group.beat("m0", member.epoch) == Answer(member.epoch, None)
    assert not large.call.is_answered
    assert len(list(work)) > 12
    assert not large.is_assigning()
    assert large.group.read(large.call) == Answer(large.group.object.epoch, {})
    large.check()


@pytest.mark.parametrize("event", EVENTS)
def test_while_a_target_is_computed(event: Callable[[Pieces], None]) -> None:
    """The same after each number of pieces: before, within and behind the computation and the writing."""
    for pieces in (1, 4, 8, 12, 16, 18, 19, 20, 21):
        large = Pieces()
        work = large.begin()
        for _ in range(pieces):
            next(work, None)
        event(large)
        list(work)
        assert not large.is_assigning()
        large.check()


@pytest.mark.parametrize("newcomer", ["new", "a", "b", "m", "m10"])
def test_a_target_of_which_only_a_part_was_written_gives_no_partition_to_two_members(newcomer: str) -> None:
    """Some members have their new target and others their old one, and the next target begins with that."""
    pieces = 12
    while True:
        large = Pieces(member_count=6)
        large.settle()
        work = large.begin(newcomer)
        steps = [next(work, "end") for _ in range(pieces)]
        large.host.crash()
        large.group.leave("m0")  # the others may keep more than they would have had
        large.check()
        if "end" in steps:
            break
        pieces += 1
    assert pieces > 20


def test_all_members_leave_and_the_group_is_deleted_while_its_target_is_computed() -> None:
    for pieces in (1, 4, 8, 12, 16, 18, 19, 20, 21):
        large = Pieces()
        work = large.begin()
        for _ in range(pieces):
            next(work, None)
        for member_id in list(large.group.object.members):
            large.group.leave(member_id)
        deletion = large.host.send(DeleteGroupsRequest(["billing"]))
        list(work)
        assert [result.error_code for result in deletion.answer.results] == [ErrorCode.NONE]
        assert large.group.beat("m1", 3) == ErrorCode.GROUP_ID_NOT_FOUND
        large.host.crash()
        assert large.group.beat("m1", 3) == ErrorCode.GROUP_ID_NOT_FOUND
        assert large.group.join("m1") == Answer(2, {"orders": list(range(large.partitions))})


def test_all_members_leave_and_others_come_while_a_target_is_computed() -> None:
    for pieces in (1, 4, 8, 12, 16, 18, 19, 20, 21):
        large = Pieces()
        work = large.begin()
        for _ in range(pieces):
            next(work, None)
        for member_id in list(large.group.object.members):
            large.group.leave(member_id)
        large.group.join("another")
        list(work)
        large.check()


def test_a_heartbeat_that_is_refused_at_last_does_not_stop_the_group() -> None:
    """The records of a member with very many topics fit into no batch; its group wants a large target."""
    group = Group(Host(topics=FakeTopics(orders=SMALL_GROUP + 1), max_message_bytes=20_000))
    names = ["orders", *(f"{number:03d}" * 80 for number in range(100))]
    assert group.join("m1", names) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.join("m2") == Answer(2, {"orders": list(range(SMALL_GROUP + 1))})
    assert group.join("m1", names) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.state == "Stable"
    group.host.topics.grow("orders", SMALL_GROUP + 2)
    next_target(group)
    assert group.join("m1", names) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.beat("m2", 2) == Answer(3, {"orders": list(range(SMALL_GROUP + 2))})
