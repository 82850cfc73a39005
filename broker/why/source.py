"""What folders and clusters have in common: whole batches, piece by piece, in the order of the log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from kohort.history.group_history import GroupHistory
from kohort.history.records import Reader
from kohort.protocol.record_batch import BATCH_HEADER_BYTES, LOG_OVERHEAD_BYTES, unpack_offset_and_length

OFFSETS_TOPIC = "__consumer_offsets"
KAFKAS_PARTITIONS = 50


class CannotRead(Exception):
    """There is no log to read; the text says why, and what to do."""


class Piece(NamedTuple):
    """Whole batches, and how far through the log they reach."""

    data: bytes
    done_bytes: int
    total_bytes: int


class Source(Protocol):
    def pieces(self, group_id: str) -> Iterator[Piece]:
        """The log partition in which the group lives. Raises CannotRead or ClientError."""
        ...

    def topic_names(self) -> Iterator[tuple[bytes, str]]: ...

    def group_ids(self) -> Iterator[str]:
        """Groups that are in the log. A group may come several times."""
        ...


class Progress(Protocol):
    def show(self, done_bytes: int, total_bytes: int) -> None: ...


class Found(NamedTuple):
    history: GroupHistory
    damaged_batches: int
    unreadable_records: int


def read_history(source: Source, group_id: str, keep: int, progress: Progress) -> Found:
    history = GroupHistory(group_id, keep=keep, topic_names=source.topic_names())
    reader = Reader(group_id)
    for piece in source.pieces(group_id):
        for record in reader.read(piece.data):
            history.add(record)
        progress.show(piece.done_bytes, piece.total_bytes)
    history.flush()
    return Found(history, reader.damaged_batches, reader.unreadable_records)


def whole_batches(data: bytes) -> int:
    """The size of the batches that `data` begins with, without the last one if it is cut off."""
    position = 0
    while position + BATCH_HEADER_BYTES <= len(data):
        _, length = unpack_offset_and_length(data, position)
        if length < BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES or position + LOG_OVERHEAD_BYTES + length > len(data):
            break
        position += LOG_OVERHEAD_BYTES + length
    return position
