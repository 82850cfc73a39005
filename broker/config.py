"""Settings, under Kafka's own names and with Kafka's defaults.

They come from a server.properties file, from the environment (KOHORT_CFG_LOG_DIRS for log.dirs) and from `--override
key=value`; a later source wins over an earlier one. People bring their server.properties along, so names that Kohort
has no use for are warnings, as they are for Kafka. A value that cannot be used is an error, and so is an unknown name
in an --override, which somebody has just typed. One start tells all warnings and all errors.

Where Kohort differs from Kafka's default, or adds a setting of its own (`kohort.`), the comment says why.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import NamedTuple, TypeVar

from kohort.broker.consumer_settings import (
    contradictions_in,
    parse_assignors,
    parse_migration_policy,
    parse_protocols,
    warn_of_protocols,
)
from kohort.broker.share_settings import check_share_assignors, share_contradictions_in
from kohort.properties import parse_properties

logger = logging.getLogger(__name__)

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
ENVIRONMENT_PREFIX = "KOHORT_CFG_"
OLD_ENVIRONMENT_PREFIX = "KOHORT_"  # other programs use it too: Kubernetes sets KOHORT_PORT for a service named kohort

Value = TypeVar("Value", bool, int, float, str)


class ConfigError(Exception):
    """Settings that cannot be used. Each line names one, its value and what is allowed."""

    def __init__(self, problems: Sequence[str], *, in_command_line: bool = False) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        self.in_command_line = in_command_line


class Allowed(NamedTuple):
    """A setting's name and the values that it can have."""

    name: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]


def setting(
    default: Value, name: str, low: float | None = None, high: float | None = None, choices: tuple[str, ...] = ()
) -> Value:
    return field(default=default, metadata={"allowed": Allowed(name, low, high, choices)})


