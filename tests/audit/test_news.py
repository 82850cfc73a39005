"""Findings of a stream are told once, however long they last and however often they are seen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kohort.audit.follow.news import AGAIN, Finding, News
from kohort.audit.tables import FINDINGS

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def stall(began: datetime, until: datetime | None, **columns: object) -> Finding:
    row: Finding = dict.fromkeys(column.name for column in FINDINGS.columns)
    told = {"check": "stall", "severity": "warning", "group_id": "shop", "topic": "orders", "partition": 0}
    return row | told | {"log_partition": 7, "time": began, "until": until} | columns


def test_a_finding_is_told_once_and_while_it_goes_on_again_now_and_then() -> None:
    news = News(2 * HOUR)
    told = []
    for seconds in range(0, 120, 5):
        now = NOON + timedelta(seconds=seconds)
        told += [now for _ in news.among([stall(NOON - HOUR, now)], [7], now)]
    assert told == [NOON + count * AGAIN for count in range(4)]
    assert [news.among([stall(NOON - HOUR, now)], [7], now + HOUR) for _ in range(3)][1:] == [[], []]


def test_one_that_lasts_longer_than_the_window_is_still_the_same() -> None:
    """The window forgets how it began: its place moves on with every commit."""
    news = News(2 * HOUR)
    told = []
    for seconds in range(0, 3 * 3600, 5):
        now = NOON + timedelta(seconds=seconds)
        began = max(NOON, now - HOUR)
        told += news.among([stall(began, now, log_offset=seconds, generation=seconds)], [7], now)
    assert len(told) == 3 * HOUR / AGAIN


def test_another_place_another_severity_or_a_later_time_is_another_finding() -> None:
    news = News(2 * HOUR)
    first = stall(NOON - HOUR, NOON)
    assert news.among([first], [7], NOON) == [first]
    for other in (
        stall(NOON + AGAIN, NOON + HOUR),
        stall(NOON - HOUR / 2, NOON, partition=1),
        stall(NOON - HOUR / 2, NOON, severity="error"),
        stall(NOON - HOUR / 2, NOON, member_id="m2"),
    ):
        assert news.among([first, other], [7], NOON) == [other]
        assert news.among([first, other], [7], NOON) == []


def test_what_is_still_there_is_remembered_and_the_rest_forgotten() -> None:
    news = News(2 * HOUR)
    idle, other = stall(NOON, NOON), stall(NOON, NOON, log_partition=8)
    assert news.among([idle, other], [7, 8], NOON) == [idle, other]
    for hours in range(1, 10):
        assert news.among([idle], [7], NOON + hours * HOUR) == []
    assert news.among([other], [8], NOON + 10 * HOUR) == [], "nothing happened in its log partition meanwhile"
    assert news.among([], [7, 8], NOON + 13 * HOUR) == []
    assert news.among([idle], [7], NOON + 13 * HOUR) == [idle]
