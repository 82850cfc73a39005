"""Looks at every record of a new batch once, as fast as Python can: are they whole, in order, and from when?

    length | attributes | timestamp delta | offset delta | key length, key | value length, value | header count, headers

The broker makes no use of keys and values, so nothing is cut out or kept: the walk steps from length to length. Varints
of one and two bytes, which nearly all are, are written out; longer ones are left to `protocol.varint`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from protocol.errors import MalformedMessage
from protocol.varint import read_varint, read_varlong

MIN_RECORD_BYTES: Final = 7  # with its length: every varint one byte, key and value null
MIN_HEADER_BYTES: Final = 2
NULL: Final = 1  # the varint -1


class Walked(NamedTuple):
    """What a walk saw: the range of the timestamp deltas, and whether a record had no key."""

    min_delta: int
    max_delta: int
    has_null_key: bool


def walk_records(data: bytes, position: int, end: int, count: int) -> Walked:  # noqa: C901 - the hot loop
    """MalformedMessage unless `count` records with the offset deltas 0, 1, 2.. fill `data` from position to end."""
    if count * MIN_RECORD_BYTES > end - position:
        raise MalformedMessage(f"{count} records in {end - position} bytes")
    min_delta, max_delta = 2**63, -(2**63)
    last_raw, has_null_key = -1, False
    try:
        for zigzag in range(0, 2 * count, 2):  # the offset delta, as its varint spells it
            raw = data[position]
            if raw < 0x80:
                record_end = position + 1 + (raw >> 1)
                position += 2  # and the attributes, which Kafka ignores
            elif (high := data[position + 1]) < 0x80:
                record_end = position + 2 + ((raw & 0x7F | high << 7) >> 1)
                position += 3
            else:
                size, position = read_varint(data, position)
                record_end = position + size
                position += 1
            if raw & 1:
                raise MalformedMessage(f"record {zigzag >> 1} has a negative length")
            raw = data[position]
            position += 1
            if raw != last_raw:
                if raw < 0x80:
                    last_raw = raw
                    delta = (raw >> 1) ^ -(raw & 1)
                else:
                    delta, position = read_varlong(data, position - 1)
                if delta > max_delta:
                    max_delta = delta
                if delta < min_delta:
                    min_delta = delta
            raw = data[position]
            position += 1
            if raw >= 0x80:
                high = data[position]
                position += 1
                raw = raw & 0x7F | high << 7
                if high >= 0x80:
                    delta, position = read_varint(data, position - 2)
                    raw = 2 * delta
            if raw != zigzag:
                raise MalformedMessage(f"record {zigzag >> 1} has another offset delta")
            raw = data[position]
            if not raw & 0x81:  # one byte, not negative
                position += 1 + (raw >> 1)
            elif raw == NULL:
                has_null_key = True
                position += 1
            else:
                position = _after_bytes(data, position)
            raw = data[position]
            if raw & 1:
                position = _after_bytes(data, position)
            elif raw < 0x80:
                position += 1 + (raw >> 1)
            elif (high := data[position + 1]) < 0x80:
                position += 2 + ((raw & 0x7F | high << 7) >> 1)
            else:
                position = _after_bytes(data, position)
            if data[position]:
                position = _after_headers(data, position, record_end)
            else:
                position += 1
            if position != record_end:
                raise MalformedMessage(f"record {zigzag >> 1} does not end where its length says")
    except IndexError:
        raise MalformedMessage("a record is cut off") from None
    if position != end:
        raise MalformedMessage(f"{count} records end {end - position} bytes before their batch does")
    return Walked(min_delta, max_delta, has_null_key)


def _after_bytes(data: bytes, position: int) -> int:
    size, position = read_varint(data, position)
    if size < -1:
        raise MalformedMessage(f"a key or value of length {size}")
    return position if size < 0 else position + size


def _after_headers(data: bytes, position: int, end: int) -> int:
    count, position = read_varint(data, position)
    if count < 0 or count * MIN_HEADER_BYTES > end - position:
        raise MalformedMessage(f"{count} headers in {end - position} bytes")
    for _ in range(count):
        size, position = read_varint(data, position)
        if size < 0:
            raise MalformedMessage(f"a header with a key of length {size}")
        position = _after_bytes(data, position + size)
    return position
