"""Goes through the records of one batch piece by piece, in steps, and keeps none of them.

A few kilobytes of a batch may inflate to many megabytes. Here they are inflated piece by piece, and of each record only
the head is read: its place, its time, and how long its key and value are. So the memory is that of one piece, however
large the batch or one of its records is, and whoever reads can stop between any two steps.

    for head in stream_heads(batch, header):
        if head is None:
            yield           # a step was done; let others go on
        else:
            ...             # the next record
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

from kohort.protocol.compression import DEFAULT_MAX_INFLATED_BYTES, inflate_in_pieces
from kohort.protocol.errors import MalformedMessage, TooManyElements
from kohort.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    COMPRESSION_MASK,
    MIN_HEADER_BYTES,
    BatchHeader,
    Buffer,
    CorruptBatch,
)
from kohort.protocol.varint import MAX_VARINT_BYTES, MAX_VARLONG_BYTES, read_varint, read_varlong

# Length, attributes, timestamp delta, offset delta, length of the key.
MAX_HEAD_BYTES: Final = 3 * MAX_VARINT_BYTES + 1 + MAX_VARLONG_BYTES
ELEMENTS_PER_STEP: Final = 500
SHORT_RECORD_BYTES: Final = 4_096


class RecordHead(NamedTuple):
    """Where a record stands in its batch, and the sizes of its parts. -1 bytes mean null."""

    offset_delta: int
    timestamp_delta: int
    key_bytes: int
    value_bytes: int


def record_pieces(
    batch: Buffer, header: BatchHeader, position: int = 0, max_inflated_bytes: int = DEFAULT_MAX_INFLATED_BYTES
) -> Iterator[bytes]:
    """The records of the batch at `position` as bytes, inflated if need be, in pieces."""
    body = memoryview(batch)[position + BATCH_HEADER_BYTES : position + header.size_bytes]
    return inflate_in_pieces(header[5] & COMPRESSION_MASK, body, max_inflated_bytes)


def stream_heads(batch: Buffer, header: BatchHeader, position: int = 0) -> Iterator[RecordHead | None]:
    """The head of each record of a batch that is known to be sound, and None after each step. Skips record headers."""
    return stream_records(record_pieces(batch, header, position), header[12])


def stream_records(pieces: Iterator[bytes], count: int, max_elements: int | None = None) -> Iterator[RecordHead | None]:
    """The head of each of `count` records, and None after each step. MalformedMessage if they do not fill the pieces.

    With `max_elements` the headers of the records are checked, too; TooManyElements if there are more records and
    headers than that.
    """
    reader = _PieceReader(pieces, count, max_elements)
    for index in range(count):
        head = reader.read_record()
        if head is None:
            head = yield from reader.read_long_record()
        yield head
        if index % ELEMENTS_PER_STEP == ELEMENTS_PER_STEP - 1:
            yield None
    if reader.has_more():
        raise CorruptBatch(f"bytes follow the last of {count} records")


class _PieceReader:
    """Reads records from the pieces: those that lie in memory at once, the others in steps."""

    __slots__ = ("_data", "_elements", "_max_elements", "_passed", "_pieces", "_position")

    def __init__(self, pieces: Iterator[bytes], count: int, max_elements: int | None) -> None:
        self._pieces = pieces
        self._data = b""  # what is in memory
        self._position = 0  # in `_data`
        self._passed = 0  # bytes before `_data`
        self._elements = count  # and the headers that were met
        self._max_elements = max_elements

    @property
    def _place(self) -> int:
        """How many bytes were read or skipped."""
        return self._passed + self._position

    def has_more(self) -> bool:
        self._need(1)
        return self._position < len(self._data)

    def _need(self, size: int) -> None:
        """Have so many bytes in memory, or all that remain."""
        while len(self._data) - self._position < size and (piece := next(self._pieces, None)) is not None:
            self._passed += self._position
            self._data, self._position = self._data[self._position :] + piece, 0

    def read_record(self) -> RecordHead | None:
        """The next record, if it is short and lies in memory as a whole."""
        if len(self._data) - self._position < MAX_HEAD_BYTES:
            self._need(MAX_HEAD_BYTES)
        data = self._data
        size, position = read_varint(data, self._position)
        end = position + size
        if end > len(data) or size > SHORT_RECORD_BYTES:
            return None
        try:
            head, position = _read_head(data, position)
            if head.key_bytes > 0:
                position += head.key_bytes
            value_bytes, position = _read_size(data, position)
            if value_bytes > 0:
                position += value_bytes
            if self._max_elements is None:
                position = max(position, end)
            elif data[position]:
                self._count_headers(read_varint(data, position)[0])
                position = after_headers(data, position, end)
            else:
                position += 1
        except IndexError:
            raise CorruptBatch("a record is cut off") from None
        if position != end:
            raise CorruptBatch("a record does not end where its length says")
        self._position = position
        return RecordHead(head.offset_delta, head.timestamp_delta, head.key_bytes, value_bytes)

    def _count_headers(self, count: int) -> None:
        self._elements += count
        if self._max_elements is not None and self._elements > self._max_elements:
            raise TooManyElements(f"more than {self._max_elements} records and headers in one batch")

    def read_long_record(self) -> Generator[None, None, RecordHead]:
        """The next record, which `read_record` did not read."""
        size, self._position = read_varint(self._data, self._position)
        if size < 0:
            raise CorruptBatch(f"record has length {size}")
        end = self._place + size
        head, self._position = _read_head(self._data, self._position)
        yield from self._skip(head.key_bytes, end)
        value_bytes = self._read_size()
        yield from self._skip(value_bytes, end)
        if self._max_elements is None:
            yield from self._skip(end - self._place, end)
        else:
            yield from self._skip_headers(end)
        if self._place != end:
            raise CorruptBatch("a record does not end where its length says")
        return RecordHead(head.offset_delta, head.timestamp_delta, head.key_bytes, value_bytes)

    def _read_size(self) -> int:
        """The length of a key or value, or the number of headers."""
        self._need(MAX_VARINT_BYTES)
        size, self._position = read_varint(self._data, self._position)
        return size

    def _skip(self, size: int, end: int) -> Iterator[None]:
        """Step over a key or value of a record that ends at the place `end`; a step for each piece."""
        if size < -1 or self._place + size > end:
            raise CorruptBatch(f"a key or value of length {size} where {end - self._place} bytes remain")
        if size > 0:
            self._position += size
            while self._position > len(self._data):
                piece = next(self._pieces, None)
                if piece is None:
                    raise CorruptBatch("a record is cut off")
                self._passed += len(self._data)
                self._position -= len(self._data)
                self._data = piece
                yield

    def _skip_headers(self, end: int) -> Iterator[None]:
        count = self._read_size()
        if count < 0 or count * MIN_HEADER_BYTES > end - self._place:
            raise CorruptBatch(f"record claims {count} headers in {end - self._place} bytes")
        self._count_headers(count)
        while count:
            count = self._skip_short_headers(count)
            yield
            if count:
                key_bytes = self._read_size()
                if key_bytes < 0:
                    raise CorruptBatch("record has a header without key")
                yield from self._skip(key_bytes, end)
                yield from self._skip(self._read_size(), end)
                count -= 1

    def _skip_short_headers(self, count: int) -> int:
        """Step over some headers with short keys and values that lie in memory; returns how many headers are left."""
        data, position = self._data, self._position
        last = len(data) - 2 * 64 - 2
        enough = max(count - 10 * ELEMENTS_PER_STEP, 0)
        while count > enough and position <= last:
            key = data[position]
            value = data[position + 1 + (key >> 1)]
            if (key | value) & 0x81:  # more than one byte, or negative
                break
            position += 2 + (key >> 1) + (value >> 1)
            count -= 1
        self._position = position
        return count


def _read_head(data: bytes, position: int) -> tuple[RecordHead, int]:
    """The head without the length of the value, from behind the length on, and the position behind it."""
    try:
        raw, high, key = data[position + 1], data[position + 2], data[position + 3]
    except IndexError:
        raise CorruptBatch("a record is cut off") from None
    if (raw | high | key) & 0x80:
        timestamp_delta, position = read_varlong(data, position + 1)  # behind the attributes, which Kafka ignores
        offset_delta, position = read_varint(data, position)
        key_bytes, position = read_varint(data, position)
    else:
        timestamp_delta, offset_delta = (raw >> 1) ^ -(raw & 1), (high >> 1) ^ -(high & 1)
        key_bytes, position = (key >> 1) ^ -(key & 1), position + 4
    if key_bytes < -1:
        raise CorruptBatch(f"a key of length {key_bytes}")
    return RecordHead(offset_delta, timestamp_delta, key_bytes, -1), position


def _read_size(data: bytes, position: int) -> tuple[int, int]:
    raw = data[position]
    if raw < 0x80:
        size, position = (raw >> 1) ^ -(raw & 1), position + 1
    else:
        size, position = read_varint(data, position)
    if size < -1:
        raise CorruptBatch(f"a value of length {size}")
    return size, position


def after_bytes(data: bytes, position: int) -> tuple[bool, int]:
    """Whether the key or value at `position` is null, and the position behind it."""
    size, position = read_varint(data, position)
    if size < -1:
        raise MalformedMessage(f"a key or value of length {size}")
    return size < 0, position if size < 0 else position + size


def after_headers(data: bytes, position: int, end: int) -> int:
    """The position behind the headers of a record that ends at `end`. IndexError if they end behind the data."""
    if (raw := data[position]) & 0x81:
        count, position = read_varint(data, position)
    else:
        count, position = raw >> 1, position + 1
    if count < 0 or count * MIN_HEADER_BYTES > end - position:
        raise MalformedMessage(f"{count} headers in {end - position} bytes")
    for _ in range(count):
        raw = data[position]
        if raw & 0x81:  # more than one byte, or negative
            size, position = read_varint(data, position)
            if size < 0:
                raise MalformedMessage(f"a header with a key of length {size}")
            position += size
        else:
            position += 1 + (raw >> 1)
        raw = data[position]
        if raw & 0x81:
            _, position = after_bytes(data, position)
        else:
            position += 1 + (raw >> 1)
    return position
