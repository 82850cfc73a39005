"""Transaction indexes: which transactions were aborted in a segment."""

import struct
from pathlib import Path

import pytest

from kohort.protocol.crc32c import crc32c
from kohort.protocol.record_batch import build_batch, build_marker
from kohort.storage.disk import RealDisk
from kohort.storage.errors import LogFailed
from kohort.storage.index_entries import CorruptIndex
from kohort.storage.log_config import LogConfig
from kohort.storage.memory_disk import MemoryDisk
from kohort.storage.partition_log import PartitionLog
from kohort.storage.txn_index import BLOCK_ENTRIES, AbortedLookup, AbortedTransaction, Block, TxnIndex
from tests.storage.support import START, a_batch, a_log, reopened


class Producers:
    """Writes transactions into a log, and tells it which were aborted, as the partition does."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.open: dict[int, int] = {}

    def write(self, producer_id: int, count: int = 1) -> int:
        records = [(b"k", b"v")] * count
        batch = build_batch(records, timestamp=START, producer_id=producer_id, producer_epoch=0, base_sequence=0,
                            transactional=True)  # fmt: skip
        first = self.log.append(batch, now=START).first_offset
        self.open.setdefault(producer_id, first)
        return first

    def end(self, producer_id: int, *, commit: bool) -> int:
        offset = self.log.log_end_offset
        marker = build_marker(commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=START,
                              base_offset=offset)  # fmt: skip
        self.log.append_placed(marker, START)
        first = self.open.pop(producer_id, None)
        if first is not None and not commit:
            stable = min(self.open.values(), default=offset + 1)
            self.log.record_aborted(AbortedTransaction(producer_id, first, offset, stable))
        return offset

    def abort(self, producer_id: int) -> int:
        return self.end(producer_id, commit=False)

    def commit(self, producer_id: int) -> int:
        return self.end(producer_id, commit=True)


def entries_of(log: PartitionLog) -> list[tuple[int, ...]]:
    return [tuple(each) for segment in log.segments if segment.txn_index for each in segment.txn_index]


def aborted_in(log: PartitionLog, offset: int, max_bytes: int = 1 << 20) -> list[tuple[int, int]]:
    found = log.read(offset, max_bytes)
    assert found is not None
    try:
        return [(each.producer_id, each.first_offset) for each in log.aborted_in(offset, found, log.log_end_offset)]
    finally:
        found.close()


def index_files(log: PartitionLog) -> list[str]:
    return sorted(path.name for path in Path(log.folder).glob("*.txnindex*"))


# --- the file


def test_the_file_has_an_entry_of_34_bytes_for_each_aborted_transaction(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0")
    producers = Producers(log)
    producers.write(7)
    producers.write(8)
    producers.abort(7)
    producers.abort(8)
    path = Path(log.folder) / "00000000000000000000.txnindex"
    assert path.read_bytes() == struct.pack(">hqqqq", 0, 7, 0, 2, 1) + struct.pack(">hqqqq", 0, 8, 1, 3, 4)
    log.close()


def test_there_is_no_file_without_an_aborted_transaction(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0")
    producers = Producers(log)
    producers.write(7)
    producers.commit(7)
    producers.abort(8)  # nothing was written in it
    log.append(a_batch(3), now=START)
    assert index_files(log) == []
    assert aborted_in(log, 0) == []
    log.close()


def test_each_segment_has_its_own_index(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0")
    producers = Producers(log)
    for producer_id in (1, 2, 3):
        producers.write(producer_id)
        producers.write(9)
        if producer_id == 3:
            producers.write(3)
        log.roll(START)
        producers.abort(producer_id)
    assert index_files(log) == [f"{base:020d}.txnindex" for base in (2, 5, 9)]
    assert entries_of(log) == [(1, 0, 2, 1), (2, 3, 5, 1), (3, 6, 9, 1)]
    log.close()


# --- finding


def test_transactions_that_end_before_the_offset_or_begin_behind_the_read_are_left_out(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0")
    producers = Producers(log)
    for number in range(3):
        producers.write(number)  # offsets 0, 2, 4
        producers.abort(number)  # offsets 1, 3, 5
    assert aborted_in(log, 0) == [(0, 0), (1, 2), (2, 4)]
    assert aborted_in(log, 1) == [(0, 0), (1, 2), (2, 4)]
    assert aborted_in(log, 2) == [(1, 2), (2, 4)]
    assert aborted_in(log, 5) == [(2, 4)]
    found = log.read(0, 1 << 20)
    assert found is not None
    assert [each.first_offset for each in log.aborted_in(0, found, 4)] == [0, 2]  # only up to the last stable offset
    found.close()
    log.close()


def test_a_transaction_is_found_in_the_index_of_a_later_segment(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0")
    producers = Producers(log)
    producers.write(1)
    for _ in range(3):
        producers.write(2)
        log.roll(START)
        producers.abort(2)
    producers.abort(1)
    assert aborted_in(log, 0) == [(2, 1), (1, 0)]
    log.close()


def read_all(blocks: list[Block], offset: int, upper: int) -> list[AbortedTransaction]:
    lookup = AbortedLookup(blocks, offset, upper)
    return [each for block in lookup.blocks for each in lookup.read(block)]


def test_the_search_ends_where_nothing_older_was_open(tmp_path: Path) -> None:
    index = TxnIndex.create(RealDisk(), str(tmp_path / "a.txnindex"))
    for number in range(1000):
        index.append(AbortedTransaction(number, 2 * number, 2 * number + 1, 2 * number + 2))
    blocks: list[Block] = []
    assert index.find(100, 110, blocks)
    assert [each.producer_id for each in read_all(blocks, 100, 110)] == [50, 51, 52, 53, 54]
    file = index.take_file()
    assert file is not None
    file.close()


def test_an_index_of_many_blocks_finds_what_a_walk_over_all_entries_finds(tmp_path: Path) -> None:
    path = str(tmp_path / "a.txnindex")
    index = TxnIndex.create(RealDisk(), path)
    entries = []
    for number in range(3 * BLOCK_ENTRIES + 17):
        last = 3 * number + 2
        first = 5 if number % 300 == 299 else last - 2
        stable = 5 if number < 600 else last + 1
        entries.append(AbortedTransaction(number, first, last, stable))
        index.append(entries[-1])
    file = index.take_file()
    assert file is not None
    file.close()
    for each in (index, TxnIndex.open(RealDisk(), path, 0, 10_000)):
        assert list(each) == entries
        for offset in (0, 1, 4, 767, 768, 769, 1500, 2352):
            for upper in (1, 6, 770, 1600, 9_999):
                blocks: list[Block] = []
                each.find(offset, upper, blocks)
                found = read_all(blocks, offset, upper)
                assert found == [e for e in entries if e.last_offset >= offset and e.first_offset < upper]


# --- rolling, cutting, deleting


def test_a_cut_log_forgets_the_transactions_whose_markers_are_gone(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0")
    producers = Producers(log)
    for number in range(4):
        producers.write(number)
        producers.abort(number)
    log.truncate_to(5)
    assert entries_of(log) == [(0, 0, 1, 2), (1, 2, 3, 4)]
    producers.write(9)
    producers.abort(9)
    assert entries_of(log)[-1] == (9, 5, 6, 7)
    log.close()
    again = reopened(log, clean=True)
    assert entries_of(again) == [(0, 0, 1, 2), (1, 2, 3, 4), (9, 5, 6, 7)]
    again.close()


def test_retention_removes_the_index_with_its_segment(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0", file_delete_delay_ms=0)
    producers = Producers(log)
    for number in range(2):
        producers.write(number)
        producers.abort(number)
        log.roll(START)
    log.delete_segments(log.segments[:1], START)
    assert index_files(log) == ["00000000000000000000.txnindex.deleted", "00000000000000000002.txnindex"]
    log.purge_deleted(START + 1)
    assert index_files(log) == ["00000000000000000002.txnindex"]
    assert aborted_in(log, 2) == [(1, 2)]
    log.close()


# --- stops and crashes


def test_the_index_is_loaded_after_a_clean_stop(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0")
    producers = Producers(log)
    producers.write(1)
    producers.abort(1)
    log.close()
    again = reopened(log, clean=True)
    assert aborted_in(again, 0) == [(1, 0)]
    assert again.last_aborted_offset == 1
    again.close()


@pytest.mark.parametrize("damage", ["none", "gone", "torn", "nonsense", "too much"])
def test_after_a_crash_the_index_is_made_again_from_the_log(tmp_path: Path, damage: str) -> None:
    log = a_log(tmp_path / "t-0")
    producers = Producers(log)
    producers.write(1)
    producers.write(2)
    producers.abort(1)
    producers.write(3)
    producers.commit(2)
    producers.abort(3)
    expected = [(1, 0, 2, 1), (3, 3, 5, 6)]
    assert entries_of(log) == expected
    log.abandon()
    path = Path(log.folder) / "00000000000000000000.txnindex"
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(
            {"none": content, "torn": content[:40], "nonsense": b"\7" * 68, "too much": content * 2}[damage]
        )
    again = reopened(log)
    assert entries_of(again) == expected
    assert path.read_bytes() == content
    again.abandon()


def test_a_transaction_that_began_before_the_scanned_segments_is_known_after_a_crash(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0")
    producers = Producers(log)
    producers.write(1)
    producers.write(2)
    log.roll(START)
    producers.write(1)
    log.roll(START)
    producers.write(3)
    log.flush(START)
    point = log.recovery_point
    producers.abort(1)
    producers.abort(2)
    expected = entries_of(log)
    assert expected == [(1, 0, 4, 1), (2, 1, 5, 3)]
    log.abandon()
    again = reopened(log, recovery_point=point)
    assert entries_of(again) == expected
    again.abandon()


def test_the_snapshot_of_producers_says_what_was_open_in_segments_that_are_gone(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0")
    producers = Producers(log)
    producers.write(1)
    producers.write(2)
    log.roll(START)
    producers.write(1)
    log.roll(START)
    producers.abort(1)
    log.delete_segments(log.segments[:1], START)
    log.abandon()
    body = struct.pack(">i", 2)
    for producer_id, first in ((1, 0), (2, 1)):
        body += struct.pack(">qhiqiqiq", producer_id, 0, 0, first, 0, START, -1, first)
    snapshot = struct.pack(">hI", 1, crc32c(body)) + body
    (Path(log.folder) / "00000000000000000002.snapshot").write_bytes(snapshot)
    again = reopened(log, log_start_offset=2)
    assert entries_of(again) == [(1, 0, 3, 1)]
    again.abandon()
    (Path(log.folder) / "00000000000000000002.snapshot").write_bytes(snapshot[:-1] + b"\0\0")  # damaged: not used
    again = reopened(log, log_start_offset=2)
    assert entries_of(again) == [(1, 2, 3, 4)]
    again.abandon()


def test_a_damaged_index_below_the_recovery_point_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = a_log(tmp_path / "t-0")
    producers = Producers(log)
    producers.write(1)
    log.roll(START)
    producers.abort(1)
    log.roll(START)
    producers.write(2)
    expected = entries_of(log)
    log.close()
    path = Path(log.folder) / "00000000000000000001.txnindex"
    for damaged in (path.read_bytes()[:-1], b"\0\1" + path.read_bytes()[2:], path.read_bytes() * 2):
        path.write_bytes(damaged)
        again = reopened(log, clean=True)
        assert entries_of(again) == expected
        assert "made again from the log" in caplog.text
        again.close()


def test_what_was_flushed_with_its_marker_survives_a_power_cut() -> None:
    disk = MemoryDisk()
    disk.make_folder("/data")
    disk.sync_folder("/")
    log = a_log("/data/t-0", disk=disk)
    producers = Producers(log)
    producers.write(1)
    producers.abort(1)
    log.flush(START)
    point = log.recovery_point
    log.roll(START)
    producers.write(2)
    log.flush(START)
    survivor = disk.after_crash()
    again = PartitionLog.open(survivor, log.folder, LogConfig(), recovery_point=log.recovery_point)
    assert point == 2
    assert entries_of(again) == [(1, 0, 1, 2)]
    again.abandon()


def test_a_log_whose_index_cannot_be_written_has_failed() -> None:
    disk = MemoryDisk()
    disk.make_folder("/data")
    log = a_log("/data/t-0", disk=disk)
    producers = Producers(log)
    producers.write(1)
    disk.capacity_bytes = sum(len(disk.read_file(f"/data/t-0/{info.name}")) for info in disk.scan_folder("/data/t-0"))
    marker_bytes = 78
    disk.capacity_bytes += marker_bytes
    with pytest.raises(LogFailed):
        producers.abort(1)
    assert log.failed is not None
    disk.capacity_bytes = 1 << 20
    again = reopened(log)
    assert entries_of(again) == [(1, 0, 1, 2)]


def test_entries_of_another_segment_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txnindex"
    path.write_bytes(struct.pack(">hqqqq", 0, 1, 0, 7, 8))
    assert len(TxnIndex.open(RealDisk(), str(path), 7, 8)) == 1
    for base, end in ((8, 20), (0, 7)):
        with pytest.raises(CorruptIndex):
            TxnIndex.open(RealDisk(), str(path), base, end)
