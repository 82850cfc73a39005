"""Commits by somebody else than the owner, or by a member of a generation that is over."""

from __future__ import annotations

from audit.checks.kit.check import COMMITTERS, ERROR, HISTORY, Check, Limits, times
from audit.checks.kit.row_rules import RowRule

CHECK = Check(
    "commit_by_non_owner",
    ERROR,
    "Commits by a member that does not own the partition, or with a generation that is over.",
    "A zombie overwrites the owner's progress: see why the coordinator let it, and stop the member that is named.",
    needs=(HISTORY, COMMITTERS),
)
STALE = "coalesce(group_type = 'classic' AND generation >= 0 AND generation < group_generation, false)"


def commit_rule(_: Limits) -> RowRule:
    return RowRule(
        when=f"NOT tombstone AND member_id IS NOT NULL AND owner IS NOT NULL AND (member_id <> owner OR {STALE})",
        value="1",
        flag=STALE,
        message=f"concat({times('n', 'commit')}, ' by ',"
        " if(first.member_id = '', 'nobody in particular', first.member_id),"
        " if(first.member_id = first.owner, '', concat(' while ', first.owner, ' owned the partition')),"
        " if(any_flag, concat(', with generation ', first.generation, ' while ', first.group_generation,"
        " ' was in force'), ''))",
        columns={"value": "n", "generation": "coalesce(first.generation, first.group_generation)"},
    )
