"""Groups change their protocol while their members go on: classic to consumer, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.coordinator.consumer.migrants import (
    ClassicMember,
    a_classic_group,
    a_mixed_group,
    partitions_of,
    settle,
    share,
)
from tests.coordinator.consumer.words import Answer, Group, a_group, next_target
from tests.coordinator.members import NONE, commit, errors_of, fetch, leave, send_fetch
from tests.group_requests import assignment_bytes

REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND
INCONSISTENT = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
ILLEGAL = ErrorCode.ILLEGAL_GENERATION


def kind(group: Group) -> type:
    return type(group.host.state_of(group.group_id).groups[group.group_id])


def member_of(group: Group, member_id: str) -> Any:
    return next(each for each in group.describe().members if each.member_id == member_id)


def held(group: Group, member_id: str) -> dict[str, list[int]]:
    topics = member_of(group, member_id).assignment.topic_partitions
    return {each.topic_name: list(each.partitions) for each in topics}


def targeted(group: Group, member_id: str) -> dict[str, list[int]]:
    topics = member_of(group, member_id).target_assignment.topic_partitions
    return {each.topic_name: list(each.partitions) for each in topics}


def allow(group: Group, **settings: Any) -> None:
    """Other settings from now on."""
    state = group.host.state_of(group.group_id)
    state.config = replace(state.config, **settings)


# --- upgrade


def test_a_consumer_that_joins_makes_a_consumer_group_of_a_classic_one() -> None:
    group, (a,) = a_classic_group("a")
    assert group.join("new") == Answer(2, {})
    described = group.describe()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 2, 2)
    assert held(group, a.member_id) == {"orders": [0, 1, 2, 3]}
    assert targeted(group, a.member_id) == {"orders": [0, 1]}
    assert (member_of(group, a.member_id).member_epoch, member_of(group, a.member_id).member_type) == (1, 0)
    assert (member_of(group, "new").member_epoch, member_of(group, "new").member_type) == (2, 1)
    (listed,) = group.host.list_groups()
    assert (listed.group_type, listed.protocol_type) == ("consumer", "consumer")


def test_a_classic_member_gives_up_partitions_and_a_consumer_gets_them() -> None:
    group, (a,) = a_classic_group("a")
    group.join("new")
    assert a.heartbeat() is REBALANCE
    assert a.rejoin() == {"orders": [0, 1]}  # it still has all four when it joins: it has to give up two
    assert a.generation == 1
    assert a.heartbeat() is REBALANCE
    assert group.beat("new", 2) == Answer(2, None)
    assert a.rejoin() == {"orders": [0, 1]}
    assert a.generation == 2
    assert a.heartbeat() is NONE
    assert group.beat("new", 2) == Answer(2, {"orders": [2, 3]})
    assert group.state == "Stable"


def test_joins_that_are_parked_are_told_to_come_again() -> None:
    group, (a, b) = a_classic_group("a", "b")
    a.say()
    parked = a.ask_to_join()
    assert not parked.is_answered
    group.join("new")
    assert (parked.error, parked.answer.member_id, parked.answer.protocol_name) == (REBALANCE, a.member_id, None)
    assert b.heartbeat() is REBALANCE
    settle(group, [a, b], "new")


def test_syncs_that_are_parked_are_told_to_come_again() -> None:
    group, (a, b) = a_classic_group("a", "b")
    first, second = a.ask_to_join(), b.ask_to_join()
    assert first.is_answered
    assert second.is_answered
    a.learn()
    b.learn()
    parked = b.sync()
    assert not parked.is_answered
    assert group.join("new") == Answer(3, {})
    assert parked.error is REBALANCE
    assert a.sync({a.member_id: assignment_bytes({"orders": [0, 1, 2, 3]})}).error is REBALANCE
    assert held(group, a.member_id) == {"orders": [0, 1]}  # as in the last generation that had an assignment
    settle(group, [a, b], "new")


def test_members_that_have_never_been_assigned_anything_have_nothing() -> None:
    group = a_group(partitions=4)
    a = ClassicMember(group, "a")
    a.join()
    group.host.advance(3_000)
    a.learn()
    assert group.join("new", ("payments",)) == Answer(2, {"payments": [0, 1]})
    assert held(group, a.member_id) == {}
    assert targeted(group, a.member_id) == {"orders": [0, 1, 2, 3]}
    assert a.sync().error is REBALANCE
    assert a.rejoin() == {"orders": [0, 1, 2, 3]}


def test_a_group_in_its_first_join_phase_is_upgraded_too() -> None:
    group = a_group(partitions=4)
    a = ClassicMember(group, "a")
    parked = a.join()
    assert group.join("new") == Answer(1, {"orders": [0, 1]})
    assert parked.error is REBALANCE
    assert a.rejoin() == {"orders": [2, 3]}
    assert (a.generation, a.heartbeat(), group.state) == (1, NONE, "Stable")


def test_a_group_that_everybody_has_left_while_an_id_waits_is_upgraded_too() -> None:
    group, (a,) = a_classic_group("a")
    late = ClassicMember(group, "late")
    assert late.ask_to_join().error is ErrorCode.MEMBER_ID_REQUIRED
    leave(group.host, group.group_id, (a.member_id, None))
    assert group.host.state(group.group_id) == "PreparingRebalance"
    assert group.join("new") == Answer(2, {"orders": [0, 1, 2, 3]})
    assert [each.member_id for each in group.describe().members] == ["new"]
    assert a.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_protocol_that_a_new_member_does_not_know_is_not_looked_for() -> None:
    group, (a,) = a_classic_group("a", assignors=("range", "roundrobin"))
    b = ClassicMember(group, "b", assignors=("roundrobin",))
    b.join()
    assert group.join("new") == Answer(2, {})
    assert {each.member_id for each in group.describe().members} == {a.member_id, b.member_id, "new"}


def test_only_a_join_upgrades_a_group() -> None:
    group, (a,) = a_classic_group("a")
    for epoch in (1, 2, -1):
        assert group.beat("new", epoch) == NOT_FOUND
    assert group.beat("new", -2, instance_id="one") == NOT_FOUND
    assert kind(group) is ClassicGroup
    assert a.heartbeat() is NONE


@pytest.mark.parametrize("policy", ["downgrade", "disabled"])
def test_a_policy_can_forbid_upgrades(policy: str) -> None:
    group, (a,) = a_classic_group("a", settings={"consumer_migration_policy": policy})
    call = group.send("new", 0, {}, subscribed_topic_names=["orders"], rebalance_timeout_ms=60_000)
    assert call.error is NOT_FOUND
    assert "online upgrade is disabled" in call.answer.error_message
    assert a.heartbeat() is NONE


def test_a_group_of_another_protocol_type_is_not_upgraded() -> None:
    group, (a,) = a_classic_group("a", protocol_type="connect")
    call = group.send("new", 0, {}, subscribed_topic_names=["orders"], rebalance_timeout_ms=60_000)
    assert call.error is NOT_FOUND
    assert "does not use the consumer embedded protocol" in call.answer.error_message
    assert a.heartbeat() is NONE


def test_a_group_with_too_many_members_is_not_upgraded() -> None:
    group, (a, b, c) = a_classic_group("a", "b", "c", settings={"consumer_max_size": 2})
    assert group.join("new") == NOT_FOUND
    assert c.leave() is NONE
    assert group.join("new") == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert kind(group) is ClassicGroup
    assert (a.heartbeat(), b.heartbeat()) == (REBALANCE, REBALANCE)  # because of the one that left


def test_an_upgrade_that_is_refused_disturbs_nobody() -> None:
    group, (a, b) = a_classic_group("a", "b", settings={"consumer_max_size": 2})
    parked = a.ask_to_join()
    assert group.join("new") == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert group.join("new", None, subscribed_topic_regex="(") == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not parked.is_answered
    b.say()
    assert b.ask_to_join().error is NONE
    assert parked.error is NONE


@pytest.mark.parametrize("metadata", [b"", b"\0", b"\0\1\0"])
def test_a_group_whose_subscriptions_cannot_be_read_is_not_upgraded(metadata: bytes) -> None:
    group, (a,) = a_classic_group("a")
    a.protocols = [("range", metadata)]
    a.join()
    a.sync({a.member_id: assignment_bytes({"orders": [0]})})
    call = group.send("new", 0, {}, subscribed_topic_names=["orders"], rebalance_timeout_ms=60_000)
    assert call.error is NOT_FOUND
    assert "malformed" in call.answer.error_message
    assert a.heartbeat() is NONE


def test_a_group_whose_assignment_cannot_be_read_is_not_upgraded() -> None:
    group, (a,) = a_classic_group("a")
    a.join()
    a.sync({a.member_id: b"\0"})
    assert group.join("new") == NOT_FOUND
    assert a.heartbeat() is NONE


def test_a_group_whose_assignor_adds_data_of_its_own_is_not_upgraded() -> None:
    group, (a,) = a_classic_group("a")
    a.join()
    a.sync({a.member_id: assignment_bytes({"orders": [0]}, b"data")})
    call = group.send("new", 0, {}, subscribed_topic_names=["orders"], rebalance_timeout_ms=60_000)
    assert call.error is NOT_FOUND
    assert "custom assignor" in call.answer.error_message
    assert a.heartbeat() is NONE


def test_empty_data_of_an_assignor_and_topics_that_do_not_exist_do_not_matter() -> None:
    group, (a,) = a_classic_group("a")
    a.join()
    a.sync({a.member_id: assignment_bytes({"orders": [0], "gone": [0, 1]}, b"")})
    assert isinstance(group.join("new"), Answer)
    assert held(group, a.member_id) == {"orders": [0]}


def test_a_group_whose_records_do_not_fit_into_one_batch_is_not_upgraded() -> None:
    group, (a,) = a_classic_group("a", settings={"max_message_bytes": 3_000})
    b = ClassicMember(group, "b", [f"topic-{number:04}" for number in range(250)])
    b.join()
    call = group.send("new", 0, {}, subscribed_topic_names=["orders"], rebalance_timeout_ms=60_000)
    assert call.error is NOT_FOUND
    assert "one batch" in call.answer.error_message
    assert kind(group) is ClassicGroup
    assert a.heartbeat() is REBALANCE


def test_what_members_said_is_kept() -> None:
    group, (a,) = a_classic_group("a", rack="north", session_timeout_ms=7_000, rebalance_timeout_ms=9_000)
    group.join("new")
    shown = member_of(group, a.member_id)
    assert (shown.rack_id, shown.client_id, shown.client_host) == ("north", "a", "/10.0.0.7")
    assert (list(shown.subscribed_topic_names), shown.subscribed_topic_regex) == (["orders"], "")
    member = group.object.members[a.member_id]
    assert member.classic is not None
    assert (member.classic.session_timeout_ms, member.rebalance_timeout_ms) == (7_000, 9_000)
    assert member.classic.protocols == tuple(a.protocols)


def test_the_records_of_an_upgrade_come_in_kafkas_order_and_in_one_batch() -> None:
    group, _ = a_classic_group("a", "b", partitions=6)
    batches = group.host.disk.batches[group.host.shard_of(group.group_id).partition]
    count, before = len(batches), len(group.host.log_of(group.group_id))
    group.join("new")
    assert len(batches) == count + 1
    kinds = [int.from_bytes((record.key or b"")[:2]) for record in group.host.log_of(group.group_id)[before:]]
    assert kinds[:9] == [2, 5, 5, 3, 7, 7, 6, 8, 8]  # the conversion
    assert kinds[9:] == [5, 3, 7, 7, 7, 6, 8]  # the consumer that joins
    assert group.host.log_of(group.group_id)[before].value is None


def test_a_static_member_that_comes_back_with_the_new_protocol_takes_over_without_a_rebalance() -> None:
    group, (one, two) = a_classic_group("one", "two", static=True)
    assert group.join("new", instance_id="two") == Answer(1, {"orders": [2, 3]})
    described = group.describe()
    assert (described.group_state, described.group_epoch) == ("Stable", 1)
    assert {each.member_id for each in described.members} == {one.member_id, "new"}
    assert (one.heartbeat(), two.heartbeat()) == (NONE, ErrorCode.FENCED_INSTANCE_ID)
    assert group.beat("new", 1, instance_id="two") == Answer(1, None)


def test_a_static_member_that_takes_over_in_a_join_phase_does_not_make_the_group_rebalance() -> None:
    """As in Kafka 4.3.1: the member that waited gets nothing until something else begins a rebalance."""
    group, (one, _) = a_classic_group("one", "two", static=True)
    three = ClassicMember(group, "three", instance_id="three")
    parked = three.join()
    assert group.join("new", instance_id="two") == Answer(1, {"orders": [2, 3]})
    assert parked.error is REBALANCE
    assert three.rejoin() == {}
    assert (one.heartbeat(), three.heartbeat(), group.state) == (NONE, NONE, "Stable")
    group.host.topics.grow("orders", 6)
    settle(group, [one, three], "new")
    assert [len(each.assignment.topic_partitions[0].partitions) for each in group.describe().members] == [2, 2, 2]


def test_a_consumer_without_topics_that_comes_in_a_join_phase_does_not_make_the_group_rebalance() -> None:
    """As in Kafka 4.3.1, and as for a static member: it brings nothing new."""
    group, (one, _) = a_classic_group("one", "two", static=True)
    three = ClassicMember(group, "three", instance_id="three")
    parked = three.join()
    assert group.join("new", []) == Answer(1, {})
    assert parked.error is REBALANCE
    assert three.rejoin() == {}
    assert (one.heartbeat(), three.heartbeat(), group.state) == (NONE, NONE, "Stable")


def test_a_static_member_that_takes_over_leaves_partitions_alone_that_nobody_has() -> None:
    """As in Kafka 4.3.1: the classic leader has not seen that the topic has grown."""
    group, (one, _) = a_classic_group("one", "two", static=True)
    group.host.topics.grow("orders", 6)
    assert group.join("new", instance_id="two") == Answer(1, {"orders": [2, 3]})
    assert (one.heartbeat(), group.state) == (NONE, "Stable")


def test_a_static_member_that_takes_over_in_the_first_join_phase_makes_the_group_rebalance() -> None:
    """Kafka 4.3.1 cannot upgrade such a group: it has no generation yet, so there is no epoch that could stay."""
    group = a_group(partitions=4)
    one = ClassicMember(group, "one", instance_id="one")
    parked = one.join()
    assert group.join("new", instance_id="one") == Answer(1, {"orders": [0, 1, 2, 3]})
    assert parked.error is REBALANCE


def test_offsets_survive_both_ways() -> None:
    group, (a,) = a_classic_group("a")
    assert a.commit({("orders", 0): 7, ("orders", 3): 8}) is NONE
    group.join("new")
    assert a.commit({("orders", 0): 9}) is NONE
    call = commit(group.host, group.group_id, {("orders", 3): 11}, generation=2, member_id="new")
    assert errors_of(call) == {("orders", 3): NONE}
    group.leave("new")
    assert kind(group) is ClassicGroup
    assert fetch(group.host, group.group_id) == {("orders", 0): 9, ("orders", 3): 11}
    assert a.commit({("orders", 0): 12}) is ILLEGAL  # the generation is the group's epoch now
    assert a.commit({("orders", 0): 12}, generation=2) is NONE


# --- classic members of a consumer group


def test_new_classic_members_get_an_id_first_and_are_answered_at_once() -> None:
    group = a_group(partitions=4)
    group.join("new")
    next_target(group)
    a = ClassicMember(group, "a")
    call = a.ask_to_join()
    assert call.error is ErrorCode.MEMBER_ID_REQUIRED
    assert len(call.answer.member_id) == 22
    a.member_id = call.answer.member_id
    answer = a.join().answer
    assert (answer.generation_id, answer.protocol_type, answer.protocol_name) == (3, "consumer", "range")
    assert (answer.leader, list(answer.members), answer.skip_assignment) == ("", [], False)
    assert a.take() == {}
    assert a.heartbeat() is NONE
    group.beat("new", 2)
    group.beat("new", 2, {"orders": [0, 1]})
    assert a.heartbeat() is REBALANCE
    assert a.rejoin() == {"orders": [2, 3]}
    assert (a.generation, a.heartbeat(), group.state) == (3, NONE, "Stable")


def test_old_versions_of_join_group_need_no_id_and_any_id_is_taken() -> None:
    group = a_group(partitions=4)
    group.join("new")
    old = ClassicMember(group, "old")
    old.version = 3
    assert old.join().error is NONE
    assert len(old.member_id) == 22
    chosen = ClassicMember(group, "chosen")
    chosen.member_id = "of my choice"
    assert chosen.join().error is NONE
    assert member_of(group, "of my choice").member_type == 0


def test_the_first_version_has_one_timeout_for_everything() -> None:
    group = a_group()
    group.join("new")
    old = ClassicMember(group, "old", session_timeout_ms=6_500)
    old.version = 0
    assert old.join().error is NONE
    assert group.object.members[old.member_id].rebalance_timeout_ms == 6_500


@pytest.mark.parametrize("policy", ["bidirectional", "upgrade", "downgrade", "disabled"])
def test_classic_members_may_join_unless_migration_is_disabled(policy: str) -> None:
    group = a_group(consumer_migration_policy=policy)
    group.join("new")
    a = ClassicMember(group, "a")
    a.member_id = "a"
    assert a.join().error is (INCONSISTENT if policy == "disabled" else NONE)


def test_members_of_another_protocol_type_or_without_protocols_are_refused() -> None:
    group = a_group()
    group.join("new")
    for how in ({"protocol_type": "connect"}, {"protocol_type": ""}, {"assignors": ()}):
        a = ClassicMember(group, "a", **how)
        a.member_id = "a"
        call = a.ask_to_join()
        assert (call.error, call.answer.member_id) == (INCONSISTENT, "")


def test_classic_members_need_a_protocol_in_common() -> None:
    group = a_group(partitions=6)
    group.join("new")

    def join(name: str, *assignors: str) -> ErrorCode:
        member = ClassicMember(group, name, assignors=assignors)
        member.member_id = name
        return member.join().error

    assert join("a", "range", "roundrobin") is NONE
    assert join("b", "sticky") is INCONSISTENT
    assert join("c", "sticky", "roundrobin") is NONE
    assert join("d", "range") is INCONSISTENT


@pytest.mark.parametrize("metadata", [b"", b"\0\1\0\0"])
def test_a_subscription_that_cannot_be_read_is_an_error(metadata: bytes) -> None:
    group = a_group()
    group.join("new")
    a = ClassicMember(group, "a")
    a.member_id, a.protocols = "a", [("range", metadata)]
    call = a.ask_to_join()
    assert (call.error, call.answer.member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, "")
    assert len(group.describe().members) == 1


def test_a_group_that_is_full_takes_no_classic_member() -> None:
    group = a_group(consumer_max_size=2)
    group.join("new")
    a, b = ClassicMember(group, "a"), ClassicMember(group, "b")
    a.member_id, b.member_id = "a", "b"
    assert a.join().error is NONE
    assert b.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert a.join().error is NONE


def test_sessions_that_are_too_short_are_refused_first() -> None:
    group = a_group()
    group.join("new")
    a = ClassicMember(group, "a", session_timeout_ms=1)
    assert a.ask_to_join().error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_static_classic_members_take_over_from_each_other_and_fence() -> None:
    group = a_group(partitions=4)
    group.join("new")
    first = ClassicMember(group, "one", instance_id="one")
    assert first.join().error is NONE
    assert len(first.member_id) == 22  # without the instance in front
    next_target(group)
    second = ClassicMember(group, "one", instance_id="one")
    assert second.join().error is NONE
    assert second.member_id != first.member_id
    assert first.heartbeat(3) is ErrorCode.FENCED_INSTANCE_ID
    assert first.ask_to_join().error is ErrorCode.FENCED_INSTANCE_ID
    first.instance_id = "unheard of"
    assert first.ask_to_join().error is UNKNOWN
    assert len(group.describe().members) == 2


def test_what_a_classic_member_owns_and_its_rack_come_from_its_subscription() -> None:
    group = a_group(partitions=4)
    group.join("new")
    next_target(group)
    a = ClassicMember(group, "a", rack="north")
    a.member_id, a.owned = "a", {"orders": [0], "gone": [1]}
    a.say()
    assert a.join().error is NONE
    assert member_of(group, "a").rack_id == "north"


def test_a_member_with_an_eager_protocol_owns_nothing_when_it_joins() -> None:
    group, (a,) = a_classic_group("a", version=0)
    group.join("new")
    assert a.heartbeat() is REBALANCE
    assert a.rejoin() == {"orders": [0, 1]}
    assert (a.generation, a.heartbeat()) == (2, NONE)
    assert group.beat("new", 2) == Answer(2, {"orders": [2, 3]})


@pytest.mark.parametrize("version", [0, 1, 2, 3, 9])
def test_an_assignment_has_the_version_of_the_subscription(version: int) -> None:
    group = a_group(partitions=4)
    group.join("new")
    a = ClassicMember(group, "a", version=min(version, 3))
    a.protocols = [(name, version.to_bytes(2) + metadata[2:]) for name, metadata in a.protocols]
    a.member_id = "a"
    a.join()
    assignment = a.sync().answer.assignment
    assert int.from_bytes(assignment[:2]) == min(version, 3)
    assert partitions_of(assignment) == {}


def test_a_sync_is_checked() -> None:
    _, (a,) = a_mixed_group("a")
    assert a.sync(generation=a.generation - 1).error is ILLEGAL
    assert a.sync(protocol_name="roundrobin").error is INCONSISTENT
    assert a.sync(protocol_type="connect").error is INCONSISTENT
    assert a.sync(protocol_type=None, protocol_name=None).error is INCONSISTENT
    answer = a.sync(version=3).answer
    assert (answer.error_code, partitions_of(answer.assignment)) == (0, {"orders": [0, 1]})
    assert (a.sync().answer.protocol_type, a.sync().answer.protocol_name) == ("consumer", "range")
    a.member_id = "stranger"
    assert a.sync().error is UNKNOWN


def test_a_member_that_syncs_late_has_to_join_again() -> None:
    group, (a,) = a_mixed_group("a")
    next_target(group)
    group.join("third")
    assert a.sync().error is REBALANCE
    assert a.heartbeat() is REBALANCE


def test_consumers_are_no_classic_members() -> None:
    _, (a,) = a_mixed_group("a")
    a.member_id, a.generation = "new", 2
    assert a.heartbeat() is UNKNOWN
    assert a.sync().error is UNKNOWN


def test_a_heartbeat_is_checked() -> None:
    _, (a,) = a_mixed_group("a")
    assert a.heartbeat(a.generation + 1) is ILLEGAL
    assert a.heartbeat(a.generation - 1) is ILLEGAL
    a.instance_id = "unheard of"
    assert a.heartbeat() is UNKNOWN


def test_a_member_that_waits_for_partitions_is_left_alone_until_all_of_them_are_free() -> None:
    group = a_group(partitions=4)
    group.join("new")
    next_target(group)
    a = ClassicMember(group, "a")
    a.rejoin()
    assert a.heartbeat() is NONE
    group.beat("new", 2)
    assert a.heartbeat() is NONE
    group.beat("new", 2, {"orders": [0, 1]})
    assert a.heartbeat() is REBALANCE


def test_a_classic_member_that_leaves_frees_its_partitions() -> None:
    group, (a,) = a_mixed_group("a")
    assert a.leave() is NONE
    assert a.heartbeat() is UNKNOWN
    described = group.describe()
    assert (described.group_state, described.group_epoch) == ("Assigning", 3)
    next_target(group)
    assert group.beat("new", 2) == Answer(3, {"orders": [0, 1, 2, 3]})


@pytest.mark.parametrize("version", [0, 2, 3, 5])
def test_strangers_cannot_leave(version: int) -> None:
    group, (a,) = a_mixed_group("a")
    a.member_id = "stranger"
    assert a.leave(version=version) is UNKNOWN
    assert group.describe().group_epoch == 2


def test_an_administrator_sends_members_of_both_protocols_away() -> None:
    group = a_group(partitions=4)
    group.join("one", instance_id="i1")
    group.join("two")
    call = leave(
        group.host, group.group_id, ("", "unheard of"), ("stranger", None), ("stranger", "i1"), ("", None), ("", "i1"),
        ("two", None), ("two", None),
    )  # fmt: skip
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert [each.error_code for each in call.answer.members] == [UNKNOWN, UNKNOWN, fenced, UNKNOWN, NONE, NONE, NONE]
    assert group.describe().group_state == "Empty"


def test_nobody_is_left_to_leave_an_empty_group() -> None:
    group = a_group()
    group.join("new")
    group.leave("new")
    call = leave(group.host, group.group_id, ("new", None))
    assert [each.error_code for each in call.answer.members] == [UNKNOWN]
    assert leave(group.host, group.group_id, ("new", None), version=0).error is UNKNOWN


def test_classic_members_commit_and_fetch_with_their_generation() -> None:
    group, (a,) = a_mixed_group("a")
    for version in (2, 5, 7, 9, 10):
        assert a.commit({("orders", 0): version}, version=version) is NONE
        assert a.commit({("orders", 0): 99}, version=version, generation=a.generation + 1) is ILLEGAL

    def asked(epoch: int) -> ErrorCode:
        call = send_fetch(group.host, group.group_id, [("orders", 0)], member_id=a.member_id, member_epoch=epoch)
        return ErrorCode(call.answer.groups[0].error_code)

    assert (asked(a.generation), asked(a.generation + 1)) == (NONE, ILLEGAL)


# --- deadlines of classic members


def test_a_classic_member_has_a_session_of_its_own() -> None:
    group, (a,) = a_classic_group("a", session_timeout_ms=6_000)
    group.join("new")
    group.host.advance(5_999)
    assert a.heartbeat() is REBALANCE
    group.host.advance(5_999)
    assert a.heartbeat() is REBALANCE
    group.host.advance(6_000)
    assert a.heartbeat() is UNKNOWN
    assert [each.member_id for each in group.describe().members] == ["new"]


def test_a_classic_member_that_does_not_sync_in_time_is_removed() -> None:
    group = a_group(partitions=4)
    group.join("new")
    next_target(group)
    a = ClassicMember(group, "a", session_timeout_ms=60_000, rebalance_timeout_ms=2_000)
    a.join()
    group.host.advance(1_999)
    assert a.heartbeat() is NONE
    group.host.advance(1)
    assert a.heartbeat() is UNKNOWN


def test_a_classic_member_that_syncs_in_time_stays() -> None:
    group = a_group(partitions=4)
    group.join("new")
    next_target(group)
    a = ClassicMember(group, "a", session_timeout_ms=60_000, rebalance_timeout_ms=2_000)
    a.rejoin()
    group.host.advance(30_000)
    assert a.heartbeat() is NONE


def test_a_classic_member_that_does_not_join_again_in_time_is_removed() -> None:
    group, (a,) = a_classic_group("a", session_timeout_ms=60_000, rebalance_timeout_ms=2_000)
    group.join("new")
    group.host.advance(10_000)  # nobody has told it yet
    assert a.heartbeat() is REBALANCE
    group.host.advance(1_500)
    assert a.heartbeat() is REBALANCE
    group.host.advance(500)
    assert a.heartbeat() is UNKNOWN


def test_a_classic_member_that_joins_again_in_time_stays() -> None:
    group, (a,) = a_classic_group("a", session_timeout_ms=60_000, rebalance_timeout_ms=2_000)
    group.join("new")
    assert a.heartbeat() is REBALANCE
    group.host.advance(1_999)
    a.rejoin()
    a.rejoin()
    group.host.advance(30_000)
    assert a.heartbeat() is NONE


def test_a_member_that_takes_the_new_protocol_under_its_old_id_need_not_sync() -> None:
    group, (a,) = a_classic_group("a", session_timeout_ms=60_000, rebalance_timeout_ms=2_000)
    group.join("new")
    a.heartbeat()
    a.join()
    assert isinstance(group.join(a.member_id), Answer)
    group.host.advance(10_000)
    assert member_of(group, a.member_id).member_type == 1


def test_a_heartbeat_that_says_nothing_else_makes_a_consumer_of_a_classic_member() -> None:
    group, (a,) = a_mixed_group("a")
    client_id = member_of(group, a.member_id).client_id
    beat = ConsumerGroupHeartbeatRequest(group.group_id, a.member_id, a.generation)
    answer = group.host.send(beat, client_id=client_id).answer
    assert (answer.error_code, answer.member_epoch) == (NONE, a.generation)
    assert member_of(group, a.member_id).member_type == 1
    assert a.heartbeat() is UNKNOWN


def test_a_classic_member_with_an_id_is_refused_by_an_empty_consumer_group_which_stays() -> None:
    """Kafka 4.3.1 refuses it and forgets the group without a record: its next epoch is 2 again."""
    group = a_group(partitions=4)
    group.join("m1")
    group.leave("m1")
    next_target(group)
    a = ClassicMember(group, "a")
    a.member_id = "a"
    assert a.join().error is UNKNOWN
    assert kind(group) is ConsumerGroup
    assert group.join("m2") == Answer(4, {"orders": [0, 1, 2, 3]})


# --- downgrade


def test_the_last_consumer_that_leaves_makes_a_classic_group_of_a_consumer_group() -> None:
    group, (a,) = a_mixed_group("a")
    assert group.leave("new") == Answer(-1, None)
    assert kind(group) is ClassicGroup
    assert group.describe().error_code == NOT_FOUND
    shown = group.host.describe(group.group_id)
    assert (shown.group_state, shown.protocol_type) == ("PreparingRebalance", "consumer")
    (member,) = shown.members
    assert (member.member_id, partitions_of(member.member_assignment)) == (a.member_id, {"orders": [0, 1]})
    assert a.heartbeat() is REBALANCE
    a.say()
    call = a.join()
    assert (call.answer.generation_id, call.answer.leader) == (3, a.member_id)
    share([a], 4)
    assert group.host.state(group.group_id) == "Stable"
    assert a.heartbeat() is NONE


def test_a_group_of_two_rolls_over_and_back_without_losing_a_partition() -> None:
    group, (a, b) = a_classic_group("a", "b", partitions=6)
    group.join("c")
    settle(group, [a, b], "c")
    b.leave()
    group.join("d")
    settle(group, [a], "c", "d")
    a.leave()
    settle(group, [], "c", "d")
    everything = sorted(held(group, "c")["orders"] + held(group, "d")["orders"])
    assert everything == list(range(6))
    back = [ClassicMember(group, "e"), ClassicMember(group, "f")]
    back[0].rejoin()
    settle(group, back[:1], "c", "d")
    group.leave("c")
    settle(group, back[:1], "d")
    back[1].rejoin()
    settle(group, back, "d")
    assert kind(group) is ConsumerGroup
    group.leave("d")
    assert kind(group) is ClassicGroup
    for member in back:
        assert member.heartbeat() is REBALANCE
        member.say()
        member.join()
    for member in back:
        member.learn()
    share(back, 6)
    assert [member.owned for member in back] == [{"orders": [0, 1, 2]}, {"orders": [3, 4, 5]}]
    assert {member.heartbeat() for member in back} == {NONE}


def test_the_last_consumer_that_is_silent_makes_a_classic_group_of_a_consumer_group() -> None:
    group, (a,) = a_mixed_group("a")
    for _ in range(9):
        group.host.advance(5_000)
        a.heartbeat()
    assert kind(group) is ClassicGroup
    assert group.host.state(group.group_id) == "PreparingRebalance"


def test_the_last_consumer_that_gives_up_nothing_makes_a_classic_group_of_a_consumer_group() -> None:
    group = a_group(partitions=4)
    group.join("new", rebalance_timeout_ms=2_000)
    next_target(group)
    a = ClassicMember(group, "a")
    a.rejoin()
    group.beat("new", 2)
    group.host.advance(2_000)
    assert kind(group) is ClassicGroup


def test_a_classic_member_that_is_gone_can_be_what_a_downgrade_waited_for() -> None:
    group, (a, _, c) = a_mixed_group("a", "b", "c", partitions=8)
    allow(group, max_size=2)
    group.leave("new")
    assert kind(group) is ConsumerGroup  # three members are too many
    assert group.describe().group_state == "Assigning"
    assert c.leave() is NONE
    assert kind(group) is ClassicGroup
    assert (group.host.state(group.group_id), a.heartbeat(2)) == ("PreparingRebalance", ILLEGAL)


@pytest.mark.parametrize("policy", ["upgrade", "disabled"])
def test_a_policy_can_forbid_downgrades(policy: str) -> None:
    group, (a,) = a_mixed_group("a")
    allow(group, consumer_migration_policy=policy)
    group.leave("new")
    assert kind(group) is ConsumerGroup
    assert group.describe().group_state == "Assigning"
    assert a.heartbeat() is NONE
    next_target(group)
    if policy == "upgrade":
        assert a.rejoin() == {"orders": [0, 1, 2, 3]}


def test_a_group_without_members_stays_what_it_is() -> None:
    group = a_group()
    group.join("new")
    group.leave("new")
    assert kind(group) is ConsumerGroup
    assert group.state == "Empty"


def test_the_records_of_a_downgrade_are_tombstones_and_one_record_in_one_batch() -> None:
    group, _ = a_mixed_group("a")
    batches = group.host.disk.batches[group.host.shard_of(group.group_id).partition]
    count, before = len(batches), len(group.host.log_of(group.group_id))
    group.leave("new")
    assert len(batches) == count + 1
    records = group.host.log_of(group.group_id)[before:]
    assert [int.from_bytes((record.key or b"")[:2]) for record in records] == [8, 8, 7, 7, 6, 5, 5, 4, 3, 2]
    assert [record.value is None for record in records] == [True] * 9 + [False]


def test_a_resolved_regular_expression_is_forgotten_by_a_downgrade() -> None:
    group, _ = a_classic_group("a")
    group.join("new", None, subscribed_topic_regex="ord.*")
    group.leave("new")
    kinds = [int.from_bytes((record.key or b"")[:2]) for record in group.host.log_of(group.group_id)]
    assert kinds[-3:] == [4, 3, 2]
    assert 16 in kinds[-8:]


def test_a_static_consumer_that_comes_back_as_a_classic_member_downgrades_without_a_rebalance() -> None:
    group = a_group(partitions=4)
    group.join("new", instance_id="one")
    a = ClassicMember(group, "one", instance_id="one")
    answer = a.join().answer
    assert (answer.error_code, answer.generation_id, answer.leader, list(answer.members)) == (0, 2, "", [])
    assert kind(group) is ClassicGroup
    assert group.host.state(group.group_id) == "Stable"
    assert a.take() == {"orders": [0, 1, 2, 3]}
    assert a.heartbeat() is NONE
    assert group.beat("new", 2, instance_id="one") == NOT_FOUND


def test_a_static_consumer_that_comes_back_as_a_classic_member_tells_nobody_who_waits_for_partitions() -> None:
    """As in Kafka 4.3.1: the other one has partitions that it does not hear of until something begins a rebalance."""
    group = a_group(partitions=4)
    group.join("new", instance_id="one")
    group.host.advance(1_000)  # the next target may be computed
    b = ClassicMember(group, "b")
    b.member_id = "b"
    assert b.rejoin() == {}
    a = ClassicMember(group, "one", instance_id="one")
    assert (a.join().error, a.generation) == (NONE, 3)
    assert kind(group) is ClassicGroup
    assert group.host.state(group.group_id) == "Stable"
    assert len(partitions_of(a.sync().answer.assignment)["orders"]) == 2
    assert b.heartbeat() is NONE
    assert len(partitions_of(b.sync().answer.assignment)["orders"]) == 2


def test_a_static_consumer_that_comes_back_as_a_classic_member_has_at_once_what_others_must_give_up() -> None:
    """As in Kafka 4.3.1: the other one hears of it with its next heartbeat."""
    group, (b,) = a_classic_group("b")
    group.join("new", instance_id="one")
    a = ClassicMember(group, "one", instance_id="one")
    assert (a.join().error, a.generation) == (NONE, 2)
    assert kind(group) is ClassicGroup
    assert len(partitions_of(a.sync().answer.assignment)["orders"]) == 2
    assert b.heartbeat() is ErrorCode.ILLEGAL_GENERATION


def test_a_static_consumer_that_comes_back_with_another_subscription_makes_the_group_rebalance() -> None:
    group = a_group(partitions=4)
    group.join("new", instance_id="one")
    a = ClassicMember(group, "one", ["payments"], instance_id="one")
    answer = a.join().answer
    assert (answer.error_code, answer.generation_id) == (0, 0)
    assert group.host.state(group.group_id) == "PreparingRebalance"
    assert a.sync().error is ILLEGAL
    assert a.join().answer.generation_id == 3


def test_a_static_consumer_is_replaced_by_a_classic_one_inside_a_group_that_has_more_consumers() -> None:
    group = a_group(partitions=4)
    group.join("new", instance_id="one")
    group.join("other")
    a = ClassicMember(group, "one", instance_id="one")
    assert a.join().error is NONE
    assert kind(group) is ConsumerGroup
    assert {each.member_type for each in group.describe().members} == {0, 1}


# --- what is remembered about the old object


def test_the_fast_path_of_a_classic_heartbeat_sees_that_the_group_is_another_one() -> None:
    group, (a,) = a_classic_group("a")
    for _ in range(3):
        assert a.heartbeat() is NONE
    group.join("new")
    assert a.heartbeat() is REBALANCE


def test_the_fast_path_of_a_consumers_heartbeat_sees_that_the_group_is_another_one() -> None:
    group, _ = a_mixed_group("a", "b", partitions=6)
    epoch = group.object.members["new"].epoch
    for _ in range(3):
        assert group.beat("new", epoch) == Answer(epoch, None)
    group.leave("new")
    assert group.beat("new", epoch) == NOT_FOUND


def test_the_fast_path_of_commits_sees_that_the_group_is_another_one() -> None:
    group, (a,) = a_classic_group("a")
    for offset in range(3):
        assert a.commit({("orders", 0): offset}) is NONE
    group.join("new")
    for offset in range(3, 6):
        assert a.commit({("orders", 0): offset}) is NONE
    group.leave("new")
    assert a.commit({("orders", 0): 9}) is ILLEGAL
    assert fetch(group.host, group.group_id) == {("orders", 0): 5}


def test_deadlines_of_the_old_object_do_nothing() -> None:
    group, (a, b) = a_classic_group("a", "b", rebalance_timeout_ms=20_000)
    a.ask_to_join()  # a join phase, which ends in 20 seconds
    group.join("new")
    settle(group, [a, b], "new")
    for _ in range(10):
        group.host.advance(4_000)
        assert {a.heartbeat(), b.heartbeat()} == {NONE}
        epoch = group.object.members["new"].epoch
        assert isinstance(group.beat("new", epoch), Answer)
    assert group.state == "Stable"


def test_an_empty_group_changes_its_kind_in_silence() -> None:
    group, (a,) = a_classic_group("a")
    a.leave()
    assert group.join("new") == Answer(2, {"orders": [0, 1, 2, 3]})
    group.leave("new")
    b = ClassicMember(group, "b")
    b.join()
    assert kind(group) is ClassicGroup


# --- what is told


def test_a_conversion_says_why_in_the_log() -> None:
    group, (a,) = a_classic_group("a")
    before = len(group.host.log_of(group.group_id))
    group.join("new")
    told = [dict(record.headers) for record in group.host.log_of(group.group_id)[before:] if record.headers]
    assert [(each[b"kohort.cause"], each[b"kohort.trigger"]) for each in told] == [
        (b"upgrade to consumer group", b"new"),
        (b"member joined", b"new"),
    ]
    settle(group, [a], "new")
    assert (group.host.events[-1].cause, group.host.events[-1].trigger) == ("upgrade to consumer group", "new")
    group.leave("new")
    last = dict(group.host.log_of(group.group_id)[-1].headers)
    assert (last[b"kohort.cause"], last[b"kohort.trigger"]) == (b"downgrade to classic group", b"new")
    a.say()
    a.join()
    share([a], 4)
    assert (group.host.events[-1].cause, group.host.events[-1].trigger) == ("downgrade to classic group", "new")
    assert group.host.events[-1].generation == 3


def test_members_whose_tombstones_do_not_fit_into_one_batch_are_sent_away_together() -> None:
    group = a_group(partitions=4, max_message_bytes=5_000)
    names = [f"member-{number:02}" for number in range(30)]
    for name in names:
        assert isinstance(group.join(name, ()), Answer)
    call = leave(group.host, group.group_id, *((name, None) for name in names))
    assert {each.error_code for each in call.answer.members} == {NONE}
    assert group.state == "Empty"
    group.host.crash()
    assert group.state == "Empty"
