"""The settings of a topic: Kafka's names, types, defaults and limits, and which broker setting a default comes from.

Kohort honours those that have a place in `storage.log_config.LogConfig` or below in `TopicConfig`; the others
(tiered storage, recompression) are accepted if they have their default, and refused otherwise: a setting that is stored
and ignored would promise something that Kohort does not do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.broker.config import INT32_MAX, INT64_MAX
from kohort.storage.log_config import LogConfig

if TYPE_CHECKING:
    from kohort.broker.config import Config

# Types as DescribeConfigs numbers them.
BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7


_REPLICAS = r"\d+:\d+"  # partition:broker. One broker replicates nothing, so every throttle is honoured.


class Setting(NamedTuple):
    """A setting of a topic or of the broker, and the values that it can have."""

    name: str
    type: int
    default: str
    broker_setting: str | None = None  # whose value is the default
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    honoured: bool = True
    pattern: str = ""  # a regular expression that each word of a list must match; "*" alone is fine, too


_ROWS = (
    Setting("cleanup.policy", LIST, "delete", "log.cleanup.policy", choices=("compact", "delete")),
    Setting("compression.gzip.level", INT, "-1", "compression.gzip.level", honoured=False),
    Setting("compression.lz4.level", INT, "9", "compression.lz4.level", honoured=False),
    Setting("compression.type", STRING, "producer", "compression.type", honoured=False),
    Setting("compression.zstd.level", INT, "3", "compression.zstd.level", honoured=False),
    Setting("delete.retention.ms", LONG, "86400000", "log.cleaner.delete.retention.ms", 0, INT64_MAX),
    Setting("file.delete.delay.ms", LONG, "60000", "log.segment.delete.delay.ms", 0, INT64_MAX),
    Setting("flush.messages", LONG, "9223372036854775807", "log.flush.interval.messages", 1, INT64_MAX),
    Setting("flush.ms", LONG, "9223372036854775807", None, 0, INT64_MAX),
    Setting("follower.replication.throttled.replicas", LIST, "", pattern=_REPLICAS),
    Setting("index.interval.bytes", INT, "4096", "log.index.interval.bytes", 0, INT32_MAX),
    Setting("leader.replication.throttled.replicas", LIST, "", pattern=_REPLICAS),
    Setting("local.retention.bytes", LONG, "-2", "log.local.retention.bytes", honoured=False),
    Setting("local.retention.ms", LONG, "-2", "log.local.retention.ms", honoured=False),
    Setting("max.compaction.lag.ms", LONG, "9223372036854775807", "log.cleaner.max.compaction.lag.ms", 1, INT64_MAX),
    Setting("max.message.bytes", INT, "1048588", "message.max.bytes", 0, INT32_MAX),
    Setting("message.timestamp.after.max.ms", LONG, "3600000", "log.message.timestamp.after.max.ms", 0, INT64_MAX),
    Setting(
        "message.timestamp.before.max.ms",
        LONG,
        "9223372036854775807",
        "log.message.timestamp.before.max.ms",
        0,
        INT64_MAX,
    ),
    Setting(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "log.message.timestamp.type",
        choices=("CreateTime", "LogAppendTime"),
    ),
    Setting("min.cleanable.dirty.ratio", DOUBLE, "0.5", "log.cleaner.min.cleanable.ratio", 0, 1),
    Setting("min.compaction.lag.ms", LONG, "0", "log.cleaner.min.compaction.lag.ms", 0, INT64_MAX),
    Setting("min.insync.replicas", INT, "1", "min.insync.replicas", 1, INT32_MAX),
    Setting("preallocate", BOOLEAN, "false", "log.preallocate", honoured=False),
    Setting("remote.log.copy.disable", BOOLEAN, "false", honoured=False),
    Setting("remote.log.delete.on.disable", BOOLEAN, "false", honoured=False),
    Setting("remote.storage.enable", BOOLEAN, "false", honoured=False),
    Setting("retention.bytes", LONG, "-1", "log.retention.bytes", None, INT64_MAX),
    Setting("retention.ms", LONG, "604800000", "log.retention.ms", -1, INT64_MAX),
    Setting("segment.bytes", INT, "1073741824", "log.segment.bytes", 1_048_576, INT32_MAX),
    Setting("segment.index.bytes", INT, "10485760", "log.index.size.max.bytes", 4, INT32_MAX),
    Setting("segment.jitter.ms", LONG, "0", honoured=False),
    Setting("segment.ms", LONG, "604800000", "log.roll.ms", 1, INT64_MAX),
    Setting("unclean.leader.election.enable", BOOLEAN, "false", "unclean.leader.election.enable", honoured=False),
)

TOPIC_SETTINGS: dict[str, Setting] = {row.name: row for row in _ROWS}


class InvalidConfig(ValueError):
    """A value that a setting cannot have; the text is for the client."""


def check_topic_config(name: str, value: str | None) -> str:
    """The value as it is kept. InvalidConfig names the setting, its value and what is allowed."""
    known = TOPIC_SETTINGS.get(name)
    if known is None:
        raise InvalidConfig(f"Unknown topic config name: {name}")
    if value is None:
        raise InvalidConfig(f"Null value not supported for topic configs: {name}")
    text = value.strip()
    parsed = parse_value(known, text)
    if not known.honoured and parsed != parse_value(known, known.default):
        raise InvalidConfig(f"{name}={text}: Kohort does not have this; leave it at {known.default!r}")
    return value


def check_together(configs: dict[str, str]) -> None:
    """InvalidConfig for settings that contradict each other."""
    least = int(configs.get("min.compaction.lag.ms", 0))
    most = int(configs.get("max.compaction.lag.ms", INT64_MAX))
    if least > most:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )


def parse_value(known: Setting, text: str) -> bool | int | float | list[str]:
    """The value that the text stands for: the words of a string or a list. InvalidConfig in Kafka's words."""
    if known.type == BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise _invalid(known, text, "Expected value to be either true or false")
        return text.lower() == "true"
    if known.type in (STRING, LIST):
        return _parse_words(known, text)
    try:
        if "_" in text:  # 1_000 is a number in Python, but not in Java
            raise ValueError
        number = float(text) if known.type == DOUBLE else int(text)
    except ValueError:
        raise _invalid(known, text, f"Not a number of type {_TYPE_NAMES[known.type]}") from None
    if number != number:  # NaN, which is neither below nor above any limit
        raise _invalid(known, text, f"Not a number of type {_TYPE_NAMES[known.type]}")
    limit = {INT: INT32_MAX, LONG: INT64_MAX}.get(known.type)
    if limit is not None and not -limit - 1 <= number <= limit:
        raise _invalid(known, text, f"Not a number of type {_TYPE_NAMES[known.type]}")
    if known.low is not None and number < known.low:
        raise _invalid(known, str(number), f"Value must be at least {known.low}")
    if known.high is not None and number > known.high:
        raise _invalid(known, str(number), f"Value must be no more than {known.high}")
    return number


