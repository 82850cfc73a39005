"""Members that have nothing to do."""

from __future__ import annotations

from audit.checks.kit.check import HISTORY, INFO, Check, Limits, duration, times
from audit.checks.kit.row_rules import RowRule

CHECK = Check(
    "idle_members",
    INFO,
    "Generations with members that got no partition.",
    "Run fewer members, or give the topics more partitions, unless these stand by on purpose.",
    {"members": 1, "seconds": 60},
    needs=(HISTORY,),
)


def rebalance_rule(limits: Limits) -> RowRule:
    return RowRule(
        when=f"idle_members >= {limits['members']} AND in_force_s >= {limits['seconds']}",
        value="idle_members",
        message=f"concat({times('n', 'generation')}, ' with idle members; at most ', w.idle_members, ' of ',"
        f" w.member_count, ' had no partition, for ', {duration('w.in_force_s')})",
    )
