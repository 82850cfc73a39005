"""Finds the batches in the bytes of a segment file, sound or not: where each begins, and what is wrong with it.

A batch says how long it is, so the batches of a file form a chain. Where the chain breaks (a damaged length, a hole, a
torn end), the next undamaged batch is searched for byte by byte, and the chain goes on from there. So damage loses only
the batches that it hit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from kohort.audit.decode import files
from kohort.audit.decode.chain import chain
from kohort.audit.decode.sums import sums_of
from kohort.audit.decode.vector import Array, windows
from kohort.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    BATCH_LENGTH_AT,
    HEADER_FORMAT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    MIN_BATCH_LENGTH,
    BatchHeader,
    CorruptBatch,
    parse_header,
    unpack_batch_length,
    verify_crc,
)
from kohort.storage.offset_index import ENTRY_BYTES

HEADER: Final = np.dtype(
    [(name, f">{code}") for name, code in zip(BatchHeader._fields, HEADER_FORMAT, strict=True)]
)  # numpy reads the format letters of struct
assert HEADER.itemsize == BATCH_HEADER_BYTES
WHOLE_HEADER: Final = np.dtype((np.void, BATCH_HEADER_BYTES))  # copied as a whole; numpy copies HEADER field by field

CRC, TORN, GARBAGE, UNDECODABLE = "crc", "torn", "garbage", "undecodable"

WINDOW_BYTES: Final = 1 << 21
LAST_BATCHES: Final = 100  # batches that are looked at to find the last time in a log


class Stretch(NamedTuple):
    """A stretch of bytes in a file that is no batch."""

    position: int
    size_bytes: int
    problem: str  # TORN or GARBAGE
    detail: str
    before: int  # number of batches before the stretch


class Walk(NamedTuple):
    """All batches of a file in order."""

    positions: Array
    sizes: Array
    headers: Array  # of HEADER
    damaged: dict[int, str]  # number of a batch -> what is wrong with it
    stretches: list[Stretch]


def walk(data: bytes) -> Walk:
    """Find every batch in `data`, check its CRC, and find every stretch that is no batch."""
    parts: list[_Part] = []
    damaged: dict[int, str] = {}
    stretches: list[Stretch] = []
    position = count = 0
    window = WINDOW_BYTES
    while position < len(data):
        part = _part(data, position, min(len(data), position + window))
        if part is None:
            window *= 2
            continue
        window = WINDOW_BYTES
        damaged |= {count + number: why for number, why in part.wrong.items()}
        parts.append(part)
        count += len(part.positions)
        position = part.stop
        if part.broken:
            stretches.append(_stretch(data, position, count))
            position += stretches[-1].size_bytes
    if not parts:
        parts = [_Part(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, WHOLE_HEADER), {}, 0, False)]
    positions, sizes, headers = (np.concatenate(column) for column in zip(*(part[:3] for part in parts), strict=True))
    return Walk(positions, sizes, headers.view(HEADER), damaged, stretches)


class _Part(NamedTuple):
    """A run of batches in a file."""

    positions: Array
    sizes: Array
    headers: Array  # of WHOLE_HEADER
    wrong: dict[int, str]  # number of a batch with a wrong CRC -> what is wrong
    stop: int  # position behind the last batch
    broken: bool  # no batch begins at `stop`, although the file goes on

    def trimmed(self) -> _Part:
        return self._replace(wrong={number: why for number, why in self.wrong.items() if number < len(self.positions)})


def _part(data: bytes, position: int, end: int) -> _Part | None:
    """The batches that begin before `end`; None: a larger part of the file is needed to tell.

    A file is walked in parts that stay in the processor's cache, since a part is looked at several times.
    """
    starts, broken = _chain(data, position, end)
    found, sizes, stop = starts[:-1], np.diff(starts), int(starts[-1])
    headers = headers_at(data, found).view(WHOLE_HEADER)
    wrong = _wrong_sums(data, found, sizes, headers.view(HEADER))
    sound = len(found)
    while sound and sound - 1 in wrong:
        sound -= 1
    if sound < len(found) and not broken and stop < len(data):
        # The length of the last batch may be wrong, too. The next part begins with that batch and shows whether it is.
        if not sound:
            return None
        return _Part(found[:sound], sizes[:sound], headers[:sound], wrong, int(found[sound]), False).trimmed()
    resumed = _lying_length(data, found, sound, stop) if broken else None
    if not resumed:
        return _Part(found, sizes, headers, wrong, stop, broken)
    liar, stop = resumed
    sizes = np.append(sizes[:liar], stop - found[liar])
    return _Part(found[: liar + 1], sizes, headers[: liar + 1], wrong, stop, False).trimmed()


def pick_headers(headers: Array, which: Array) -> Array:
    """The same as headers[which], but faster."""
    found: Array = headers.view(WHOLE_HEADER)[which]
    return found.view(HEADER)


def headers_at(data: bytes, positions: Array) -> Array:
    if not len(positions):
        return np.empty(0, HEADER)
    return windows(np.frombuffer(data, np.uint8), positions, BATCH_HEADER_BYTES).view(HEADER)[:, 0]


def _chain(data: bytes, position: int, end: int) -> tuple[Array, bool]:
    """Where batches begin (see chain.py). The chain also ends at a header with impossible values."""
    found, broken = chain(data, position, end)
    headers = headers_at(data, found[:-1])
    nonsense = (headers["base_offset"] < 0) | (headers["last_offset_delta"] < 0) | (headers["record_count"] < 0)
    if nonsense.any():
        return found[: int(nonsense.argmax()) + 1], True
    return found, broken


def _wrong_sums(data: bytes, positions: Array, sizes: Array, headers: Array) -> dict[int, str]:
    """Number of each batch whose CRC-32C differs from the one in its header -> what is wrong."""
    sums = sums_of(data, positions, sizes, headers["crc"])
    wrong = np.flatnonzero(sums != headers["crc"]).tolist()
    return {number: f"CRC {headers['crc'][number]:08x}, its bytes give {sums[number]:08x}" for number in wrong}


def _lying_length(data: bytes, positions: Array, sound: int, stop: int) -> tuple[int, int] | None:
    """The first batch whose length is wrong, since an undamaged batch begins inside of it; and where that begins."""
    for number in range(sound, len(positions)):
        resumed = _next_sound(data, int(positions[number]) + 1, stop)
        if resumed is not None and (number + 1 == len(positions) or resumed < positions[number + 1]):
            return number, resumed
    return None


def _stretch(data: bytes, position: int, before: int) -> Stretch:
    """The stretch of bytes that begins where the chain broke."""
    resumed = _next_sound(data, position + 1, len(data))
    size = (len(data) if resumed is None else resumed) - position
    try:
        header = parse_header(data, position)
        claimed = header.size_bytes
    except CorruptBatch as error:
        if len(data) - position < BATCH_HEADER_BYTES and any(data[position:]):
            detail = f"the file ends after {size} bytes of a batch header of {BATCH_HEADER_BYTES}"
            return Stretch(position, size, TORN, detail, before)
        what = str(error).partition(" has ")[2] or str(error)
        if not any(data[position : position + size]):
            what = "zeros"
        elif data[position + MAGIC_AT] < MAGIC:
            what = f"perhaps messages of format {data[position + MAGIC_AT]}, from before Kafka 0.11, which is not read"
        return Stretch(position, size, GARBAGE, f"{size} bytes that are no batch: {what}", before)
    if resumed is None:
        return Stretch(position, size, TORN, f"the file ends after {size} of {claimed} bytes", before)
    return Stretch(position, size, GARBAGE, f"a batch of {claimed} bytes, where {size} follow up to the next", before)


def _next_sound(data: bytes, position: int, end: int) -> int | None:
    """The position, before `end`, where the next batch with a correct CRC begins."""
    for candidate in _magic_bytes(data, position, end):
        try:
            verify_crc(data, candidate, parse_header(data, candidate))
        except CorruptBatch:
            continue
        return candidate
    return None


def _magic_bytes(data: bytes, position: int, end: int) -> Iterator[int]:
    """Positions before `end` where a batch may begin: the magic byte is right and the length possible."""
    found = data.find(MAGIC, position + MAGIC_AT)
    while 0 <= found < end + MAGIC_AT:
        start = found - MAGIC_AT
        if len(data) - start < BATCH_HEADER_BYTES:
            return
        (length,) = unpack_batch_length(data, start + BATCH_LENGTH_AT)
        if MIN_BATCH_LENGTH <= length <= len(data) - start - LOG_OVERHEAD_BYTES:
            yield start
        found = data.find(MAGIC, found + 1)


# --- without reading the whole file -------------------------------------------------------------------------------


def first_offset_in(path: str) -> int | None:
    """The offset of the first batch of a file; None if there is no batch."""
    try:
        return parse_header(files.read(path, 0, BATCH_HEADER_BYTES)).base_offset
    except CorruptBatch:
        return None


class End(NamedTuple):
    """Where a log file ends."""

    offset: int  # one more than the last offset of the last batch
    time_ms: int  # the greatest time in the last batches


def end_of(path: str, size_bytes: int, index: str | None) -> End | None:
    """None if there is no batch. With the offset index only the last part of the file has to be read."""
    position = _last_indexed(index) if index else 0
    end = _end_from(path, position, size_bytes) if 0 < position < size_bytes else None
    return _end_from(path, 0, size_bytes) if end is None else end


def _end_from(path: str, position: int, size_bytes: int) -> End | None:
    found = walk(files.read(path, position, size_bytes - position))
    if position and (not len(found.positions) or found.positions[0] != 0 or 0 in found.damaged):
        return None  # the index belongs to another state of the file
    sound = [number for number in range(len(found.positions)) if number not in found.damaged]
    if not sound:
        return None
    last = found.headers[sound[-1]]
    time_ms = max(int(found.headers[number]["max_timestamp"]) for number in sound[-LAST_BATCHES:])
    return End(int(last["base_offset"]) + int(last["last_offset_delta"]) + 1, time_ms)


def _last_indexed(index: str) -> int:
    """Position of the last batch in an offset index. The index of a running broker has zeros at its end."""
    try:
        raw = files.read(index)
    except OSError:
        return 0
    entries = np.frombuffer(raw[: len(raw) // ENTRY_BYTES * ENTRY_BYTES], ">i4").reshape(-1, 2)
    return int(entries[:, 1].max(initial=0))
