"""The checks: one file per rule, named like it.

A rule's file has `CHECK`, and one of

    find(part, limits)            -> findings about one partition of the log, in which its groups live as a whole
    find_overall(parts, limits)   -> findings that compare partitions of the log, from a summary of each

Rules see Arrow tables and numpy, not Spark: vectorised over what is large (commits), plain Python over what is small.
Spark runs them, a log partition at a time, where the tables lie: as one query of 27 parts they cost 20 times as much,
nearly all of it planning. What the tables cannot answer is said: "not evaluable", with the reason, never "clean".

run.py runs all rules over a partition of the log, and says what became of each rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType

from kohort.audit.checks.kit.check import SEVERITIES, Check
from kohort.audit.checks.settings import Settings, parse_settings

__all__ = [
    "ALL", "RULES", "SEVERITIES", "Check", "Settings", "parse_settings",
]  # fmt: skip

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

MODULES: Mapping[str, ModuleType] = {name: import_module(f"kohort.audit.checks.{name}") for name in RULES}
ALL: Mapping[str, Check] = {name: module.CHECK for name, module in MODULES.items()}
