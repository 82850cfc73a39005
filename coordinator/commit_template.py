"""The bytes of commits that recur: all that is the same each time is kept, and one `pack` puts the rest between it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from struct import Struct
from typing import Any

from kohort.coordinator.outcome import CommitColumns
from kohort.coordinator.record_codec import BASE_SEQUENCE, V4, packed_tags, packed_text
from kohort.protocol.log_records import OFFSET_COMMIT, encode_key
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey
from kohort.protocol.record_batch import COVERED_FORMAT, covered_fields, with_crc
from kohort.protocol.structs import shared_struct
from kohort.protocol.varint import encode_varint

_int32 = Struct(">i").pack


class CommitTemplate:
    """The records of a commit that recurs, in one piece: open are their offsets, the time, and where they stand.

    Mostly they stand alone in a batch, and then its header is part of that piece. What is not needed is not made: every
    member that commits has one of these.
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
        self.size_bytes = sum(2 + 16 + sum(map(len, row)) for row in rows)  # at most: deltas take a byte or two

    def _rows(self) -> Iterator[tuple[bytes, bytes, bytes, bytes]]:
        """Of each record what stands before its offset delta, its offset and the time, and behind that."""
        delta = 0  # as it is alone; among others all are short
        for each in self._columns:
            prefix = encode_key(OFFSET_COMMIT, OffsetCommitKey(self._group_id, each.topic, 0))[:-4]
            after_time = packed_tags(each.topic_id)
            end = after_time + self._headers
            for index, epoch, metadata in zip(each.indexes, each.epochs, each.metadata, strict=True):
                after_offset = _int32(epoch) + packed_text(metadata)
                value_bytes = 2 + 8 + len(after_offset) + 8 + len(after_time)
                before_offset = (
                    encode_varint(len(prefix) + 4) + prefix + _int32(index) + encode_varint(value_bytes) + V4
                )
                length = 2 + len(encode_varint(delta)) + len(before_offset) + value_bytes - 2 + len(self._headers)
                yield encode_varint(length) + b"\0\0", before_offset, after_offset, end
                delta += 1

    def batch(self, base_offset: int, offsets: tuple[int, ...], time: int, now: int) -> bytes:
        """Alone."""
        if self._alone is None:
            self._alone = self._make_alone()
        pack, parts = self._alone
        parts[2] = parts[3] = now
        parts[9::4] = offsets
        parts[11::4] = (time,) * self.count
        return with_crc(pack(*parts), base_offset)

    def _make_alone(self) -> tuple[Callable[..., bytes], list[Any]]:
        parts: list[Any] = [b""]  # bytes, offset, bytes, time, bytes, ...
        for delta, (start, before_offset, after_offset, end) in enumerate(self._rows()):
            parts[-1] += start + encode_varint(delta) + before_offset
            parts += [0, after_offset, 0, end]
        return shared_struct(f">{COVERED_FORMAT}" + _form(parts, "q")).pack, [
            *covered_fields(self.count, 0, BASE_SEQUENCE),
            *_shared(parts),
        ]

    def pack(self, first_delta: int, offsets: tuple[int, ...], time: int) -> bytes:
        """Among other records; the last delta must be below ONE_BYTE_DELTAS."""
        if self._among is None:
            self._among = self._make_among()
        pack, parts = self._among
        parts[1::6] = range(2 * first_delta, 2 * (first_delta + self.count), 2)  # what a small varint looks like
        parts[3::6] = offsets
        parts[5::6] = (time,) * self.count
        return pack(*parts)

    def _make_among(self) -> tuple[Callable[..., bytes], list[Any]]:
        parts: list[Any] = [b""]  # bytes, delta, bytes, offset, bytes, time, bytes, ...
        for start, before_offset, after_offset, end in self._rows():
            parts[-1] += start
            parts += [0, before_offset, 0, after_offset, 0, end]
        return shared_struct(">" + _form(parts, "Bqq")).pack, _shared(parts)


def _shared(parts: list[Any]) -> list[Any]:
    """Equal parts are one object."""
    known: dict[Any, Any] = {}
    return [known.setdefault(part, part) for part in parts]


def _form(parts: list[Any], numbers: str) -> str:
    """The struct format of bytes with numbers of these kinds between them, in turns."""
    kinds = cycle(numbers)
    return "".join(f"{len(part)}s" if type(part) is bytes else next(kinds) for part in parts)
