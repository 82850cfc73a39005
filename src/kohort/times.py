"""Durations and points in time, as people write them on every command line of Kohort.

2h   90s   1d12h   P1DT2H30M          durations, in the short form and in that of ISO 8601
2026-11-16T06:30   2026-11-16 06:30:00.250+01:00      points in time; UTC unless a zone is named
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime

DURATION_FORMS = "2h, 1d12h or P1DT2H"
TIME_FORM = "2026-11-16T06:30 (UTC)"
MAX_MS = 253_402_300_799_999  # the end of the year 9999

_NUMBER = re.compile(r"\d{9,}", re.ASCII)
_FIRST_IN_MS = 10**11  # smaller numbers are seconds: in milliseconds they would be before 1973

_SECONDS = r"(?:(\d+)(?:\.(\d+))?S)?"
_SHORT = re.compile(rf"(?=\d)(?:(\d+)D)?(?:(\d+)H)?(?:(\d+)M)?{_SECONDS}", re.ASCII | re.IGNORECASE)
_ISO = re.compile(rf"P(?=.)(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?{_SECONDS})?", re.ASCII | re.IGNORECASE)


def parse_duration_ms(text: str) -> int:
    """How many milliseconds `text` means. Raises ValueError if it is not a duration."""
    found = _SHORT.fullmatch(text) or _ISO.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a duration: write {DURATION_FORMS}")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
    milliseconds = int((found[5] or "").ljust(3, "0")[:3])
    return (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + milliseconds


def parse_time_ms(text: str) -> int:
    """Milliseconds since 1970, below zero for earlier times. Raises ValueError if `text` is not a date with a time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time: write {TIME_FORM}") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def parse_moment_ms(text: str, now_ms: int) -> int:
    """As `parse_time_ms`; or a duration, which means so long ago; or a number of seconds or milliseconds since 1970."""
    ms = _moment_ms(text, now_ms)
    if not 0 <= ms <= MAX_MS:
        raise ValueError(f"{text} is out of all times")
    return ms


def _moment_ms(text: str, now_ms: int) -> int:
    with suppress(ValueError):
        return now_ms - parse_duration_ms(text)
    if _NUMBER.fullmatch(text):
        number = int(text)
        return number if number >= _FIRST_IN_MS else number * 1000
    try:
        return parse_time_ms(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time: write {TIME_FORM} or 2h (ago)") from None
