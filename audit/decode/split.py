"""Splits batches into records, many at once: where each record's key, value and headers are, its offset and its time.

The records of a batch form a chain: each begins where the one before it ends. numpy follows the chains of many batches
together, one record of each batch per step. When few batches are left, they are followed one by one. Then the fields of
all records are read together. A batch that breaks any rule is decoded by protocol/record_batch.py, which says what is
wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np

from kohort.audit.decode.vector import MAX_DISTINCT_BYTES, PAD_BYTES, Array, distinct, padded, varints
from kohort.audit.decode.walk import Walk, pick_headers
from kohort.protocol.compression import inflate
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    COMPRESSION_MASK,
    LOG_APPEND_TIME,
    MIN_RECORD_BYTES,
    Headers,
    read_records,
)
from kohort.protocol.varint import read_varint

BLOCK_RECORDS: Final = 16_384
BLOCK_BYTES: Final = 16 << 20
FEW_CHAINS: Final = 160  # a step of numpy costs as much as following this many records one by one
SHORT_RUN: Final = 16
REMEMBERED_SETS: Final = 50_000


class Records(NamedTuple):
    """Records of some batches of a file; positions are in `buffer`."""

    buffer: Array  # of the records, padded at its end
    sets: list[Headers]  # all different sets of record headers; the first is the empty set
    batch: Array  # number of the batch in the walk
    offset: Array
    time_ms: Array
    key: Array  # its position in `buffer`
    key_size: Array  # -1: no key
    value: Array
    value_size: Array  # -1: a tombstone
    headers: Array  # index into `sets`

    def pick(self, which: Array) -> Records:
        return Records(self.buffer, self.sets, *(field[which] for field in self[2:]))

    def key_bytes(self, number: int) -> bytes | None:
        return self._bytes(int(self.key[number]), int(self.key_size[number]))

    def value_bytes(self, number: int) -> bytes | None:
        return self._bytes(int(self.value[number]), int(self.value_size[number]))

    def _bytes(self, start: int, size: int) -> bytes | None:
        return None if size < 0 else self.buffer[start : start + size].tobytes()


class Block(NamedTuple):
    """A part of a file: its records, and for each batch without readable records the reason."""

    first: int  # number of its first batch
    stop: int  # number of the batch after its last one
    records: Records
    undecodable: dict[int, str]


def blocks(data: bytes, walk: Walk, which: Array) -> Iterator[Block]:
    """Split a file in parts that fit into the processor's cache. `which`: the batches whose records are wanted."""
    counts = np.where(which, walk.headers["record_count"], 0).astype(np.int64)
    ends = walk.positions + walk.sizes
    records_before = np.concatenate([[0], np.cumsum(counts)])
    first = 0
    while first < len(counts):
        stop = int(np.searchsorted(records_before, records_before[first] + BLOCK_RECORDS, "right")) - 1
        stop = min(stop, int(np.searchsorted(ends, walk.positions[first] + BLOCK_BYTES, "right")))
        stop = max(stop, first + 1)
        yield _block(data, walk, first, stop, which)
        first = stop


def _block(data: bytes, walk: Walk, first: int, stop: int, which: Array) -> Block:
    numbers = first + np.flatnonzero(which[first:stop] & (walk.headers["record_count"][first:stop] > 0))
    bodies = _bodies(data, walk, numbers)
    starts, sound = _starts(bodies)
    records, good = _fields(bodies, starts, np.repeat(np.flatnonzero(sound), bodies.counts[sound]), walk)
    undecodable = dict(bodies.problems)
    if sound.all() and good.all():
        return Block(first, stop, records, undecodable)
    doubtful = sorted({*bodies.numbers[~sound].tolist(), *records.batch[~good].tolist()})
    parts = [records.pick(~np.isin(records.batch, doubtful))]
    for number in doubtful:
        try:
            parts.append(_read_slowly(data, walk, number))
        except MalformedMessage as problem:
            undecodable[number] = str(problem)
    return Block(first, stop, _together(parts), undecodable)


# --- where the records of each batch are --------------------------------------------------------------------------


class _Bodies(NamedTuple):
    """The bytes of the records of some batches, decompressed."""

    buffer: Array
    numbers: Array  # numbers of the batches
    starts: Array
    ends: Array
    counts: Array
    problems: dict[int, str]  # number of a batch -> why it could not be decompressed


