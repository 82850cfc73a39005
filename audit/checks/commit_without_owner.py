"""Commits for partitions that nobody owned."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import numpy as np

from kohort.audit.checks.kit.check import HISTORY, INFO, OWNERS, WARNING, Check, Limits, Row, finding
from kohort.audit.checks.kit.gather import gather_steps
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.steps import Array
from kohort.audit.checks.kit.words import count
from kohort.audit.derive.history import UNASSIGNED

CHECK = Check(
    "commit_without_owner",
    WARNING,
    "Commits for a partition that no member owned then; in a group without members, offsets set by hand. The last"
    " commit of a cooperative member that has just lost the partition is none of these.",
    "A consumer commits what it does not own any more, or one that assigns itself shares the group id: give that one an"
    " id of its own.",
    {"commits": 1},
    needs=(HISTORY, OWNERS),
)


def find(part: Part, limits: Limits) -> Iterator[Row]:
    """Groups in generation 0 are left out: their consumers assign partitions themselves, so nobody ever owns one."""
    steps = part.steps
    ownerless = ~steps.tombstone & ~steps.owned & (steps.numbers("group_generation") > 0)
    hits = gather_steps(steps, ownerless & ~_farewells(part, ownerless))
    with_members = {(row["group_id"], row["generation"]) for row in part.rebalances} if hits else set()
    for hit in hits:
        first = hit.first
        if first["group_id"] in part.unclear_owners or hit.rows < limits["commits"]:
            continue
        had_members = (first["group_id"], first["group_generation"]) in with_members
        by = f", by {part.named(first['group_id'], first['member_id'])}" if first["member_id"] else ""
        how = "for a partition that nobody owned" if had_members else "while the group had no members"
        yield finding(
            CHECK,
            f"{count(hit.rows, 'commit')} {how}, first of offset {first['offset']}{by}",
            severity=WARNING if had_members else INFO,
            **hit.place,
            member_id=first["member_id"] or None,
            generation=first["group_generation"],
            value=float(hit.rows),
        )


def _farewells(part: Part, ownerless: Array) -> Array:
    """Commits with which a member of a cooperative group gives up a partition that it owned until then.

    The generation that takes the partition away comes first. The member learns of it, commits, and joins again; the
    next generation gives the partition to somebody else. So the last owner may commit in the one generation between,
    for as long as the rebalance timeout lasts. If the log does not say who committed, it is taken to be the last owner.
    """
    steps = part.steps
    rows = np.flatnonzero(ownerless & steps.is_("group_type", "classic"))
    is_farewell = np.zeros(len(steps), bool)
    if not len(rows):
        return is_farewell
    generations = {row["log_offset"]: row for row in part.rebalances}
    starts = np.flatnonzero(np.diff(steps.place[rows], prepend=-1))
    for of_place in np.split(rows, starts[1:]):
        (first,) = steps.rows(of_place[:1], "group_id", "topic", "partition")
        ended = {
            one["end_log_offset"]: one["member_id"]
            for one in part.intervals.of((first["group_id"], first["topic"], first["partition"]))
            if one["ended_by"] == UNASSIGNED and one["end_log_offset"] in generations
        }
        if ended:
            offsets = steps.numbers("log_offset")[of_place]
            for log_offset, member_id in ended.items():
                generation = generations[log_offset]
                until = generation["until_log_offset"]
                last = len(offsets) if until is None else np.searchsorted(offsets, until)
                some = of_place[np.searchsorted(offsets, log_offset) : last]
                in_time = generation["time"] + timedelta(milliseconds=generation["timeout_ms"] or 0)
                for number, commit in zip(some, steps.rows(some, "member_id", "time"), strict=True):
                    is_farewell[number] = commit["member_id"] in (None, member_id) and commit["time"] <= in_time
    return is_farewell