@dataclass(slots=True)
class Config:
    # --- this broker
    node_id: int = setting(1, "node.id", 0, INT32_MAX)
    # Kafka: PLAINTEXT://:9092, which is every address. Kohort knows no passwords: others must be let in knowingly.
    listeners: str = setting("PLAINTEXT://localhost:9092", "listeners")
    advertised_listeners: str = setting("", "advertised.listeners")  # empty: the same as listeners
    log_dirs: str = setting("kohort-data", "log.dirs")  # Kafka: /tmp/kafka-logs, where a reboot loses them
    broker_rack: str = setting("", "broker.rack")

    # --- the network
    socket_request_max_bytes: int = setting(104_857_600, "socket.request.max.bytes", 1, INT32_MAX)
    socket_listen_backlog_size: int = setting(4096, "socket.listen.backlog.size", 1, INT32_MAX)  # Kafka: 50
    max_connections: int = setting(INT32_MAX, "max.connections", 0, INT32_MAX)
    max_connections_per_ip: int = setting(INT32_MAX, "max.connections.per.ip", 0, INT32_MAX)
    connections_max_idle_ms: int = setting(600_000, "connections.max.idle.ms", -1, INT64_MAX)
    kohort_request_read_timeout_ms: int = setting(30_000, "kohort.request.read.timeout.ms", 1, INT32_MAX)
    kohort_http_port: int = setting(-1, "kohort.http.port", -1, 65535)  # -1: not open; 0: any free port
    kohort_http_host: str = setting("", "kohort.http.host")  # empty: the host of the first listener
    # Who wants to see the live page must know it; empty: the page is open, to this machine alone.
    kohort_http_token: str = setting("", "kohort.http.token")
    kohort_metrics_port: int = setting(-1, "kohort.metrics.port", -1, 65535)  # the older name of kohort.http.port

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
    producer_id_expiration_check_interval_ms: int = setting(
        600_000, "producer.id.expiration.check.interval.ms", 1, INT32_MAX
    )
    transaction_partition_verification_enable: bool = setting(True, "transaction.partition.verification.enable")
    add_partitions_to_txn_retry_backoff_ms: int = setting(20, "add.partitions.to.txn.retry.backoff.ms", 1, INT32_MAX)
    add_partitions_to_txn_retry_backoff_max_ms: int = setting(
        100, "add.partitions.to.txn.retry.backoff.max.ms", 0, INT32_MAX
    )

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
    group_coordinator_rebalance_protocols: str = setting(
        "classic,consumer,streams", "group.coordinator.rebalance.protocols"
    )
    group_consumer_session_timeout_ms: int = setting(45_000, "group.consumer.session.timeout.ms", 1, INT32_MAX)
    group_consumer_min_session_timeout_ms: int = setting(45_000, "group.consumer.min.session.timeout.ms", 1, INT32_MAX)
    group_consumer_max_session_timeout_ms: int = setting(60_000, "group.consumer.max.session.timeout.ms", 1, INT32_MAX)
    group_consumer_heartbeat_interval_ms: int = setting(5_000, "group.consumer.heartbeat.interval.ms", 1, INT32_MAX)
    group_consumer_min_heartbeat_interval_ms: int = setting(
        5_000, "group.consumer.min.heartbeat.interval.ms", 1, INT32_MAX
    )
    group_consumer_max_heartbeat_interval_ms: int = setting(
        15_000, "group.consumer.max.heartbeat.interval.ms", 1, INT32_MAX
    )
    group_consumer_assignment_interval_ms: int = setting(1_000, "group.consumer.assignment.interval.ms", 0, INT32_MAX)
    group_consumer_min_assignment_interval_ms: int = setting(
        0, "group.consumer.min.assignment.interval.ms", 0, INT32_MAX
    )
    group_consumer_max_assignment_interval_ms: int = setting(
        15_000, "group.consumer.max.assignment.interval.ms", 0, INT32_MAX
    )
    group_consumer_max_size: int = setting(INT32_MAX, "group.consumer.max.size", 1, INT32_MAX)
    group_consumer_assignors: str = setting("uniform,range", "group.consumer.assignors")
    group_consumer_migration_policy: str = setting("bidirectional", "group.consumer.migration.policy")
    # Kafka has this setting for tests, and does not show it.
    group_consumer_regex_refresh_interval_ms: int = setting(
        600_000, "group.consumer.regex.refresh.interval.ms", 10_000, INT32_MAX
    )
    # --- share groups
    group_share_session_timeout_ms: int = setting(45_000, "group.share.session.timeout.ms", 1, INT32_MAX)
    group_share_min_session_timeout_ms: int = setting(45_000, "group.share.min.session.timeout.ms", 1, INT32_MAX)
    group_share_max_session_timeout_ms: int = setting(60_000, "group.share.max.session.timeout.ms", 1, INT32_MAX)
    group_share_heartbeat_interval_ms: int = setting(5_000, "group.share.heartbeat.interval.ms", 1, INT32_MAX)
    group_share_min_heartbeat_interval_ms: int = setting(5_000, "group.share.min.heartbeat.interval.ms", 1, INT32_MAX)
    group_share_max_heartbeat_interval_ms: int = setting(15_000, "group.share.max.heartbeat.interval.ms", 1, INT32_MAX)
    group_share_assignment_interval_ms: int = setting(1_000, "group.share.assignment.interval.ms", 0, INT32_MAX)
    group_share_min_assignment_interval_ms: int = setting(0, "group.share.min.assignment.interval.ms", 0, INT32_MAX)
    group_share_max_assignment_interval_ms: int = setting(
        15_000, "group.share.max.assignment.interval.ms", 0, INT32_MAX
    )
    group_share_record_lock_duration_ms: int = setting(30_000, "group.share.record.lock.duration.ms", 1_000, 3_600_000)
    group_share_min_record_lock_duration_ms: int = setting(
        15_000, "group.share.min.record.lock.duration.ms", 1_000, 30_000
    )
    group_share_max_record_lock_duration_ms: int = setting(
        60_000, "group.share.max.record.lock.duration.ms", 30_000, 3_600_000
    )
    group_share_delivery_count_limit: int = setting(5, "group.share.delivery.count.limit", 2, 10)
    group_share_min_delivery_count_limit: int = setting(2, "group.share.min.delivery.count.limit", 2, 5)
    group_share_max_delivery_count_limit: int = setting(10, "group.share.max.delivery.count.limit", 5, 25)
    group_share_partition_max_record_locks: int = setting(2_000, "group.share.partition.max.record.locks", 100, 10_000)
    group_share_min_partition_max_record_locks: int = setting(
        100, "group.share.min.partition.max.record.locks", 100, 2_000
    )
    group_share_max_partition_max_record_locks: int = setting(
        4_000, "group.share.max.partition.max.record.locks", 2_000, 10_000
    )
    group_share_max_size: int = setting(200, "group.share.max.size", 1, 1_000)
    group_share_max_share_sessions: int = setting(2_000, "group.share.max.share.sessions", 1, INT32_MAX)
    group_share_assignors: str = setting("simple", "group.share.assignors")
    # Kafka has this setting for tests, and does not show it.
    group_share_initialize_retry_interval_ms: int = setting(
        30_000, "group.share.initialize.retry.interval.ms", 1, INT32_MAX
    )
    share_coordinator_state_topic_num_partitions: int = setting(
        50, "share.coordinator.state.topic.num.partitions", 1, INT32_MAX
    )
    share_coordinator_state_topic_min_isr: int = setting(  # Kafka: 2, but there is one replica
        1, "share.coordinator.state.topic.min.isr", 1, INT32_MAX
    )
    share_coordinator_state_topic_segment_bytes: int = setting(
        104_857_600, "share.coordinator.state.topic.segment.bytes", 1, INT32_MAX
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = setting(
        500, "share.coordinator.snapshot.update.records.per.snapshot", 0, 500
    )
    # Kafka does not show the next two.
    share_coordinator_cold_partition_snapshot_interval_ms: int = setting(
        300_000, "share.coordinator.cold.partition.snapshot.interval.ms", 1, INT32_MAX
    )
    share_coordinator_state_topic_prune_interval_ms: int = setting(
        300_000, "share.coordinator.state.topic.prune.interval.ms", 1, INT32_MAX
    )

    # --- transactions
    transaction_state_log_num_partitions: int = setting(50, "transaction.state.log.num.partitions", 1, INT32_MAX)
    transaction_state_log_min_isr: int = setting(  # Kafka: 2, but there is one replica
        1, "transaction.state.log.min.isr", 1, INT32_MAX
    )
    transaction_state_log_segment_bytes: int = setting(104_857_600, "transaction.state.log.segment.bytes", 1, INT32_MAX)
    transaction_max_timeout_ms: int = setting(900_000, "transaction.max.timeout.ms", 1, INT32_MAX)
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = setting(
        10_000, "transaction.abort.timed.out.transaction.cleanup.interval.ms", 1, INT32_MAX
    )
    transactional_id_expiration_ms: int = setting(604_800_000, "transactional.id.expiration.ms", 1, INT32_MAX)
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        3_600_000, "transaction.remove.expired.transaction.cleanup.interval.ms", 1, INT32_MAX
    )

    # --- offsets
    offset_metadata_max_bytes: int = setting(4_096, "offset.metadata.max.bytes", 0, INT32_MAX)
    offsets_retention_minutes: int = setting(10_080, "offsets.retention.minutes", 1, INT32_MAX)
    offsets_retention_check_interval_ms: int = setting(600_000, "offsets.retention.check.interval.ms", 1, INT64_MAX)
    # Kafka answers a commit that is in the page caches of its replicas. Kohort has none, so it waits for the disk.
    kohort_offsets_sync_before_reply: bool = setting(True, "kohort.offsets.sync.before.reply")
    # Record headers for the audit: who committed, and why a rebalance happened. Kafka's tools skip over them.
    kohort_audit_headers: bool = setting(True, "kohort.audit.headers")
    # Kafka lets everybody who calls itself __admin_client write into internal topics.
    kohort_internal_topics_writable: bool = setting(False, "kohort.internal.topics.writable")
    offsets_topic_segment_bytes: int = setting(104_857_600, "offsets.topic.segment.bytes", 1, INT32_MAX)

    @property
    def data_folder(self) -> str:
        return self.log_dirs.split(",")[0].strip()

    @property
    def http_port(self) -> int:
        return self.kohort_http_port if self.kohort_http_port >= 0 else self.kohort_metrics_port