def _bodies(data: bytes, walk: Walk, numbers: Array) -> _Bodies:
    if not len(numbers):
        nothing = np.empty(0, np.int64)
        return _Bodies(padded(b""), numbers, nothing, nothing, nothing, {})
    begin = int(walk.positions[numbers[0]])
    end = int(walk.positions[numbers[-1]] + walk.sizes[numbers[-1]])
    starts = walk.positions[numbers] - begin + BATCH_HEADER_BYTES
    ends = walk.positions[numbers] - begin + walk.sizes[numbers]
    compressed = np.flatnonzero(walk.headers["attributes"][numbers] & COMPRESSION_MASK)
    problems: dict[int, str] = {}
    parts = []
    at = end - begin
    for place in compressed.tolist():
        codec = int(walk.headers["attributes"][numbers[place]]) & COMPRESSION_MASK
        try:
            inflated = bytes(inflate(codec, memoryview(data)[begin + int(starts[place]) : begin + int(ends[place])]))
        except MalformedMessage as problem:
            problems[int(numbers[place])] = str(problem)
            inflated = b""
        starts[place], ends[place] = at, at + len(inflated)
        at += len(inflated)
        parts.append(inflated)
    if parts:
        buffer = padded(b"".join([data[begin:end], *parts]))
    elif end + PAD_BYTES <= len(data):
        buffer = np.frombuffer(data, np.uint8, end - begin + PAD_BYTES, begin)
    else:
        buffer = padded(data[begin:end])
    counts = walk.headers["record_count"][numbers].astype(np.int64)
    fit = counts * MIN_RECORD_BYTES <= ends - starts
    for place in np.flatnonzero(~fit).tolist():
        claimed, there = counts[place], ends[place] - starts[place]
        problems.setdefault(int(numbers[place]), f"claims {claimed} records in {there} bytes")
    return _Bodies(buffer, numbers[fit], starts[fit], ends[fit], counts[fit], problems)


def _starts(bodies: _Bodies) -> tuple[Array, Array]:
    """Where each record of the sound batches begins, and which batches are sound."""
    counts = bodies.counts
    if len(counts) and counts.max() == 1:
        return bodies.starts, np.ones(len(counts), np.bool_)  # no chain to follow; ends are checked later
    firsts = np.cumsum(counts) - counts
    found = np.empty(int(counts.sum()), np.int64)
    position = bodies.starts.copy()
    sound = np.ones(len(counts), np.bool_)
    going = np.flatnonzero(counts)
    step = 0
    while len(going) > FEW_CHAINS:
        at = position[going]
        found[firsts[going] + step] = at
        size, after = varints(bodies.buffer, at)
        following = after + size
        broken = (size < MIN_RECORD_BYTES - 1) | (following > bodies.ends[going])
        position[going] = following
        step += 1
        if broken.any():
            sound[going[broken]] = False
            going = going[~broken]
        going = going[counts[going] > step]
    for place in going.tolist():
        _follow(bodies, place, step, int(position[place]), found, int(firsts[place]), position, sound)
    sound &= position == bodies.ends
    return (found, sound) if sound.all() else (found[np.repeat(sound, counts)], sound)


def _follow(
    bodies: _Bodies, place: int, step: int, at: int, found: Array, first: int, position: Array, sound: Array
) -> None:
    """Follow the rest of one chain: runs of records of the same size at once, others one by one."""
    end, count = int(bodies.ends[place]), int(bodies.counts[place])
    while step < count and at < end:
        size, run = _run(bodies.buffer, at, end, count - step)
        found[first + step : first + step + run] = at + size * np.arange(run)
        step += run
        at += size * run
        if run < SHORT_RUN and step < count:
            starts, at = _one_by_one(
                bodies.buffer[at : min(end, at + (1 << 16))].tobytes(), at, min(count - step, 4 * SHORT_RUN)
            )
            found[first + step : first + step + len(starts)] = starts
            step += len(starts)
            if not starts:
                break
    position[place] = at
    sound[place] &= step == count


