"""Share groups in the test kit with Kafka's own client: its locks, its time, and the end of the broker."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kohort.testing import Broker
from tests.clients.group_checks import MemberProcess
from tests.clients.share_checks import GROUP, TOPIC, java

PATIENCE_S = 60


@contextmanager
def java_members(kafka: Broker, folder: Path, *kinds: str) -> Iterator[queue.Queue[tuple[MemberProcess, Any]]]:
    """One process with members NAME=KIND that have their partition; and what they say."""
    said: queue.Queue[tuple[MemberProcess, Any]] = queue.Queue()
    process = MemberProcess("java", java(kafka.bootstrap_servers, *kinds), [GROUP], said, folder)
    try:
        kafka.group(GROUP).wait_until(
            "Stable", members=len(kinds), timeout=PATIENCE_S,
            matches=lambda group: len(group.start_offsets) == 1 and all(each.assignment for each in group.members),
        )  # fmt: skip
        yield said
        process.ask_to_close()
        process.wait_until_closed(PATIENCE_S)
    finally:
        process.kill()


def produce(kafka: Broker, first: int, last: int) -> None:
    """The members want each record to be its offset."""
    for offset in range(first, last + 1):
        kafka.produce(TOPIC, b"%d" % offset)


def until_finished(kafka: Broker, offset: int) -> None:
    group = kafka.group(GROUP)
    group.wait_until(matches=lambda seen: seen.start_offsets == {(TOPIC, 0): offset}, timeout=PATIENCE_S)


def deliveries(said: queue.Queue[tuple[MemberProcess, Any]]) -> list[int]:
    """How often each record was delivered, in the order of offsets."""
    counts: dict[int, int] = {}
    while not said.empty():
        _, event = said.get()
        assert event["event"] != "problem", event
        if event["event"] == "got":
            for _, first, last, count in event["ranges"]:
                counts.update(dict.fromkeys(range(first, last + 1), count))
    return [counts[offset] for offset in sorted(counts)]


@pytest.mark.kafka
def test_javas_members_live_through_time_and_the_end_of_the_broker(tmp_path: Path) -> None:
    settings: dict[str, str | int | float | bool] = {"num.partitions": 1, "group.share.assignment.interval.ms": 0}
    with Broker(settings) as kafka:
        kafka.create_topic(TOPIC)
        with java_members(kafka, tmp_path, "e=explicit", "n=renew") as said:
            produce(kafka, 0, 19)
            until_finished(kafka, 20)
            members = {each.member_id for each in kafka.group(GROUP).members}
            kafka.clock.advance(minutes=2)  # locks are 30 s long, sessions 45 s
            produce(kafka, 20, 29)
            until_finished(kafka, 30)
            assert {each.member_id for each in kafka.group(GROUP).members} == members
            kafka.restart()
            produce(kafka, 30, 39)
            until_finished(kafka, 40)
        assert len(deliveries(said)) == 40
        assert kafka.group(GROUP).members == []
