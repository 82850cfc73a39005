"""Commits that leap ahead: records may have been skipped."""

from __future__ import annotations

from audit.checks.kit.check import HISTORY, WARNING, Check, Limits, times
from audit.checks.kit.commit_rules import SINCE_BEFORE_MS
from audit.checks.kit.row_rules import RowRule

CHECK = Check(
    "offset_jump",
    WARNING,
    "Commits far further ahead than the usual step, beyond all that was committed before.",
    "Someone skipped records (a seek, a reset to the latest), or the group was far behind: see who committed then.",
    {"records": 10_000, "factor": 100, "commits": 10},
    needs=(HISTORY,),
)
AHEAD = "(offset - greatest(coalesce(high, previous_offset), previous_offset))"


def commit_rule(limits: Limits) -> RowRule:
    """After a pause the usual step is as many times as long."""
    pauses = f"greatest(1, {SINCE_BEFORE_MS} / greatest(usual_ms, 1))"
    return RowRule(
        when=f"step > 0 AND {AHEAD} >= {limits['records']} AND NOT coalesce(topic_id <> previous_topic_id, false)",
        value=AHEAD,
        and_then=f"usual_commits >= {limits['commits']}"
        f" AND {AHEAD} > {limits['factor']} * greatest(usual_step, 1) * {pauses}",
        message=f"concat({times('n', 'commit')}, ' leapt ahead, at most by ', {times('worst', 'record')}, ' (from ',"
        " w.previous_offset, ' to ', w.offset, '); the usual step is ', w.usual_step)",
    )
