"""Picks the records of one group out of batches of `__consumer_offsets`, or decodes them one by one.

Nearly all records of a log are commits of other groups. A batch that does not hold the group's id anywhere is passed
over without a look at its records, unless it is compressed. Of the group's own commits only the partition and the time
matter here, so their values are not decoded, but for one of each partition, which names the topic's id.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from kohort.history.members import id_key
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.log_records import OFFSET_COMMITS, UnknownRecord, decode_key, decode_value, group_of
from kohort.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    COMPRESSION_MASK,
    CONTROL,
    Headers,
    parse_header,
    scan_records,
)
from kohort.protocol.wire import NO_UUID

MAX_REMEMBERED = 100_000  # partitions whose keys are not decoded again
KEY_START = 4  # type int16, length of the group id int16
UNKNOWN_TYPES = 24


class LogRecord(NamedTuple):
    """A record about a group or a member."""

    type: int
    key: Any
    value: Any  # None: a tombstone
    offset: int
    time_ms: int
    headers: Headers = ()
    batch: int = -1  # base offset of the batch: what is written together stays together
    leader_epoch: int = -1  # of the log partition


class Commit(NamedTuple):
    topic: str
    topic_key: str | None  # the topic's id as `id_key` writes it; None: this record does not say
    partition: int
    time_ms: int


AnyRecord: TypeAlias = LogRecord | Commit


class Reader:
    """Reads batches in the order of the log, and remembers the keys of commits."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._needle = group_id.encode()
        self._places: dict[bytes, tuple[str, int]] = {}
        self.damaged_batches = 0
        self.unreadable_records = 0

    def read(self, data: bytes, end: int | None = None) -> Iterator[AnyRecord]:
        """`data`: whole batches up to `end`."""
        stretches = self._stretches(data, len(data) if end is None else end)
        while True:
            try:
                start, stop = next(stretches)
                yield from self._scan(data, start, stop)
            except StopIteration:
                return
            except MalformedMessage:
                self.damaged_batches += 1

    def _stretches(self, data: bytes, end: int) -> Iterator[tuple[int, int]]:
        """The batches that may hold records of the group, each by itself: a damaged one must not spoil the others."""
        position, found = 0, data.find(self._needle)
        while position + BATCH_HEADER_BYTES <= end:
            header = parse_header(data, position)
            stop = position + header.size_bytes
            if 0 <= found < position:
                found = data.find(self._needle, position)
            if not header.attributes & CONTROL and (position <= found < stop or header.attributes & COMPRESSION_MASK):
                yield position, min(stop, end)
            position = stop

    def _scan(self, data: bytes, start: int, stop: int) -> Iterator[AnyRecord]:
        for header, offset, time_ms, key, value, headers in scan_records(data, start, stop):
            if key is None or self._needle not in key:
                continue
            place = self._places.get(key)
            if place is not None:
                if value is not None:
                    yield Commit(place[0], None, place[1], time_ms)
                continue
            try:
                found = decode(key, value, offset, time_ms, headers, header.base_offset, header.partition_leader_epoch)
            except MalformedMessage:
                self.unreadable_records += 1
                continue
            if found is None or found[0] != self._group_id:
                continue
            record = found[1]
            if isinstance(record, Commit) and len(self._places) < MAX_REMEMBERED:
                self._places[key] = record.topic, record.partition
            yield record


def decode(
    raw_key: bytes, raw_value: bytes | None, offset: int, time_ms: int, headers: Headers = (), batch: int = -1,
    leader_epoch: int = -1,
) -> tuple[str, AnyRecord] | None:  # fmt: skip
    """The group, and the record. None: an unknown type of record, or a deleted offset. Raises MalformedMessage."""
    record_type, key = decode_key(raw_key)
    if isinstance(key, UnknownRecord):
        return None
    group_id = group_of(record_type, key)
    if record_type in OFFSET_COMMITS:
        if raw_value is None:
            return None
        topic_id = bytes(getattr(decode_value(record_type, raw_value), "topic_id", NO_UUID))
        topic_key = id_key(topic_id) if topic_id != NO_UUID else None
        return group_id, Commit(key.topic, topic_key, key.partition, time_ms)
    value = None if raw_value is None else decode_value(record_type, raw_value)
    return group_id, LogRecord(record_type, key, value, offset, time_ms, headers, batch, leader_epoch)


def told(headers: Headers, name: bytes) -> str | None:
    """The value of one of Kohort's record headers."""
    for key, value in headers:
        if key == name and value is not None:
            return value.decode("utf-8", "replace")
    return None


def told_ms(headers: Headers, name: bytes) -> int | None:
    text = told(headers, name)
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 16 else None


def groups_in(data: bytes) -> Iterator[str]:
    """The groups that the records of these batches are about. A group may come several times."""
    seen: set[bytes] = set()
    for _, _, _, key, _, _ in scan_records(data, check_crc=False, with_headers=False):
        if key is None or len(key) < KEY_START:
            continue
        size = int.from_bytes(key[2:4], "big")  # every key of these types begins with type and group id
        group = key[KEY_START : KEY_START + size]
        if len(group) == size and group not in seen and int.from_bytes(key[:2], "big") < UNKNOWN_TYPES:
            seen.add(group)
            yield group.decode("utf-8", "replace")
