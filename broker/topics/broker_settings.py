"""The broker's settings as DescribeConfigs shows them, and which of them can change while the broker runs.

Kafka 4.3.1 says what can change. Of these settings Kohort has some (CHANGEABLE); the others are kept, shown and ignored
(IGNORED), as they are in a server.properties file. Listeners and what belongs to security cannot change here at all:
Kohort has no such thing, and ignoring it would be dangerous.
"""

from __future__ import annotations

from dataclasses import Field, fields
from functools import cache

from kohort.broker.config import INT32_MAX, Allowed, Config
from kohort.broker.topics.topic_config import BOOLEAN, DOUBLE, INT, LIST, LONG, STRING, Setting

_LISTS = (
    "advertised.listeners",
    "group.consumer.assignors",
    "group.coordinator.rebalance.protocols",
    "group.share.assignors",
    "listeners",
    "log.cleanup.policy",
    "log.dirs",
)
_TYPES = {bool: BOOLEAN, str: STRING, int: LONG, float: DOUBLE}
_CHOICES = {"log.cleanup.policy": ("compact", "delete")}

CHANGEABLE = (
    "group.consumer.assignment.interval.ms",
    "group.share.assignment.interval.ms",
    "log.cleaner.backoff.ms",
    "log.cleaner.delete.retention.ms",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.max.compaction.lag.ms",
    "log.cleaner.min.cleanable.ratio",
    "log.cleaner.min.compaction.lag.ms",
    "log.cleanup.policy",
    "log.flush.interval.messages",
    "log.index.interval.bytes",
    "log.index.size.max.bytes",
    "log.message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.type",
    "log.retention.bytes",
    "log.retention.ms",
    "log.roll.ms",
    "log.segment.bytes",
    "log.segment.delete.delay.ms",
    "max.connections",
    "max.connections.per.ip",
    "message.max.bytes",
    "min.insync.replicas",
    "producer.id.expiration.ms",
    "transaction.partition.verification.enable",
)

_COMPRESSIONS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

# An empty default is one that Kafka does not have.
_IGNORED_ROWS = (
    Setting("background.threads", INT, "10", low=1),
    Setting("compression.gzip.level", INT, "-1", low=-1, high=9),
    Setting("compression.lz4.level", INT, "9", low=1, high=17),
    Setting("compression.type", STRING, "producer", choices=_COMPRESSIONS),
    Setting("compression.zstd.level", INT, "3", low=-131072, high=22),
    Setting("follower.fetch.last.tiered.offset.enable", BOOLEAN, "false"),
    Setting("follower.replication.throttled.rate", LONG, "", low=0),
    Setting("group.coordinator.cached.buffer.max.bytes", INT, "1048588", low=524_288),
    Setting("group.streams.assignment.interval.ms", INT, "1000", low=0),
    Setting("leader.replication.throttled.rate", LONG, "", low=0),
    Setting("log.cleaner.dedupe.buffer.size", LONG, "134217728"),
    Setting("log.cleaner.io.buffer.load.factor", DOUBLE, "0.9"),
    Setting("log.cleaner.io.buffer.size", INT, "524288", low=0),
    Setting("log.cleaner.threads", INT, "1", low=1),
    Setting("log.flush.interval.ms", LONG, ""),
    Setting("log.local.retention.bytes", LONG, "-2", low=-2),
    Setting("log.local.retention.ms", LONG, "-2", low=-2),
    Setting("log.preallocate", BOOLEAN, "false"),
    Setting("log.roll.jitter.ms", LONG, ""),
    Setting("max.connection.creation.rate", INT, "2147483647", low=0),
    Setting("max.connections.per.ip.overrides", STRING, ""),
    Setting("num.io.threads", INT, "8", low=1),
    Setting("num.network.threads", INT, "3", low=1),
    Setting("num.recovery.threads.per.data.dir", INT, "2", low=1),
    Setting("num.replica.fetchers", INT, "1"),
    Setting("remote.fetch.max.wait.ms", INT, "500", low=1),
    Setting("remote.list.offsets.request.timeout.ms", LONG, "30000", low=1),
    Setting("remote.log.index.file.cache.total.size.bytes", LONG, "1073741824", low=1),
    Setting("remote.log.manager.copier.thread.pool.size", INT, "10", low=1),
    Setting("remote.log.manager.copy.max.bytes.per.second", LONG, "9223372036854775807", low=1),
    Setting("remote.log.manager.expiration.thread.pool.size", INT, "10", low=1),
    Setting("remote.log.manager.fetch.max.bytes.per.second", LONG, "9223372036854775807", low=1),
    Setting("remote.log.manager.follower.thread.pool.size", INT, "2", low=1),
    Setting("remote.log.reader.threads", INT, "10", low=1),
    Setting("replica.alter.log.dirs.io.max.bytes.per.second", LONG, "", low=0),
    Setting("share.coordinator.cached.buffer.max.bytes", INT, "1048588", low=524_288),
    Setting("unclean.leader.election.enable", BOOLEAN, "false"),
)

SECRET = ("kohort.http.token",)  # not shown to clients

IGNORED: dict[str, Setting] = {row.name: row for row in _IGNORED_ROWS}


@cache
def own_settings() -> dict[str, Setting]:
    """Every setting that Kohort has, by name."""
    return {setting.name: setting for setting in map(_setting, fields(Config)) if setting.name not in SECRET}


def _setting(field: Field[object]) -> Setting:
    allowed: Allowed = field.metadata["allowed"]
    default = field.default
    small = type(default) is int and (allowed.high or 0) <= INT32_MAX
    kind = LIST if allowed.name in _LISTS else INT if small else _TYPES[type(default)]
    choices = _CHOICES.get(allowed.name, allowed.choices)
    return Setting(allowed.name, kind, text_of(default), low=allowed.low, high=allowed.high, choices=choices)


def changeable_setting(name: str) -> Setting | None:
    """What is known of a setting that can change while the broker runs; None for all others."""
    return own_settings()[name] if name in CHANGEABLE else IGNORED.get(name)


def is_fixed(name: str) -> bool:
    """Whether this is a setting of Kohort or Kafka that cannot change while the broker runs."""
    from kohort.broker.kafka_settings import KAFKA_SETTINGS

    if changeable_setting(name) is not None:
        return False
    return name in own_settings() or name in KAFKA_SETTINGS or name.startswith("listener.name.")


def value_of(config: Config, name: str) -> str:
    """The value of a setting that Kohort has, as text."""
    return text_of(getattr(config, name.replace(".", "_")))


def text_of(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
