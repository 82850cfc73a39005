"""The broker's settings for share groups (group.share.*): allowed values, and how the coordinator gets them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kohort.broker.consumer_settings import Contradiction
from kohort.coordinator.config import ShareGroupSettings

if TYPE_CHECKING:
    from kohort.broker.config import Config

LIMITED = (  # numbers that a group can set within limits of the broker, by their names behind "share."
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "assignment.interval.ms",
    "record.lock.duration.ms",
    "delivery.count.limit",
    "partition.max.record.locks",
)


def share_settings_of_all(config: Config) -> ShareGroupSettings:
    """What holds for groups without settings of their own."""
    return share_settings_of_group(config, {})


def share_settings_of_group(config: Config, configs: dict[str, str]) -> ShareGroupSettings:
    """What holds for a group that has these settings of its own.

    Every value was within the broker's limits when it was set. A later start can have other limits: they win.
    """
    values = {}
    for name in LIMITED:
        field = name.replace(".", "_")
        value = int(configs.get(f"share.{name}", getattr(config, f"group_share_{field}")))
        low, high = (getattr(config, f"group_share_{limit}_{field}") for limit in ("min", "max"))
        values[field] = min(max(value, low), high)
    defaults = ShareGroupSettings()
    return ShareGroupSettings(
        **values,
        auto_offset_reset=configs.get("share.auto.offset.reset", defaults.auto_offset_reset),
        isolation_level=configs.get("share.isolation.level", defaults.isolation_level),
        renew_acknowledge_enable=configs.get("share.renew.acknowledge.enable", "true") == "true",
    )


def share_contradictions_in(config: Config) -> Iterator[Contradiction]:
    """Settings of share groups that contradict each other. Kafka checks the same at its start."""
    for value in LIMITED:
        own, low, high = (f"group.share.{word}{value}" for word in ("", "min.", "max."))
        for each in (Contradiction(low, high), Contradiction(low, own), Contradiction(own, high)):
            if each.holds(config):
                yield each
    heartbeats = Contradiction("group.share.heartbeat.interval.ms", "group.share.session.timeout.ms", strictly=True)
    sessions = Contradiction("group.share.max.size", "group.share.max.share.sessions")
    yield from (each for each in (heartbeats, sessions) if each.holds(config))


def check_share_assignors(text: str) -> None:
    if text.strip() not in ("simple", "org.apache.kafka.coordinator.group.assignor.SimpleAssignor"):
        raise ValueError("must be simple; Kohort cannot load assignors of your own")
