"""The scans bring what was asked for."""

from __future__ import annotations

from kohort.audit.report.gather import INTERVAL, STEP
from tests.audit.report.example import Example
from tests.audit.report.frames import source_without_spark

PLACES = [("one", "t", 1), ("three", "t", 2)]


def an_example() -> Example:
    example = Example()
    for name in ("one", "two", "three"):
        example.generations(name, {"t": 3}, rebalances=9, members=3)
        example.commits(name, {"t": 3}, count=50, minutes=9, rewinds=[(1, 7, 900)])
    example.log(3, damaged=True)
    return example


def test_what_is_brought_is_what_was_asked_for() -> None:
    example = an_example()
    source = source_without_spark(example)
    rows = [row for row in example.rows["ownership_intervals"] if row["group_id"] == "one"]
    middle = sorted({row["start_log_offset"] for row in rows})[4]
    drawn = [
        row for row in rows
        if row["start_log_offset"] <= middle and (row["end_log_offset"] is None or row["end_log_offset"] > middle)
    ]  # fmt: skip
    assert len(source.intervals(INTERVAL, {"one": (middle, middle)})) == len(drawn) < len(rows)
    steps = source.steps(STEP, PLACES, 1)
    assert set(zip(*(steps[name].to_pylist() for name in ("group_id", "topic", "partition")), strict=True)) == set(
        PLACES
    )
    assert len(steps) == 100


def test_a_sample_keeps_every_step_back() -> None:
    sample = source_without_spark(an_example()).steps(STEP, [("one", "t", 1)], 10)
    assert 0 < len(sample) < 25
    assert -900 in sample["step"].to_pylist()
