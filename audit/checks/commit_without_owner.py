"""Commits for partitions that nobody owned."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.audit.checks.kit.check import HISTORY, INFO, OWNERS, WARNING, Check, Limits, Row, finding
from kohort.audit.checks.kit.gather import gather_steps
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import count

CHECK = Check(
    "commit_without_owner",
    WARNING,
    "Commits for a partition that no member owned then; in a group without members, offsets set by hand.",
    "A consumer commits what it does not own any more, or one that assigns itself shares the group id: give that one an"
    " id of its own.",
    {"commits": 1},
    needs=(HISTORY, OWNERS),
)


def find(part: Part, limits: Limits) -> Iterator[Row]:
    """Groups in generation 0 are left out: their consumers assign partitions themselves, so nobody ever owns one."""
    steps = part.steps
    ownerless = ~steps.tombstone & ~steps.owned & (steps.numbers("group_generation") > 0)
    hits = gather_steps(steps, ownerless)
    with_members = {(row["group_id"], row["generation"]) for row in part.rebalances} if hits else set()
    for hit in hits:
        first = hit.first
        if first["group_id"] in part.unclear_owners or hit.rows < limits["commits"]:
            continue
        had_members = (first["group_id"], first["group_generation"]) in with_members
        by = f", by {first['member_id']}" if first["member_id"] else ""
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
