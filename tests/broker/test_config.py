"""Settings: where they come from, what is refused, and in which words."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kohort.broker.config import Config, ConfigError, Listener, load_config, parse_listeners


def test_without_any_settings_kafkas_defaults_hold() -> None:
    config = load_config()
    assert config == Config()
    assert config.socket_request_max_bytes == 104_857_600
    assert config.offsets_topic_num_partitions == 50


def test_an_override_beats_the_environment_which_beats_the_file() -> None:
    file, environment = (
        "num.partitions=2\nnode.id=2\nlog.dirs=f",
        {"KOHORT_CFG_NODE_ID": "3", "KOHORT_CFG_LOG_DIRS": "e", "X": "1"},
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


def warnings_of(caplog: pytest.LogCaptureFixture, *sources: Any) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        load_config(*sources)
    return [record.getMessage() for record in caplog.records]


# --- files of people who come from Kafka


def test_a_setting_of_kafka_that_kohort_does_not_use_gives_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings_of(caplog, "num.io.threads=8\nprocess.roles=broker,controller") == [
        "setting num.io.threads has no effect in Kohort",
        "setting process.roles has no effect in Kohort",
    ]


def test_the_file_of_an_older_kafka_starts_with_all_its_warnings_in_one_run(caplog: pytest.LogCaptureFixture) -> None:
    text = """
    broker.id 4
    zookeeper.connect: localhost:2181
    inter.broker.protocol.version = 2.8
    log.message.format.version=2.8
    confluent.license.topic.replication.factor=1
    com.example.plugin.url=http://example
    """
    caplog.set_level(logging.WARNING)
    assert load_config(text).node_id == 4
    assert [record.getMessage() for record in caplog.records] == [
        "setting zookeeper.connect has no effect in Kohort, nor in Kafka since 4.0",
        "setting inter.broker.protocol.version has no effect in Kohort, nor in Kafka since 4.0",
        "setting log.message.format.version has no effect in Kohort, nor in Kafka since 4.0",
        "setting confluent.license.topic.replication.factor is ignored: neither Kafka nor Kohort has it",
        "setting com.example.plugin.url is ignored: neither Kafka nor Kohort has it",
    ]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("num.partition", "num.partitions"),
        ("nmu.partitions", "num.partitions"),
        ("listenres", "listeners"),
        ("log.dris", "log.dirs"),
        ("mode.id", "node.id"),
        ("log.retention.hour", "log.retention.hours"),
        ("num.io.thread", "num.io.threads"),
        ("http.port", "kohort.http.port"),
    ],
)
def test_a_name_one_letter_away_from_a_known_one_gets_a_suggestion(
    caplog: pytest.LogCaptureFixture, name: str, meant: str
) -> None:
    expected = f"setting {name} is ignored: neither Kafka nor Kohort has it; did you mean {meant}?"
    assert warnings_of(caplog, f"{name}=7") == [expected]


def test_all_values_that_cannot_be_are_told_in_one_run() -> None:
    with pytest.raises(ConfigError) as refused:
        load_config("num.partitions=0\nlisteners=here", {"KOHORT_CFG_NODE_ID": "me"}, ["log.dirs=", "novalue"])
    assert refused.value.problems == [
        "--override takes key=value, not 'novalue'",
        "num.partitions=0: must be between 1 and 2147483647",
        "listeners=here: must look like PLAINTEXT://host:port (port 0: any free port)",
        "KOHORT_CFG_NODE_ID=me: must be a whole number",
        "--override log.dirs=: must name a folder",
    ]


def test_a_broken_escape_in_the_file_is_refused() -> None:
    with pytest.raises(ConfigError, match="four hexadecimal digits"):
        load_config("broker.rack=\\u12")


# --- the environment


def test_the_environment_has_a_prefix_of_its_own_and_the_old_one_still_works(caplog: pytest.LogCaptureFixture) -> None:
    new = {"KOHORT_CFG_NUM_PARTITIONS": "3", "KOHORT_CFG_KOHORT_HTTP_PORT": "0", "KOHORT_CFG_BROKER_ID": "8"}
    old = {"KOHORT_LOG_DIRS": "there", "KOHORT_KOHORT_AUDIT_HEADERS": "false", "KOHORT_LOG_RETENTION_HOURS": "1"}
    assert warnings_of(caplog, "", new | old) == []
    config = load_config("", new | old)
    assert (config.num_partitions, config.kohort_http_port, config.node_id) == (3, 0, 8)
    assert (config.log_dirs, config.kohort_audit_headers, config.log_retention_ms) == ("there", False, 3_600_000)


def test_variables_of_others_are_named_in_a_warning_and_stop_nothing(caplog: pytest.LogCaptureFixture) -> None:
    strays = {
        "KOHORT_JVM_CACHE": "/tmp/cache",
        "KOHORT_PORT": "tcp://10.96.7.1:9092",  # what Kubernetes sets for a service named kohort
        "KOHORT_SERVICE_HOST": "10.96.7.1",
        "KOHORT_PORT_9092_TCP_PROTO": "tcp",
    }
    (said,) = warnings_of(caplog, "", strays)
    assert said == (
        "environment variables that name no setting are ignored: KOHORT_JVM_CACHE, KOHORT_PORT,"
        " KOHORT_PORT_9092_TCP_PROTO, KOHORT_SERVICE_HOST (log.dirs, for instance, is KOHORT_CFG_LOG_DIRS)"
    )


def test_a_misspelt_variable_gets_a_suggestion(caplog: pytest.LogCaptureFixture) -> None:
    for name, meant in (("NUM_PARTITION", "NUM_PARTITIONS"), ("HTTP_PORT", "KOHORT_HTTP_PORT")):
        said = (
            f"setting KOHORT_CFG_{name} is ignored: neither Kafka nor Kohort has it; did you mean KOHORT_CFG_{meant}?"
        )
        assert warnings_of(caplog, "", {f"KOHORT_CFG_{name}": "1"}) == [said]


def test_of_the_old_and_the_new_variable_the_new_one_wins_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    both = {"KOHORT_CFG_NODE_ID": "1", "KOHORT_NODE_ID": "2"}
    assert warnings_of(caplog, "", both) == ["KOHORT_NODE_ID is ignored, because KOHORT_CFG_NODE_ID is set too"]
    assert load_config("", both).node_id == 1


def test_a_wrong_value_of_a_real_setting_is_refused_under_the_variables_name() -> None:
    with pytest.raises(ConfigError, match=r"^KOHORT_LISTENERS=nowhere: must look like"):
        load_config("", {"KOHORT_LISTENERS": "nowhere"})


# --- one setting, several names


def test_of_several_names_of_a_setting_kafkas_order_decides_and_not_the_files() -> None:
    config = load_config("log.retention.ms=5\nlog.retention.minutes=6\nlog.retention.hours=168\nlog.dirs=a\nlog.dir=b")
    assert (config.log_retention_ms, config.log_dirs) == (5, "a")
    assert load_config("log.retention.minutes=6\nlog.retention.hours=168").log_retention_ms == 360_000


def test_a_later_source_wins_over_an_earlier_one_under_any_name() -> None:
    assert load_config("log.retention.ms=5", {"KOHORT_CFG_LOG_RETENTION_HOURS": "1"}).log_retention_ms == 3_600_000


def test_kafkas_other_spellings_are_understood() -> None:
    config = load_config("broker.id=5\nlog.retention.hours=2\nlog.roll.hours=1\nlog.dir=here")
    assert (config.node_id, config.log_retention_ms, config.log_roll_ms) == (5, 7_200_000, 3_600_000)
    assert config.data_folder == "here"
    assert load_config("log.retention.minutes=-1").log_retention_ms == -1


def test_listeners_may_be_ipv6_and_the_controllers_is_passed_over() -> None:
    assert parse_listeners("PLAINTEXT://[::1]:9092,CONTROLLER://:9093") == [Listener("PLAINTEXT", "::1", 9092)]
