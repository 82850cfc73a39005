"""Counts and durations in words."""

from __future__ import annotations

from datetime import datetime


def count(number: float, one: str, many: str | None = None) -> str:
    """1 commit, 1,200 commits."""
    return f"{number:,.0f} {one if number == 1 else many or one + 's'}"


def duration(seconds: float) -> str:
    """850 ms, 45 s, 12.5 min, 3 h, 9 d."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for limit, unit_s, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{_short(seconds / unit_s)} {unit}"
    return f"{_short(seconds / 86_400)} d"


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def between(earlier: datetime, later: datetime) -> float:
    """In seconds."""
    return (later - earlier).total_seconds()
