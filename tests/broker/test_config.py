"""Settings: where they come from, what is refused, and in which words."""

from __future__ import annotations

import logging

import pytest

from kohort.broker.config import Config, ConfigError, Listener, load_config, parse_listeners, parse_properties


def test_without_any_settings_kafkas_defaults_hold() -> None:
    config = load_config()
    assert config == Config()
    assert config.socket_request_max_bytes == 104_857_600
    assert config.offsets_topic_num_partitions == 50


def test_a_properties_file_may_have_comments_colons_and_continued_lines() -> None:
    text = "# hello\n! too\nnode.id = 7\nlog.dirs: /tmp/x\nlisteners=PLAINTEXT://a:1,\\\n  PLAINTEXT://b:2\n\n"
    assert parse_properties(text) == {
        "node.id": "7",
        "log.dirs": "/tmp/x",
        "listeners": "PLAINTEXT://a:1,  PLAINTEXT://b:2",
    }


def test_an_override_beats_the_environment_which_beats_the_file() -> None:
    file, environment = (
        "num.partitions=2\nnode.id=2\nlog.dirs=f",
        {"KOHORT_NODE_ID": "3", "KOHORT_LOG_DIRS": "e", "X": "1"},
    )
    config = load_config(file, environment, ["log.dirs=o"])
    assert (config.num_partitions, config.node_id, config.log_dirs) == (2, 3, "o")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("num.partitions=0", "num.partitions=0: must be between 1 and 2147483647"),
        ("num.partitions=many", "num.partitions=many: must be a whole number"),
        ("auto.create.topics.enable=yes", "auto.create.topics.enable=yes: must be true or false"),
        ("log.cleaner.min.cleanable.ratio=1.5", "must be between 0 and 1"),
        ("log.cleaner.min.cleanable.ratio=nan", "must be between 0 and 1"),
        ("log.message.timestamp.type=Never", "must be one of CreateTime, LogAppendTime"),
        ("log.cleanup.policy=forget", "must be delete, compact or both"),
        ("num.partition=3", "neither Kafka nor Kohort has such a setting; did you mean num.partitions?"),
        ("listeners=nonsense", "must look like PLAINTEXT://host:port"),
        ("listeners=SSL://:9093", "Kohort speaks PLAINTEXT only"),
        ("listeners=CONTROLLER://:9093", "no listener for clients"),
        ("log.dirs=", "must name a folder"),
        ("novalue", "--override takes key=value"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_with_what_is_allowed(override: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(overrides=[override])
    assert words in str(refused.value)


def test_a_setting_of_kafka_that_we_do_not_use_gives_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        load_config("num.io.threads=8\nprocess.roles=broker,controller")
    assert [record.getMessage() for record in caplog.records] == [
        "setting num.io.threads has no effect in Kohort",
        "setting process.roles has no effect in Kohort",
    ]


def test_kafkas_other_spellings_are_understood() -> None:
    config = load_config("broker.id=5\nlog.retention.hours=2\nlog.roll.hours=1\nlog.dir=here")
    assert (config.node_id, config.log_retention_ms, config.log_roll_ms) == (5, 7_200_000, 3_600_000)
    assert config.data_folder == "here"
    assert load_config("log.retention.minutes=-1").log_retention_ms == -1


def test_listeners_may_be_ipv6_and_the_controllers_is_passed_over() -> None:
    assert parse_listeners("listeners", "PLAINTEXT://[::1]:9092,CONTROLLER://:9093") == [
        Listener("PLAINTEXT", "::1", 9092)
    ]
