"""Settings of the coordinator, in Kafka's units and with Kafka's defaults (see broker/config.py for their names)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

MAX_REMEMBERED_ID = 255  # characters: caches are bounded by their entries, and an id can be 32 kB
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000  # a constant in Kafka too


@dataclass(slots=True, frozen=True)
class ConsumerGroupSettings:
    """What holds for one consumer group: its own settings, and the broker's where it has none."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000  # a new target is computed at most this often; 0: at once


@dataclass(slots=True, frozen=True)
class ShareGroupSettings:
    """What holds for one share group: its own settings, and the broker's where it has none."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000  # a new target is computed at most this often; 0: at once
    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    partition_max_record_locks: int = 2_000
    auto_offset_reset: str = "latest"  # or earliest, or by_duration:<ISO-8601>
    isolation_level: str = "read_uncommitted"  # or read_committed
    renew_acknowledge_enable: bool = True


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
    rack: str = ""  # of the broker, and so of each replica
    consumer: ConsumerGroupSettings = field(default_factory=ConsumerGroupSettings)  # at the start of the broker
    consumer_enabled: bool = True  # group.coordinator.rebalance.protocols names "consumer"
    consumer_max_size: int = 2_147_483_647
    consumer_assignors: tuple[str, ...] = ("uniform", "range")  # the first is the default
    consumer_migration_policy: str = "bidirectional"  # or upgrade, downgrade, disabled
    consumer_regex_refresh_interval_ms: int = 600_000
    share: ShareGroupSettings = field(default_factory=ShareGroupSettings)  # at the start of the broker
    share_max_size: int = 200
    share_initialize_retry_interval_ms: int = 30_000

    @property
    def upgrades_groups(self) -> bool:
        """Whether a classic group becomes a consumer group when a member of the newer protocol joins."""
        return self.consumer_migration_policy in ("bidirectional", "upgrade")

    @property
    def downgrades_groups(self) -> bool:
        """Whether a consumer group becomes a classic group when only classic members are left."""
        return self.consumer_migration_policy in ("bidirectional", "downgrade")


Settings = TypeVar("Settings")


class SettingsOfKind(Generic[Settings]):
    """The settings of groups of one kind as they are now. All shards share this object, so a change holds at once."""

    __slots__ = ("of_broker", "own", "version")

    def __init__(self, of_broker: Settings) -> None:
        self.of_broker = of_broker
        self.own: dict[str, Settings] = {}  # of groups that have settings of their own
        self.version = 0  # rises with every change: whoever remembers settings can see that they are old

    def of(self, group_id: str) -> Settings:
        """What holds for this group now."""
        return self.own.get(group_id, self.of_broker)

    def change_broker(self, of_broker: Settings) -> None:
        self.of_broker = of_broker
        self.version += 1

    def change_group(self, group_id: str, settings: Settings | None) -> None:
        """None: the group has no settings of its own any more."""
        if settings is None:
            self.own.pop(group_id, None)
        else:
            self.own[group_id] = settings
        self.version += 1


class ConsumerSettings(SettingsOfKind[ConsumerGroupSettings]):
    __slots__ = ()


class ShareSettings(SettingsOfKind[ShareGroupSettings]):
    __slots__ = ()
