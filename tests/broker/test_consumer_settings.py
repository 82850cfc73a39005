"""The broker's settings for consumer groups: what is refused at the start, and what the coordinator gets."""

from __future__ import annotations

import logging

import pytest

from kohort.broker.config import ConfigError, load_config
from kohort.broker.consumer_settings import parse_assignors, parse_migration_policy, parse_protocols, settings_of_all
from kohort.coordinator.config import ConsumerGroupSettings, GroupConfig

UNIFORM_CLASS = "org.apache.kafka.coordinator.group.assignor.UniformAssignor"


def test_the_defaults_are_kafkas_and_those_of_the_coordinator() -> None:
    config, group_config = load_config(), GroupConfig()
    assert settings_of_all(config) == group_config.consumer == ConsumerGroupSettings(45_000, 5_000, 1_000)
    assert tuple(parse_assignors(config.group_consumer_assignors)) == group_config.consumer_assignors
    assert parse_migration_policy(config.group_consumer_migration_policy) == group_config.consumer_migration_policy
    assert config.group_consumer_max_size == group_config.consumer_max_size
    assert config.group_consumer_regex_refresh_interval_ms == group_config.consumer_regex_refresh_interval_ms


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["session.timeout.ms=44999"], "min.session.timeout.ms (45000) must be less than or equal to"),
        (["session.timeout.ms=60001"], "group.consumer.max.session.timeout.ms (60000)"),
        (["min.session.timeout.ms=60001"], "min.session.timeout.ms (60001) must be less than or equal to"),
        (["heartbeat.interval.ms=15001"], "heartbeat.interval.ms (15001) must be less than or equal to"),
        (["assignment.interval.ms=15001"], "assignment.interval.ms (15001) must be less than or equal to"),
        (
            ["min.session.timeout.ms=1", "session.timeout.ms=5000"],
            "heartbeat.interval.ms (5000) must be less than group",
        ),
        (["assignors="], "must be a list of words"),
        (["assignors=uniform,uniform"], "must name each word once"),
        ([f"assignors=uniform,{UNIFORM_CLASS}"], "must name each assignor once"),
        (["assignors=com.example.Mine"], "must be uniform, range or both; Kohort cannot load assignors of your own"),
        (["migration.policy=sideways"], "must be bidirectional, upgrade, downgrade or disabled"),
        (["max.size=0"], "must be between 1 and 2147483647"),
        (["regex.refresh.interval.ms=9999"], "must be between 10000 and 2147483647"),
    ],
)
def test_settings_that_cannot_be_are_refused_with_what_is_allowed(overrides: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(overrides=[f"group.consumer.{each}" for each in overrides])
    assert words in str(refused.value)
    assert refused.value.in_command_line


def test_all_contradictions_are_told_at_once_and_a_file_is_no_command_line() -> None:
    with pytest.raises(ConfigError) as refused:
        load_config("group.consumer.session.timeout.ms=1\ngroup.consumer.heartbeat.interval.ms=1")
    assert len(refused.value.problems) == 3
    assert not refused.value.in_command_line


def test_assignors_have_names_and_the_names_of_kafkas_classes() -> None:
    assert parse_assignors("range") == ["range"]
    assert parse_assignors(f"range , {UNIFORM_CLASS}") == ["range", "uniform"]


def test_a_migration_policy_is_known_in_any_case() -> None:
    assert load_config(overrides=["group.consumer.migration.policy=Upgrade"]).group_consumer_migration_policy
    assert parse_migration_policy("Upgrade") == "upgrade"


@pytest.mark.parametrize("text", ["consumer", "", "classic,klassic", "classic,classic", "CLASSIC"])
def test_protocols_that_kafka_refuses_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"group\.coordinator\.rebalance\.protocols="):
        load_config(overrides=[f"group.coordinator.rebalance.protocols={text}"])


def test_protocols_that_are_turned_off_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        load_config(overrides=["group.coordinator.rebalance.protocols=classic,share"])
    (told,) = [record.getMessage() for record in caplog.records]
    assert "consumers with group.protocol=consumer are refused" in told
    assert parse_protocols("classic, consumer") == ["classic", "consumer"]