_TYPE_NAMES = {INT: "INT", LONG: "LONG", DOUBLE: "DOUBLE"}


def _parse_words(known: Setting, text: str) -> list[str]:
    words = [word.strip() for word in text.split(",") if text] if known.type == LIST else [text]
    if known.choices:
        for word in words:
            if word not in known.choices:
                raise _invalid(known, word, f"String must be one of: {', '.join(known.choices)}")
    if known.pattern and words != ["*"] and not all(re.fullmatch(known.pattern, word) for word in words):
        raise _invalid(known, text, "It must be * or a list of partition:broker.")
    return words


def _invalid(known: Setting, text: str, why: str) -> InvalidConfig:
    return InvalidConfig(f"Invalid value {text} for configuration {known.name}: {why}")


def broker_default(config: Config, known: Setting) -> str:
    if known.broker_setting is None:
        return known.default
    value = getattr(config, known.broker_setting.replace(".", "_"), known.default)
    return str(value)


class TopicConfig(NamedTuple):
    """The settings of a topic that handlers need, parsed once per change."""

    log: LogConfig
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    min_insync_replicas: int


def default_topic_config(config: Config) -> TopicConfig:
    """What holds for a topic without settings of its own."""
    every = {name: broker_default(config, known) for name, known in TOPIC_SETTINGS.items()}
    return with_own(TopicConfig(LogConfig(), 0, 0, 0), every)


def with_own(defaults: TopicConfig, own: dict[str, str]) -> TopicConfig:
    """The defaults, and above them the settings that a topic has itself. They were checked when they were set."""
    for_log: dict[str, Any] = {}
    for_handlers: dict[str, int] = {}
    for name, text in own.items():
        if name in _OF_HANDLERS:
            for_handlers[_OF_HANDLERS[name]] = int(text)
        elif name in _OF_LOGS:
            field, parse = _OF_LOGS[name]
            for_log[field] = parse(text.strip())
    log = replace(defaults.log, **for_log) if for_log else defaults.log
    return defaults._replace(log=log, **for_handlers)


_OF_HANDLERS = {
    "message.timestamp.before.max.ms": "timestamp_before_max_ms",
    "message.timestamp.after.max.ms": "timestamp_after_max_ms",
    "min.insync.replicas": "min_insync_replicas",
}
_PARSERS: dict[int, Callable[[str], str | float]] = {INT: int, LONG: int, DOUBLE: float}
_OF_LOGS = {  # the fields of LogConfig that have a setting of the same name
    field.name.replace("_", "."): (field.name, _PARSERS.get(TOPIC_SETTINGS[field.name.replace("_", ".")].type, str))
    for field in fields(LogConfig)
    if field.init
}
