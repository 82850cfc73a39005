"""The settings of one log, under Kafka's names (dots and dashes as underscores) with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

FOREVER: Final = 2**63 - 1


@dataclass(slots=True, frozen=True)
class LogConfig:
    """Settings of a topic that matter to its logs."""

    cleanup_policy: str = "delete"  # delete, compact, or both with a comma
    segment_bytes: int = 1_073_741_824
    segment_ms: int = 604_800_000
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096
    retention_ms: int = 604_800_000  # -1: no limit
    retention_bytes: int = -1
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = FOREVER
    min_cleanable_dirty_ratio: float = 0.5
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = "CreateTime"  # or LogAppendTime
    file_delete_delay_ms: int = 60_000
    flush_messages: int = FOREVER
    flush_ms: int = FOREVER

    # What follows from the settings above. Every append asks, and properties would take longer.
    compacts: bool = field(init=False)
    deletes: bool = field(init=False)
    uses_log_append_time: bool = field(init=False)

    def __post_init__(self) -> None:
        for name, value in (
            ("compacts", "compact" in self.cleanup_policy),
            ("deletes", "delete" in self.cleanup_policy),
            ("uses_log_append_time", self.message_timestamp_type == "LogAppendTime"),
        ):
            object.__setattr__(self, name, value)  # the class is frozen
