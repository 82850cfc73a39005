"""A topic's settings as DescribeConfigs and CreateTopics show them: value, source, and the alternatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kohort.broker.topics.topic_config import TOPIC_SETTINGS, TopicSetting, broker_default

if TYPE_CHECKING:
    from kohort.broker.config import Config

# Where a value comes from, as Kafka numbers it.
DYNAMIC_TOPIC, STATIC_BROKER, DEFAULT = 1, 4, 5

# Kafka's defaults of these stand under other names (log.retention.hours, log.roll.hours): no synonyms.
_WITHOUT_DEFAULT_SYNONYM = ("log.retention.ms", "log.roll.ms")


class ConfigEntry(NamedTuple):
    name: str
    value: str
    source: int
    type: int
    synonyms: list[tuple[str, str, int]]  # (name, value, source), the one in force first


def entries_of(config: Config, own: dict[str, str]) -> list[ConfigEntry]:
    return [_entry(config, own, known) for known in TOPIC_SETTINGS.values()]


def _entry(config: Config, own: dict[str, str], known: TopicSetting) -> ConfigEntry:
    synonyms: list[tuple[str, str, int]] = []
    if known.name in own:
        synonyms.append((known.name, own[known.name], DYNAMIC_TOPIC))
    inherited = broker_default(config, known)
    if known.broker_setting is not None:
        if inherited != known.default:
            synonyms.append((known.broker_setting, inherited, STATIC_BROKER))
        if known.broker_setting not in _WITHOUT_DEFAULT_SYNONYM:
            synonyms.append((known.broker_setting, known.default, DEFAULT))
    if synonyms:
        _, value, source = synonyms[0]
        return ConfigEntry(known.name, value, source, known.type, synonyms)
    return ConfigEntry(known.name, known.default, DEFAULT, known.type, synonyms)
