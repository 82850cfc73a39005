"""Reads __transaction_state as a stranger: the records of one transactional id, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any

from kohort.protocol.record_batch import parse_header, read_records

TRANSACTION_STATE = "__transaction_state"
_key = Struct(">hh").pack
_head = Struct(">hqhib")  # version, producer id, epoch, timeout, state
_times = Struct(">qq")  # last update, start
# Kafka writes each record as a batch of its own; ours may have several, with headers for the audit.
_NOT_COMPARED = (
    "base_offset", "crc", "base_timestamp", "max_timestamp", "batch_length", "last_offset_delta", "record_count",
)  # fmt: skip


def states_in(batches: bytes, transactional_id: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Header of the batch and fields of the record, for each record of this id."""
    raw = transactional_id.encode()
    wanted = _key(0, len(raw)) + raw
    position = 0
    while position < len(batches):
        header = parse_header(batches, position)
        one = batches[position : position + header.size_bytes]
        position += header.size_bytes
        if len(one) < header.size_bytes:
            return
        for record in read_records(one):
            if record.key == wanted:
                fields = {name: v for name, v in header._asdict().items() if name not in _NOT_COMPARED}
                yield fields, _fields(record.value)


def _fields(value: bytes | None) -> dict[str, Any]:
    if value is None:
        return {"tombstone": True}
    version, producer_id, epoch, timeout_ms, state = _head.unpack_from(value)
    reader = _Reader(value, _head.size)
    topics = reader.topics()
    last_update, start = _times.unpack_from(value, reader.position)
    reader.position += _times.size
    fields = {
        "version": version,
        "producer_id": producer_id,
        "epoch": epoch,
        "timeout_ms": timeout_ms,
        "state": state,
        "topics": topics,
        "has a last update": last_update > 0,
        "start": "none" if start == -1 else "set",
    }
    for tag, data in reader.tags():
        name, size = {0: ("previous_producer_id", 8), 1: ("next_producer_id", 8)}.get(tag, (f"tag {tag}", len(data)))
        assert len(data) == size
        fields[name] = int.from_bytes(data, "big", signed=True)
    fields["bytes left"] = len(value) - reader.position
    return fields


class _Reader:
    """The flexible encoding: lengths are one more than they say, and zero is null."""

    def __init__(self, data: bytes, position: int) -> None:
        self.data, self.position = data, position

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.data[self.position]
            self.position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def _take(self, count: int) -> bytes:
        self.position += count
        return self.data[self.position - count : self.position]

    def topics(self) -> list[tuple[str, list[int]]] | None:
        count = self._varint()
        return None if count == 0 else sorted(self._topic() for _ in range(count - 1))

    def _topic(self) -> tuple[str, list[int]]:
        name = self._take(self._varint() - 1).decode()
        partitions = [int.from_bytes(self._take(4), "big") for _ in range(self._varint() - 1)]
        assert self._varint() == 0, "a topic has no tags"
        return name, sorted(partitions)

    def tags(self) -> Iterator[tuple[int, bytes]]:
        for _ in range(self._varint()):
            tag = self._varint()
            yield tag, self._take(self._varint())
