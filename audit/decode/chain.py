"""Where the batches of a file begin: each says how long it is, so they form a chain.

A chain has to be followed link by link, which costs more than all else if batches are small. So many places of the file
are followed at once: places where a batch seems to begin, found by the bytes that nearly every header of a coordinator
has. Whether the guesses were right is known at the end: all that was found, put in order, must be one chain.
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
MANY_BYTES: Final = 1 << 16  # in shorter parts links are followed one by one
LARGE_BATCH_BYTES: Final = 1500  # as are large ones
GUESS_BYTES: Final = 1 << 12  # this far apart
NO_PRODUCER: Final = b"\xff" * 10 + bytes(4)  # id -1, epoch -1, sequence 0: what a coordinator writes


def chain(data: bytes, position: int, end: int) -> tuple[Array, bool]:
    """Where batches begin in [position, end), as long as they look like batches, and, last, where the next would begin.

    And whether it is broken: no batch is there although the file goes on.
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
            limit = 2 * GUESS_BYTES // BATCH_HEADER_BYTES  # a wrong guess may be just behind: go on well beyond it
        starts, broken = _one_by_one(data, position, end, limit)
        parts.append(np.array(starts[:-1], np.int64))
        position = starts[-1]
    return np.concatenate([*parts, [position]]), broken


def _one_by_one(data: bytes, position: int, end: int, limit: int) -> tuple[list[int], bool]:
    """At most `limit` batches, and whether the chain is broken behind them."""
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
    """As far as the chain goes without a doubt, and, last, where it has to be taken up again."""
    buffer = np.frombuffer(data, np.uint8)
    at = _guesses(data, position, end)
    limit = np.append(at[1:], end)
    visited = []
    while len(at):
        visited.append(at)
        # The lower half of the length is enough to go by. Large batches are caught when all is checked.
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
    """`position`, and places behind it where a batch seems to begin."""
    found = [position]
    for place in range(position + GUESS_BYTES, end - BATCH_HEADER_BYTES, GUESS_BYTES):
        start = data.find(NO_PRODUCER, place + PRODUCER_ID_AT, place + GUESS_BYTES) - PRODUCER_ID_AT
        if start > found[-1] and start < end and data[start + MAGIC_AT] == MAGIC:
            found.append(start)
    return np.array(found, np.int64)


def _sizes(buffer: Array, at: Array) -> tuple[Array, Array]:
    """What the batches at these places say of their size, and whether that can be."""
    size = integers_at(buffer, at + BATCH_LENGTH_AT, ">i4").astype(np.int64) + LOG_OVERHEAD_BYTES
    possible = (size >= BATCH_HEADER_BYTES) & (at + size <= len(buffer)) & (buffer[at + MAGIC_AT] == MAGIC)
    return size, possible
