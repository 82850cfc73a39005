"""Settings, under Kafka's own names and with Kafka's defaults.

They come from a server.properties file, from the environment (KOHORT_LOG_DIRS for log.dirs) and from `--override
key=value`, the later winning. A name that Kafka knows and Kohort has no use for is accepted with a warning, because
people bring their files along; a name that neither knows, or a value out of range, is refused with what is allowed.
Where Kohort differs from Kafka's default, or adds a setting of its own (`kohort.`), the comment says why.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

logger = logging.getLogger(__name__)

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
ENVIRONMENT_PREFIX = "KOHORT_"


class ConfigError(Exception):
    """A setting that cannot be used. The text names it, its value and what is allowed."""


def setting(
    default: Any, name: str, low: float | None = None, high: float | None = None, choices: tuple[str, ...] = ()
) -> Any:
    return field(default=default, metadata={"name": name, "low": low, "high": high, "choices": choices})


@dataclass(slots=True)
class Config:
    # --- who we are
    node_id: int = setting(1, "node.id", 0, INT32_MAX)
    listeners: str = setting("PLAINTEXT://:9092", "listeners")
    advertised_listeners: str = setting("", "advertised.listeners")  # empty: as listened on
    log_dirs: str = setting("kohort-data", "log.dirs")  # Kafka: /tmp/kafka-logs, where a reboot loses them
    broker_rack: str = setting("", "broker.rack")

    # --- the network
    socket_request_max_bytes: int = setting(104_857_600, "socket.request.max.bytes", 1, INT32_MAX)
    socket_listen_backlog_size: int = setting(4096, "socket.listen.backlog.size", 1, INT32_MAX)  # Kafka: 50
    max_connections: int = setting(INT32_MAX, "max.connections", 0, INT32_MAX)
    max_connections_per_ip: int = setting(INT32_MAX, "max.connections.per.ip", 0, INT32_MAX)
    connections_max_idle_ms: int = setting(600_000, "connections.max.idle.ms", -1, INT64_MAX)
    kohort_request_read_timeout_ms: int = setting(30_000, "kohort.request.read.timeout.ms", 1, INT32_MAX)
    kohort_metrics_port: int = setting(-1, "kohort.metrics.port", -1, 65535)  # -1: no metrics; 0: any free port

    # --- topics
    auto_create_topics_enable: bool = setting(True, "auto.create.topics.enable")
    delete_topic_enable: bool = setting(True, "delete.topic.enable")
    num_partitions: int = setting(1, "num.partitions", 1, INT32_MAX)
    default_replication_factor: int = setting(1, "default.replication.factor", 1, 32767)
    min_insync_replicas: int = setting(1, "min.insync.replicas", 1, INT32_MAX)
    message_max_bytes: int = setting(1_048_588, "message.max.bytes", 0, INT32_MAX)
    fetch_max_bytes: int = setting(57_671_680, "fetch.max.bytes", 1024, INT32_MAX)
    max_incremental_fetch_session_cache_slots: int = setting(
        1000, "max.incremental.fetch.session.cache.slots", 0, INT32_MAX
    )
    producer_id_expiration_ms: int = setting(86_400_000, "producer.id.expiration.ms", 1, INT32_MAX)

    # --- logs
    log_segment_bytes: int = setting(1_073_741_824, "log.segment.bytes", 1_048_576, INT32_MAX)
    log_roll_ms: int = setting(604_800_000, "log.roll.ms", 1, INT64_MAX)
    log_retention_ms: int = setting(604_800_000, "log.retention.ms", -1, INT64_MAX)
    log_retention_bytes: int = setting(-1, "log.retention.bytes", -1, INT64_MAX)
    log_retention_check_interval_ms: int = setting(300_000, "log.retention.check.interval.ms", 1, INT64_MAX)
    log_cleanup_policy: str = setting("delete", "log.cleanup.policy")
    log_index_interval_bytes: int = setting(4096, "log.index.interval.bytes", 0, INT32_MAX)
    log_index_size_max_bytes: int = setting(10_485_760, "log.index.size.max.bytes", 4, INT32_MAX)
    log_message_timestamp_type: str = setting(
        "CreateTime", "log.message.timestamp.type", choices=("CreateTime", "LogAppendTime")
    )
    log_message_timestamp_before_max_ms: int = setting(INT64_MAX, "log.message.timestamp.before.max.ms", 0, INT64_MAX)
    log_message_timestamp_after_max_ms: int = setting(3_600_000, "log.message.timestamp.after.max.ms", 0, INT64_MAX)
    log_segment_delete_delay_ms: int = setting(60_000, "log.segment.delete.delay.ms", 0, INT64_MAX)
    log_flush_interval_messages: int = setting(INT64_MAX, "log.flush.interval.messages", 1, INT64_MAX)
    log_flush_offset_checkpoint_interval_ms: int = setting(
        60_000, "log.flush.offset.checkpoint.interval.ms", 0, INT32_MAX
    )
    log_cleaner_enable: bool = setting(True, "log.cleaner.enable")
    log_cleaner_backoff_ms: int = setting(15_000, "log.cleaner.backoff.ms", 0, INT64_MAX)
    log_cleaner_min_cleanable_ratio: float = setting(0.5, "log.cleaner.min.cleanable.ratio", 0, 1)
    log_cleaner_delete_retention_ms: int = setting(86_400_000, "log.cleaner.delete.retention.ms", 0, INT64_MAX)
    log_cleaner_min_compaction_lag_ms: int = setting(0, "log.cleaner.min.compaction.lag.ms", 0, INT64_MAX)
    log_cleaner_max_compaction_lag_ms: int = setting(INT64_MAX, "log.cleaner.max.compaction.lag.ms", 1, INT64_MAX)
    log_cleaner_io_max_bytes_per_second: float = setting(1.797e308, "log.cleaner.io.max.bytes.per.second", 0)

    # --- the coordinator's log
    offsets_topic_num_partitions: int = setting(50, "offsets.topic.num.partitions", 1, INT32_MAX)
    group_min_session_timeout_ms: int = setting(6_000, "group.min.session.timeout.ms", None, INT32_MAX)
    group_max_session_timeout_ms: int = setting(1_800_000, "group.max.session.timeout.ms", None, INT32_MAX)
    group_initial_rebalance_delay_ms: int = setting(3_000, "group.initial.rebalance.delay.ms", 0, INT32_MAX)
    group_max_size: int = setting(INT32_MAX, "group.max.size", 1, INT32_MAX)
    offset_metadata_max_bytes: int = setting(4_096, "offset.metadata.max.bytes", 0, INT32_MAX)
    offsets_retention_minutes: int = setting(10_080, "offsets.retention.minutes", 1, INT32_MAX)
    offsets_retention_check_interval_ms: int = setting(600_000, "offsets.retention.check.interval.ms", 1, INT64_MAX)
    # Kafka answers when a commit is in the page caches of its replicas. One machine has no replicas to lean on.
    kohort_offsets_sync_before_reply: bool = setting(True, "kohort.offsets.sync.before.reply")
    # Who committed, and why a rebalance happened, as record headers for the audit. Kafka's tools skip them.
    kohort_audit_headers: bool = setting(True, "kohort.audit.headers")
    offsets_topic_segment_bytes: int = setting(104_857_600, "offsets.topic.segment.bytes", 1, INT32_MAX)

    @property
    def data_folder(self) -> str:
        return self.log_dirs.split(",")[0].strip()


@dataclass(slots=True, frozen=True)
class Listener:
    """Where to listen, or what to tell clients: PLAINTEXT://host:port."""

    name: str
    host: str
    port: int


