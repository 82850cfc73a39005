"""The way of one member to its target, state by state. Partitions are written as {partition: epoch it came in}."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from kohort.coordinator.consumer.member import STABLE, UNRELEASED, UNREVOKED, ConsumerMember
from kohort.coordinator.consumer.reconcile import Reconciliation
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import TopicPartitions
from tests.coordinator.consumer.words import Answer, a_group, next_target

T, U = b"T" * 16, b"U" * 16
NEWER_STATE = 7  # that only a later Kafka knows

Owned = Mapping[bytes, Collection[int]]


def member(
    state: int, epoch: int, assigned: Owned, pending: Owned | None = None, previous_epoch: int = 4
) -> ConsumerMember:
    return ConsumerMember(
        "m1", epoch, previous_epoch, state,
        assigned={topic: dict.fromkeys(owned, 3) for topic, owned in assigned.items()},
        pending_revocation={topic: dict.fromkeys(owned, 3) for topic, owned in (pending or {}).items()},
    )  # fmt: skip


def step(
    before: ConsumerMember, target: Owned, *, epoch: int = 6, wants: Collection[bytes] = (T, U),
    held_by_others: Owned | None = None, owned: Owned | None = None, changed: bool = False,
) -> ConsumerMember | None:  # fmt: skip
    def is_held(topic_id: bytes, partition: int) -> bool:
        places = (before.assigned, before.pending_revocation, held_by_others or {})
        return any(partition in place.get(topic_id, ()) for place in places)

    says = None if owned is None else [TopicPartitions(topic, list(owned[topic])) for topic in owned]
    targets = {topic: tuple(partitions) for topic, partitions in target.items()}
    return Reconciliation(before, epoch, targets, wants, is_held, says).next(subscription_changed=changed)


def brief(after: ConsumerMember | None) -> tuple[int, int, int, object, object]:
    assert after is not None
    return after.state, after.epoch, after.previous_epoch, after.assigned, after.pending_revocation


# --- from STABLE


def test_a_stable_member_at_the_epoch_of_the_target_stays_as_it_is() -> None:
    before = member(STABLE, 6, {T: [0]})
    assert step(before, {T: [0, 1]}) is before


def test_what_must_be_given_up_comes_first_and_the_epoch_stays() -> None:
    before = member(STABLE, 5, {T: [0, 1]})
    assert brief(step(before, {T: [1, 2]})) == (UNREVOKED, 5, 5, {T: {1: 3}}, {T: {0: 3}})


def test_a_member_that_has_given_up_already_goes_on_at_once() -> None:
    before = member(STABLE, 5, {T: [0, 1]})
    after = step(before, {T: [1, 2]}, owned={T: [1]})
    assert brief(after) == (STABLE, 6, 5, {T: {1: 3, 2: 6}}, {})


def test_a_member_that_says_it_has_one_of_them_has_to_give_up() -> None:
    before = member(STABLE, 5, {T: [0, 1, 4]})
    after = step(before, {T: [1]}, owned={T: [1, 4]})
    assert brief(after) == (UNREVOKED, 5, 5, {T: {1: 3}}, {T: {0: 3, 4: 3}})


def test_free_partitions_are_given_and_get_the_epoch_of_the_target() -> None:
    before = member(STABLE, 5, {T: [0]})
    assert brief(step(before, {T: [0, 1], U: [3]})) == (STABLE, 6, 5, {T: {0: 3, 1: 6}, U: {3: 6}}, {})


def test_partitions_that_others_hold_are_waited_for_in_the_new_epoch() -> None:
    before = member(STABLE, 5, {T: [0]})
    after = step(before, {T: [0, 1, 2]}, held_by_others={T: [2]})
    assert brief(after) == (UNRELEASED, 6, 5, {T: {0: 3, 1: 6}}, {})
    after = step(before, {T: [0, 2]}, held_by_others={T: [2]})
    assert brief(after) == (UNRELEASED, 6, 5, {T: {0: 3}}, {})


def test_a_target_that_is_the_same_only_moves_the_epoch() -> None:
    before = member(STABLE, 5, {T: [0]})
    assert brief(step(before, {T: [0]})) == (STABLE, 6, 5, {T: {0: 3}}, {})


def test_the_target_in_a_topic_that_is_not_wanted_any_more_counts_as_empty() -> None:
    before = member(STABLE, 5, {T: [0], U: [1]})
    after = step(before, {T: [0], U: [1, 2]}, wants=[T])
    assert brief(after) == (UNREVOKED, 5, 5, {T: {0: 3}}, {U: {1: 3}})


# --- from UNREVOKED


@pytest.mark.parametrize("owned", [None, {T: [0, 1]}, {T: [0]}])
def test_a_member_stays_until_it_has_reported_all_of_what_it_had_to_give_up(owned: Owned | None) -> None:
    before = member(UNREVOKED, 5, {T: [1]}, {T: [0, 4]})
    assert step(before, {T: [1, 2]}, owned=owned) is before


@pytest.mark.parametrize("owned", [{T: [1]}, {}, {U: [0]}])
def test_a_member_that_has_given_up_goes_on(owned: Owned) -> None:
    before = member(UNREVOKED, 5, {T: [1]}, {T: [0]})
    assert brief(step(before, {T: [1, 2]}, owned=owned)) == (STABLE, 6, 5, {T: {1: 3, 2: 6}}, {})


def test_a_new_target_can_demand_more() -> None:
    before = member(UNREVOKED, 5, {T: [1, 2]}, {T: [0]})
    after = step(before, {T: [1]}, owned={T: [1, 2]})
    assert brief(after) == (UNREVOKED, 5, 5, {T: {1: 3}}, {T: {2: 3}})


def test_a_new_target_can_give_back_what_was_to_be_given_up() -> None:
    before = member(UNREVOKED, 5, {T: [1]}, {T: [0]})
    assert brief(step(before, {T: [0, 1]}, owned={T: [1]})) == (STABLE, 6, 5, {T: {1: 3, 0: 6}}, {})


# --- from UNRELEASED


def test_a_member_gets_what_others_have_released_meanwhile() -> None:
    before = member(UNRELEASED, 6, {T: [0]})
    after = step(before, {T: [0, 1, 2]}, held_by_others={T: [2]})
    assert brief(after) == (UNRELEASED, 6, 6, {T: {0: 3, 1: 6}}, {})
    assert after is not None
    assert brief(step(after, {T: [0, 1, 2]})) == (STABLE, 6, 6, {T: {0: 3, 1: 6, 2: 6}}, {})


def test_nothing_is_released_so_the_member_waits_on() -> None:
    before = member(UNRELEASED, 6, {T: [0]}, previous_epoch=6)
    assert step(before, {T: [0, 2]}, held_by_others={T: [2]}) == before


def test_a_waiting_member_goes_on_to_the_next_target() -> None:
    before = member(UNRELEASED, 5, {T: [0]})
    assert brief(step(before, {T: [1]})) == (UNREVOKED, 5, 5, {}, {T: {0: 3}})
    assert brief(step(before, {T: [0]})) == (STABLE, 6, 5, {T: {0: 3}}, {})


# --- a state of a newer Kafka


@pytest.mark.parametrize("owned", [None, {T: [0]}])
def test_a_member_in_a_state_that_nobody_knows_has_to_rejoin(owned: Owned | None) -> None:
    assert step(member(NEWER_STATE, 5, {T: [0]}), {T: [0]}, owned=owned) is None


def test_a_member_in_a_state_that_nobody_knows_may_begin_with_nothing() -> None:
    assert brief(step(member(NEWER_STATE, 5, {T: [0]}), {T: [0]}, owned={})) == (STABLE, 6, 5, {T: {0: 3}}, {})


# --- another subscription, while the target is still the old one


def test_topics_that_are_not_wanted_any_more_are_given_up() -> None:
    before = member(STABLE, 6, {T: [0], U: [1]})
    after = step(before, {T: [0], U: [1]}, wants=[T], changed=True)
    assert brief(after) == (UNREVOKED, 6, 6, {T: {0: 3}}, {U: {1: 3}})


def test_topics_that_the_member_has_given_up_already_are_gone_at_once() -> None:
    before = member(STABLE, 6, {T: [0], U: [1]})
    after = step(before, {T: [0], U: [1]}, wants=[T], changed=True, owned={T: [0]})
    assert brief(after) == (STABLE, 6, 6, {T: {0: 3}}, {})


def test_a_member_that_wants_more_keeps_what_it_has() -> None:
    before = member(STABLE, 6, {T: [0]})
    assert step(before, {T: [0]}, changed=True) is before


def test_a_member_that_is_giving_up_gives_up_more() -> None:
    before = member(UNREVOKED, 5, {T: [1], U: [2]}, {T: [0]})
    after = step(before, {T: [1], U: [2]}, wants=[T], changed=True, owned={T: [0, 1]})
    assert brief(after) == (UNREVOKED, 5, 5, {T: {1: 3}}, {T: {0: 3}, U: {2: 3}})


# --- in a group


def test_a_partition_goes_through_three_members_one_after_the_other() -> None:
    group = a_group(partitions=2)
    group.join("m1")
    next_target(group)
    group.join("m2")
    group.beat("m1", 2)
    group.beat("m1", 2, {"orders": [0]})
    assert group.beat("m2", 3) == Answer(3, {"orders": [1]})
    next_target(group)
    assert group.join("m3", ["orders"]) == Answer(4, {})  # there is nothing for it
    next_target(group)
    group.leave("m1")
    assert group.beat("m3", 4) == Answer(5, {"orders": [0]})
    assert group.beat("m2", 3) == Answer(5, None)
    assert group.state == "Stable"


def test_a_group_with_a_member_behind_is_reconciling() -> None:
    group = a_group()
    group.join("m1")
    next_target(group)
    group.join("m2")
    assert group.state == "Reconciling"
    group.beat("m1", 2)
    group.beat("m1", 2, {"orders": [0, 1]})
    assert group.state == "Reconciling"
    group.beat("m2", 3)
    assert group.state == "Stable"


def test_a_member_of_an_unknown_state_in_a_log_is_fenced() -> None:
    group = a_group()
    group.join("m1")
    known = group.object.members["m1"]
    group.object._install(known, member(NEWER_STATE, 2, {group.host.topics.topic_id("orders") or b"": [0]}))
    assert group.beat("m1", 2) == ErrorCode.FENCED_MEMBER_EPOCH
    assert group.object.members["m1"].state == NEWER_STATE
