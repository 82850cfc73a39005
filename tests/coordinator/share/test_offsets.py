"""The group's part in the APIs about start offsets, and in its own deletion."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.coordinator.outcome import PARKED
from kohort.coordinator.share import offsets
from kohort.coordinator.share.offsets import AboutGroup, PartOfGroup, StartsAltered, TopicsDeleted
from kohort.coordinator.share.records import Ready
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from tests.coordinator.members import Member
from tests.coordinator.share.words import Answer, Group, NobodysCall, a_group, next_target, with_members

NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND


def ask(group: Group, api: Any, request: Any) -> PartOfGroup:
    call = NobodysCall(group.host)
    answer = group.host.runtime.submit(group.group_id, api, request, call)
    group.host.settle()
    part = call.answer if answer is PARKED else answer
    assert isinstance(part, PartOfGroup)
    return part


def alter(group: Group, **partitions: list[int]) -> PartOfGroup:
    topics = {topic_id(group, name): Ready(name, tuple(indexes)) for name, indexes in partitions.items()}
    return ask(group, offsets.ALTER_OFFSETS, StartsAltered("work", topics))


def delete(group: Group, *names: str) -> PartOfGroup:
    topics = [DeleteShareGroupOffsetsRequestTopic(name) for name in names]
    return ask(group, offsets.BEGIN_DELETION, DeleteShareGroupOffsetsRequest("work", topics))


def by_name(group: Group, part: PartOfGroup) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic_id, partition in part.places:
        found.setdefault(group.host.topics.name_of(topic_id) or "?", []).append(partition)
    return found


def emptied() -> Group:
    group = with_members("m1")
    group.leave("m1")
    return group


def topic_id(group: Group, name: str) -> bytes:
    found = group.host.topics.topic_id(name)
    assert found is not None
    return found


# --- Describe


def test_all_initialized_partitions_are_told_and_none_of_a_group_that_nobody_knows() -> None:
    group = a_group()
    assert ask(group, offsets.INITIALIZED_PARTITIONS, AboutGroup("work")).places == ()
    group.join("m1")
    assert by_name(group, ask(group, offsets.INITIALIZED_PARTITIONS, AboutGroup("work"))) == {}
    group.initialize()
    assert by_name(group, ask(group, offsets.INITIALIZED_PARTITIONS, AboutGroup("work"))) == {"orders": [0, 1, 2]}


# --- Alter


def test_partitions_that_exist_are_initialized_anew_with_the_groups_epoch() -> None:
    group = emptied()
    part = alter(group, orders=[0, 2])
    assert (by_name(group, part), part.state_epoch) == ({"orders": [0, 2]}, 4)
    states = group.object.states
    assert states.initializing[topic_id(group, "orders")].partitions == (0, 2)
    assert states.initialized[topic_id(group, "orders")].partitions == (0, 1, 2)


def test_a_group_that_nobody_knows_is_created_with_epoch_1_but_not_for_nothing() -> None:
    group = a_group()
    assert alter(group).places == ()
    assert group.host.list_groups() == []
    part = alter(group, orders=[1])
    assert (by_name(group, part), part.state_epoch) == ({"orders": [1]}, 1)
    group.host.crash()
    assert (group.state, group.describe().group_epoch) == ("Empty", 1)


def test_more_partitions_than_a_record_can_name_are_refused() -> None:
    group = a_group(partitions=900, max_message_bytes=2_000)
    part = alter(group, orders=list(range(900)))
    assert part.error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.host.list_groups() == []


def test_a_group_with_members_or_of_another_kind_is_left_as_it_is() -> None:
    group = with_members("m1")
    part = alter(group, orders=[0])
    assert (part.error, part.message) == (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    other = a_group()
    Member(other.host, "work").join()
    for part in (alter(other, orders=[0]), delete(other, "orders")):
        assert (part.error, part.message) == (NOT_FOUND, "Group work is not a share group.")


def test_after_an_alteration_the_group_reads_on_without_another_initialization() -> None:
    group = emptied()
    (event,) = [alter(group, orders=[0, 1, 2])]
    request = offsets.AboutGroup("work")
    assert by_name(group, ask(group, offsets.INITIALIZED_PARTITIONS, request)) == {"orders": [0, 1, 2]}
    assert event.places
    assert group.join("m2") == Answer(5, {"orders": [0, 1, 2]})
    assert group.asked == []


# --- DeleteShareGroupOffsets


def test_offsets_go_through_deleting_and_are_initialized_anew_afterwards() -> None:
    group = emptied()
    part = delete(group, "orders", "payments", "nowhere")
    assert by_name(group, part) == {"orders": [0, 1, 2]}
    assert part.unknown_topics == {
        "payments": "There is no offset information to delete.",
        "nowhere": "This server does not host this topic-partition.",
    }
    orders = topic_id(group, "orders")
    assert group.object.states.deleting == {orders: "orders"}
    assert by_name(group, delete(group, "orders")) == {"orders": [0, 1, 2]}  # again, if it was not completed
    ask(group, offsets.COMPLETE_DELETION, TopicsDeleted("work", [orders]))
    assert group.object.states == ({}, {}, {})
    assert delete(group, "orders").places == []
    assert group.join("m2") == Answer(5, {})
    assert group.asked_partitions() == [(5, {"orders": [0, 1, 2]})]


def test_a_topic_that_is_wanted_again_is_not_being_deleted_any_more() -> None:
    group = emptied()
    delete(group, "orders")
    group.join("m2")
    states = group.object.states
    assert not states.deleting
    assert list(states.initializing) == [topic_id(group, "orders")]
    group.initialize()
    next_target(group)
    assert group.beat("m2", 5) == Answer(6, {"orders": [0, 1, 2]})


@pytest.mark.parametrize("has_members", [True, False])
def test_offsets_of_a_group_with_members_or_of_none_are_not_deleted(has_members: bool) -> None:
    group = with_members("m1") if has_members else a_group()
    part = delete(group, "orders")
    expected = (ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")
    assert (part.error, part.message) == (expected if has_members else (NOT_FOUND, "Group work not found."))


# --- DeleteGroups


def test_all_states_go_before_the_group_does() -> None:
    group = emptied()
    part = ask(group, offsets.BEGIN_GROUP_DELETION, AboutGroup("work"))
    assert by_name(group, part) == {"orders": [0, 1, 2]}
    assert group.object.states == ({}, {}, {topic_id(group, "orders"): "orders"})
    again = ask(group, offsets.BEGIN_GROUP_DELETION, AboutGroup("work"))
    assert by_name(group, again) == {"orders": [0, 1, 2]}  # the first attempt was not completed
    size = len(group.log())
    assert group.host.delete("work") == {"work": ErrorCode.NONE}
    assert group.types(start=size) == [-12, -15, -11]


def test_what_is_no_share_group_has_no_states_to_delete_and_members_prevent_it() -> None:
    group = a_group()
    assert ask(group, offsets.BEGIN_GROUP_DELETION, AboutGroup("work")).error == ErrorCode.NONE
    group.join("m1")
    assert ask(group, offsets.BEGIN_GROUP_DELETION, AboutGroup("work")).error == ErrorCode.NON_EMPTY_GROUP
    group = a_group()
    Member(group.host, "work").join()
    part = ask(group, offsets.BEGIN_GROUP_DELETION, AboutGroup("work"))
    assert (part.error, part.places) == (ErrorCode.NONE, ())


def test_while_the_shard_is_loading_none_of_it_is_done() -> None:
    group = with_members("m1")
    group.host.crash(load=False)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert alter(group, orders=[0]).error == delete(group, "orders").error == loading
    assert ask(group, offsets.BEGIN_GROUP_DELETION, AboutGroup("work")).error == loading
