"""Commits for partitions that nobody owned."""

from __future__ import annotations

from audit.checks.kit.check import HISTORY, INFO, WARNING, Check, Limits, literal, times
from audit.checks.kit.row_rules import RowRule

CHECK = Check(
    "commit_without_owner",
    WARNING,
    "Commits for a partition that no member owned then; in a group without members, offsets set by hand.",
    "A consumer commits what it does not own any more, or one that assigns itself shares the group id: give that one an"
    " id of its own.",
    {"commits": 1},
    needs=(HISTORY,),
)


def commit_rule(_: Limits) -> RowRule:
    """Generation 0 is that of groups whose consumers assign themselves: there nobody ever owns anything."""
    return RowRule(
        when="NOT tombstone AND owner IS NULL AND group_generation > 0",
        value="1",
        flag="had_members",
        severity=f"if(any_flag, {literal(WARNING)}, {literal(INFO)})",
        message=f"concat({times('n', 'commit')}, if(any_flag, ' for a partition that nobody owned',"
        " ' while the group had no members'), ', first of offset ', first.offset,"
        " coalesce(concat(', by ', nullif(first.member_id, '')), ''))",
        columns={"value": "n", "member_id": "nullif(first.member_id, '')"},
    )
