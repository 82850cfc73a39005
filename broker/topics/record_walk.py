"""Walks over the records of a new batch: checks that they are whole and in order, and finds their time range.

`compiled_walk.py` does the same with record_walk.c, if that could be compiled. Change both together.

    length | attributes | timestamp delta | offset delta | key length, key | value length, value | header count, headers

The broker makes no use of keys and values, so nothing is copied. The walk is most of what a Produce costs, hence two
ways. Records of equal size, as sensors and benchmarks send them, are checked column by column: the n-th bytes of
all records are one slice of the batch with a stride. All others are walked one by one, from length to length; varints
of one and two bytes, which nearly all are, are written out.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final, TypeAlias

from kohort.protocol.errors import MalformedMessage
from kohort.protocol.record_stream import after_bytes, after_headers, stream_records
from kohort.protocol.varint import read_varint, read_varlong

MIN_RECORD_BYTES: Final = 7  # with its length: every varint one byte, key and value null
MIN_EQUAL_RECORDS: Final = 8
ONE_BYTE_OFFSETS: Final = 64
NULL: Final = 1  # the varint -1

# The varints of the offset deltas 0 to 8191: the only byte of the first 64, both bytes of the others.
_SHORT_OFFSETS: Final = bytes(range(0, 128, 2))
_LOW_OFFSET_BYTES: Final = bytes((2 * i & 0x7F) | 0x80 for i in range(64, 8192))
_HIGH_OFFSET_BYTES: Final = bytes(2 * i >> 7 for i in range(64, 8192))


# What a walk saw: the least and the greatest timestamp delta, and whether a record had no key (0 or 1). A plain tuple,
# because a named one takes longer to make than half of the compiled walk.
Walked: TypeAlias = tuple[int, int, int]


def walk_records(data: bytes, position: int, end: int, count: int) -> Walked:  # noqa: C901 - the hot loop
    """MalformedMessage unless `count` records with the offset deltas 0, 1, 2.. fill `data` from position to end."""
    if count * MIN_RECORD_BYTES > end - position:
        raise MalformedMessage(f"{count} records in {end - position} bytes")
    if count >= MIN_EQUAL_RECORDS and (walked := _walk_equal(data, position, end, count)) is not None:
        return walked
    min_delta, max_delta = 2**63, -(2**63)
    last_raw, has_null_key = -1, False
    try:
        for zigzag in range(0, 2 * count, 2):  # the raw varint of the offset delta that the record must have
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
                is_null, position = after_bytes(data, position)
                has_null_key = has_null_key or is_null
            raw = data[position]
            if raw & 1:
                _, position = after_bytes(data, position)
            elif raw < 0x80:
                position += 1 + (raw >> 1)
            elif (high := data[position + 1]) < 0x80:
                position += 2 + ((raw & 0x7F | high << 7) >> 1)
            else:
                _, position = after_bytes(data, position)
            if data[position]:
                position = after_headers(data, position, record_end)
            else:
                position += 1
            if position != record_end:
                raise MalformedMessage(f"record {zigzag >> 1} does not end where its length says")
    except IndexError:
        raise MalformedMessage("a record is cut off") from None
    if position != end:
        raise MalformedMessage(f"{count} records end {end - position} bytes before their batch does")
    return min_delta, max_delta, has_null_key


def _walk_equal(data: bytes, position: int, end: int, count: int) -> Walked | None:
    """As `walk_records`, for records of equal size and shape; None if they are not equal, or not sound."""
    deltas = b""
    short = min(count, ONE_BYTE_OFFSETS)
    key = data[position + (4 if data[position] < 0x80 else 5)]
    for first, number in ((0, short), (short, count - short)):
        if not number:
            break
        if position + 1 >= end or (stop := _check_columns(data, position, number, first, key)) is None:
            return None
        stride = (stop - position) // number
        deltas += data[position + (2 if data[position] < 0x80 else 3) : stop : stride]
        position = stop
    if position != end or not deltas.isascii():  # a delta of more than one byte
        return None
    zigzag = [(raw >> 1) ^ -(raw & 1) for raw in set(deltas.lstrip(deltas[:1])) | {deltas[0]}]
    return min(zigzag), max(zigzag), key == NULL


def _check_columns(data: bytes, position: int, count: int, first: int, key: int) -> int | None:
    """The end of `count` equal records whose offset deltas begin with `first`; None if they are not that."""
    raw, high = data[position], data[position + 1]
    if raw < 0x80:
        at, stride = (
            3,
            1 + (raw >> 1),
        )  # `at` is the offset delta's place, behind length, attributes and timestamp delta
    else:
        at, stride = 4, 2 + ((raw & 0x7F | high << 7) >> 1)
    stop = position + count * stride
    if raw & 1 or high >= 0x80 or stop > len(data) or first + count > 8192:
        return None

    def column(index: int) -> bytes:
        return data[position + index : stop : stride]

    if column(0) != bytes((raw,)) * count or (raw >= 0x80 and column(1) != bytes((high,)) * count):
        return None
    if first < ONE_BYTE_OFFSETS:
        if column(at) != _SHORT_OFFSETS[first : first + count]:
            return None
    else:
        here = slice(first - ONE_BYTE_OFFSETS, first - ONE_BYTE_OFFSETS + count)
        if column(at) != _LOW_OFFSET_BYTES[here] or column(at + 1) != _HIGH_OFFSET_BYTES[here]:
            return None
        at += 1
    value_at = at + 2 + (key >> 1)  # the varint -1 of a null key gives 0, too
    if (key & 0x81 and key != NULL) or column(at + 1) != bytes((key,)) * count or value_at + 2 > stride:
        return None
    low, high = data[position + value_at], data[position + value_at + 1]
    value_bytes = 1 + (low >> 1) if low < 0x80 else 2 + ((low & 0x7F | high << 7) >> 1)
    if low & 1 or (low >= 0x80 and high >= 0x80) or value_at + value_bytes + 1 != stride:
        return None  # null, very long, or there are headers
    if column(value_at) != bytes((low,)) * count or (low >= 0x80 and column(value_at + 1) != bytes((high,)) * count):
        return None
    return stop if column(stride - 1) == bytes(count) else None


def walk_in_steps(pieces: Iterator[bytes], count: int, max_elements: int) -> Generator[None, None, Walked]:
    """As `walk_records`, for a batch that is too long to be walked at once. Its bytes come in pieces.

    TooManyElements if it has more records and headers than `max_elements`.
    """
    min_delta, max_delta, has_null_key = 2**63, -(2**63), False
    index = 0
    for head in stream_records(pieces, count, max_elements):
        if head is None:
            yield
            continue
        if head.offset_delta != index:
            raise MalformedMessage(f"record {index} has another offset delta")
        index += 1
        min_delta, max_delta = min(min_delta, head.timestamp_delta), max(max_delta, head.timestamp_delta)
        has_null_key = has_null_key or head.key_bytes < 0
    return min_delta, max_delta, has_null_key
