"""The broker's settings for consumer groups (group.consumer.*): allowed values, and how the coordinator gets them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kohort.coordinator.config import ConsumerGroupSettings

if TYPE_CHECKING:
    from kohort.broker.config import Config

logger = logging.getLogger(__name__)

ASSIGNOR_CLASSES = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}


_FIELDS = {  # of ConsumerGroupSettings, by the name that a group's setting has behind "consumer."
    "session.timeout.ms": "session_timeout_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "assignment.interval.ms": "assignment_interval_ms",
}


def settings_of_all(config: Config) -> ConsumerGroupSettings:
    """What holds for groups without settings of their own."""
    return settings_of_group(config, {})


def settings_of_group(config: Config, configs: dict[str, str]) -> ConsumerGroupSettings:
    """What holds for a group that has these settings of its own.

    Every value was within the broker's limits when it was set. A later start can have other limits: they win.
    """
    values = {}
    for name, field in _FIELDS.items():
        value = int(configs.get(f"consumer.{name}", getattr(config, f"group_consumer_{field}")))
        low, high = (getattr(config, f"group_consumer_{limit}_{field}") for limit in ("min", "max"))
        values[field] = min(max(value, low), high)
    return ConsumerGroupSettings(**values)


def parse_protocols(text: str) -> list[str]:
    """The protocols that group.coordinator.rebalance.protocols names."""
    protocols = _words(text)
    if not set(protocols) <= {"classic", "consumer", "share", "streams"}:
        raise ValueError("must be a list of classic, consumer, share and streams")
    if "classic" not in protocols:
        raise ValueError("must name classic, which cannot be turned off")
    return protocols


def parse_assignors(text: str) -> list[str]:
    """The assignors that group.consumer.assignors names, by their names or by the names of their classes in Kafka."""
    names = [ASSIGNOR_CLASSES.get(word, word) for word in _words(text)]
    if not set(names) <= set(ASSIGNOR_CLASSES.values()):
        raise ValueError("must be uniform, range or both; Kohort cannot load assignors of your own")
    if len(set(names)) < len(names):
        raise ValueError("must name each assignor once")
    return names


def parse_migration_policy(text: str) -> str:
    if text.lower() not in ("bidirectional", "upgrade", "downgrade", "disabled"):
        raise ValueError("must be bidirectional, upgrade, downgrade or disabled")
    return text.lower()


def _words(text: str) -> list[str]:
    """The words of a list that must not be empty. ValueError for a word that is there twice."""
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise ValueError("must be a list of words with commas between them")
    if len(set(words)) < len(words):
        raise ValueError("must name each word once")
    return words


class Contradiction(NamedTuple):
    """Two settings, the first of which must not be more than the second; or must be less, if `strictly`."""

    less: str
    more: str
    strictly: bool = False

    def holds(self, config: Config) -> bool:
        less, more = self._values(config)
        return less > more or (self.strictly and less == more)

    def told(self, config: Config) -> str:
        """The text has both values, because one of them is often a default that the user does not know."""
        less, more = self._values(config)
        than = "less than" if self.strictly else "less than or equal to"
        return f"{self.less} ({less}) must be {than} {self.more} ({more})"

    def _values(self, config: Config) -> tuple[int, int]:
        less, more = (getattr(config, name.replace(".", "_")) for name in (self.less, self.more))
        return less, more


def contradictions_in(config: Config) -> Iterator[Contradiction]:
    """Settings of consumer groups that contradict each other. Kafka checks the same at its start."""
    for value in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
        own, low, high = (f"group.consumer.{word}{value}" for word in ("", "min.", "max."))
        for each in (Contradiction(low, high), Contradiction(low, own), Contradiction(own, high)):
            if each.holds(config):
                yield each
    heartbeats = Contradiction(
        "group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms", strictly=True
    )
    if heartbeats.holds(config):
        yield heartbeats


def warn_of_protocols(config: Config) -> None:
    protocols = parse_protocols(config.group_coordinator_rebalance_protocols)
    if "consumer" not in protocols:
        logger.warning(
            "group.coordinator.rebalance.protocols does not name consumer: consumers with group.protocol=consumer "
            "are refused. Kafka 5.0 will not have this setting"
        )
