"""share.auto.offset.reset: where a group begins to read a partition of which nothing is persisted."""

from __future__ import annotations

import re
from typing import Final

LATEST: Final = "latest"
EARLIEST: Final = "earliest"
BY_DURATION: Final = "by_duration:"

# As Java's Duration reads it: PnDTnHnMn.nS, in any case; each part may be left out and may have a sign.
_NUMBER: Final = r"([-+]?\d{1,18})"
_DURATION: Final = re.compile(
    rf"([-+]?)P(?:{_NUMBER}D)?(T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}(?:[.,](\d{{0,9}}))?S)?)?", re.ASCII | re.I
)


def duration_ms(text: str) -> int | None:
    """Milliseconds of an ISO-8601 duration; None if it is none."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    sign, days, time, hours, minutes, seconds, fraction = match.groups()
    if (time is None and days is None) or (time is not None and len(time) == 1):
        return None
    millis = int(days or 0) * 86_400_000 + int(hours or 0) * 3_600_000 + int(minutes or 0) * 60_000
    millis += int(seconds or 0) * 1_000
    thousandths = int((fraction or "")[:3].ljust(3, "0"))
    millis += -thousandths if (seconds or "").startswith("-") else thousandths
    return -millis if sign == "-" else millis


def timestamp_to_begin_at(reset: str, now: int) -> int | None:
    """For by_duration: the timestamp of the first record to read. `now` is wall time. None: another kind of reset."""
    if not reset.startswith(BY_DURATION):
        return None
    before_ms = duration_ms(reset.removeprefix(BY_DURATION))
    return None if before_ms is None else now - before_ms
