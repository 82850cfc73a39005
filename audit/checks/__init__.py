"""The checks: one file per rule, named like it.

A rule's file has `CHECK`, and one or more of

    find(tables, limits)       -> findings as a DataFrame
    commit_rule(limits)        -> a RowRule about single rows of commit_steps
    rebalance_rule(limits)     -> a RowRule about single rows of rebalances

Rules about rows share one pass over their table, and all checks together are one query, since that is what costs.
What the tables cannot answer is said: "not evaluable", with the reason, never "clean".
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from audit.checks.kit.check import SEVERITIES, Check
from audit.checks.settings import Settings, parse_settings

__all__ = ["ALL", "RULES", "SEVERITIES", "Check", "Settings", "parse_settings", "run_checks"]

RULES = (
    # the log
    "crc_mismatch", "offset_overlap_or_gap", "torn_tail", "group_in_wrong_partition", "undecodable_record",
    "hot_log_partition",
    # generations
    "two_owners", "subscribed_partition_without_owner", "assignment_outside_subscription", "imbalance",
    "idle_members", "avoidable_moves", "rebalance_storm", "rebalance_longer_than_timeout",
    "generation_gap_or_decrease", "static_member_with_many_ids",
    # commits
    "tombstone_for_owned_partition", "offset_rewind", "stall", "commit_gap", "commit_without_owner",
    "commit_by_non_owner", "orphaned_offsets", "topic_recreated", "offset_jump",
    # with a broker to ask
    "committed_beyond_end_or_below_start", "state_differs_from_broker",
)  # fmt: skip

MODULES: Mapping[str, ModuleType] = {name: import_module(f"audit.checks.{name}") for name in RULES}
ALL: Mapping[str, Check] = {name: module.CHECK for name, module in MODULES.items()}

from audit.checks.run import run_checks  # noqa: E402  # it wants the lists above