@dataclass(slots=True, frozen=True)
class Listener:
    """Where to listen, or what to tell clients: PLAINTEXT://host:port."""

    name: str
    host: str
    port: int


_FIELDS = {each.metadata["allowed"].name: each for each in fields(Config)}

# Kafka's other names of a setting, with what their values are multiplied by. If a file has several names of one
# setting, the name that is lower in this list wins over a higher one, and the setting's own name wins over all.
_ALIASES: dict[str, tuple[str, int | None]] = {
    "broker.id": ("node.id", 1),
    "log.dir": ("log.dirs", None),
    "log.roll.hours": ("log.roll.ms", 3_600_000),
    "log.retention.hours": ("log.retention.ms", 3_600_000),
    "log.retention.minutes": ("log.retention.ms", 60_000),
}


class Given(NamedTuple):
    """A setting as somebody wrote it. `where` is the environment variable, or `--override`, or empty for the file."""

    name: str
    value: str
    where: str = ""

    def __str__(self) -> str:
        if self.where == OVERRIDE:
            return f"{OVERRIDE} {self.name}={self.value}"
        return f"{self.where or self.name}={self.value}"


OVERRIDE = "--override"


def load_config(
    properties: str = "", environment: Mapping[str, str] | None = None, overrides: Iterable[str] = ()
) -> Config:
    """The settings from the text of a server.properties file, the environment, and key=value overrides."""
    typed, problems = _from_overrides(overrides)
    wrong_overrides = bool(problems)
    chosen: dict[str, Given] = {}
    for source in (_from_file(properties), _from_environment(environment or {}), typed):
        chosen |= _by_own_name(source)
    config = Config()
    for name, given in chosen.items():
        if problem := _apply(config, name, given):
            problems.append(problem)
            wrong_overrides = wrong_overrides or given.where == OVERRIDE
    contradictions = [] if problems else [*contradictions_in(config), *share_contradictions_in(config)]
    if contradictions:
        problems = [contradiction.told(config) for contradiction in contradictions]
        typed_names = {given.name for given in typed}
        wrong_overrides = any(typed_names & {less, more} for less, more, _ in contradictions)
    if problems:
        raise ConfigError(problems, in_command_line=wrong_overrides)
    warn_of_protocols(config)
    if "," in config.log_dirs:
        logger.warning("log.dirs names several folders; Kohort uses the first, %s", config.data_folder)
    return config


