"""Commits and fetches of members in consumer groups: the epoch decides, and since when a partition is the member's."""

from __future__ import annotations

import pytest

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.coordinator.consumer.words import Answer, Group, a_group, next_target
from tests.coordinator.members import commit, delete_offsets, errors_of, fetch, send_fetch

NONE = ErrorCode.NONE
STALE = ErrorCode.STALE_MEMBER_EPOCH
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID


def committed(group: Group, epoch: int, *partitions: int, member_id: str = "m1", version: int = 9) -> set[ErrorCode]:
    offsets = {("orders", partition): 10 * epoch for partition in partitions or (0,)}
    call = commit(group.host, "billing", offsets, version=version, generation=epoch, member_id=member_id)
    return set(errors_of(call).values())


def fetched(group: Group, member_id: str | None, epoch: int, version: int = 9) -> ErrorCode:
    call = send_fetch(group.host, "billing", [("orders", 0)], version=version, member_id=member_id, member_epoch=epoch)
    return ErrorCode(call.answer.groups[0].error_code)


def two_members() -> Group:
    """`m1`, in epoch 3, has the partitions 0 and 1 since epoch 2; `m2` has 2 since epoch 3."""
    group = a_group()
    group.join("m1")
    next_target(group)
    group.join("m2")
    group.beat("m1", 2)
    group.beat("m1", 2, {"orders": [0, 1]})
    assert group.beat("m2", 3) == Answer(3, {"orders": [2]})
    return group


# --- commits


@pytest.mark.parametrize("version", [9, 10])
def test_a_member_commits_with_its_epoch(version: int) -> None:
    group = two_members()
    assert committed(group, 3, 0, 1, version=version) == {NONE}
    assert fetch(group.host, "billing") == {("orders", 0): 30, ("orders", 1): 30}


@pytest.mark.parametrize("version", range(2, 9))
def test_a_client_that_knows_no_epochs_is_told_so(version: int) -> None:
    group = two_members()
    assert committed(group, 3, version=version) == {ErrorCode.UNSUPPORTED_VERSION}


def test_a_stranger_may_not_commit_while_there_are_members() -> None:
    group = two_members()
    assert committed(group, -1, member_id="") == {UNKNOWN}
    assert committed(group, 3, member_id="m3") == {UNKNOWN}


def test_anybody_may_commit_to_a_group_without_members() -> None:
    group = two_members()
    group.leave("m1")
    group.leave("m2")
    assert committed(group, -1, member_id="") == {NONE}
    assert committed(group, -1, member_id="", version=5) == {NONE}
    assert committed(group, 0, member_id="") == {UNKNOWN}


def test_an_epoch_from_the_future_is_stale() -> None:
    assert committed(two_members(), 4) == {STALE}


def test_an_older_epoch_is_fine_for_partitions_that_the_member_had_then() -> None:
    group = two_members()
    assert committed(group, 2, 0, 1) == {NONE}
    assert committed(group, 1, 0) == {STALE}
    assert committed(group, 2, 2, member_id="m2") == {STALE}  # it came in epoch 3


def test_one_partition_that_the_member_did_not_have_refuses_the_whole_commit() -> None:
    group = two_members()
    assert committed(group, 2, 0, 2) == {STALE}
    assert fetch(group.host, "billing") == {}


def test_with_its_exact_epoch_a_member_may_commit_partitions_that_it_does_not_have() -> None:
    group = two_members()
    assert committed(group, 3, 2) == {NONE}


def test_partitions_that_are_to_be_given_up_may_be_committed() -> None:
    group = a_group()
    group.join("m1")
    next_target(group)
    group.join("m2")
    assert group.beat("m1", 2) == Answer(2, {"orders": [0, 1]})
    assert committed(group, 2, 2) == {NONE}
    group.host.topics.grow("orders", 4)
    next_target(group)
    assert group.beat("m1", 2, {"orders": [0, 1, 2]}) == Answer(2, None)
    assert committed(group, 1, 2) == {STALE}


