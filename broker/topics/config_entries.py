"""Settings of topics, of groups and of the broker as DescribeConfigs and CreateTopics show them.

Each entry says its value, where that comes from, and its synonyms: the values that would hold without it, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from kohort.broker.topics.broker_settings import CHANGEABLE, IGNORED, own_settings, value_of
from kohort.broker.topics.dynamic_configs import BROKER_LEVEL, CLUSTER_LEVEL, dynamic_configs
from kohort.broker.topics.group_configs import GROUP_SETTINGS
from kohort.broker.topics.topic_config import TOPIC_SETTINGS, Setting

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.topics.dynamic_configs import DynamicConfigs

# Where a value comes from, as Kafka numbers it.
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_CLUSTER, STATIC_BROKER, DEFAULT = 1, 2, 3, 4, 5
DYNAMIC_GROUP = 8
UNKNOWN_TYPE = 0

# Kafka has the defaults of these under other names, and shows them only beside a value that was set.
_DEFAULT_IN_HOURS = {
    "log.retention.ms": ("log.retention.hours", "168", DEFAULT),
    "log.roll.ms": ("log.roll.hours", "168", DEFAULT),
}

_NOT_SHOWN = "group.consumer.regex.refresh.interval.ms"  # Kafka has it for tests

Synonym = tuple[str, str | None, int]  # name, value, source


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    source: int
    type: int
    synonyms: list[Synonym]  # the one in force first
    read_only: bool = False
    sensitive: bool = False


T = TypeVar("T")


class TopicEntries(Generic[T]):
    """Every setting of a topic, as one answer shows it. Topics share what is equal, since an answer may have many."""

    def __init__(self, broker: Broker, show: Callable[[ConfigEntry], T]) -> None:
        self._dynamic = dynamic_configs(broker)
        self._show = show
        self._known: dict[tuple[str, str | None], T] = {}

    def of(self, own: dict[str, str]) -> list[T]:
        """For a topic that has these settings itself."""
        return [self._entry(known, own.get(known.name)) for known in TOPIC_SETTINGS.values()]

    def _entry(self, known: Setting, own: str | None) -> T:
        found = self._known.get((known.name, own))
        if found is None:
            found = self._known[known.name, own] = self._show(_topic_entry(self._dynamic, own, known))
        return found


def entries_of(broker: Broker, own: dict[str, str]) -> list[ConfigEntry]:
    return TopicEntries(broker, lambda entry: entry).of(own)


def _topic_entry(dynamic: DynamicConfigs, own: str | None, known: Setting) -> ConfigEntry:
    synonyms: list[Synonym] = []
    if own is not None:
        synonyms.append((known.name, own, DYNAMIC_TOPIC))
    if known.broker_setting is not None:
        synonyms += _inherited(dynamic, known.broker_setting, known.default)
    if synonyms:
        _, value, source = synonyms[0]
        return ConfigEntry(known.name, value, source, known.type, synonyms)
    return ConfigEntry(known.name, known.default, DEFAULT, known.type, synonyms)


def group_entries(broker: Broker, own: dict[str, str]) -> list[ConfigEntry]:
    """Every setting of a group that has these settings itself."""
    dynamic = dynamic_configs(broker)
    entries = []
    for known in GROUP_SETTINGS.values():
        synonyms: list[Synonym] = []
        if known.name in own:
            synonyms.append((known.name, own[known.name], DYNAMIC_GROUP))
        if known.broker_setting is not None:
            synonyms += _inherited(dynamic, known.broker_setting, known.default)
        else:
            synonyms.append((known.name, known.default, DEFAULT))
        _, value, source = synonyms[0]
        entries.append(ConfigEntry(known.name, value, source, known.type, synonyms))
    return entries


def _inherited(dynamic: DynamicConfigs, name: str, default: str) -> list[Synonym]:
    """What a topic or a group gets from the broker's setting `name`. Settings that Kohort ignores are not passed on."""
    found: list[Synonym] = []
    if name in own_settings():
        found += _changed(dynamic, name)
        static = value_of(dynamic.static, name)
        if static != default:
            found.append((name, static, STATIC_BROKER))
    if name not in _DEFAULT_IN_HOURS:
        found.append((name, default, DEFAULT))
    elif found and found[0][2] != STATIC_BROKER:
        found.append(_DEFAULT_IN_HOURS[name])
    return found


def _changed(dynamic: DynamicConfigs, name: str) -> list[Synonym]:
    """The values that the setting was given while the broker ran."""
    levels = ((BROKER_LEVEL, DYNAMIC_BROKER), (CLUSTER_LEVEL, DYNAMIC_CLUSTER))
    return [(name, dynamic.levels[level][name], source) for level, source in levels if name in dynamic.levels[level]]


def broker_entries(broker: Broker) -> list[ConfigEntry]:
    """Every setting that Kohort has, and the others that were set while it ran."""
    dynamic = dynamic_configs(broker)
    entries = []
    for known in own_settings().values():
        if known.name == _NOT_SHOWN:
            continue
        synonyms = _changed(dynamic, known.name)
        static = value_of(dynamic.static, known.name)
        if static != known.default:
            synonyms.append((known.name, static, STATIC_BROKER))
        in_hours = synonyms and known.name in _DEFAULT_IN_HOURS
        synonyms.append(_DEFAULT_IN_HOURS[known.name] if in_hours else (known.name, known.default, DEFAULT))
        source = synonyms[0][2]
        value = value_of(broker.config, known.name)
        entries.append(ConfigEntry(known.name, value, source, known.type, synonyms, known.name not in CHANGEABLE))
    others = {**dynamic.levels[CLUSTER_LEVEL], **dynamic.levels[BROKER_LEVEL]}
    return entries + [_other_entry(dynamic, name) for name in others if name not in own_settings()]


def _other_entry(dynamic: DynamicConfigs, name: str) -> ConfigEntry:
    synonyms = _changed(dynamic, name)
    known = IGNORED.get(name)
    if known is None:
        return _secret_entry(name, synonyms[0][2])
    if known.default:
        synonyms.append((name, known.default, DEFAULT))
    _, value, source = synonyms[0]
    return ConfigEntry(name, (value or "").strip(), source, known.type, synonyms)


def _secret_entry(name: str, source: int) -> ConfigEntry:
    """A setting that nobody knows may hold a secret: its value is not shown."""
    return ConfigEntry(name, None, source, UNKNOWN_TYPE, [(name, None, source)], read_only=True, sensitive=True)


def cluster_entries(broker: Broker) -> list[ConfigEntry]:
    """The defaults of the cluster that were set while the broker ran."""
    entries = []
    for name, value in dynamic_configs(broker).levels[CLUSTER_LEVEL].items():
        known = own_settings().get(name) or IGNORED.get(name)
        if known is None:
            entries.append(_secret_entry(name, DYNAMIC_CLUSTER))
        else:
            synonyms: list[Synonym] = [(name, value, DYNAMIC_CLUSTER)]
            entries.append(ConfigEntry(name, value.strip(), DYNAMIC_CLUSTER, known.type, synonyms))
    return entries
