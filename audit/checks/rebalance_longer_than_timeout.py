"""Rebalances that took longer than their members were given to rejoin."""

from __future__ import annotations

from audit.checks.kit.check import HISTORY, JOIN_STARTS, WARNING, Check, Limits, duration, times
from audit.checks.kit.row_rules import RowRule

CHECK = Check(
    "rebalance_longer_than_timeout",
    WARNING,
    "Rebalances that took longer than the greatest rebalance timeout of their members.",
    "Nothing is read meanwhile: look for members that stay in their processing (max.poll.interval.ms) and for a leader"
    " that is slow to assign.",
    {"factor": 1},
    needs=(HISTORY, JOIN_STARTS),
)
TOOK_MS = "coalesce(duration_ms, sync_ms)"


def rebalance_rule(limits: Limits) -> RowRule:
    return RowRule(
        when=f"timeout_ms > 0 AND {TOOK_MS} > {limits['factor']} * timeout_ms",
        value=TOOK_MS,
        message=f"concat({times('n', 'rebalance')}, ' over the timeout; the longest took ', {duration('worst / 1000')},"
        f" ' of ', {duration('w.timeout_ms / 1000')}, ' (generation ', w.generation,"
        " coalesce(concat(', ', w.cause), ''), coalesce(concat(', ', nullif(w.trigger, '')), ''), ')')",
        columns={"member_id": "nullif(first.trigger, '')"},
    )
