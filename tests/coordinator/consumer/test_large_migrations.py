"""Groups that are so large that they are converted in steps, between the requests of others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.removal import FEW_MEMBERS
from kohort.coordinator.conversion import MAX_TRIES, MEMBERS_IN_STEP
from kohort.coordinator.planning import SMALL_GROUP
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.log_records import decode_key
from kohort.protocol.record_batch import read_records
from tests.coordinator.consumer.migrants import ClassicMember, a_classic_group, a_mixed_group, partitions_of, settle
from tests.coordinator.consumer.words import Answer, Group
from tests.coordinator.members import NONE, Member, complete_joins, leader_of, stable
from tests.coordinator.support import Call, FakeTopics, Host
from tests.group_requests import assignment_bytes

MANY = FEW_MEMBERS + MEMBERS_IN_STEP + 1
REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS
NOBODY = ErrorCode.UNKNOWN_MEMBER_ID
SESSION_MS = 10_000


def a_large_group(partitions: int = MANY, static: bool = False) -> tuple[Group, list[ClassicMember]]:
    host = Host(topics=FakeTopics(orders=partitions, payments=2), partition_count=1)
    names = [f"m{number}" for number in range(MANY)]
    return a_classic_group(*names, partitions=MANY, host=host, static=static)


@pytest.fixture
def large() -> tuple[Group, list[ClassicMember]]:
    """A stable classic group of many members. A test takes the steps of a conversion one by one."""
    group, members = a_large_group()
    group.host.does_pieces_at_once = False
    return group, members


def ask_to_join(group: Group, name: str = "new") -> Call:
    return group.send(name, 0, {}, subscribed_topic_names=["orders"], rebalance_timeout_ms=60_000)


def step(group: Group) -> bool:
    """The next piece. False: there is none."""
    host = group.host
    went_on = host.runtime.go_on(host.steady_ms, host.now)
    host.settle()
    return went_on


def finish(group: Group) -> None:
    while step(group):
        pass


def steps_until(group: Group, is_done: Callable[[], bool]) -> int:
    count = 0
    while not is_done():
        assert step(group)
        count += 1
    return count


def object_of(group: Group) -> object:
    return group.host.state_of(group.group_id).groups[group.group_id]


def is_consumer(group: Group) -> bool:
    return isinstance(object_of(group), ConsumerGroup)


def is_classic(group: Group) -> bool:
    return isinstance(object_of(group), ClassicGroup)


# --- upgrades


def test_the_first_heartbeat_of_a_consumer_waits_while_others_are_served(
    large: tuple[Group, list[ClassicMember]],
) -> None:
    group, (a, *_) = large
    (other,) = stable(group.host, "other", group_id="another")
    call = ask_to_join(group)
    assert is_classic(group)
    assert not call.is_answered
    assert (a.heartbeat(), other.heartbeat(), other.commit({("orders", 0): 1})) == (NONE, NONE, NONE)
    assert a.commit({("orders", 0): 7}) is NONE
    assert steps_until(group, lambda: is_consumer(group)) > 5
    finish(group)
    assert group.read(call) == Answer(2, {})
    assert len(group.object.members) == MANY + 1
    assert a.heartbeat() is REBALANCE


def test_a_large_conversion_is_one_batch_and_is_loaded_as_it_was_made() -> None:
    group, _ = a_large_group()
    batches = group.host.disk.batches[0]
    before = len(batches)
    group.join("new")
    records = list(read_records(batches[before]))
    kinds = [decode_key(record.key or b"")[0] for record in records]
    assert kinds[: 3 * MANY + 3] == [2, *[5] * MANY, 3, *[7] * MANY, 6, *[8] * MANY]
    assert records[0].value is None
    members, targets = dict(group.object.members), dict(group.object.targets)
    group.host.crash()
    assert (group.object.members, group.object.targets) == (members, targets)


def test_a_large_group_comes_out_as_a_small_one_would(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for few in (FEW_MEMBERS, 10 * MANY):
        monkeypatch.setattr("kohort.coordinator.conversion.FEW_MEMBERS", few)
        group, _ = a_large_group()
        group.join("new")
        made.append([(record.key, record.value, record.headers) for record in group.host.log_of(group.group_id)])
    assert made[0] == made[1]


def test_a_member_that_leaves_meanwhile_is_not_in_the_new_group(large: tuple[Group, list[ClassicMember]]) -> None:
    group, (a, b, *_) = large
    call = ask_to_join(group)
    step(group)
    assert b.leave() is NONE
    finish(group)
    assert isinstance(group.read(call), Answer)
    assert b.member_id not in group.object.members
    assert (a.member_id in group.object.members, len(group.object.members)) == (True, MANY)
    group.host.crash()
    assert b.member_id not in group.object.members


def test_a_rebalance_that_begins_meanwhile_is_interrupted_by_the_upgrade(
    large: tuple[Group, list[ClassicMember]],
) -> None:
    group, (a, b, *_) = large
    call = ask_to_join(group)
    step(group)
    parked = leader_of([a, b]).ask_to_join()
    assert not parked.is_answered
    finish(group)
    assert isinstance(group.read(call), Answer)
    assert parked.error is REBALANCE


def test_an_assignment_that_comes_meanwhile_is_what_members_have() -> None:
    host = Host(topics=FakeTopics(orders=MANY), partition_count=1)
    group = Group(host)
    members = [ClassicMember(group, f"m{number}") for number in range(MANY)]
    complete_joins(host, list(members))
    host.does_pieces_at_once = False
    call = ask_to_join(group)
    step(group)
    leader = leader_of(list(members))
    everything = {each.member_id: assignment_bytes({"orders": [number]}) for number, each in enumerate(members)}
    synced = leader.sync(everything)
    assert synced.error is NONE
    finish(group)
    assert isinstance(group.read(call), Answer)
    (mine,) = partitions_of(synced.answer.assignment)["orders"]
    (topic_id,) = group.object.members[leader.member_id].assigned
    assert list(group.object.members[leader.member_id].assigned[topic_id]) == [mine]


def test_a_topic_that_is_deleted_meanwhile_is_not_assigned_to_anybody(
    large: tuple[Group, list[ClassicMember]],
) -> None:
    group, _ = large
    call = ask_to_join(group)
    step(group)
    group.host.delete_topic("orders")
    finish(group)
    assert group.read(call) == Answer(2, {})
    assert all(not member.assigned for member in group.object.members.values())


def test_consumers_that_join_meanwhile_join_the_new_group(large: tuple[Group, list[ClassicMember]]) -> None:
    group, _ = large
    calls = [ask_to_join(group, name) for name in ("new", "newer", "newest")]
    finish(group)
    assert [isinstance(group.read(call), Answer) for call in calls] == [True] * 3
    assert len(group.object.members) == MANY + 3


def test_a_group_that_all_leave_meanwhile_is_replaced_by_a_new_one(large: tuple[Group, list[ClassicMember]]) -> None:
    group, members = large
    call = ask_to_join(group)
    step(group)
    for member in members:
        assert member.leave() is NONE
    finish(group)
    assert isinstance(group.read(call), Answer)
    assert list(group.object.members) == ["new"]


def test_a_group_that_never_rests_is_upgraded_all_the_same(large: tuple[Group, list[ClassicMember]]) -> None:
    group, members = large
    call = ask_to_join(group)
    left = 0
    while not is_consumer(group):
        assert members.pop().leave() is NONE
        left += 1
        step(group)
    finish(group)
    assert left > MAX_TRIES
    assert isinstance(group.read(call), Answer)
    assert len(group.object.members) == len(members) + 1


def test_what_cannot_be_upgraded_is_found_out_in_a_later_step(large: tuple[Group, list[ClassicMember]]) -> None:
    group, members = large
    group.host.classic(group.group_id).members[members[-1].member_id].assignment = assignment_bytes(
        {"orders": [0]}, b"mine"
    )
    call = ask_to_join(group)
    finish(group)
    assert group.read(call) is ErrorCode.GROUP_ID_NOT_FOUND
    assert "custom assignor" in call.answer.error_message
    assert (is_classic(group), members[0].heartbeat()) == (True, NONE)


def test_a_disk_that_fails_in_the_middle_leaves_the_classic_group(large: tuple[Group, list[ClassicMember]]) -> None:
    group, (a, *_) = large
    host = group.host
    call = ask_to_join(group)
    step(group)
    host.disk.is_slow = True
    commit = a.send_commit({("orders", 0): 7})
    host.disk_fails()
    assert (call.error, ErrorCode(commit.answer.topics[0].partitions[0].error_code)) == (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_COORDINATOR,
    )
    assert not host.runtime.busy
    host.load()
    assert (is_classic(group), a.heartbeat()) == (True, NONE)


def test_a_disk_that_fails_at_the_end_leaves_the_classic_group(large: tuple[Group, list[ClassicMember]]) -> None:
    group, (a, *_) = large
    call = ask_to_join(group)
    group.host.disk.is_slow = True
    finish(group)
    assert not call.is_answered
    group.host.disk_fails()
    assert call.error is ErrorCode.NOT_COORDINATOR
    group.host.load()
    assert (is_classic(group), a.heartbeat()) == (True, NONE)


def test_members_of_a_large_group_that_was_upgraded_have_their_sessions() -> None:
    group, (a, b, *_) = a_large_group()
    group.join("new")
    for _ in range(3):
        group.host.advance(SESSION_MS - 1_000)
        assert a.heartbeat() in (NONE, REBALANCE)
        group.beat("new", 2)
    assert (a.member_id in group.object.members, b.member_id in group.object.members) == (True, False)
    assert set(group.object.members) == {a.member_id, "new"}


# --- downgrades


@pytest.fixture
def mixed() -> tuple[Group, list[ClassicMember]]:
    """A stable consumer group of many classic members and the consumer `new`."""
    group, members = a_large_group()
    group.join("new")
    settle(group, members, "new")
    group.host.does_pieces_at_once = False
    return group, members


def test_the_last_consumer_is_gone_at_once_and_the_group_is_classic_soon(
    mixed: tuple[Group, list[ClassicMember]],
) -> None:
    group, (a, *_) = mixed
    (other,) = stable(group.host, "other", group_id="another")
    assert group.leave("new") == Answer(-1, None)
    assert (is_consumer(group), "new" in group.object.members) == (True, False)
    assert (a.heartbeat(), other.heartbeat()) == (NONE, NONE)
    assert steps_until(group, lambda: is_classic(group)) > 5
    finish(group)
    assert group.host.state(group.group_id) == "PreparingRebalance"
    assert a.heartbeat(group.host.classic(group.group_id).generation) is REBALANCE
    group.host.crash()
    assert len(group.host.classic(group.group_id).members) == MANY


def test_the_members_of_a_large_group_that_was_downgraded_share_its_partitions(
    mixed: tuple[Group, list[ClassicMember]],
) -> None:
    group, members = mixed
    group.leave("new")
    finish(group)
    for member in members:
        member.say()
        member.ask_to_join()
    for member in members:
        member.learn()
    leader = leader_of(list(members))
    assert leader.sync({leader.member_id: assignment_bytes({"orders": [0]})}).error is NONE
    assert group.host.state(group.group_id) == "Stable"
    assert group.host.events[-1].cause == "downgrade to classic group"


def test_a_consumer_that_joins_before_the_downgrade_is_done_prevents_it(
    mixed: tuple[Group, list[ClassicMember]],
) -> None:
    group, (a, *_) = mixed
    group.leave("new")
    step(group)
    call = ask_to_join(group, "late")
    finish(group)
    assert (is_consumer(group), call.is_answered) == (True, True)
    assert set(group.object.members) >= {"late", a.member_id}
    group.host.advance(1_000)
    group.leave("late")
    finish(group)
    assert is_classic(group)


def test_a_classic_member_that_leaves_before_the_downgrade_is_done_is_not_in_the_classic_group(
    mixed: tuple[Group, list[ClassicMember]],
) -> None:
    group, (_, b, *_) = mixed
    group.leave("new")
    step(group)
    assert b.leave() is NONE
    finish(group)
    assert b.member_id not in group.host.classic(group.group_id).members
    group.host.crash()
    assert len(group.host.classic(group.group_id).members) == MANY - 1


def test_a_downgrade_that_a_crash_interrupts_is_made_up_for(mixed: tuple[Group, list[ClassicMember]]) -> None:
    group, _ = mixed
    group.leave("new")
    step(group)
    group.host.crash()
    assert is_consumer(group)
    finish(group)
    assert len(group.host.classic(group.group_id).members) == MANY


def test_members_of_a_large_group_that_was_downgraded_have_their_sessions(
    mixed: tuple[Group, list[ClassicMember]],
) -> None:
    group, (a, b, *_) = mixed
    group.leave("new")
    steps_until(group, lambda: is_classic(group))
    classic = group.host.classic(group.group_id)
    assert a.heartbeat(classic.generation) is REBALANCE, "before its session has begun"
    finish(group)
    group.host.advance(SESSION_MS - 1)
    assert b.member_id in classic.members
    assert a.heartbeat(classic.generation) is REBALANCE
    group.host.advance(SESSION_MS - 1)
    assert set(classic.members) == {a.member_id}


def test_the_silence_of_the_last_consumer_downgrades_a_large_group(mixed: tuple[Group, list[ClassicMember]]) -> None:
    group, members = mixed
    for _ in range(10):
        group.host.advance(SESSION_MS - 1_000)
        for member in members:
            member.heartbeat()
        finish(group)
    assert is_classic(group)


def test_a_static_consumer_that_comes_back_as_a_classic_member_downgrades_a_large_group() -> None:
    group, members = a_large_group()
    group.join("new", instance_id="one")
    settle(group, members, "new")
    back = ClassicMember(group, "one", instance_id="one")
    assert back.join().error is NONE
    classic = group.host.classic(group.group_id)
    assert (len(classic.members), back.member_id in classic.members) == (MANY + 1, True)
    assert group.host.state(group.group_id) == "Stable"
    assert back.heartbeat() is NONE


def test_a_group_that_is_too_large_for_one_batch_stays_what_it_is() -> None:
    group, members = a_large_group()
    group.join("new")
    settle(group, members, "new")
    group.host.runtime.limit_batches(3 * MANY * 60)
    group.leave("new")
    assert (is_consumer(group), len(group.object.members)) == (True, MANY)
    assert members[0].heartbeat() is NONE


def test_a_log_that_ends_after_any_batch_holds_a_whole_group(mixed: tuple[Group, list[ClassicMember]]) -> None:
    group, _ = mixed
    group.leave("new")
    finish(group)
    batches = list(group.host.disk.batches[0])
    kinds = set()
    for count in range(1, len(batches) + 1):
        host = Host(topics=group.host.topics, partition_count=1, load=False)
        host.does_pieces_at_once = False
        host.disk.batches[0] = batches[:count]
        host.load()
        found = host.state_of(group.group_id).groups.get(group.group_id)
        kinds.add(type(found))
        assert found is not None
        assert found.member_count in (0, MANY, MANY + 1)
    assert kinds == {ClassicGroup, ConsumerGroup}


def test_strangers_are_none_the_wiser(large: tuple[Group, list[ClassicMember]]) -> None:
    group, _ = large
    call = ask_to_join(group)
    stranger = Member(group.host, group.group_id)
    stranger.member_id, stranger.generation = "nobody", 1
    assert stranger.heartbeat() is NOBODY
    assert group.beat("new", 1) is ErrorCode.GROUP_ID_NOT_FOUND
    finish(group)
    assert isinstance(group.read(call), Answer)


def test_a_join_that_waits_for_the_target_of_a_group_that_becomes_a_classic_one_is_told_to_come_again() -> None:
    """Under the same member id: an unknown member would join as a new one, and all would wait for the old one."""
    group, (member,) = a_mixed_group("a", partitions=SMALL_GROUP + 100)
    group.host.does_pieces_at_once = False
    member.topics = ("orders", "payments")
    member.say()
    call = member.join()
    assert not call.is_answered
    assert group.leave("new") == Answer(-1, None)
    group.host.does_pieces_at_once = True
    group.host.settle()
    assert call.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert group.host.state(group.group_id) == "PreparingRebalance"
    assert member.join().error is NONE
    assert set(group.host.classic(group.group_id).members) == {member.member_id}
