"""What is asked of both brokers, one file per group of APIs. Importing a file registers its scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

# In this order: what looks at a whole, still empty broker comes first.
FILES = (
    *("cluster", "coordinators", "topics", "partitions", "configs", "admin", "produce", "fetch", "offsets", "log_dirs"),
    *("groups_join", "groups_static", "groups_sync", "groups_heartbeat", "groups_leave", "groups_commit"),
    *("groups_fetch", "groups_offset_delete", "groups_admin", "groups_time", "group_configs"),
    *("consumer_requests", "consumer_members", "consumer_static", "consumer_topics", "consumer_regex"),
    *("consumer_time", "consumer_offsets", "consumer_admin", "consumer_classic", "consumer_migration"),
    *("share_members", "share_fetch", "share_acknowledge", "share_sessions", "share_time"),
    *("share_groups", "share_offsets", "share_state", "share_random", "share_committed", "share_trouble"),
    *("share_storms",),
    *("transaction_ids", "transaction_add", "transaction_produce", "transaction_end", "transaction_read"),
    *("transaction_offsets", "transaction_time", "transaction_mixed", "transaction_admin", "transaction_crashes"),
    "transaction_random",
)


def load(files: Sequence[str] = FILES) -> None:
    for name in files:
        import_module(f"tests.parity.scenarios.{name}")
