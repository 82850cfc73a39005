"""The checks: one file per rule, with the name of the rule.

The file of a rule has `CHECK`, and one of these functions:

    find(part, limits)            findings about one partition of the log, which has everything about its groups
    find_overall(parts, limits)   findings that compare partitions of the log, from a summary of each

Rules use Arrow tables and numpy, not Spark: vectorised for large tables (commits), plain Python for small ones. Spark
tasks run all rules for one log partition at a time. As one Spark query of 27 parts they cost 20 times as much, nearly
all of it for planning. If the tables do not have what a rule needs, its result is "not evaluable" with the reason, and
never "clean".

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
    # transactions
    "hanging_transaction", "pending_offsets", "commit_by_fenced_producer",
    # share groups
    "poison_record", "share_stall", "lock_timeouts",
    # with a broker to ask
    "committed_beyond_end_or_below_start", "state_differs_from_broker",
)  # fmt: skip

MODULES: Mapping[str, ModuleType] = {name: import_module(f"kohort.audit.checks.{name}") for name in RULES}
ALL: Mapping[str, Check] = {name: module.CHECK for name, module in MODULES.items()}
