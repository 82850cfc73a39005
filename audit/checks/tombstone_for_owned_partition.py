"""Offsets that were deleted while somebody was reading the partition."""

from __future__ import annotations

from audit.checks.kit.check import WARNING, Check, Limits, times
from audit.checks.kit.row_rules import RowRule

CHECK = Check(
    "tombstone_for_owned_partition",
    WARNING,
    "Committed offsets that were deleted while a member owned the partition.",
    "If the topic was deleted, this is how it should be; else the owner will start at auto.offset.reset after its next"
    " rebalance: see who deletes offsets, and the retention of offsets.",
)


def commit_rule(_: Limits) -> RowRule:
    return RowRule(
        when="tombstone AND owner IS NOT NULL",
        value="1",
        message=f"concat({times('n', 'deletion')}, ' of the committed offset while ', first.owner,"
        " ' owned the partition', coalesce(concat('; it was ', first.previous_offset), ''))",
        columns={"member_id": "first.owner", "value": "n"},
    )
