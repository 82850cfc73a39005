"""The settings of share groups: what is refused at the start, what groups can have of their own, and that it holds at
once.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from kohort.broker.config import Config, ConfigError, load_config
from kohort.broker.coordinator_host import CoordinatorHost
from kohort.broker.share_settings import LIMITED, check_share_assignors, share_settings_of_all
from kohort.coordinator.config import GroupConfig, ShareGroupSettings
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.broker_box import BrokerBox
from tests.broker.test_broker_configs import alter as alter_broker

GROUP, SET, REMOVE = 32, 0, 1
INVALID_CONFIG = 40


# --- the broker's settings


def test_the_defaults_are_kafkas_and_those_of_the_coordinator() -> None:
    config, group_config = load_config(), GroupConfig()
    assert share_settings_of_all(config) == group_config.share == ShareGroupSettings()
    assert (config.group_share_max_size, config.group_share_max_share_sessions) == (200, 2_000)
    assert config.group_share_max_size == group_config.share_max_size
    retry_ms = config.group_share_initialize_retry_interval_ms
    assert retry_ms == group_config.share_initialize_retry_interval_ms == 30_000
    check_share_assignors(config.group_share_assignors)


# Kafka's ConfigDef: name: (lowest, highest); the highest int where Kafka has no limit.
RANGES = {
    "session.timeout.ms": (1, 2**31 - 1),
    "min.session.timeout.ms": (1, 2**31 - 1),
    "max.session.timeout.ms": (1, 2**31 - 1),
    "heartbeat.interval.ms": (1, 2**31 - 1),
    "min.heartbeat.interval.ms": (1, 2**31 - 1),
    "max.heartbeat.interval.ms": (1, 2**31 - 1),
    "assignment.interval.ms": (0, 2**31 - 1),
    "min.assignment.interval.ms": (0, 2**31 - 1),
    "max.assignment.interval.ms": (0, 2**31 - 1),
    "record.lock.duration.ms": (1_000, 3_600_000),
    "min.record.lock.duration.ms": (1_000, 30_000),
    "max.record.lock.duration.ms": (30_000, 3_600_000),
    "delivery.count.limit": (2, 10),
    "min.delivery.count.limit": (2, 5),
    "max.delivery.count.limit": (5, 25),
    "partition.max.record.locks": (100, 10_000),
    "min.partition.max.record.locks": (100, 2_000),
    "max.partition.max.record.locks": (2_000, 10_000),
    "max.size": (1, 1_000),
    "max.share.sessions": (1, 2**31 - 1),
    "initialize.retry.interval.ms": (1, 2**31 - 1),
}


def test_all_settings_have_kafkas_ranges() -> None:
    rows = [field.metadata["allowed"] for field in fields(Config)]
    numbers = {row.name: (row.low, row.high) for row in rows if row.low is not None}
    ours = {name: limits for name, limits in numbers.items() if name.startswith("group.share.")}
    assert ours == {f"group.share.{name}": limits for name, limits in RANGES.items()}


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["session.timeout.ms=44999"], "min.session.timeout.ms (45000) must be less than or equal to"),
        (["session.timeout.ms=60001"], "group.share.max.session.timeout.ms (60000)"),
        (["heartbeat.interval.ms=15001"], "heartbeat.interval.ms (15001) must be less than or equal to"),
        (["assignment.interval.ms=15001"], "assignment.interval.ms (15001) must be less than or equal to"),
        (["record.lock.duration.ms=14999"], "min.record.lock.duration.ms (15000) must be less than or equal to"),
        (["delivery.count.limit=10", "max.delivery.count.limit=9"], "delivery.count.limit (10) must be less than"),
        (["delivery.count.limit=11"], "must be between 2 and 10"),
        (["partition.max.record.locks=4001"], "group.share.max.partition.max.record.locks (4000)"),
        (["min.session.timeout.ms=1", "session.timeout.ms=5000"], "heartbeat.interval.ms (5000) must be less than g"),
        (["max.size=1001"], "must be between 1 and 1000"),
        (["max.share.sessions=199"], "max.size (200) must be less than or equal to group.share.max.share.sessions"),
        (["assignors=com.example.Mine"], "must be simple; Kohort cannot load assignors of your own"),
        (["assignors=simple,simple"], "must be simple"),
    ],
)
def test_settings_that_cannot_be_are_refused_with_what_is_allowed(overrides: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(overrides=[f"group.share.{each}" for each in overrides])
    assert words in str(refused.value)
    assert refused.value.in_command_line


# --- settings of groups


class Box(BrokerBox):
    def __init__(self, folder: Path, **overrides: str) -> None:
        super().__init__(folder, None, **overrides)
        self.broker.coordinator = CoordinatorHost(self.broker, self.clock)

    def settings(self, group_id: str) -> ShareGroupSettings:
        """What the coordinator and the leaders of partitions take."""
        return self.broker.coordinator.runtime.share.of(group_id)


def alter(box: BrokerBox, group_id: str, **configs: str | None) -> int:
    """Set settings of a group, or remove them with None; dots are underscores. The error code."""
    changes = [
        AlterableConfig(f"share.{name.replace('_', '.')}", REMOVE if value is None else SET, value)
        for name, value in configs.items()
    ]
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP, group_id, changes)])
    code: int = box.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, 1).responses[0].error_code
    return code


def described(box: BrokerBox, group_id: str) -> dict[str, str]:
    request = DescribeConfigsRequest([DescribeConfigsResource(GROUP, group_id, None)], False, False)
    (result,) = box.send(ApiKey.DESCRIBE_CONFIGS, request, 4).results
    return {each.name: each.value for each in result.configs if each.name.startswith("share.")}


EVERYTHING = {
    "session_timeout_ms": "50000",
    "heartbeat_interval_ms": "6000",
    "assignment_interval_ms": "0",
    "record_lock_duration_ms": "20000",
    "delivery_count_limit": "3",
    "partition_max_record_locks": "500",
    "auto_offset_reset": "by_duration:PT1H",
    "isolation_level": "read_committed",
    "renew_acknowledge_enable": "false",
}


def test_every_setting_of_a_group_holds_at_once_over_restarts_and_for_no_other_group(tmp_path: Path) -> None:
    box = Box(tmp_path)
    version = box.broker.coordinator.runtime.share.version
    assert alter(box, "work", **EVERYTHING) == 0
    expected = ShareGroupSettings(50_000, 6_000, 0, 20_000, 3, 500, "by_duration:PT1H", "read_committed", False)
    assert box.settings("work") == expected
    assert box.settings("other") == ShareGroupSettings()
    assert box.broker.coordinator.runtime.share.version > version  # whoever remembers settings can see that
    assert described(box, "work") == {f"share.{name.replace('_', '.')}": value for name, value in EVERYTHING.items()}
    box.close()
    box = Box(tmp_path)
    assert box.settings("work") == expected
    assert alter(box, "work", **dict.fromkeys(EVERYTHING)) == 0
    assert (box.settings("work"), box.broker.coordinator.runtime.share.own) == (ShareGroupSettings(), {})
    box.close()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("session_timeout_ms", "44999"),
        ("session_timeout_ms", "60001"),
        ("heartbeat_interval_ms", "15001"),
        ("assignment_interval_ms", "15001"),
        ("record_lock_duration_ms", "14999"),
        ("record_lock_duration_ms", "60001"),
        ("delivery_count_limit", "1"),
        ("delivery_count_limit", "11"),
        ("partition_max_record_locks", "4001"),
        ("auto_offset_reset", "none"),
        ("auto_offset_reset", "by_duration:1h"),
        ("isolation_level", "serializable"),
        ("renew_acknowledge_enable", "perhaps"),
        ("colour", "red"),
    ],
)
def test_values_out_of_the_brokers_limits_are_refused(tmp_path: Path, name: str, value: str) -> None:
    box = Box(tmp_path)
    assert alter(box, "work", **{name: value}) == INVALID_CONFIG
    assert box.settings("work") == ShareGroupSettings()
    box.close()


def test_a_group_inherits_from_the_broker_what_it_does_not_set_and_limits_win(tmp_path: Path) -> None:
    box = Box(tmp_path, group_share_delivery_count_limit="7")
    assert alter(box, "work", delivery_count_limit="9", record_lock_duration_ms="50000") == 0
    assert box.settings("other").delivery_count_limit == 7
    assert alter_broker(box, "", group_share_assignment_interval_ms="2000") == 0
    assert (box.settings("work").assignment_interval_ms, box.settings("other").assignment_interval_ms) == (2_000, 2_000)
    box.close()
    box = Box(tmp_path, group_share_max_delivery_count_limit="8", group_share_max_record_lock_duration_ms="40000")
    assert (box.settings("work").delivery_count_limit, box.settings("work").record_lock_duration_ms) == (8, 40_000)
    box.close()


def test_the_names_of_limited_settings_are_fields_of_both() -> None:
    names = {name.replace(".", "_") for name in LIMITED}
    assert names <= {field.name for field in fields(ShareGroupSettings)}
