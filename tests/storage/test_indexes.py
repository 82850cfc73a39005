"""Both indexes agree with a walk over the whole log, and a wrong one is noticed and made anew."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.broker.steps import all_steps
from kohort.storage.index_entries import SAMPLE, CorruptIndex
from kohort.storage.offset_index import OffsetIndex
from kohort.storage.partition_log import PartitionLog
from kohort.storage.time_index import TimeIndex
from tests.storage.support import START, CountingDisk, a_batch, a_batch_at, a_log, records_of, reopened

batches = st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=4), min_size=1, max_size=40)


def naive_offset_for(log: PartitionLog, timestamp: int) -> tuple[int, int] | None:
    for record in records_of(log):
        if record.timestamp >= timestamp and record.offset >= log.log_start_offset:
            return record.timestamp, record.offset
    return None


def check_against_full_scan(log: PartitionLog) -> None:
    for segment in log.segments:
        positions, position = {}, 0
        for header, _, _ in segment.batches():
            positions[header.last_offset] = position
            position += header.size_bytes
        for last_offset, where in segment.index.entries():
            assert positions[last_offset] == where
        latest = -1
        times = dict(segment.time_index.entries())
        for header, _, _ in segment.batches():
            if header.max_timestamp > latest:
                latest = header.max_timestamp
                assert times.get(latest, header.last_offset) == header.last_offset
        assert segment.max_timestamp == latest
    check_reads(log)


def check_reads(log: PartitionLog) -> None:
    for offset in range(log.log_start_offset, log.log_end_offset):
        piece = log.read(offset, 1)
        assert piece is not None
        data = piece.read()
        first = int.from_bytes(data[:8], "big")
        assert first <= offset <= first + int.from_bytes(data[23:27], "big")


@settings(max_examples=60, deadline=None)
@given(batches, st.sampled_from([0, 100, 500]), st.sampled_from([300, 1000, 10**6]), st.booleans(), st.data())
def test_lookups_by_offset_and_time_agree_with_a_full_scan(
    stamps: list[list[int]], interval: int, segment_bytes: int, clean: bool, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as parent:
        log = a_log(f"{parent}/t-0", index_interval_bytes=interval, segment_bytes=segment_bytes)
        for times in stamps:
            log.append(a_batch_at([START + time for time in times]), now=START)
        for _ in range(2):  # with the indexes of the writer, and then with those that come from disk
            start = data.draw(st.integers(0, log.log_end_offset))
            log.log_start_offset = 0
            check_against_full_scan(log)
            log.advance_log_start(start)
            for time in range(-1, 63):
                found = all_steps(log.offset_for_timestamp(START + time))
                assert (found and found[:2]) == naive_offset_for(log, START + time)
            log.close()
            log = reopened(log, clean=clean)
        log.abandon()


def closed_log(tmp_path: Path) -> PartitionLog:
    log = a_log(tmp_path / "t-0", index_interval_bytes=100)
    for i in range(200):
        log.append(a_batch(timestamp=START + i), now=START)
    log.close()
    return log


def test_the_index_spares_reading_most_of_the_log(tmp_path: Path) -> None:
    log = closed_log(tmp_path)
    disk = CountingDisk()
    again = reopened(log, clean=True, disk=disk)
    piece = again.read(100, 1)
    assert piece is not None
    piece.close()
    assert disk.bytes_read < 20_000 < log.size_bytes + 10_000
    again.abandon()


@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("damage", ["missing", "short", "descending", "far", "zeros"])
def test_a_missing_or_broken_index_is_made_anew(tmp_path: Path, kind: str, damage: str) -> None:
    log = closed_log(tmp_path)
    path = Path(log.folder) / f"00000000000000000000.{kind}"
    good = path.read_bytes()
    entry = 8 if kind == "index" else 12
    damaged = {
        "missing": None,
        "short": good[:-3],
        "descending": good[entry * 3 :] + good[: entry * 3],
        "far": good[:-entry] + b"\x7f" * entry,
        "zeros": good + bytes(10_000 * entry),  # as Kafka's files are while it runs
    }[damage]
    path.unlink() if damaged is None else path.write_bytes(damaged)
    again = reopened(log, clean=True)
    assert again.log_end_offset == 200
    check_against_full_scan(again)
    again.close()
    assert path.read_bytes() == good


def test_an_index_that_looks_right_but_lies_is_found_out(tmp_path: Path) -> None:
    log = closed_log(tmp_path)
    path = Path(log.folder) / "00000000000000000000.index"
    good = path.read_bytes()
    for position in range(0, len(good), 4):
        lie = bytearray(good)
        lie[position + 3] ^= 1
        path.write_bytes(lie)
        again = reopened(log, clean=True)
        assert again.log_end_offset == 200
        check_reads(again)
        again.abandon()


def test_a_time_index_that_looks_right_but_lies_is_found_out(tmp_path: Path) -> None:
    log = closed_log(tmp_path)
    path = Path(log.folder) / "00000000000000000000.timeindex"
    good = path.read_bytes()
    for position in range(0, len(good), 12):
        for byte in (7, 11):
            lie = bytearray(good)
            lie[position + byte] ^= 1
            path.write_bytes(lie)
            again = reopened(log, clean=True)
            for time in range(START - 1, START + 201, 20):
                found = all_steps(again.offset_for_timestamp(time))
                expected = max(time, START)
                assert (found and found[:2]) == ((expected, expected - START) if time < START + 200 else None)
            again.abandon()


def test_index_files_hold_big_endian_pairs() -> None:
    index = OffsetIndex(1000)
    index.append(1003, 517)
    index.append(1010, 70_000)
    assert index.to_bytes().hex(" ", 4) == "00000003 00000205 0000000a 00011170"
    assert OffsetIndex.from_bytes(1000, index.to_bytes(), 70_001).entries() == [(1003, 517), (1010, 70_000)]
    with pytest.raises(CorruptIndex):
        OffsetIndex.from_bytes(1000, index.to_bytes(), 70_000)
    times = TimeIndex(1000)
    times.maybe_append(5, 1003)
    times.maybe_append(5, 1010)
    times.maybe_append(6, 1010)
    assert times.to_bytes().hex(" ", 4) == "00000000 00000005 00000003 00000000 00000006 0000000a"
    assert TimeIndex.from_bytes(1000, times.to_bytes()).entries() == [(5, 1003), (6, 1010)]


@pytest.mark.parametrize("seed", range(20))
def test_what_a_damaged_index_names_is_never_behind_what_was_asked_for(seed: int) -> None:
    """Its order is checked for a sample only. A reader that starts too early finds its batch; one too late does not."""
    chosen = Random(seed)
    index = OffsetIndex(0)
    for number in range(5 * SAMPLE):
        index.append(3 * number, 100 * number)
    data = bytearray(index.to_bytes())
    for _ in range(500):  # between two entries of the sample
        slot = 5 * chosen.randrange(SAMPLE) + chosen.randrange(1, 5)
        data[8 * slot : 8 * slot + 4] = chosen.randrange(2**31).to_bytes(4, "big")
    damaged = OffsetIndex.from_bytes(0, bytes(data), 10**9)
    for _ in range(500):
        asked = chosen.randrange(15 * SAMPLE)
        assert damaged.lookup(asked)[0] <= asked


def lines_run(work: Callable[[], object]) -> int:
    lines = 0

    def trace(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def test_indexes_are_written_and_read_without_python_for_each_entry() -> None:
    """A full segment has 262,144 entries, and is rolled and looked into on the event loop."""
    counts = []
    for entries in (SAMPLE, 10 * SAMPLE):
        index, time_index = OffsetIndex(5), TimeIndex(5)
        for number in range(entries):
            index.append(5 + number * 3, number * 100)
            time_index.maybe_append(START + number, 5 + number * 3)
        data, times = index.to_bytes(), time_index.to_bytes()
        assert TimeIndex.from_bytes(5, times).entries() == time_index.entries()
        counts.append(
            lines_run(lambda: (index.to_bytes(), time_index.to_bytes()))  # noqa: B023 - called at once
            + lines_run(lambda: (OffsetIndex.from_bytes(5, data, 10**7), TimeIndex.from_bytes(5, times)))  # noqa: B023
        )
    assert counts[0] == counts[1]
