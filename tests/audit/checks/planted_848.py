"""Stories of planted.py about groups of the new protocol (KIP-848): regular expressions, reconciliation, migration."""

from __future__ import annotations

from kohort.audit.checks.kit.check import CRITICAL, ERROR, INFO, WARNING
from tests.audit.checks.planted import DAY, HOUR, MINUTE, Where, story
from tests.audit.logs import Group
from tests.audit.new_groups import (
    UNRELEASED,
    UNREVOKED,
    current_assignment,
    downgrade,
    matches,
    new_epoch,
    new_member_left,
    upgrade,
)


@story("assignment_outside_subscription")
def a_member_got_a_topic_that_its_regular_expression_does_not_match(group: Group, bad: bool) -> Where:
    group.commit({"u-0": 1}, by="")  # so that the log knows the topic's name
    group.later(HOUR)
    matches(group, "[tu]", ["t"] if bad else ["t", "u"])
    at = new_epoch(group, {"m1": ["t-0", "u-0"]}, regex={"m1": "[tu]"})
    group.commit({"t-0": 1}, by="m1")
    return Where(ERROR, "m1 (client-of-m1) got u-0", {
        "topic": "u", "partition": 0, "member_id": "m1", "log_offset": at + 2,
    })  # fmt: skip


@story("subscribed_partition_without_owner")
def a_topic_of_a_regular_expression_is_not_shared_out(group: Group, bad: bool) -> Where:
    group.commit({"t-0": 1, "u-0": 1}, by="")
    group.later(HOUR)
    matches(group, "[tu]", ["t", "u"])
    at = new_epoch(group, {"m1": ["t-0"] if bad else ["t-0", "u-0"]}, regex={"m1": "[tu]"})
    group.commit({"t-0": 2}, by="m1")
    group.later(5 * MINUTE)
    new_epoch(group, {"m1": ["t-0", "u-0"]}, joined=())
    return Where(ERROR, "1 partition of u had no owner, for up to 5", {
        "topic": "u", "partition": 0, "generation": 1, "log_offset": at + 3,
    })  # fmt: skip


@story("subscribed_partition_without_owner")
def a_partition_that_was_given_up_is_not_taken(group: Group, bad: bool) -> Where:
    new_epoch(group, {"m1": ["t-0", "t-1"]})
    group.commit({"t-0": 1}, by="m1")
    group.later(HOUR)
    at = new_epoch(group, {"m1": ["t-0"], "m2": ["t-1"]}, joined=["m2"], settled=False)
    current_assignment(group, "m1", ["t-0"], revoking=["t-1"], state=UNREVOKED)
    current_assignment(group, "m1", ["t-0"])
    current_assignment(group, "m2", [] if bad else ["t-1"], state=UNRELEASED if bad else 0)
    group.later(5 * MINUTE)
    new_epoch(group, {"m1": ["t-0"], "m2": ["t-1"]}, joined=())
    return Where(ERROR, "1 partition of t had no owner, for up to 5", {
        "topic": "t", "partition": 1, "generation": 2, "log_offset": at + 4,
    })  # fmt: skip


@story("two_owners")
def a_migration_gives_a_partition_away_that_a_classic_member_still_has(group: Group, bad: bool) -> Where:
    group.generation({"m1": ["t-0", "t-1"]})
    group.commit({"t-0": 1}, by="m1")
    upgrade(group, {"m1": ["t-0", "t-1"]}, {"m1": ["t-0"], "m2": ["t-1"]})
    if not bad:
        current_assignment(group, "m1", ["t-0"])
    at = current_assignment(group, "m2", ["t-1"])
    return Where(CRITICAL, "m1 (client-of-m1) and m2 (client-of-m2) both owned t-1 from generation 2 on", {
        "topic": "t", "partition": 1, "member_id": "m2", "generation": 2, "log_offset": at,
    })  # fmt: skip


@story("idle_members")
def a_member_waits_beside_one_that_has_everything(group: Group, bad: bool) -> Where:
    at = new_epoch(group, {"m1": ["t-0"], "m2": [] if bad else ["t-1"]})
    group.commit({"t-0": 1}, by="m1")
    group.later(10 * MINUTE)
    new_member_left(group, "m1")
    new_member_left(group, "m2")
    return Where(INFO, "at most 1 of 2 had no partition, for 10", {"generation": 1, "log_offset": at + 5})


@story("orphaned_offsets")
def a_topic_that_no_regular_expression_matches_any_more(group: Group, bad: bool) -> Where:
    group.later(-9 * DAY)
    matches(group, "[tu]", ["t", "u"])
    new_epoch(group, {"m1": ["t-0", "u-0"]}, regex={"m1": "[tu]"})
    group.commit({"t-0": 5, "u-0": 5}, by="m1")
    if bad:
        matches(group, "[tu]", ["t"])
        new_epoch(group, {"m1": ["t-0"]}, joined=())
    return Where(WARNING, "1 offset without use, such as u-0", {"topic": "u", "partition": 0})


@story("generation_gap_or_decrease")
def an_epoch_is_lower_after_a_restart(group: Group, bad: bool) -> Where:
    new_epoch(group, {"m1": ["t-0"]}, epoch=7)
    group.commit({"t-0": 1}, by="m1")
    at = new_epoch(group, {"m1": ["t-0"]}, epoch=3 if bad else 8, joined=())
    return Where(ERROR, "first 3 after 7", {"generation": 3, "log_offset": at})


@story("rebalance_storm")
def members_come_and_go_while_a_group_migrates(group: Group, bad: bool) -> Where:
    """To the new protocol and back, which is no storm, unless a member of the new protocol comes again and again."""
    group.generation({"m1": ["t-0", "t-1"]}, cause="member joined", trigger="m1")
    for turn in range(3 if bad else 1):
        upgrade(group, {"m1": ["t-0", "t-1"]}, {"m1": ["t-0"], "m2": ["t-1"]})
        current_assignment(group, "m1", ["t-0"], revoking=["t-1"], state=UNREVOKED)
        current_assignment(group, "m1", ["t-0"])
        current_assignment(group, "m2", ["t-1"])
        group.commit({"t-0": turn + 1}, by="m1")
        downgrade(group, ["m1", "m2"], {"m1": ["t-0"]})
        group.generation({"m1": ["t-0", "t-1"]}, cause="member left", trigger="m2")
    group.later(HOUR)
    return Where(ERROR, "7 rebalances in 21 s; came and went: client-of-m2 (6 times), client-of-m1 (1 time)", {})