def _from_file(text: str) -> list[Given]:
    try:
        return [Given(name, value.strip()) for name, value in parse_properties(text).items()]
    except ValueError as problem:
        raise ConfigError([f"the properties file: {problem}"]) from None


def _from_environment(environment: Mapping[str, str]) -> list[Given]:
    """KOHORT_CFG_LOG_DIRS sets log.dirs. So does KOHORT_LOG_DIRS, the older form, if it names a setting at all."""
    older, newer, strays = [], [], []
    for variable, value in environment.items():
        if variable.startswith(ENVIRONMENT_PREFIX):
            newer.append(Given(_setting_name(variable, ENVIRONMENT_PREFIX), value.strip(), variable))
        elif variable.startswith(OLD_ENVIRONMENT_PREFIX):
            name = _setting_name(variable, OLD_ENVIRONMENT_PREFIX)
            if f"{ENVIRONMENT_PREFIX}{variable.removeprefix(OLD_ENVIRONMENT_PREFIX)}" in environment:
                logger.warning("%s is ignored, because %s is set too", variable, _variable(name))
            elif _is_setting(name):
                older.append(Given(name, value.strip(), variable))
            else:
                strays.append(variable)
    if strays:
        logger.warning(
            "environment variables that name no setting are ignored: %s (log.dirs, for instance, is %s)",
            ", ".join(sorted(strays)),
            _variable("log.dirs"),
        )
    return older + newer


def _setting_name(variable: str, prefix: str) -> str:
    return variable.removeprefix(prefix).lower().replace("_", ".")


def _variable(name: str) -> str:
    return ENVIRONMENT_PREFIX + name.upper().replace(".", "_")


def _from_overrides(overrides: Iterable[str]) -> tuple[list[Given], list[str]]:
    """The settings, and a complaint about each text that is not key=value."""
    given, problems = [], []
    for override in overrides:
        name, equals, value = override.partition("=")
        if equals:
            given.append(Given(name.strip(), value.strip(), OVERRIDE))
        else:
            problems.append(f"{OVERRIDE} takes key=value, not {override!r}")
    return given, problems


def _by_own_name(source: Iterable[Given]) -> dict[str, Given]:
    """The settings of one source by Kohort's name for them, which may not be the name that was given."""
    ranks = {alias: rank for rank, alias in enumerate(_ALIASES)}
    ordered = sorted(source, key=lambda given: ranks.get(given.name, len(ranks)))  # stable: the last of equals wins
    return {_ALIASES[given.name][0] if given.name in _ALIASES else given.name: given for given in ordered}


def _apply(config: Config, name: str, given: Given) -> str | None:
    """Put the setting into `config`; or say what is wrong with it."""
    if name not in _FIELDS:
        return _not_used(given)
    attribute = _FIELDS[name].name
    try:
        value = _parse(_in_own_unit(given), type(getattr(config, attribute)), _FIELDS[name].metadata["allowed"])
        if name in _CHECKS:
            _CHECKS[name](str(value))
    except ValueError as problem:
        return f"{given}: {problem}"
    setattr(config, attribute, value)
    return None


