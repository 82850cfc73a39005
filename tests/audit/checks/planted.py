"""Stories with a defect, and the same stories without it: each told by a group of its own.

A story is told twice, `bad` and not. It returns where the defect is to be found. What happens in a story is what a
broker would have written; everything else about it is healthy, so that no other check has a word to say about it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kohort.audit.checks.kit.check import CRITICAL, ERROR, INFO, WARNING
from kohort.protocol.log_records import OFFSET_COMMIT, encode_key
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey
from tests.audit.logs import Group, topic_id
from tests.audit.new_groups import new_epoch

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
OTHER_ID = topic_id("another topic of the same name")
HEALTHY_LOG_PARTITIONS = 40  # stories about groups are told in these, damage is done to those from here on


class Where(NamedTuple):
    """What a finding must say."""

    severity: str
    words: str  # in its message
    columns: dict[str, Any]


class Story(NamedTuple):
    check: str
    tell: Callable[[Group, bool], Where]
    name: str


STORIES: list[Story] = []


def story(check: str) -> Callable[[Callable[[Group, bool], Where]], Callable[[Group, bool], Where]]:
    def remember(tell: Callable[[Group, bool], Where]) -> Callable[[Group, bool], Where]:
        STORIES.append(Story(check, tell, tell.__name__))
        return tell

    return remember


def steadily(group: Group, *, partition: str = "t-0", by: str = "m1", first: int = 0, count: int = 12) -> int:
    """A consumer at work: 100 records every 5 seconds."""
    group.commits(partition, range(first, first + 100 * count, 100), by=by, every_ms=5_000)
    return first + 100 * (count - 1)


def one_member(group: Group, *partitions: str) -> int:
    return group.generation({"m1": partitions or ("t-0",)}, cause="member joined", trigger="m1")


# --- generations --------------------------------------------------------------------------------------------------


@story("two_owners")
def two_members_got_the_same_partition(group: Group, bad: bool) -> Where:
    one_member(group, "t-0", "t-1")
    at = group.generation({"m1": ["t-0", "t-1"] if bad else ["t-0"], "m2": ["t-1"]})
    group.empty()
    return Where(CRITICAL, "m1 and m2 both owned t-1", {
        "topic": "t", "partition": 1, "generation": 2, "member_id": "m2", "log_offset": at,
    })  # fmt: skip


@story("two_owners")
def two_members_of_a_new_group_have_the_same_partition(group: Group, bad: bool) -> Where:
    at = new_epoch(group, {"m1": ["t-0", "t-1"] if bad else ["t-0"], "m2": ["t-1"]})
    group.commit({"t-0": 1}, by="m1")  # so that the log knows the topic's name
    return Where(
        CRITICAL,
        "m1 (client-of-m1) and m2 (client-of-m2) both owned t-1",
        {"topic": "t", "partition": 1, "log_offset": at + 7},
    )


@story("subscribed_partition_without_owner")
def a_partition_is_left_out(group: Group, bad: bool) -> Where:
    one_member(group, "t-0", "t-1", "t-2")
    group.later(5 * MINUTE)
    at = group.generation({"m1": ["t-0"], "m2": ["t-1"] if bad else ["t-1", "t-2"]})
    group.later(5 * MINUTE).generation({"m1": ["t-0", "t-1", "t-2"]})
    group.empty()
    return Where(ERROR, "1 partition of t had no owner, for up to 5", {
        "topic": "t", "partition": 2, "generation": 2, "log_offset": at,
    })  # fmt: skip


@story("assignment_outside_subscription")
def a_member_got_a_topic_that_it_does_not_want(group: Group, bad: bool) -> Where:
    wants = {"m1": ["t"], "m2": ["t"] if bad else ["t", "u"]}
    at = group.generation({"m1": ["t-0"], "m2": ["t-1", "u-0"]}, subscribed=wants)
    group.empty()
    return Where(ERROR, "m2 got u-0", {
        "topic": "u", "partition": 0, "member_id": "m2", "generation": 1, "log_offset": at,
    })  # fmt: skip


@story("assignment_outside_subscription")
def a_member_of_a_new_group_got_a_topic_that_it_does_not_want(group: Group, bad: bool) -> Where:
    group.commit({"u-0": 1}, by="")  # so that the log knows the topic's name
    group.later(HOUR)
    at = new_epoch(group, {"m1": ["t-0", "u-0"]}, subscribed=["t"] if bad else ["t", "u"])
    group.commit({"t-0": 1}, by="m1")
    return Where(ERROR, "m1 (client-of-m1) got u-0", {
        "topic": "u", "partition": 0, "member_id": "m1", "log_offset": at + 2,
    })  # fmt: skip


@story("imbalance")
def one_member_has_nearly_everything(group: Group, bad: bool) -> Where:
    loads = {"m1": ["t-0", "t-1", "t-2", "t-3", "t-4"], "m2": ["t-5"]} if bad else {
        "m1": ["t-0", "t-1", "t-2"], "m2": ["t-3", "t-4", "t-5"],
    }  # fmt: skip
    at = group.generation(loads)
    group.later(10 * MINUTE).empty()
    return Where(WARNING, "one member of 2 had 5 of 6 partitions and another 1", {"generation": 1, "log_offset": at})


@story("idle_members")
def a_member_has_nothing_to_do(group: Group, bad: bool) -> Where:
    at = group.generation({"m1": ["t-0"], "m2": [] if bad else ["t-1"]})
    group.later(10 * MINUTE).empty()
    return Where(INFO, "at most 1 of 2 had no partition", {"generation": 1, "log_offset": at})


@story("avoidable_moves")
def a_sticky_assignor_swaps_partitions(group: Group, bad: bool) -> Where:
    group.generation({"m1": ["t-0", "t-1"], "m2": ["t-2", "t-3"]}, protocol="sticky")
    moved = {"m1": ["t-2", "t-3"], "m2": ["t-0", "t-1"]} if bad else {"m1": ["t-0", "t-1"], "m2": ["t-2", "t-3"]}
    at = group.later(MINUTE).generation(moved, protocol="sticky")
    group.empty()
    return Where(WARNING, "4 of 4 moves were avoidable", {"generation": 2, "log_offset": at, "value": 4.0})


@story("rebalance_storm")
def members_come_and_go(group: Group, bad: bool) -> Where:
    first = one_member(group)
    for number in range(4):
        group.later(40_000 if bad else HOUR)
        crashing = f"crasher-00000000-0000-4000-8000-00000000000{number}"
        group.generation({"m1": ["t-0"], crashing: ["t-1"]}, cause="member joined", trigger=crashing)
        group.later(30_000).generation({"m1": ["t-0", "t-1"]}, cause="member left", trigger=crashing)
    group.empty()
    return Where(ERROR, "8 rebalances in 4.1 min; came and went: crasher (8 times); member joined (4 times)", {
        "generation": 2, "log_offset": first + 1, "value": 8.0,
    })  # fmt: skip


@story("rebalance_storm")
def three_members_are_restarted_one_after_the_other(group: Group, bad: bool) -> Where:
    """A cooperative group shares out in two generations. In the bad story the first member restarts three times."""
    shares = (["t-0", "t-3"], ["t-1"], ["t-2"])
    names = ["a0", "b0", "c0"]
    group.generation(dict(zip(names, shares, strict=True)))
    for number in range(1, 4):
        seat = 0 if bad else number - 1
        gone, names[seat] = names[seat], f"{names[seat][0]}{number}"
        others = [name for name in names if name != names[seat]]
        group.later(20_000)
        group.generation({others[0]: ["t-0", "t-1"], others[1]: ["t-2", "t-3"]}, cause="member left", trigger=gone)
        group.later(5_000)
        rest = {others[0]: ["t-1"], others[1]: ["t-2", "t-3"], names[seat]: []}
        group.generation(rest, subscribed=["t"], cause="member joined", trigger=names[seat])
        group.generation(dict(zip(names, shares, strict=True)), cause="member rejoined", trigger=others[0])
    group.empty()
    return Where(ERROR, "9 rebalances in 63 s; came and went: a1 (2 times), a2 (2 times)", {"value": 9.0})


@story("rebalance_longer_than_timeout")
def a_member_takes_its_time_to_rejoin(group: Group, bad: bool) -> Where:
    group.later(HOUR)
    at = group.generation(
        {"m1": ["t-0"]},
        join_ms=70_000 if bad else 50_000,
        rebalance_timeout_ms=60_000,
        cause="member joined",
        trigger="m1",
    )
    group.empty()
    return Where(WARNING, "the longest took 70 s of 60 s", {"generation": 1, "log_offset": at, "member_id": "m1"})


@story("rebalance_longer_than_timeout")
def a_leader_takes_its_time_to_assign(group: Group, bad: bool) -> Where:
    group.later(HOUR)
    at = group.generation({"m1": ["t-0"]}, sync_ms=70_000 if bad else 50_000, rebalance_timeout_ms=60_000)
    group.empty()
    return Where(WARNING, "the longest took 70 s of 60 s", {"generation": 1, "log_offset": at})


@story("generation_gap_or_decrease")
def a_generation_is_lower_than_the_one_before(group: Group, bad: bool) -> Where:
    group.generation({"m1": ["t-0"]}, number=5)
    at = group.generation({"m1": ["t-0"], "m2": ["t-1"]}, number=3 if bad else 6)
    group.empty()
    return Where(ERROR, "first 3 after 5", {"generation": 3, "log_offset": at})


@story("generation_gap_or_decrease")
def generations_are_left_out(group: Group, bad: bool) -> Where:
    group.generation({"m1": ["t-0"]}, number=5)
    at = group.generation({"m1": ["t-0"], "m2": ["t-1"]}, number=8 if bad else 6)
    group.empty()
    group.delete()
    group.generation({"m1": ["t-0"]}, number=1)  # a group that was deleted begins anew
    group.empty()
    return Where(INFO, "first 8 after 5", {"generation": 8, "log_offset": at})


@story("static_member_with_many_ids")
def two_processes_with_one_instance_id(group: Group, bad: bool) -> Where:
    places = []
    for number in range(6):
        member_id = f"m{number}"
        places.append(group.generation({member_id: ["t-0"]}, instances={member_id: "shelf-1"}, number=1))
        group.later(MINUTE if bad else HOUR)
    group.empty()
    return Where(WARNING, "shelf-1 had 6 member ids", {"log_offset": places[0], "member_id": "m5", "value": 6.0})


# --- commits ------------------------------------------------------------------------------------------------------


@story("tombstone_for_owned_partition")
def an_offset_is_deleted_under_its_owner(group: Group, bad: bool) -> Where:
    one_member(group)
    group.commit({"t-0": 100}, by="m1")
    if not bad:
        group.empty()
    at = group.tombstone("t-0")
    if bad:
        group.empty()
    return Where(WARNING, "while m1 owned the partition; it was 100", {
        "topic": "t", "partition": 0, "member_id": "m1", "log_offset": at,
    })  # fmt: skip


@story("offset_rewind")
def commits_go_back_for_good(group: Group, bad: bool) -> Where:
    one_member(group)
    last = steadily(group)
    at = group.commit({"t-0": last - 500 if bad else last + 100}, by="m1")
    group.empty()
    return Where(ERROR, "at most by 500 records (from 1100 to 600); not regained", {
        "topic": "t", "partition": 0, "member_id": "m1", "log_offset": at, "value": 500.0,
    })  # fmt: skip


@story("offset_rewind")
def commits_go_back_and_are_regained(group: Group, bad: bool) -> Where:
    one_member(group)
    last = steadily(group)
    at = group.commit({"t-0": last - 500 if bad else last + 50}, by="m1")
    steadily(group, first=last + 100)
    group.empty()
    return Where(WARNING, "(from 1100 to 600); regained since", {"partition": 0, "log_offset": at})


@story("stall")
def a_partition_stands_still_while_another_goes_on(group: Group, bad: bool) -> Where:
    one_member(group, "t-0", "t-1")
    places = []
    for number in range(40):
        places.append(group.commit({"t-0": 70, "t-1": 100 * (number if bad else 1)}, by="m1"))
        group.later(59_000)
    group.empty()
    return Where(WARNING, "offset 70 was committed 39 more times over 39 min", {
        "topic": "t", "partition": 0, "log_offset": places[1],
    })  # fmt: skip


@story("commit_gap")
def an_owner_stops_committing_for_an_hour(group: Group, bad: bool) -> Where:
    one_member(group)
    last = steadily(group)
    group.later(HOUR if bad else 10_000)
    at = group.commit({"t-0": last + 100}, by="m1")
    group.empty()
    return Where(WARNING, "no commit for up to 60.1 min though m1 owned the partition; usual are 5 s", {
        "topic": "t", "partition": 0, "member_id": "m1", "log_offset": at,
    })  # fmt: skip


@story("commit_gap")
def an_owner_never_commits_again(group: Group, bad: bool) -> Where:
    one_member(group)
    steadily(group)
    if not bad:
        group.empty()
    return Where(WARNING, "of the log though m1 owns the partition", {"topic": "t", "partition": 0, "member_id": "m1"})


@story("commit_without_owner")
def a_member_commits_what_nobody_owns(group: Group, bad: bool) -> Where:
    group.generation({"m1": ["t-0"] if bad else ["t-0", "u-0"]}, subscribed=["t", "u"])
    at = group.commit({"u-0": 7}, by="m1")
    group.empty()
    return Where(WARNING, "1 commit for a partition that nobody owned, first of offset 7, by m1", {
        "topic": "u", "partition": 0, "member_id": "m1", "log_offset": at,
    })  # fmt: skip


@story("commit_without_owner")
def a_cooperative_member_goes_on_to_commit_what_it_gave_up(group: Group, bad: bool) -> Where:
    """Its last commit comes in the generation that takes the partition away, and is as it should be."""
    group.generation({"m1": ["t-0", "t-1"]}, protocol="cooperative-sticky")
    group.generation({"m1": ["t-0"], "m2": []}, subscribed=["t"], protocol="cooperative-sticky")
    group.commit({"t-1": 7}, by="m1")
    at = group.generation(
        {"m1": ["t-0"], "m2": [] if bad else ["t-1"]}, subscribed=["t"], protocol="cooperative-sticky"
    )
    if bad:
        group.commit({"t-1": 8}, by="m1")
    group.empty()
    return Where(WARNING, "1 commit for a partition that nobody owned, first of offset 8, by m1", {
        "topic": "t", "partition": 1, "member_id": "m1", "generation": 3, "log_offset": at + 1,
    })  # fmt: skip


@story("commit_without_owner")
def offsets_are_set_by_hand_in_an_empty_group(group: Group, bad: bool) -> Where:
    if bad:
        one_member(group)
        group.empty()
    else:  # a consumer that assigns itself: the group has no generations
        group.empty(number=0)
    at = group.commit({"t-0": 7}, by="")
    return Where(INFO, "1 commit while the group had no members, first of offset 7", {"log_offset": at})


@story("commit_by_non_owner")
def a_zombie_commits(group: Group, bad: bool) -> Where:
    group.generation({"m1": ["t-0"], "m2": ["t-1"]})
    at = group.commit({"t-1": 5}, by="m1" if bad else "m2")
    group.empty()
    return Where(ERROR, "1 commit by m1 while m2 owned the partition", {
        "topic": "t", "partition": 1, "member_id": "m1", "generation": 1, "log_offset": at,
    })  # fmt: skip


@story("commit_by_non_owner")
def a_generation_that_is_over_commits(group: Group, bad: bool) -> Where:
    group.generation({"m1": ["t-0"]})
    group.generation({"m1": ["t-0"], "m2": ["t-1"]})
    at = group.commit({"t-0": 5}, by="m1", generation=1 if bad else 2)
    group.empty()
    return Where(ERROR, "1 commit by m1 with generation 1 while 2 was in force", {
        "partition": 0, "member_id": "m1", "generation": 1, "log_offset": at,
    })  # fmt: skip


@story("orphaned_offsets")
def nobody_has_used_a_group_for_longer_than_the_retention(group: Group, bad: bool) -> Where:
    group.later(-9 * DAY)
    one_member(group)
    group.commit({"t-0": 5}, by="m1")
    group.empty()
    if not bad:
        group.later(4 * DAY).generation({"m1": ["t-0"]})
        group.empty()
    return Where(WARNING, "1 offset without use, such as t-0 for 9", {"topic": "t", "partition": 0})


@story("orphaned_offsets")
def a_topic_that_nobody_subscribes_to_any_more(group: Group, bad: bool) -> Where:
    group.later(-9 * DAY)
    one_member(group, "t-0", "u-0")
    group.commit({"t-0": 5, "u-0": 5}, by="m1")
    group.generation({"m1": ["t-0"] if bad else ["t-0", "u-0"]})
    return Where(WARNING, "1 offset without use, such as u-0", {"topic": "u", "partition": 0})


@story("topic_recreated")
def a_topic_has_another_id_now(group: Group, bad: bool) -> Where:
    one_member(group)
    group.commit({"t-0": 500}, by="m1")
    group.empty()
    group.tombstone("t-0")
    one_member(group)
    at = group.commit({"t-0": 3}, by="m1", ids={"t": OTHER_ID} if bad else {})
    group.empty()
    return Where(WARNING, "t has another id", {"topic": "t", "log_offset": at})


@story("offset_jump")
def a_commit_leaps_ahead(group: Group, bad: bool) -> Where:
    one_member(group)
    last = steadily(group)
    at = group.commit({"t-0": last + (50_000 if bad else 5_000)}, by="m1")
    group.empty()
    return Where(WARNING, "at most by 50,000 records (from 1100 to 51100); the usual step is 100", {
        "topic": "t", "partition": 0, "member_id": "m1", "log_offset": at, "value": 50_000.0,
    })  # fmt: skip


# --- the log ------------------------------------------------------------------------------------------------------


@story("undecodable_record")
def a_value_that_cannot_be_read(group: Group, bad: bool) -> Where:
    key = encode_key(OFFSET_COMMIT, OffsetCommitKey(group.group_id, "t", 0))
    at = group.raw(key, b"\x00\x63nonsense" if bad else None)
    return Where(ERROR, "1 place (undecodable)", {"log_offset": at})


@story("undecodable_record")
def a_type_of_record_that_is_not_known(group: Group, bad: bool) -> Where:
    at = group.raw(b"\x00\x63future", b"\x00\x00") if bad else group.commit({"t-0": 1}, by="")
    return Where(INFO, "1 place (unknown)", {"log_offset": at})