def test_who_has_left_for_a_while_commits_with_the_epoch_it_left_with() -> None:
    group = a_group()
    group.join("m1", instance_id="i1")
    group.leave("m1", -2, instance_id="i1")
    assert committed(group, -2, 0) == {NONE}
    assert committed(group, 2, 0) == {STALE}
    assert committed(group, -1, 0, member_id="") == {UNKNOWN}
    assert group.join("m2", instance_id="i1") == Answer(2, {"orders": [0, 1, 2]})
    assert committed(group, 1, 0, member_id="m2") == {NONE}  # as in Kafka: since when it had them is forgotten
    assert committed(group, 2, 0, member_id="m1") == {UNKNOWN}


def test_a_commit_that_recurs_is_refused_as_soon_as_the_epoch_has_passed() -> None:
    group = two_members()
    for offset in range(5):
        offsets = {("orders", 2): offset}
        call = commit(group.host, "billing", offsets, version=9, generation=3, member_id="m2")
        assert set(errors_of(call).values()) == {NONE}
    next_target(group)
    group.host.topics.grow("orders", 6)
    answer = group.beat("m2", 3, {"orders": [2]})
    assert isinstance(answer, Answer)
    assert answer.epoch == 4
    assert committed(group, 3, 2, member_id="m2") == {NONE}  # it has had this one since epoch 3
    new = next(each for each in (answer.assignment or {})["orders"] if each > 2)
    assert committed(group, 3, new, member_id="m2") == {STALE}
    group.leave("m2")
    assert committed(group, 3, 2, member_id="m2") == {UNKNOWN}


# --- fetches


def test_a_fetch_of_nobody_in_particular_is_fine() -> None:
    assert fetched(two_members(), None, -1) == NONE


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [("m1", 3, NONE), ("m1", 2, STALE), ("m1", 4, STALE), ("m1", -1, STALE), ("m3", 3, UNKNOWN), ("", -1, UNKNOWN),
     (None, 0, UNKNOWN)],
)  # fmt: skip
@pytest.mark.parametrize("version", [9, 10])
def test_a_member_that_fetches_is_in_its_epoch(
    member_id: str | None, epoch: int, error: ErrorCode, version: int
) -> None:
    assert fetched(two_members(), member_id, epoch, version) == error


def test_fetches_of_version_8_know_no_members() -> None:
    group = two_members()
    committed(group, 3, 0)
    assert fetch(group.host, "billing", version=8) == {("orders", 0): 30}


# --- deletion and expiry


def test_offsets_of_topics_that_members_want_are_not_deleted() -> None:
    group = two_members()
    committed(group, 3, 0)
    call = delete_offsets(group.host, "billing", ("orders", 0), ("payments", 0))
    assert errors_of(call) == {("orders", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ("payments", 0): NONE}


def test_offsets_of_topics_that_a_regular_expression_matches_are_not_deleted() -> None:
    group = a_group()
    group.join("m1", None, subscribed_topic_regex="ord.*")
    committed(group, 1, 0)
    assert errors_of(delete_offsets(group.host, "billing", ("orders", 0))) == {
        ("orders", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    }


def test_only_offsets_that_nobody_wants_expire() -> None:
    group = two_members()
    commit(group.host, "billing", {("orders", 0): 1, ("payments", 0): 1}, generation=3, member_id="m1")
    day_ms = 86_400_000
    for _ in range(2):
        group.host.set_clock(4 * day_ms)
        group.host.expire_offsets()
    assert fetch(group.host, "billing") == {("orders", 0): 1}


def test_an_empty_group_ends_with_its_last_offset() -> None:
    group = two_members()
    committed(group, 3, 0)
    group.leave("m1")
    group.leave("m2")
    group.host.set_clock(8 * 86_400_000)
    group.host.expire_offsets()
    assert group.beat("m1", 3) == ErrorCode.GROUP_ID_NOT_FOUND
    group.host.crash()
    assert group.beat("m1", 3) == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_survive_the_way_from_one_kind_of_group_to_the_other() -> None:
    group = a_group()
    group.join("m1")
    committed(group, 2, 0)
    group.leave("m1")
    assert group.host.ask(ConsumerGroupHeartbeatRequest("billing", "m1", 3)).error_code == UNKNOWN
    assert fetch(group.host, "billing") == {("orders", 0): 20}
