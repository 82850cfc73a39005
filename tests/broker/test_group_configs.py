"""Settings of single groups: they take effect at once, are kept over restarts, and can be taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.broker.coordinator_host import CoordinatorHost
from kohort.broker.topics import alter_group_configs, catalog_file
from kohort.coordinator.config import ConsumerGroupSettings
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.storage.errors import FileDamaged
from tests.broker.broker_box import BrokerBox
from tests.broker.small_files import FullDisk
from tests.broker.test_broker_configs import alter as alter_broker
from tests.broker.test_catalog import FILE, Request, Thread

GROUP, SET, REMOVE = 32, 0, 1
DEFAULTS = ConsumerGroupSettings()


class Box(BrokerBox):
    def __init__(self, folder: Path, disk: FullDisk | None = None, **overrides: str) -> None:
        super().__init__(folder, disk, **overrides)
        self.broker.coordinator = CoordinatorHost(self.broker, self.clock)

    def settings(self, group_id: str) -> ConsumerGroupSettings:
        """What the coordinator takes for the group's next heartbeat."""
        return self.broker.coordinator.runtime.shard_of(group_id).state.consumer_settings(group_id)


def alteration(group_id: str, **configs: str | None) -> IncrementalAlterConfigsRequest:
    changes = [
        AlterableConfig(f"consumer.{name.replace('_', '.')}", REMOVE if value is None else SET, value)
        for name, value in configs.items()
    ]
    return IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP, group_id, changes)])


def alter(box: BrokerBox, group_id: str, **configs: str | None) -> int:
    """Set settings of a group, or remove them with None; dots are underscores. The error code."""
    answer = box.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, alteration(group_id, **configs), 1)
    code: int = answer.responses[0].error_code
    return code


def first_line(folder: Path) -> str:
    return (folder / FILE).read_text().splitlines()[0]


def test_settings_of_a_group_hold_at_once_and_for_no_other_group(tmp_path: Path) -> None:
    box = Box(tmp_path)
    runtime = box.broker.coordinator.runtime
    before = runtime.consumer.version
    assert alter(box, "g", session_timeout_ms="50000", heartbeat_interval_ms="6000") == 0
    assert box.settings("g") == ConsumerGroupSettings(50_000, 6_000, 1_000)
    assert box.settings("other") == DEFAULTS
    assert runtime.consumer.version > before  # whoever remembers settings can see that
    assert alter(box, "g", session_timeout_ms=None) == 0
    assert box.settings("g") == ConsumerGroupSettings(45_000, 6_000, 1_000)
    assert alter(box, "g", heartbeat_interval_ms=None) == 0
    assert (box.settings("g"), runtime.consumer.own) == (DEFAULTS, {})
    box.close()


def test_a_group_inherits_from_the_broker_what_it_does_not_set(tmp_path: Path) -> None:
    box = Box(tmp_path, group_consumer_heartbeat_interval_ms="7000")
    assert alter(box, "g", session_timeout_ms="50000") == 0
    assert alter_broker(box, "", group_consumer_assignment_interval_ms="2000") == 0
    assert box.settings("g") == ConsumerGroupSettings(50_000, 7_000, 2_000)
    assert box.settings("other") == ConsumerGroupSettings(45_000, 7_000, 2_000)
    assert alter_broker(box, "", group_consumer_assignment_interval_ms=None) == 0
    assert box.settings("g") == ConsumerGroupSettings(50_000, 7_000, 1_000)
    box.close()


