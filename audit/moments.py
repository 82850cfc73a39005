"""Moments as people write them: 2026-11-16T06:30, 2026-11-16 06:30:00+01:00, 1790000000000, or 2h (ago).

kohort/times.py has the forms of durations and dates, which all commands share.
"""

from __future__ import annotations

import argparse
import re
import time
from contextlib import suppress
from datetime import UTC, datetime

from kohort.audit.tables import MAX_MS
from kohort.times import parse_duration_ms, parse_time_ms

NUMBER = re.compile(r"\d{9,}")
FIRST_IN_MS = 10**11  # smaller numbers are seconds: in milliseconds they would be before 1973


def parse_moment(text: str, now_ms: int) -> int:
    """Milliseconds since 1970. A time without a zone is UTC, as in all output of the audit."""
    ms = _parse(text, now_ms)
    if not 0 <= ms <= MAX_MS:
        raise ValueError(f"{text} is out of all times")
    return ms


def _parse(text: str, now_ms: int) -> int:
    with suppress(ValueError):
        return now_ms - parse_duration_ms(text)
    if NUMBER.fullmatch(text):
        number = int(text)
        return number if number >= FIRST_IN_MS else number * 1000
    return parse_time_ms(text)


def moment(text: str) -> int:
    """For argparse."""
    try:
        return parse_moment(text, time.time_ns() // 1_000_000)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write 2026-11-16T06:30 (UTC) or 2h (ago)") from None


def window_s(text: str) -> int:
    """For argparse: a duration, or a number of minutes. In seconds."""
    try:
        seconds = round(float(text) * 60) if text.replace(".", "", 1).isdecimal() else parse_duration_ms(text) // 1000
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is too short: a second is the least")
    return seconds


def in_words(moment_ms: int | datetime | None) -> str:
    """A time in the form in which the audit prints it."""
    if moment_ms is None:
        return "-"
    at = moment_ms if isinstance(moment_ms, datetime) else datetime.fromtimestamp(moment_ms / 1000, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"
