"""Which partition of __consumer_offsets a group belongs to: Kafka's abs(hashCode(group id)) % 50."""

from __future__ import annotations

from operator import mul

INT_MIN = -(2**31)
LONGEST_QUICK = 100  # characters
_POWERS = tuple(pow(31, exponent, 2**32) for exponent in reversed(range(LONGEST_QUICK)))
POWERS = [_POWERS[LONGEST_QUICK - length :] for length in range(LONGEST_QUICK + 1)]  # by the length of the text


def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 code units, wrapped to a signed 32-bit integer."""
    h = 0
    if text.isascii():
        raw = text.encode()
        if len(raw) <= LONGEST_QUICK:
            h = sum(map(mul, raw, POWERS[len(raw)])) & 0xFFFFFFFF  # in C, for the usual id
        else:
            for byte in raw:
                h = (31 * h + byte) & 0xFFFFFFFF
    else:
        raw = text.encode("utf-16-be", "surrogatepass")
        for high, low in zip(raw[::2], raw[1::2], strict=True):
            h = (31 * h + (high << 8 | low)) & 0xFFFFFFFF
    return h - 2**32 if h >= 2**31 else h


def partition_of(group_id: str, partition_count: int) -> int:
    """Java's abs of the smallest int is negative; Kafka takes 0 for it."""
    h = java_hash(group_id)
    return 0 if h == INT_MIN else abs(h) % partition_count