def test_settings_of_groups_are_kept_over_restarts_and_crashes(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.topic("t")
    assert first_line(tmp_path) == '{"version": 2}'  # as long as no group has settings, an older Kohort can read it
    for group_id in ("g", "gone", "gr\u00fc\u00dfe \U0001f600"):
        assert alter(box, group_id, session_timeout_ms="50000") == 0
    assert alter(box, "g", heartbeat_interval_ms="6000") == 0
    assert alter(box, "gone", session_timeout_ms=None) == 0
    assert first_line(tmp_path) == '{"version": 3}'
    box.crash()
    for _ in range(2):
        box = Box(tmp_path)
        assert box.broker.catalog.get("t") is not None
        assert box.settings("g") == ConsumerGroupSettings(50_000, 6_000, 1_000)
        assert box.settings("gr\u00fc\u00dfe \U0001f600") == ConsumerGroupSettings(50_000, 5_000, 1_000)
        assert box.settings("gone") == DEFAULTS
        box.close()


def test_the_file_is_written_anew_with_groups_and_without_those_that_have_no_settings_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_file, "REWRITE_ABOVE_BYTES", 2_000)
    box = Box(tmp_path)
    box.topic("t")
    for number in range(300):
        assert alter(box, "g", session_timeout_ms=str(45_000 + number)) == 0
        assert alter(box, "gone", session_timeout_ms="50000" if number % 2 == 0 else None) == 0
    assert (tmp_path / FILE).stat().st_size < 4_500
    box.crash()
    box = Box(tmp_path)
    assert box.broker.catalog.group_configs == {"g": {"consumer.session.timeout.ms": "45299"}}
    assert alter(box, "g", session_timeout_ms=None) == 0
    box.close()


def test_a_value_outside_the_limits_of_a_later_start_is_brought_within_them(tmp_path: Path) -> None:
    box = Box(tmp_path)
    assert alter(box, "g", session_timeout_ms="60000", heartbeat_interval_ms="15000") == 0
    box.close()
    limits = {"group_consumer_max_session_timeout_ms": "50000", "group_consumer_max_heartbeat_interval_ms": "9000"}
    box = Box(tmp_path, None, **limits)
    assert box.settings("g") == ConsumerGroupSettings(50_000, 9_000, 1_000)
    asked = DescribeConfigsRequest([DescribeConfigsResource(GROUP, "g", ["consumer.session.timeout.ms"])])
    shown = box.send(ApiKey.DESCRIBE_CONFIGS, asked, 4).results[0].configs[0]
    assert shown.value == "60000"  # as it was set: with other limits it counts again
    box.close()


def test_a_value_that_cannot_be_is_damage_of_the_file(tmp_path: Path) -> None:
    box = Box(tmp_path)
    assert alter(box, "g", session_timeout_ms="50000") == 0
    box.crash()
    path = tmp_path / FILE
    path.write_bytes(path.read_bytes().replace(b"50000", b"fifty"))
    with pytest.raises(FileDamaged, match=f"{path} is damaged.*fifty.*Put back a copy"):
        Box(tmp_path)


def test_a_change_that_the_disk_refuses_has_not_happened(tmp_path: Path) -> None:
    disk = FullDisk()
    box = Box(tmp_path, disk)
    box.topic("t")
    disk.is_full = True
    assert alter(box, "g", session_timeout_ms="50000") == ErrorCode.KAFKA_STORAGE_ERROR
    assert box.settings("g") == DEFAULTS
    disk.is_full = False
    assert alter(box, "g", session_timeout_ms="55000") == 0
    box.crash()
    box = Box(tmp_path)
    assert box.settings("g").session_timeout_ms == 55_000
    box.close()


def test_two_changes_of_one_group_at_once_are_both_kept(tmp_path: Path) -> None:
    box = Box(tmp_path)
    thread = Thread(box)
    key = ApiKey.INCREMENTAL_ALTER_CONFIGS
    first = Request(box, key, 1, alteration("g", session_timeout_ms="50000"))
    second = Request(box, key, 1, alteration("g", heartbeat_interval_ms="6000"))
    assert (first.answer, second.answer) == (None, None)
    while thread.pieces:
        thread.run()
    assert [each.answer.responses[0].error_code for each in (first, second)] == [0, 0]
    assert box.settings("g") == ConsumerGroupSettings(50_000, 6_000, 1_000)
    box.close()


def test_groups_with_settings_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alter_group_configs, "MAX_GROUPS", 2)
    box = Box(tmp_path)
    assert [alter(box, name, session_timeout_ms="50000") for name in "abc"] == [0, 0, ErrorCode.POLICY_VIOLATION]
    assert alter(box, "b", session_timeout_ms=None) == 0
    assert alter(box, "c", session_timeout_ms="50000") == 0
    assert alter(box, "x" * 1_001, session_timeout_ms="50000") == ErrorCode.INVALID_REQUEST
    box.close()
