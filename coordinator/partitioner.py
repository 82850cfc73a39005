"""Which partition of __consumer_offsets a group belongs to: Kafka's abs(hashCode(group id)) % 50."""

from __future__ import annotations

INT_MIN = -(2**31)


def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 code units, wrapped to a signed 32-bit integer."""
    h = 0
    if text.isascii():
        for byte in text.encode():
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
