"""Moments as people write them: 2026-11-16T06:30, 2026-11-16 06:30:00+01:00, 1790000000000, or 2h (ago).

kohort/times.py has the forms of durations and dates, which all commands share.
"""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime

from kohort.times import parse_duration_ms, parse_moment_ms


def parse_moment(text: str, now_ms: int) -> int:
    """Milliseconds since 1970. A time without a zone is UTC, as in all output of the audit."""
    return parse_moment_ms(text, now_ms)


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
