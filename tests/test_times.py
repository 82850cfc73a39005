"""Durations and points in time are written the same way on every command line."""

from __future__ import annotations

import argparse

import pytest

from kohort.audit.moments import parse_moment, window_s
from kohort.times import parse_duration_ms, parse_time_ms

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2h", 2 * HOUR),
        ("90s", 90 * SECOND),
        ("1d12h", 36 * HOUR),
        ("15M", 15 * MINUTE),
        ("0.25s", 250),
        ("P1D", DAY),
        ("P1DT2H", 26 * HOUR),
        ("pt1h2m3.5s", HOUR + 2 * MINUTE + 3_500),
        ("PT0.1234567S", 123),
        (f"P{'9' * 400}D", int("9" * 400) * DAY),
    ],
)
def test_durations_have_a_short_form_and_that_of_iso_8601(text: str, expected: int) -> None:
    assert parse_duration_ms(text) == expected
    assert parse_moment(text, expected + 7) == 7


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "P1W", "P1D2H", "P-1D", "-2h", "2", "h", "2x", "1h2d", "2h ", "PT1.S", "²h"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: write 2h, 1d12h or P1DT2H"):
        parse_duration_ms(text)


def test_a_time_is_utc_unless_it_names_a_zone() -> None:
    assert parse_time_ms("1970-01-02T00:00") == DAY
    assert parse_time_ms("1970-01-02 01:00:00.250+01:00") == DAY + 250
    assert parse_time_ms("1969-12-31T23:59:59.999Z") == -1
    with pytest.raises(ValueError, match="'yesterday' is not a time"):
        parse_time_ms("yesterday")


def test_how_far_the_audit_looks_back_is_a_duration_or_a_number_of_minutes() -> None:
    assert [window_s(text) for text in ("60", "0.5", "2h", "P1D", "1h30m")] == [3600, 30, 7200, 86400, 5400]
    for text in ("soon", "0", "0.1s", "."):
        with pytest.raises(argparse.ArgumentTypeError):
            window_s(text)
