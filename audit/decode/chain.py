"""Finds where the batches of a file begin. Each batch says how long it is, so they form a chain.

To follow the chain batch by batch costs more than all other work if batches are small. So numpy follows it from many
places at the same time. These places are guesses: positions with the bytes that nearly every batch header of a group
coordinator has. At the end all positions that were found must form one chain; this shows whether guesses were right.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kohort.audit.decode.vector import Array, integers_at
from kohort.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    BATCH_LENGTH_AT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    MIN_BATCH_LENGTH,
    PRODUCER_ID_AT,
    unpack_batch_length,
)

SAMPLE_BATCHES: Final = 32
MANY_BYTES: Final = 1 << 16  # shorter parts of a file are followed batch by batch
LARGE_BATCH_BYTES: Final = 1500  # larger batches, too
GUESS_BYTES: Final = 1 << 12  # distance between the guessed places
NO_PRODUCER: Final = b"\xff" * 10 + bytes(4)  # producer id -1, epoch -1, sequence 0, as coordinators write


def chain(data: bytes, position: int, end: int) -> tuple[Array, bool]:
    """Positions in [position, end) where batches begin, followed by the position behind the last batch.

    The second value is True if the chain is broken: no batch begins at the last position, although the file goes on.
    """
    starts, broken = _one_by_one(data, position, end, SAMPLE_BATCHES)
    parts = [np.array(starts[:-1], np.int64)]
    size = max(1, (starts[-1] - position) // max(1, len(starts) - 1))
    position = starts[-1]
    while position < end and not broken:
        limit = len(data)
        if size < LARGE_BATCH_BYTES and end - position >= MANY_BYTES:
            found = _many_at_once(data, position, end)
            parts.append(found[:-1])
            position = int(found[-1])
            limit = 2 * GUESS_BYTES // BATCH_HEADER_BYTES  # enough batches to get past a wrong guess
        starts, broken = _one_by_one(data, position, end, limit)
        parts.append(np.array(starts[:-1], np.int64))
        position = starts[-1]
    return np.concatenate([*parts, [position]]), broken


def _one_by_one(data: bytes, position: int, end: int, limit: int) -> tuple[list[int], bool]:
    """Positions of at most `limit` batches, and whether the chain is broken behind them."""
    starts = [position]
    size = len(data)
    while position < end and len(starts) <= limit:
        if size - position < BATCH_HEADER_BYTES:
            return starts, True
        (length,) = unpack_batch_length(data, position + BATCH_LENGTH_AT)
        following = position + LOG_OVERHEAD_BYTES + length
        if length < MIN_BATCH_LENGTH or following > size or data[position + MAGIC_AT] != MAGIC:
            return starts, True
        position = following
        starts.append(position)
    return starts, False


def _many_at_once(data: bytes, position: int, end: int) -> Array:
    """Positions of batches as far as they form one chain, followed by the position where to go on one by one."""
    buffer = np.frombuffer(data, np.uint8)
    at = _guesses(data, position, end)
    limit = np.append(at[1:], end)
    visited = []
    while len(at):
        visited.append(at)
        # The lower half of the length is enough here. The check of the whole chain finds batches that are longer.
        size = np.take(buffer, at + 10, mode="clip").astype(np.int64) << 8
        size += np.take(buffer, at + 11, mode="clip")
        at = at + (size + LOG_OVERHEAD_BYTES)
        going = at < limit
        at, limit = at[going], limit[going]
    found = np.sort(np.concatenate(visited))
    found = found[found <= len(data) - BATCH_HEADER_BYTES]
    if not len(found):
        return np.array([position])
    size, possible = _sizes(buffer, found)
    following = found + size
    linked = possible.copy()
    linked[1:] &= following[:-1] == found[1:]
    broken = np.flatnonzero(~linked)
    sound = int(broken[0]) if len(broken) else len(found)
    if not sound:
        return np.array([position])
    return np.append(found[:sound], following[sound - 1])


def _guesses(data: bytes, position: int, end: int) -> Array:
    """`position`, and positions behind it where a batch seems to begin."""
    found = [position]
    for place in range(position + GUESS_BYTES, end - BATCH_HEADER_BYTES, GUESS_BYTES):
        start = data.find(NO_PRODUCER, place + PRODUCER_ID_AT, place + GUESS_BYTES) - PRODUCER_ID_AT
        if start > found[-1] and start < end and data[start + MAGIC_AT] == MAGIC:
            found.append(start)
    return np.array(found, np.int64)


def _sizes(buffer: Array, at: Array) -> tuple[Array, Array]:
    """The sizes in the headers at these positions, and whether each is possible."""
    size = integers_at(buffer, at + BATCH_LENGTH_AT, ">i4").astype(np.int64) + LOG_OVERHEAD_BYTES
    possible = (size >= BATCH_HEADER_BYTES) & (at + size <= len(buffer)) & (buffer[at + MAGIC_AT] == MAGIC)
    return size, possible
