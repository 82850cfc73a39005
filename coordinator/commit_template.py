"""The records of a commit that recurs, as a template: everything that stays the same is packed once.

A member commits the same partitions again and again. Of the records, only the offsets, the time, and their place in the
log are new each time. A template is a struct of bytes and numbers in turns, and one `pack` fills the numbers in.

The bytes of a record, with what is new each time in capitals (protocol/record_batch.py draws what is around the key and
the value, protocol/commit_record.py the key and the value):

    start | OFFSET DELTA | key, value's start | OFFSET | value's middle | COMMIT TIME | value's end, record headers
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import Any

from kohort.coordinator.outcome import CommitColumns
from kohort.protocol.commit_record import PARTITION_BYTES, constant_parts, key_prefix, pack_partition
from kohort.protocol.log_records import CONSUMER_OFFSETS
from kohort.protocol.record_batch import COVERED_FORMAT, covered_fields, with_crc
from kohort.protocol.structs import shared_struct
from kohort.protocol.varint import encode_varint

OFFSET_AND_TIME_BYTES = 16
MAX_DELTA_BYTES = 2


class CommitTemplate:
    """The records of a commit that recurs.

    Mostly they are a batch of their own; then the batch's header is part of the template (`batch`). Otherwise they
    become a part of a batch (`pack`). Each form is made when it is first needed: every member that commits has a
    template.
    """

    __slots__ = ("_alone", "_among", "_columns", "_group_id", "_headers", "count", "size_bytes")

    def __init__(self, group_id: str, columns: Sequence[CommitColumns], headers: bytes) -> None:
        self._group_id = group_id
        self._columns = columns
        self._headers = headers
        self._alone: tuple[Callable[..., bytes], list[Any]] | None = None
        self._among: tuple[Callable[..., bytes], list[Any]] | None = None
        rows = list(self._rows())
        self.count = len(rows)
        self.size_bytes = sum(MAX_DELTA_BYTES + OFFSET_AND_TIME_BYTES + sum(map(len, row)) for row in rows)

    def _rows(self) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
        """For each record the bytes between its numbers: the four pieces of the picture above."""
        delta = 0  # as in a batch of its own; `pack` is used only where every delta takes one byte
        for each in self._columns:
            prefix = key_prefix(self._group_id, each.topic)
            key_start = encode_varint(len(prefix) + PARTITION_BYTES) + prefix
            for index, epoch, metadata in zip(each.indexes, each.epochs, each.metadata, strict=True):
                before_offset, after_offset, after_time = constant_parts(epoch, metadata, each.topic_id)
                value_bytes = len(before_offset) + len(after_offset) + len(after_time) + OFFSET_AND_TIME_BYTES
                key_and_value_start = key_start + pack_partition(index) + encode_varint(value_bytes) + before_offset
                end = after_time + self._headers
                length = 2 + len(encode_varint(delta)) + OFFSET_AND_TIME_BYTES  # 2: attributes and timestamp delta
                length += len(key_and_value_start) + len(after_offset) + len(end)
                yield encode_varint(length) + b"\0\0", key_and_value_start, after_offset, end
                delta += 1

    def batch(self, base_offset: int, offsets: tuple[int, ...], time: int, now: int) -> bytes:
        """Pack one commit as a record batch of its own."""
        if self._alone is None:
            self._alone = self._make_alone()
        pack, parts = self._alone
        parts[2] = parts[3] = now  # the batch's first and last timestamp
        parts[9::4] = offsets
        parts[11::4] = (time,) * self.count
        return with_crc(pack(*parts), base_offset)

    def _make_alone(self) -> tuple[Callable[..., bytes], list[Any]]:
        """The fields of the batch header, then in turns: bytes, offset, bytes, time."""
        parts: list[Any] = [b""]
        for delta, (start, key_and_value_start, after_offset, end) in enumerate(self._rows()):
            parts[-1] += start + encode_varint(delta) + key_and_value_start
            parts += [0, after_offset, 0, end]
        form = shared_struct(f">{COVERED_FORMAT}" + _form(parts, "q"))
        return form.pack, [*covered_fields(self.count, 0, CONSUMER_OFFSETS.base_sequence), *_shared(parts)]

    def pack(self, first_delta: int, offsets: tuple[int, ...], time: int) -> bytes:
        """Pack one commit as a part of a batch. The last offset delta must be below record_codec.ONE_BYTE_DELTAS."""
        if self._among is None:
            self._among = self._make_among()
        pack, parts = self._among
        parts[1::6] = range(2 * first_delta, 2 * (first_delta + self.count), 2)  # a small varint is twice its number
        parts[3::6] = offsets
        parts[5::6] = (time,) * self.count
        return pack(*parts)

    def _make_among(self) -> tuple[Callable[..., bytes], list[Any]]:
        """In turns: bytes, offset delta, bytes, offset, bytes, time."""
        parts: list[Any] = [b""]
        for start, key_and_value_start, after_offset, end in self._rows():
            parts[-1] += start
            parts += [0, key_and_value_start, 0, after_offset, 0, end]
        return shared_struct(">" + _form(parts, "Bqq")).pack, _shared(parts)


def _shared(parts: list[Any]) -> list[Any]:
    """The same parts; those that are equal become one object, to save memory."""
    known: dict[Any, Any] = {}
    return [known.setdefault(part, part) for part in parts]


def _form(parts: list[Any], numbers: str) -> str:
    """The struct format of the parts: bytes by their length, and numbers by the letters of `numbers` in turns."""
    kinds = cycle(numbers)
    return "".join(f"{len(part)}s" if type(part) is bytes else next(kinds) for part in parts)
