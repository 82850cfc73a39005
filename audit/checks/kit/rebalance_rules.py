"""The one pass over rebalances, with how long each outcome was in force."""

from __future__ import annotations

from audit.checks.kit.row_rules import Source
from audit.checks.kit.tables import Tables

DETAILS = (
    "log_offset", "time", "until", "generation", "protocol", "leader", "cause", "trigger", "duration_ms", "join_ms",
    "sync_ms", "timeout_ms", "member_count", "partition_count", "moved", "avoidable_moves", "max_load", "min_load",
    "idle_members", "in_force_s",
)  # fmt: skip


def rebalances(tables: Tables) -> Source:
    return Source(
        tables.generations,
        keys=["log_partition", "group_id"],
        details=DETAILS,
        columns={"generation": "first.generation"},
    )
