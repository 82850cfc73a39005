"""Commits below the one before: records are read again."""

from __future__ import annotations

from audit.checks.kit.check import ERROR, HISTORY, WARNING, Check, Limits, literal, times
from audit.checks.kit.row_rules import RowRule

CHECK = Check(
    "offset_rewind",
    ERROR,
    "Commits of a lower offset than the one before, and whether the old one was regained since.",
    "Someone reset the offsets, or two consumers commit for one partition: see who committed, and expect that records"
    " were processed twice.",
    {"records": 1},
    needs=(HISTORY,),
)


def commit_rule(limits: Limits) -> RowRule:
    """In a topic that was created anew, offsets begin anew: topic_recreated tells of that."""
    return RowRule(
        when=f"step <= -{limits['records']} AND NOT coalesce(topic_id <> previous_topic_id, false)",
        value="-step",
        flag="unregained",
        severity=f"if(any_flag, {literal(ERROR)}, {literal(WARNING)})",
        message=f"concat({times('n', 'commit')}, ' went back, at most by ', {times('worst', 'record')}, ' (from ',"
        " w.previous_offset, ' to ', w.offset, '); ',"
        " if(any_flag, 'not regained where the log ends', 'regained since'))",
    )