def _in_own_unit(given: Given) -> str:
    """Hours as milliseconds, for instance. -1 (no limit) is -1 in every unit."""
    factor = _ALIASES[given.name][1] if given.name in _ALIASES else None
    if factor is not None and given.value.isdecimal():
        return str(int(given.value) * factor)
    return given.value


def _not_used(given: Given) -> str | None:
    """Warn about a setting that Kohort does not have. In an --override a name that nobody knows is a problem."""
    from kohort.broker.kafka_settings import was_removed

    if _is_setting(given.name):
        logger.warning("setting %s has no effect in Kohort", given.name)
    elif was_removed(given.name):
        logger.warning("setting %s has no effect in Kohort, nor in Kafka since 4.0", given.name)
    elif given.where == OVERRIDE:
        return f"{given}: neither Kafka nor Kohort has such a setting{_did_you_mean(given)}"
    else:
        logger.warning(
            "setting %s is ignored: neither Kafka nor Kohort has it%s", given.where or given.name, _did_you_mean(given)
        )
    return None


def _is_setting(name: str) -> bool:
    """Whether Kohort or Kafka has a setting of this name."""
    if name in _FIELDS or name in _ALIASES:
        return True
    from kohort.broker.kafka_settings import KAFKA_SETTINGS  # not imported if all settings are ones that Kohort has

    return name in KAFKA_SETTINGS or name.startswith(("listener.name.", "config.providers."))


def _did_you_mean(given: Given) -> str:
    from difflib import get_close_matches

    from kohort.broker.kafka_settings import KAFKA_SETTINGS

    known = [*_FIELDS, *_ALIASES]
    if f"kohort.{given.name}" in _FIELDS:
        close = [f"kohort.{given.name}"]
    else:  # one letter away from the shortest names, two or three from the longest
        close = get_close_matches(given.name, known, 1, 0.85) or get_close_matches(given.name, KAFKA_SETTINGS, 1, 0.85)
    if not close:
        return ""
    return f"; did you mean {_variable(close[0]) if given.where.startswith(ENVIRONMENT_PREFIX) else close[0]}?"


def _parse(text: str, kind: type, allowed: Allowed) -> bool | int | float | str:
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ValueError("must be true or false")
        return text.lower() == "true"
    if kind is str:
        if allowed.choices and text not in allowed.choices:
            raise ValueError(f"must be one of {', '.join(allowed.choices)}")
        return text
    try:
        number = int(text) if kind is int else float(text)
    except ValueError:
        raise ValueError("must be a whole number" if kind is int else "must be a number") from None
    low, high = allowed.low, allowed.high
    if (low is not None and number < low) or (high is not None and number > high) or number != number:
        raise ValueError(_range(low, high))
    return number


def _range(low: float | None, high: float | None) -> str:
    if low is None:
        return f"must be {high} or less"
    return f"must be {low} or more" if high is None else f"must be between {low} and {high}"


def parse_listeners(text: str) -> list[Listener]:
    """The PLAINTEXT listeners that `text` names. A KRaft controller's listener is left out."""
    found = []
    for part in text.split(","):
        protocol, separator, address = part.strip().partition("://")
        host, colon, port = address.rpartition(":")
        if not separator or not colon or not port.isdigit() or int(port) > 65535:
            raise ValueError("must look like PLAINTEXT://host:port (port 0: any free port)")
        if protocol.upper() in ("SSL", "SASL_SSL", "SASL_PLAINTEXT"):
            raise ValueError(f"Kohort speaks PLAINTEXT only, not {protocol}")
        if protocol.upper() != "CONTROLLER":
            found.append(Listener(protocol, host.strip("[]"), int(port)))
    if not found:
        raise ValueError("no listener for clients")
    return found


def _check_advertised(text: str) -> None:
    if text:
        parse_listeners(text)


def _check_folders(text: str) -> None:
    if not text.split(",")[0].strip():
        raise ValueError("must name a folder")


def _check_policies(text: str) -> None:
    if not {policy.strip() for policy in text.split(",")} <= {"delete", "compact"}:
        raise ValueError("must be delete, compact or both")


_CHECKS: dict[str, Callable[[str], object]] = {
    "listeners": parse_listeners,
    "advertised.listeners": _check_advertised,
    "log.dirs": _check_folders,
    "log.cleanup.policy": _check_policies,
    "group.coordinator.rebalance.protocols": parse_protocols,
    "group.consumer.assignors": parse_assignors,
    "group.consumer.migration.policy": parse_migration_policy,
    "group.share.assignors": check_share_assignors,
}
