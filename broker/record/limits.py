"""`--max-rate`: how many bytes a second may be fetched, of all leaders together."""

from __future__ import annotations

import re
from threading import Lock
from time import monotonic

MAX_FETCH_BYTES = 16 << 20
MIN_FETCH_BYTES = 64 << 10
PARTITION_BYTES = 2 << 20
FETCHES_PER_S = 4  # with a limit: small answers, so that the rate is even

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)b?(?:/s)?", re.IGNORECASE)
_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}


def parse_rate(text: str) -> float:
    """`5MB`, `500k` or `1000000`: bytes a second. Raises ValueError."""
    match = _RATE.fullmatch(text.strip())
    if match is None or float(match[1]) == 0:
        raise ValueError(f"{text!r} is no rate, such as 5MB: bytes a second")
    return float(match[1]) * _FACTORS[match[2].lower()]


class Rate:
    def __init__(self, bytes_per_s: float | None) -> None:
        self._bytes_per_s = bytes_per_s
        self._free_at = 0.0
        self._lock = Lock()

    @property
    def fetch_bytes(self) -> int:
        """The size that one answer may have."""
        if self._bytes_per_s is None:
            return MAX_FETCH_BYTES
        return int(min(max(self._bytes_per_s / FETCHES_PER_S, MIN_FETCH_BYTES), MAX_FETCH_BYTES))

    def used(self, count: int) -> float:
        """So many bytes were fetched. Returns how many seconds to wait before the next fetch."""
        if self._bytes_per_s is None:
            return 0.0
        with self._lock:
            now = monotonic()
            self._free_at = max(self._free_at, now) + count / self._bytes_per_s
            return self._free_at - now
