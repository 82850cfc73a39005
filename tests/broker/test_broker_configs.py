"""Settings of the broker that change while it runs: they take effect, are kept, and can be taken back."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kohort.client.client import Client
from kohort.client.errors import ClientError
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.protocol.record_batch import build_batch
from kohort.storage.errors import FileDamaged
from tests.broker.broker_box import BrokerBox
from tests.broker.test_housekeeping import DAY_MS, Household, write_keys
from tests.clients.kohort import KohortProcess

TOPIC, BROKER = 2, 4
SET, REMOVE = 0, 1
THIS, CLUSTER = "1", ""


def alter(box: BrokerBox, resource_name: str, **configs: str | None) -> int:
    """Set settings of the broker, or remove them with None; dots are written as underscores. The error code."""
    changes = [
        AlterableConfig(name.replace("_", "."), REMOVE if value is None else SET, value)
        for name, value in configs.items()
    ]
    resource = AlterConfigsResource(BROKER, resource_name, changes)
    answer = box.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest([resource]), 1)
    code: int = answer.responses[0].error_code
    return code


def value_of(box: BrokerBox, name: str) -> str | None:
    """As DescribeConfigs shows it."""
    resource = DescribeConfigsResource(BROKER, THIS, [name])
    answer = box.send(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest([resource]), 4)
    shown = answer.results[0].configs
    value: str | None = shown[0].value if shown else None
    return value


def test_a_shorter_retention_of_the_broker_removes_old_segments_of_topics_without_their_own(tmp_path: Path) -> None:
    box = Household(tmp_path / "data")
    plain = box.topic("plain", segment_ms=str(DAY_MS // 2))
    own = box.topic("own", segment_ms=str(DAY_MS // 2), retention_ms=str(30 * DAY_MS))
    for _ in range(4):
        box.append(b"x", topic="plain")
        box.append(b"x", topic="own")
        box.pass_time(DAY_MS // 2 + 1)
    assert (plain.partitions[0].log.log_start_offset, own.partitions[0].log.log_start_offset) == (0, 0)
    assert alter(box, CLUSTER, log_retention_ms=str(DAY_MS)) == 0
    box.pass_time(300_000)
    assert (plain.partitions[0].log.log_start_offset, own.partitions[0].log.log_start_offset) == (3, 0)
    box.stop()


def test_the_largest_message_changes_at_once_and_back(tmp_path: Path) -> None:
    box = BrokerBox(tmp_path / "data")
    box.topic("t")
    batch = build_batch([(None, b"x" * 1000)], timestamp=box.now)
    assert alter(box, THIS, message_max_bytes="500") == 0
    assert box.produce(batch).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert alter(box, THIS, message_max_bytes=None) == 0
    assert box.produce(batch).error_code == 0
    box.close()


def test_the_cleaner_takes_its_new_interval_after_the_round_that_waits(tmp_path: Path) -> None:
    box = Household(tmp_path / "data")
    box.topic("t", cleanup_policy="compact", min_cleanable_dirty_ratio="0")
    assert alter(box, THIS, log_cleaner_backoff_ms=str(DAY_MS)) == 0
    box.pass_time(15_000)  # the round that was due: there is nothing to clean
    write_keys(box, "t", 3)
    box.checkpoint()
    box.pass_time(60_000)
    assert not box.housekeeping.is_compacting
    box.pass_time(DAY_MS)
    box.finish_compaction()
    box.stop()


def test_changed_settings_survive_a_restart_and_so_does_their_removal(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    box = BrokerBox(folder, log_retention_ms="7000")
    assert alter(box, THIS, log_retention_ms="5000", num_io_threads="9") == 0
    assert alter(box, CLUSTER, log_retention_ms="6000") == 0
    box.close()

    box = BrokerBox(folder, log_retention_ms="7000")
    topic = box.topic("t")
    assert (value_of(box, "log.retention.ms"), value_of(box, "num.io.threads")) == ("5000", "9")
    assert topic.config.log.retention_ms == 5000
    assert alter(box, THIS, log_retention_ms=None, num_io_threads=None) == 0
    assert topic.config.log.retention_ms == 6000
    box.close()

    box = BrokerBox(folder, log_retention_ms="7000")
    assert (value_of(box, "log.retention.ms"), value_of(box, "num.io.threads")) == ("6000", None)
    assert alter(box, CLUSTER, log_retention_ms=None) == 0
    assert value_of(box, "log.retention.ms") == "7000"
    box.close()


def test_the_log_says_which_settings_changed_and_which_are_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    box = BrokerBox(tmp_path / "data")
    with caplog.at_level(logging.INFO):
        alter(box, THIS, log_retention_ms="5000", num_io_threads="9", no_such_thing="secret")
        alter(box, THIS, num_io_threads="9")  # changes nothing: not told again
        alter(box, THIS, log_retention_ms=None)
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("INFO", "setting log.retention.ms of the broker is now 5000"),
        ("WARNING", "setting no.such.thing of the broker is kept, but is ignored: neither Kafka nor Kohort has it"),
        ("WARNING", "setting num.io.threads of the broker is kept, but has no effect in Kohort"),
        ("INFO", "setting log.retention.ms of the broker is now what the broker started with"),
    ]
    box.close()


def test_the_number_of_connections_is_limited_from_now_on(tmp_path: Path) -> None:
    change = AlterConfigsResource(BROKER, THIS, [AlterableConfig("max.connections", SET, "1")])
    asked = DescribeConfigsRequest([DescribeConfigsResource(BROKER, THIS, ["max.connections"])])
    with KohortProcess(tmp_path) as broker, Client(broker.address) as first:
        with Client(broker.address) as second:
            assert second.send(ApiKey.DESCRIBE_CONFIGS, asked, 4).results[0].error_code == 0
        answer = first.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest([change]), 1)
        assert answer.responses[0].error_code == 0
        with Client(broker.address) as third, pytest.raises(ClientError):
            third.send(ApiKey.DESCRIBE_CONFIGS, asked, 4)


def test_a_number_with_underscores_is_no_number_for_java_and_none_here(tmp_path: Path) -> None:
    box = BrokerBox(tmp_path / "data")
    assert alter(box, THIS, log_retention_ms="1_000") == ErrorCode.INVALID_REQUEST
    box.close()


def test_one_bad_setting_keeps_the_others_from_changing(tmp_path: Path) -> None:
    box = BrokerBox(tmp_path / "data")
    assert alter(box, THIS, log_retention_ms="5000", log_segment_bytes="5") == ErrorCode.INVALID_REQUEST
    assert alter(box, THIS, log_retention_ms="5000", kohort_audit_headers="false") == ErrorCode.INVALID_REQUEST
    assert value_of(box, "log.retention.ms") == "604800000"
    assert not (tmp_path / "data" / "kohort-broker-configs.json").exists()
    box.close()


def test_listeners_and_security_cannot_change_while_the_broker_runs(tmp_path: Path) -> None:
    box = BrokerBox(tmp_path / "data")
    for name in ("listeners", "listener.name.external.ssl.keystore.location", "ssl.keystore.location"):
        assert alter(box, THIS, **{name: "x"}) == ErrorCode.INVALID_REQUEST
    box.close()


def test_a_kept_value_that_cannot_be_used_any_more_is_left_out_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    text = '{"version": 1, "broker": {"log.retention.ms": "soon", "log.segment.bytes": "2000000"}, "cluster": {}}'
    (folder / "kohort-broker-configs.json").write_text(text)
    box = BrokerBox(folder)
    assert (value_of(box, "log.retention.ms"), value_of(box, "log.segment.bytes")) == ("604800000", "2000000")
    assert "Invalid value soon for configuration log.retention.ms" in caplog.text
    box.close()


def test_a_name_of_a_setting_cannot_forge_lines_of_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    box = BrokerBox(tmp_path)
    assert alter(box, THIS, **{"plug\n2026-11-18 ERROR disk\x1b[2J": "x", "log.retention.ms": "\n5\n"}) == 0
    box.close()
    assert "plug\\n2026-11-18 ERROR disk\\x1b[2J" in caplog.text
    assert all(record.getMessage().isprintable() for record in caplog.records)


def test_not_a_number_is_no_value_for_a_setting(tmp_path: Path) -> None:
    box = BrokerBox(tmp_path)
    for name in ("log_cleaner_min_cleanable_ratio", "log_cleaner_io_max_bytes_per_second"):
        assert alter(box, CLUSTER, **{name: "nan"}) == ErrorCode.INVALID_REQUEST
    box.close()


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"version": 1}', '{"broker": 5, "cluster": {}}'])
@pytest.mark.parametrize("file", ["kohort-broker-configs.json", "kohort-catalog.json"])
def test_a_damaged_file_is_named_when_the_broker_starts(tmp_path: Path, file: str, content: str) -> None:
    (tmp_path / file).write_text(content)
    with pytest.raises(FileDamaged, match=f"{tmp_path / file} is damaged.*Put back a copy"):
        BrokerBox(tmp_path)


def test_settings_of_client_metrics_are_refused_with_a_reason(tmp_path: Path) -> None:
    resource_type, said = 16, "no client metrics"
    box = BrokerBox(tmp_path / "data")
    asked = DescribeConfigsRequest([DescribeConfigsResource(resource_type, "billing", None)])
    changed = AlterConfigsResource(resource_type, "billing", [AlterableConfig("interval.ms", SET, "5")])
    answers = [
        box.send(ApiKey.DESCRIBE_CONFIGS, asked, 4).results[0],
        box.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest([changed]), 1).responses[0],
    ]
    assert [answer.error_code for answer in answers] == [ErrorCode.INVALID_REQUEST] * 2
    assert all(said in answer.error_message for answer in answers)


@pytest.mark.parametrize(("name", "value"), [("segment.bytes", "1048576"), ("segment.ms", "1")])
def test_a_changed_setting_of_segments_holds_for_the_segment_that_is_written_to(
    tmp_path: Path, name: str, value: str
) -> None:
    box = BrokerBox(tmp_path)
    topic = box.topic("t")
    box.append(b"x" * 700_000)
    asked = AlterConfigsResource(TOPIC, "t", [AlterableConfig(name, SET, value)])
    answer = box.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, IncrementalAlterConfigsRequest([asked]), 1)
    assert answer.responses[0].error_code == 0
    box.pass_time(10)
    box.append(b"x" * 700_000)
    assert [segment.base_offset for segment in topic.partitions[0].log.segments] == [0, 1]
    box.close()
