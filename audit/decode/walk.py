"""Finds the batches in the bytes of a segment file, sound or not: where each begins, and what is wrong with it.

A batch says how long it is, so a file is a chain. Where the chain breaks (a damaged length, a hole, a torn end) the
next sound batch is looked for, byte by byte, and the chain goes on from there: damage costs what it hit and no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from crc32c import crc32c

from audit.decode import files
from protocol.record_batch import (
    BATCH_HEADER_BYTES,
    CRC_START,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MIN_BATCH_LENGTH,
    CorruptBatch,
    parse_header,
    verify_crc,
)
from storage.offset_index import ENTRY_BYTES

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"), ("batch_length", ">i4"), ("leader_epoch", ">i4"), ("magic", "i1"), ("crc", ">u4"),
        ("attributes", ">i2"), ("last_offset_delta", ">i4"), ("base_timestamp", ">i8"), ("max_timestamp", ">i8"),
        ("producer_id", ">i8"), ("producer_epoch", ">i2"), ("base_sequence", ">i4"), ("record_count", ">i4"),
    ]
)  # fmt: skip
assert HEADER.itemsize == BATCH_HEADER_BYTES

CRC, TORN, GARBAGE, UNDECODABLE = "crc", "torn", "garbage", "undecodable"

_length_at = Struct(">i").unpack_from


class Stretch(NamedTuple):
    """Bytes of a file that are no batch."""

    position: int
    size_bytes: int
    problem: str  # torn or garbage
    detail: str
    before: int  # how many batches of the walk lie before it


class Walk(NamedTuple):
    """All batches of a file in order."""

    positions: Array
    sizes: Array
    headers: Array  # of HEADER
    damaged: dict[int, str]  # number of a batch -> why its bytes cannot be trusted
    stretches: list[Stretch]


def walk(data: bytes) -> Walk:
    """Every batch in `data`, its CRC checked, and every stretch that is none."""
    positions: list[Array] = []
    sizes: list[Array] = []
    damaged: dict[int, str] = {}
    stretches: list[Stretch] = []
    position = count = 0
    while position < len(data):
        starts, stop = _chain(data, position)
        found, lengths = starts[:-1], np.diff(starts)
        wrong = _wrong_sums(data, found, lengths)
        resumed = _lying_length(data, found, wrong, stop)
        if resumed:
            liar, stop = resumed
            found, lengths = found[: liar + 1], lengths[: liar + 1].copy()
            lengths[liar] = stop - found[liar]
            wrong = {number: why for number, why in wrong.items() if number <= liar}
        damaged |= {count + number: why for number, why in wrong.items()}
        positions.append(found)
        sizes.append(lengths)
        count += len(found)
        position = stop
        if position < len(data) and not resumed:
            stretch = _stretch(data, position, count)
            stretches.append(stretch)
            position += stretch.size_bytes
    at = np.concatenate(positions) if positions else np.empty(0, np.int64)
    size = np.concatenate(sizes) if sizes else np.empty(0, np.int64)
    return Walk(at, size, headers_at(data, at), damaged, stretches)


def headers_at(data: bytes, positions: Array) -> Array:
    if not len(positions):
        return np.empty(0, HEADER)
    windows = np.lib.stride_tricks.sliding_window_view(np.frombuffer(data, np.uint8), BATCH_HEADER_BYTES)
    rows: Array = windows[positions]
    return rows.view(HEADER)[:, 0]


def _chain(data: bytes, position: int) -> tuple[Array, int]:
    """Where batches begin from `position` on, as long as they look like batches; and where that ends, once more."""
    starts = [position]
    end, last = len(data), len(data) - BATCH_HEADER_BYTES
    while position <= last:
        (length,) = _length_at(data, position + 8)
        following = position + LOG_OVERHEAD_BYTES + length
        if length < MIN_BATCH_LENGTH or following > end or data[position + 16] > MAGIC:
            break
        position = following
        starts.append(position)
    found = np.array(starts, np.int64)
    headers = headers_at(data, found[:-1])
    nonsense = (headers["base_offset"] < 0) | (headers["last_offset_delta"] < 0) | (headers["record_count"] < 0)
    nonsense &= headers["magic"] == MAGIC
    if nonsense.any():
        found = found[: int(nonsense.argmax()) + 1]
    return found, int(found[-1])


def _wrong_sums(data: bytes, positions: Array, sizes: Array) -> dict[int, str]:
    """Batches whose CRC-32C is not the one in their header."""
    headers = headers_at(data, positions)
    starts, ends = (positions + CRC_START).tolist(), (positions + sizes).tolist()
    sums = np.fromiter(map(crc32c, map(data.__getitem__, map(slice, starts, ends))), np.uint32, len(positions))
    wrong = np.flatnonzero((sums != headers["crc"]) & (headers["magic"] == MAGIC)).tolist()
    return {number: f"CRC {headers['crc'][number]:08x}, its bytes give {sums[number]:08x}" for number in wrong}


def _lying_length(data: bytes, positions: Array, wrong: dict[int, str], stop: int) -> tuple[int, int] | None:
    """The first of the last batches whose length must be wrong, since a sound batch begins within it; and where."""
    if stop == len(data) and not wrong:
        return None
    liar = None
    for number in range(len(positions) - 1, -1, -1):
        if number not in wrong:
            break
        liar = number
    if liar is None:
        return None
    for number in range(liar, len(positions)):
        resumed = _next_sound(data, int(positions[number]) + 1, stop)
        if resumed is not None and (number + 1 == len(positions) or resumed < positions[number + 1]):
            return number, resumed
    return None


def _stretch(data: bytes, position: int, before: int) -> Stretch:
    """What stands where the chain broke."""
    resumed = _next_sound(data, position + 1, len(data))
    size = (len(data) if resumed is None else resumed) - position
    try:
        header = parse_header(data, position)
        claimed = header.size_bytes
    except CorruptBatch as error:
        if len(data) - position < BATCH_HEADER_BYTES and any(data[position:]):
            detail = f"the file ends after {size} bytes of a batch header of {BATCH_HEADER_BYTES}"
            return Stretch(position, size, TORN, detail, before)
        what = "zeros" if not any(data[position : position + size]) else str(error).partition(" has ")[2] or str(error)
        return Stretch(position, size, GARBAGE, f"{size} bytes that are no batch: {what}", before)
    if resumed is None:
        return Stretch(position, size, TORN, f"the file ends after {size} of {claimed} bytes", before)
    return Stretch(position, size, GARBAGE, f"a batch of {claimed} bytes, where {size} follow up to the next", before)


def _next_sound(data: bytes, position: int, end: int) -> int | None:
    """Where the next batch with a right CRC begins, before `end`."""
    for candidate in _magic_bytes(data, position, end):
        try:
            verify_crc(data, candidate, parse_header(data, candidate))
        except CorruptBatch:
            continue
        return candidate
    return None


def _magic_bytes(data: bytes, position: int, end: int) -> Iterator[int]:
    """Positions before `end` where a batch could begin: its magic byte is right, its length possible."""
    found = data.find(MAGIC, position + 16)
    while 0 <= found < end + 16:
        start = found - 16
        if len(data) - start < BATCH_HEADER_BYTES:
            return
        (length,) = _length_at(data, start + 8)
        if MIN_BATCH_LENGTH <= length <= len(data) - start - LOG_OVERHEAD_BYTES:
            yield start
        found = data.find(MAGIC, found + 1)


# --- without reading the whole file -------------------------------------------------------------------------------


def first_offset_in(path: str) -> int | None:
    """Of the first batch of a file; None if there is none."""
    try:
        return parse_header(files.read(path, 0, BATCH_HEADER_BYTES)).base_offset
    except CorruptBatch:
        return None


def end_of(path: str, size_bytes: int, index: str | None) -> int | None:
    """The offset after the last batch of a file; None if there is none. The offset index saves reading all of it."""
    position = _last_indexed(index) if index else 0
    end = _end_from(path, position, size_bytes) if 0 < position < size_bytes else None
    return _end_from(path, 0, size_bytes) if end is None else end


def _end_from(path: str, position: int, size_bytes: int) -> int | None:
    found = walk(files.read(path, position, size_bytes - position))
    if position and (not len(found.positions) or found.positions[0] != 0 or 0 in found.damaged):
        return None  # the index does not fit its file
    sound = [number for number in range(len(found.positions)) if number not in found.damaged]
    if not sound:
        return None
    last = found.headers[sound[-1]]
    return int(last["base_offset"]) + int(last["last_offset_delta"]) + 1


def _last_indexed(index: str) -> int:
    """Position of the last batch that an offset index knows; it may end in zeros that a broker has reserved."""
    try:
        raw = files.read(index)
    except OSError:
        return 0
    entries = np.frombuffer(raw[: len(raw) // ENTRY_BYTES * ENTRY_BYTES], ">i4").reshape(-1, 2)
    return int(entries[:, 1].max(initial=0))
