"""Moments as people write them: 2026-11-16T06:30, 2026-11-16 06:30:00+01:00, 1790000000000, or 2h (ago)."""

from __future__ import annotations

import argparse
import re
import time
from datetime import UTC, datetime

from kohort.audit.tables import MAX_MS

UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
AGO = re.compile(r"(\d+)([smhd])")
NUMBER = re.compile(r"\d{9,}")
FIRST_IN_MS = 10**11  # a number below is in seconds: as milliseconds it would be before Kafka


def parse_moment(text: str, now_ms: int) -> int:
    """Milliseconds since 1970. Without a time zone UTC is meant, as in everything that the audit prints."""
    ms = _parse(text, now_ms)
    if not 0 <= ms <= MAX_MS:
        raise ValueError(f"{text} is out of all times")
    return ms


def _parse(text: str, now_ms: int) -> int:
    if ago := AGO.fullmatch(text):
        return now_ms - int(ago[1]) * UNITS_MS[ago[2]]
    if NUMBER.fullmatch(text):
        number = int(text)
        return number if number >= FIRST_IN_MS else number * 1000
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def moment(text: str) -> int:
    """For argparse."""
    try:
        return parse_moment(text, time.time_ns() // 1_000_000)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write 2026-11-16T06:30 (UTC) or 2h (ago)") from None


def in_words(moment_ms: int | datetime | None) -> str:
    """As the audit prints it."""
    if moment_ms is None:
        return "-"
    at = moment_ms if isinstance(moment_ms, datetime) else datetime.fromtimestamp(moment_ms / 1000, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"
