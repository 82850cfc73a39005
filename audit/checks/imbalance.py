"""Members with far more partitions than others."""

from __future__ import annotations

from audit.checks.kit.check import HISTORY, WARNING, Check, Limits, duration, times
from audit.checks.kit.row_rules import RowRule

CHECK = Check(
    "imbalance",
    WARNING,
    "Generations in which the member with most partitions has far more than its share.",
    "With several topics the range assignor gives most to the first members: see what others would do in the report's"
    " what-if, and try cooperative-sticky; members with different subscriptions cannot always be balanced.",
    {"factor": 1.5, "partitions": 2, "seconds": 60},
    needs=(HISTORY,),
)


def rebalance_rule(limits: Limits) -> RowRule:
    """A generation that soon gives way to the next, as in a cooperative rebalance, does not count."""
    share = "(partition_count / member_count)"
    return RowRule(
        when=f"member_count > 1 AND max_load - min_load >= {limits['partitions']}"
        f" AND max_load >= {limits['factor']} * {share} AND in_force_s >= {limits['seconds']}",
        value=f"max_load / {share}",
        message=f"concat({times('n', 'generation')}, ' out of balance; at worst one member of ', w.member_count,"
        " ' had ', w.max_load, ' of ', w.partition_count, ' partitions and another ', w.min_load,"
        f" ', for ', {duration('w.in_force_s')},"
        " coalesce(concat(' (', w.protocol, ')'), ''))",
    )
