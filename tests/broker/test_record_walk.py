"""The fast look at records, in Python and compiled, sees what the careful reader sees, whatever the bytes."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from struct import pack_into
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.broker.steps import all_steps
from kohort.broker.topics import compiled_walk
from kohort.broker.topics.compiled_walk import (
    Walk,
    WalkInSteps,
    fastest_walk,
    fastest_walk_in_steps,
    load_compiled_walk,
    load_compiled_walk_in_steps,
)
from kohort.broker.topics.record_walk import Walked, walk_in_steps, walk_records
from kohort.protocol.errors import MalformedMessage, TooManyElements
from kohort.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    Record,
    build_batch,
    parse_header,
    rebuild_batch,
    scan_records,
)
from kohort.protocol.varint import encode_varint
from tests.broker.broker_box import BrokerBox

BASE_MS = 1_700_000_000_000
COMPILED = load_compiled_walk()
WALKS: list[Walk] = [walk_records] if COMPILED is None else [walk_records, COMPILED]
STEPPING = load_compiled_walk_in_steps()
STEPPING_WALKS: list[WalkInSteps] = [walk_in_steps] if STEPPING is None else [walk_in_steps, STEPPING]


def careful(batch: bytes, count: int) -> Walked | None:
    """What `walk_records` should say; None for a refusal."""
    try:
        records = list(scan_records(batch, check_crc=False))
    except MalformedMessage:
        return None
    if [record[1] for record in records] != list(range(count)):
        return None
    deltas = [record[2] - BASE_MS for record in records]
    return min(deltas), max(deltas), any(record[3] is None for record in records)


def walked(walk: Walk, batch: bytes, count: int) -> Walked | None:
    try:
        return walk(batch, BATCH_HEADER_BYTES, len(batch), count)
    except MalformedMessage:
        return None


def walked_in_steps(walk: WalkInSteps, batch: bytes, count: int, piece_bytes: int) -> Walked | None:
    pieces = (batch[at : at + piece_bytes] for at in range(BATCH_HEADER_BYTES, len(batch), piece_bytes))
    try:
        return all_steps(walk(pieces, count, 1_000_000))
    except MalformedMessage:
        return None


def fast(batch: bytes, count: int) -> Walked | None:
    """What all walks say."""
    first, *others = [walked(walk, batch, count) for walk in WALKS]
    others += [walked_in_steps(walk, batch, count, size) for walk in STEPPING_WALKS for size in (1, 7, 100, 100_000)]
    assert others == [first] * len(others)
    return first


def batch_of(records: list[Record]) -> bytes:
    like = parse_header(build_batch([(None, None)] * len(records), timestamp=BASE_MS))
    made = bytearray(rebuild_batch(like, records))
    pack_into(">q", made, 27, BASE_MS)
    return bytes(made)


equal_records = st.builds(
    lambda count, key, value, deltas: [Record(i, BASE_MS + deltas[i % len(deltas)], key, value) for i in range(count)],
    st.integers(1, 200),
    st.none() | st.binary(max_size=70),
    st.none() | st.binary(max_size=200),
    st.lists(st.integers(0, 70), min_size=1, max_size=3),
)
headers = st.lists(st.tuples(st.binary(max_size=5), st.none() | st.binary(max_size=5)), max_size=2).map(tuple)
varied_records = st.lists(
    st.tuples(
        st.integers(-200, 10_000), st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=300), headers
    ),
    min_size=1,
    max_size=30,
).map(lambda rows: [Record(i, BASE_MS + row[0], row[1], row[2], row[3]) for i, row in enumerate(rows)])


def made_at(records: list[Record]) -> bytes:
    """The batch, with BASE_MS as its base timestamp whatever its first record says."""
    first = Record(0, BASE_MS, *records[0][2:])
    return batch_of([first, *records[1:]])


@settings(max_examples=300, deadline=None)
@given(equal_records | varied_records)
def test_sound_records_are_passed_with_their_times(records: list[Record]) -> None:
    batch = made_at(records)
    assert fast(batch, len(records)) == careful(batch, len(records)) is not None


@settings(max_examples=800, deadline=None)
@given(equal_records | varied_records, st.data())
def test_damaged_records_are_refused_by_both_or_by_none(records: list[Record], data: st.DataObject) -> None:
    batch = bytearray(made_at(records))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(BATCH_HEADER_BYTES, len(batch) - 1))
        batch[position] = data.draw(st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    if data.draw(st.booleans()):
        del batch[data.draw(st.integers(BATCH_HEADER_BYTES, len(batch))) :]
    pack_into(">i", batch, 8, len(batch) - 12)
    assert fast(bytes(batch), len(records)) == careful(bytes(batch), len(records))


@pytest.mark.parametrize("count", [7, 8, 63, 64, 65, 100, 8191, 8192, 8193, 9000])
@pytest.mark.parametrize("wrong", [None, 0, -1])
def test_equal_records_of_any_number(count: int, wrong: int | None) -> None:
    batch = bytearray(made_at([Record(i, BASE_MS, b"key", b"value" * 20) for i in range(count)]))
    if wrong is not None:
        last = len(batch) - 1
        batch[last if wrong else BATCH_HEADER_BYTES + 4] ^= 2  # a header count, or the first offset delta
    assert fast(bytes(batch), count) == ((0, 0, False) if wrong is None else None)


@pytest.mark.parametrize("bytes_more", [0, 1])
def test_a_batch_that_ends_behind_its_64_records_of_equal_size_is_refused(bytes_more: int) -> None:
    batch = made_at([Record(i, BASE_MS, b"key", b"value" * 20) for i in range(64)]) + b"\x7f" * bytes_more
    assert fast(batch, 65) is None


@pytest.mark.skipif(shutil.which(os.environ.get("CC", "cc")) is None, reason="no C compiler")
def test_where_there_is_a_compiler_the_compiled_walk_is_the_one_in_use() -> None:
    assert COMPILED is not None
    assert fastest_walk() is not walk_records
    assert fastest_walk_in_steps() is not walk_in_steps


def lines_run_by_produce(box: BrokerBox, count: int) -> int:
    """How many lines of Python the broker runs for a Produce of so many records, each of another size."""
    batch = build_batch([(b"key", bytes(50 + number)) for number in range(count)], timestamp=box.now)
    lines = 0

    def trace(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        answer = box.produce(batch)
    finally:
        sys.settrace(before)
    assert answer.error_code == 0
    return lines


@pytest.mark.skipif(COMPILED is None, reason="no C compiler")
def test_produce_runs_no_python_for_each_record_of_another_size(tmp_path: Path) -> None:
    box = BrokerBox(tmp_path)
    box.topic("t")
    lines_run_by_produce(box, 10)  # the first Produce prepares what the later ones use
    few, many = lines_run_by_produce(box, 10), lines_run_by_produce(box, 100)
    assert many - few < 90, "less than one line for each of the 90 records more"
    box.close()


def test_a_library_of_another_machine_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = tmp_path / "librecord_walk.so"
    foreign.write_bytes(b"\x7fELF of another machine")
    monkeypatch.setattr(compiled_walk, "LIBRARY", foreign)
    assert load_compiled_walk() is None
    assert load_compiled_walk_in_steps() is None
    monkeypatch.setattr(compiled_walk, "LIBRARY", tmp_path / "missing.so")
    assert load_compiled_walk() is None


@pytest.mark.parametrize("walk", WALKS)
def test_a_null_key_is_seen_however_its_length_is_written(walk: Walk) -> None:
    record = bytes([0, 0, 0, 0x81, 0x00, 0x01, 0])  # the varint -1 in two bytes instead of one
    assert walk(bytes([2 * len(record)]) + record, 0, len(record) + 1, 1) == (0, 0, True)


varints = st.integers(-(2**63), 2**63 - 1).map(encode_varint) | st.binary(max_size=11)
fields = st.lists(varints | st.sampled_from([b"\0", b"\1", b"\2", b"\x80", b"\xff"]), max_size=12)


@settings(max_examples=500, deadline=None)
@given(fields, st.integers(1, 3))
def test_varints_of_any_length_are_read_alike(parts: list[bytes], count: int) -> None:
    body = b"".join(parts)
    records = b"".join(encode_varint(len(body) + 2) + b"\0\0" + body for _ in range(count))
    fast(bytes(BATCH_HEADER_BYTES) + records, count)


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("bits", [31, 63])
def test_the_greatest_timestamp_deltas_are_read(walk: Walk, bits: int) -> None:
    fields = [b"\0", b"\0", b"\0", b"\1", b"\1", b"\0"]
    fields[1] = encode_varint(2**bits - 1)
    body = b"".join(fields)
    assert walk(encode_varint(len(body)) + body, 0, len(body) + 1, 1) == (2**bits - 1, 2**bits - 1, True)
    fields[1] = encode_varint(-(2**bits))
    body = b"".join(fields)
    assert walk(encode_varint(len(body)) + body, 0, len(body) + 1, 1) == (-(2**bits), -(2**bits), True)


long_headers = st.lists(st.tuples(st.binary(max_size=90), st.none() | st.binary(max_size=200)), max_size=40).map(tuple)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.none() | st.binary(max_size=9), st.binary(max_size=5000), long_headers), max_size=4))
def test_long_records_are_walked_alike_in_pieces(rows: list[tuple[bytes | None, bytes, Any]]) -> None:
    records = [Record(i, BASE_MS, *row) for i, row in enumerate([(b"k", b"v", ()), *rows])]
    batch = made_at(records)
    assert fast(batch, len(records)) == careful(batch, len(records)) is not None


@pytest.mark.parametrize("walk", STEPPING_WALKS)
@pytest.mark.parametrize("short", [0, 1])
def test_records_and_headers_of_a_batch_are_counted(walk: WalkInSteps, short: int) -> None:
    batch = made_at([Record(i, BASE_MS, b"k", b"v", ((b"", b""),) * 10) for i in range(20)])
    pieces = [batch[at : at + 50] for at in range(BATCH_HEADER_BYTES, len(batch), 50)]
    if short:
        with pytest.raises(TooManyElements):
            all_steps(walk(iter(pieces), 20, 220 - short))
    else:
        assert all_steps(walk(iter(pieces), 20, 220)) == (0, 0, False)