def _run(buffer: Array, at: int, end: int, limit: int) -> tuple[int, int]:
    """The size of the record at `at`, with its length field, and how many records of that size follow each other."""
    length, after = _varint_or_nothing(buffer[at : at + 5].tobytes(), 0)
    size = after + length
    if length < MIN_RECORD_BYTES - 1 or at + size > end:
        return 0, 0
    possible = min(limit, (end - at) // size)
    lengths = buffer[at : at + possible * size].reshape(possible, size)[:, :after]
    same = (lengths == lengths[0]).all(axis=1)
    return size, possible if same.all() else int(same.argmin())


def _one_by_one(data: bytes, position: int, limit: int) -> tuple[list[int], int]:
    """Where records begin, and the position behind the last one. `data` begins at `position`."""
    starts: list[int] = []
    at = 0
    while at < len(data) and len(starts) < limit:
        length, after = _varint_or_nothing(data, at)
        if length < MIN_RECORD_BYTES - 1 or after + length > len(data):
            break
        starts.append(position + at)
        at = after + length
    return starts, position + at


def _varint_or_nothing(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if not byte & 0x81:
        return byte >> 1, at + 1
    try:
        return read_varint(data, at)
    except (MalformedMessage, IndexError):
        return -1, at


# --- the fields of the records -------------------------------------------------------------------------------------


def _fields(bodies: _Bodies, starts: Array, place: Array, walk: Walk) -> tuple[Records, Array]:
    """The records, and which of them follow the rules. `place`: the index of each record's batch in `bodies`."""
    buffer = bodies.buffer
    size, after = varints(buffer, starts)
    end = after + size
    time_delta, at = varints(buffer, after + 1)  # skips a byte of attributes, which Kafka does not use
    offset_delta, at = varints(buffer, at)
    key_size, key = varints(buffer, at)
    value_size, value = varints(buffer, key + np.maximum(key_size, 0))
    headers = value + np.maximum(value_size, 0)
    of_batch = pick_headers(walk.headers, bodies.numbers)
    time_ms = of_batch["base_timestamp"].astype(np.int64)[place] + time_delta
    appended = of_batch["attributes"] & LOG_APPEND_TIME != 0
    if appended.any():
        time_ms = np.where(appended[place], of_batch["max_timestamp"].astype(np.int64)[place], time_ms)
    offset = of_batch["base_offset"].astype(np.int64)[place] + offset_delta
    good = (key_size >= -1) & (value_size >= -1) & (key <= value) & (value <= headers) & (headers < end)
    good &= end == np.where(np.append(place[1:] != place[:-1], True), bodies.ends[place], np.append(starts[1:], 0))
    good &= (offset_delta >= 0) & (offset_delta <= of_batch["last_offset_delta"].astype(np.int64)[place])
    good[1:] &= (place[1:] != place[:-1]) | (offset_delta[1:] > offset_delta[:-1])
    which, sets = _header_sets(buffer, np.where(good, headers, 0), np.where(good, end, 1))
    good &= which >= 0
    return Records(buffer, sets, bodies.numbers[place], offset, time_ms, key, key_size, value, value_size, which), good


def _header_sets(buffer: Array, starts: Array, ends: Array) -> tuple[Array, list[Headers]]:
    """The set of headers of each record, as an index. Most records share a few sets, so that only few are decoded."""
    sizes = ends - starts
    which = np.where((buffer[starts] == 0) & (sizes == 1), 0, -1)
    sets: list[Headers] = [()]
    short = np.flatnonzero((which < 0) & (sizes <= MAX_DISTINCT_BYTES))
    codes, firsts = distinct(buffer, starts[short], sizes[short])
    places = np.array([_read_set(buffer, starts[n], ends[n], sets) for n in short[firsts].tolist()], np.int64)
    which[short] = places[codes]
    for number in np.flatnonzero((which < 0) & (sizes > MAX_DISTINCT_BYTES)).tolist():
        which[number] = _read_set(buffer, starts[number], ends[number], sets)
    return which, sets


def _read_set(buffer: Array, start: int, end: int, sets: list[Headers]) -> int:
    """Add the headers to `sets` and return their index there; -1 if they cannot be decoded."""
    try:
        sets.append(_read_headers(buffer[start:end].tobytes()))
    except (MalformedMessage, IndexError):
        return -1
    return len(sets) - 1


@lru_cache(maxsize=REMEMBERED_SETS)
def _read_headers(data: bytes) -> Headers:
    count, at = read_varint(data, 0)
    if not 0 <= count <= len(data):
        raise MalformedMessage(f"{count} record headers")
    headers = []
    for _ in range(count):
        name, at = _read_bytes(data, at)
        value, at = _read_bytes(data, at)
        if name is None:
            raise MalformedMessage("a record header without name")
        headers.append((name, value))
    if at != len(data):
        raise MalformedMessage("record headers that end elsewhere than their record")
    return tuple(headers)


def _read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = (data[at] >> 1, at + 1) if not data[at] & 0x81 else read_varint(data, at)
    if size == -1:
        return None, at
    if size < 0 or at + size > len(data):
        raise MalformedMessage("a record header beyond its record")
    return data[at : at + size], at + size


# --- one by one ----------------------------------------------------------------------------------------------------


def _read_slowly(data: bytes, walk: Walk, number: int) -> Records:
    """Decode the records of a batch with protocol/record_batch.py. MalformedMessage says what is wrong with it."""
    parts: list[bytes] = []
    sets: list[Headers] = [()]
    rows = []
    at = 0
    for record in read_records(data, int(walk.positions[number])):
        key, value = record.key or b"", record.value or b""
        sets.append(record.headers)
        rows.append(
            (
                number, record.offset, record.timestamp, at, -1 if record.key is None else len(key),
                at + len(key), -1 if record.value is None else len(value), len(sets) - 1,
            )
        )  # fmt: skip
        parts += (key, value)
        at += len(key) + len(value)
    columns = np.array(rows, np.int64).reshape(-1, 8).T
    return Records(padded(b"".join(parts)), sets, *columns)


def _together(parts: list[Records]) -> Records:
    """Put the records together, in the order of the log."""
    if len(parts) == 1:
        return parts[0]
    moved = []
    sets: list[Headers] = []
    at = 0
    for part in parts:
        moved.append(part._replace(key=part.key + at, value=part.value + at, headers=part.headers + len(sets)))
        sets += part.sets
        at += len(part.buffer)
    columns = [np.concatenate(column) for column in zip(*(part[2:] for part in moved), strict=True)]
    joined = Records(np.concatenate([part.buffer for part in parts]), sets, *columns)
    return joined.pick(np.argsort(joined.batch, kind="stable"))
