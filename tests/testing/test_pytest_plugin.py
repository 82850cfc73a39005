"""The pytest plugin, in a run of pytest of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = """
import sys

import pytest


def test_nothing_is_imported_before_a_fixture_is_used():
    assert "kohort.broker" not in sys.modules
    assert "kohort.testing.broker" not in sys.modules


@pytest.mark.kafka(num_partitions=6)
def test_a_marker_has_settings(kafka):
    kafka.produce("orders", b"1")
    assert kafka.topic("orders").partitions == 6


def test_each_test_has_a_broker_of_its_own(kafka, kafka_session):
    assert [each.group_id for each in kafka.groups] == []
    assert kafka.bootstrap_servers != kafka_session.bootstrap_servers


def test_that_fails(kafka):
    from kohort.client.client import Client
    from kohort.protocol.api_keys import ApiKey
    from kohort.protocol.messages.heartbeat import HeartbeatRequest

    with Client(kafka.bootstrap_servers, client_id="me") as client:
        client.send(ApiKey.HEARTBEAT, HeartbeatRequest("billing", 1, "nobody"))
    assert False
"""


def run(folder: Path, *options: str) -> str:
    (folder / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "test_it.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120).stdout


def test_the_plugin_brings_fixtures_a_marker_and_the_brokers_story(tmp_path: Path) -> None:
    told = run(tmp_path, "--strict-markers")
    assert "1 failed, 3 passed" in told
    assert "Kohort, fixture kafka" in told
    assert "Heartbeat v4 of me: UNKNOWN_MEMBER_ID" in told


def test_the_plugin_works_with_several_workers(tmp_path: Path) -> None:
    assert "1 failed, 3 passed" in run(tmp_path, "-n", "4")
