"""What the log and the metrics say about delivered records."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.broker.share.deliveries import TELL_EVERY_S
from kohort.broker.share.metrics import delivery_lines
from tests.share.share_box import ShareBox, Sharer
from tests.share_requests import ACCEPT, REJECT, RELEASE


@pytest.fixture
def box(tmp_path: Path) -> Iterator[ShareBox]:
    made = ShareBox(tmp_path / "data", partitions=2)
    made.write(10)
    yield made
    made.close()


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.getMessage() for record in caplog.records if record.name == "kohort.delivery"]
    caplog.clear()
    return lines


def test_a_line_a_minute_tells_what_became_of_records(box: ShareBox, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    member = Sharer(box)
    member.acquire(0)
    member.acknowledge((0, 3, ACCEPT), (4, 5, RELEASE), (6, 6, REJECT))
    assert told(caplog) == []
    box.pass_time(TELL_EVERY_S * 1_000)
    counts = "acquired=10 accepted=4 released=2 rejected=1 timed_out=3 archived=0"
    assert told(caplog) == [f"delivered group=g topic=t partition=0 {counts} start=4 in_flight=6"]
    box.pass_time(TELL_EVERY_S * 1_000)
    assert told(caplog) == []  # nothing has happened


def test_the_last_line_is_written_when_the_last_session_ends(box: ShareBox, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    member = Sharer(box)
    member.acquire(0)
    member.client.close("test")
    counts = "acquired=10 accepted=0 released=10 rejected=0 timed_out=0 archived=0"
    assert told(caplog) == [f"delivered group=g topic=t partition=0 {counts} start=0 in_flight=10"]


def test_metrics_by_group_and_partition(box: ShareBox) -> None:
    box.initialize(group='a "b"')
    member = Sharer(box, group='a "b"')
    member.acquire(0)
    member.acknowledge((0, 3, ACCEPT))
    lines = dict(line.rsplit(" ", 1) for line in delivery_lines(box.broker) if line and not line.startswith("#"))
    labels = 'group="a \\"b\\"",topic="t",partition="0"'
    assert lines["kohort_share_sessions"] == "1"
    assert lines[f'kohort_share_records_total{{{labels},event="accepted"}}'] == "4"
    assert lines[f'kohort_share_records_total{{{labels},event="acquired"}}'] == "10"
    assert lines[f"kohort_share_records_in_flight{{{labels}}}"] == "6"