_FIELDS = {each.metadata["name"]: each for each in fields(Config)}

# Kafka's other spellings of settings that we keep in one unit.
_ALIASES = {
    "broker.id": ("node.id", 1),
    "log.dir": ("log.dirs", None),
    "log.roll.hours": ("log.roll.ms", 3_600_000),
    "log.retention.minutes": ("log.retention.ms", 60_000),
    "log.retention.hours": ("log.retention.ms", 3_600_000),
}


def load_config(
    properties: str = "", environment: Mapping[str, str] | None = None, overrides: Iterable[str] = ()
) -> Config:
    """The settings from the text of a server.properties file, the environment, and key=value overrides."""
    given = parse_properties(properties)
    for variable, value in (environment or {}).items():
        if variable.startswith(ENVIRONMENT_PREFIX):
            given[variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", ".")] = value
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals:
            raise ConfigError(f"--override takes key=value, not {override!r}")
        given[name.strip()] = value.strip()
    config = Config()
    for name, value in given.items():
        _apply(config, name, value)
    _check(config)
    return config


def parse_properties(text: str) -> dict[str, str]:
    """A Java properties file, as server.properties files use them: comments, `=` or `:`, lines continued by \\."""
    given: dict[str, str] = {}
    for line in text.replace("\\\r\n", "").replace("\\\n", "").splitlines():
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        end = min((line.find(c) for c in "=:" if c in line), default=len(line))
        given[line[:end].strip()] = line[end + 1 :].strip()
    return given


def _apply(config: Config, name: str, value: str) -> None:
    if name in _ALIASES:
        name, factor = _ALIASES[name]
        if factor is not None and value.lstrip("-").isdigit() and int(value) > 0:
            value = str(int(value) * factor)
    if name in _FIELDS:
        attribute = _FIELDS[name].name
        setattr(config, attribute, _parse(name, value, type(getattr(config, attribute)), _FIELDS[name].metadata))
        return
    from kohort.broker.kafka_settings import KAFKA_SETTINGS  # only for files that hold more than we use

    if name not in KAFKA_SETTINGS and not name.startswith(("listener.name.", "config.providers")):
        raise ConfigError(f"{name}={value}: neither Kafka nor Kohort has such a setting{_did_you_mean(name)}")
    logger.warning("setting %s has no effect in Kohort", name)


def _parse(name: str, value: str, kind: type, allowed: Mapping[str, Any]) -> Any:
    if kind is bool:
        if value.lower() not in ("true", "false"):
            raise ConfigError(f"{name}={value}: must be true or false")
        return value.lower() == "true"
    if kind is str:
        if allowed["choices"] and value not in allowed["choices"]:
            raise ConfigError(f"{name}={value}: must be one of {', '.join(allowed['choices'])}")
        return value
    try:
        number = kind(value)
    except ValueError:
        word = "a whole number" if kind is int else "a number"
        raise ConfigError(f"{name}={value}: must be {word}") from None
    low, high = allowed["low"], allowed["high"]
    if (low is not None and number < low) or (high is not None and number > high) or number != number:
        raise ConfigError(f"{name}={value}: must be between {low} and {'any number' if high is None else high}")
    return number


def _check(config: Config) -> None:
    parse_listeners("listeners", config.listeners)
    if config.advertised_listeners:
        parse_listeners("advertised.listeners", config.advertised_listeners)
    if not config.data_folder:
        raise ConfigError("log.dirs=: must name a folder")
    if "," in config.log_dirs:
        logger.warning("log.dirs names several folders; Kohort uses the first, %s", config.data_folder)
    policies = {policy.strip() for policy in config.log_cleanup_policy.split(",")}
    if not policies <= {"delete", "compact"}:
        raise ConfigError(f"log.cleanup.policy={config.log_cleanup_policy}: must be delete, compact or both")


def parse_listeners(name: str, text: str) -> list[Listener]:
    """PLAINTEXT listeners of the setting `name`; a KRaft controller's listener is passed over."""
    found = []
    for part in text.split(","):
        protocol, separator, address = part.strip().partition("://")
        host, colon, port = address.rpartition(":")
        if not separator or not colon or not port.isdigit() or int(port) > 65535:
            raise ConfigError(f"{name}={text}: must look like PLAINTEXT://host:port (port 0: any free port)")
        if protocol.upper() in ("SSL", "SASL_SSL", "SASL_PLAINTEXT"):
            raise ConfigError(f"{name}={text}: Kohort speaks PLAINTEXT only, not {protocol}")
        if protocol.upper() != "CONTROLLER":
            found.append(Listener(protocol, host.strip("[]"), int(port)))
    if not found:
        raise ConfigError(f"{name}={text}: no listener for clients")
    return found


def _did_you_mean(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, _FIELDS, n=1)
    return f"; did you mean {close[0]}?" if close else ""
