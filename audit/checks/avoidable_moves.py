"""Partitions that changed hands although a sticky assignor should have left them."""

from __future__ import annotations

from audit.checks.kit.check import HISTORY, WARNING, Check, Limits, times
from audit.checks.kit.row_rules import RowRule

CHECK = Check(
    "avoidable_moves",
    WARNING,
    "Rebalances under a sticky assignor that moved more partitions than balance needed.",
    "Moved partitions cost their caches and state: see that all members run the same client version, and that they keep"
    " their member ids (group.instance.id) over restarts.",
    {"moves": 1},
    needs=(HISTORY,),
)
STICKY = (
    "(protocol IN ('sticky', 'cooperative-sticky')"
    " OR (group_type = 'consumer' AND coalesce(protocol, 'uniform') = 'uniform'))"
)


def rebalance_rule(limits: Limits) -> RowRule:
    return RowRule(
        when=f"avoidable_moves >= {limits['moves']} AND {STICKY}",
        value="avoidable_moves",
        message=f"concat({times('n', 'rebalance')}, ' moved more than they had to; at worst ', w.avoidable_moves,"
        " ' of ', w.moved, ' moves were avoidable (', coalesce(w.protocol, 'uniform'), ', generation ', w.generation,"
        " ')')",
    )
