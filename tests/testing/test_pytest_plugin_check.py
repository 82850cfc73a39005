"""The pytest plugin judges tests by kafka.check() when it is told to, in runs of pytest of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest
from confluent_kafka import Consumer, TopicPartition


def commit(kafka, *offsets):
    kafka.produce("orders", *[b"order"] * 5)
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "billing"})
    for offset in offsets:
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    consumer.close()


def test_that_commits_forward(kafka):
    commit(kafka, 1, 3)


def test_that_goes_back(kafka):
    commit(kafka, 3, 1)


@pytest.mark.kafka(check={"ignore": ["offset_rewind"]})
def test_that_may_go_back(kafka):
    commit(kafka, 3, 1)


@pytest.mark.kafka(check=False, num_partitions=2)
def test_that_is_spared(kafka):
    commit(kafka, 3, 1)
    assert kafka.topic("orders").partitions == 2


@pytest.mark.kafka(check=True)
def test_that_asks_for_it(kafka):
    commit(kafka, 3, 1)


def test_that_fails_itself(kafka):
    commit(kafka, 3, 1)
    raise ValueError("itself")


def test_in_the_broker_of_the_session(kafka_session):
    commit(kafka_session, 3, 1)
"""


def run(folder: Path, *options: str, ini: str = "[pytest]\n") -> str:
    (folder / "test_it.py").write_text(TESTS)
    (folder / "pytest.ini").write_text(ini)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *options, "test_it.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120).stdout


def test_only_who_asks_for_it_is_judged(tmp_path: Path) -> None:
    told = run(tmp_path)
    assert "1 failed, 6 passed, 1 error" in told
    assert "ERROR test_it.py::test_that_asks_for_it - kohort.testing.check.CheckFailed" in told


def test_an_option_of_pytest_has_each_test_judged_that_has_passed(tmp_path: Path) -> None:
    told = run(tmp_path, "--kafka-check")
    assert "1 failed, 6 passed, 3 errors" in told
    for name in ("test_that_goes_back", "test_that_asks_for_it", "test_in_the_broker_of_the_session"):
        assert f"ERROR test_it.py::{name} - " in told
    assert "1 commit went back, at most by 2 records" in told
    assert "Captured story of Kohort, fixture kafka teardown" in told


def test_so_does_its_setting(tmp_path: Path) -> None:
    assert "1 failed, 6 passed, 3 errors" in run(tmp_path, ini="[pytest]\nkafka_check = true\n")
