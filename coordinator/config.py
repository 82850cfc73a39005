"""Settings of the coordinator, in Kafka's units and with Kafka's defaults (see broker/config.py for their names)."""

from __future__ import annotations

from dataclasses import dataclass

MAX_REMEMBERED_ID = 255  # characters: caches are bounded by their entries, and an id can be 32 kB
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000  # a constant in Kafka too


@dataclass(slots=True, frozen=True)
class GroupConfig:
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096  # Kafka compares it with UTF-16 code units
    offsets_retention_ms: int = 604_800_000
    retention_check_interval_ms: int = 600_000
    audit_headers: bool = True
    max_message_bytes: int = 1_048_588  # of the log: a larger batch cannot be kept
