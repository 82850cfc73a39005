"""Appending to a partition's log, reading it, rolling, cutting, and failing with its disk."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from kohort.broker.steps import all_steps
from kohort.protocol.record_batch import CorruptBatch, Record, build_batch, parse_header, read_records, verify_crc
from kohort.storage.errors import BatchTooLarge, InvalidAppend, LogFailed, OffsetOutOfRange
from kohort.storage.partition_log import PartitionLog
from tests.simulation.disk import SimulatedDisk
from tests.storage.support import (
    START,
    CountingDisk,
    a_batch,
    a_batch_at,
    a_log,
    headers_of,
    log_bytes,
    records_of,
    reopened,
)

# --- appending ------------------------------------------------------------------------------------


def test_an_append_sets_offset_and_epoch_and_leaves_every_other_byte(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0")
    first, second = a_batch(3), a_batch(2, value=b"other")
    assert log.append(first, now=START, leader_epoch=7) == (0, 2, -1)
    assert log.append(second, now=START, leader_epoch=7) == (3, 4, -1)
    written = log_bytes(log)
    expected = bytearray(first + second)
    at = len(first)
    expected[12:16] = expected[at + 12 : at + 16] = (7).to_bytes(4, "big")
    expected[at : at + 8] = (3).to_bytes(8, "big")
    assert written == expected
    assert list(log.leader_epochs) == [(7, 0)]
    log.close()


def test_several_batches_in_one_append_get_consecutive_offsets(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0")
    assert log.append(a_batch(3) + a_batch(1) + a_batch(2), now=START)[:2] == (0, 5)
    assert [header.base_offset for header in headers_of(log)] == [0, 3, 4]
    assert [record.offset for record in records_of(log)] == [0, 1, 2, 3, 4, 5]
    log.close()


def test_a_bytearray_is_numbered_in_place_and_bytes_are_not_touched(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0")
    log.append(a_batch(), now=START)
    frozen, liquid = a_batch(), bytearray(a_batch())
    log.append(frozen, now=START)
    log.append(liquid, now=START)
    assert parse_header(frozen).base_offset == 0
    assert parse_header(liquid).base_offset == 2
    log.close()


def test_log_append_time_replaces_the_producers_time_and_the_checksum_holds(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0", message_timestamp_type="LogAppendTime")
    assert log.append(a_batch(2, timestamp=5), now=START) == (0, 1, START)
    assert [record.timestamp for record in records_of(log)] == [START, START]
    header = parse_header(log_bytes(log))
    verify_crc(log_bytes(log), 0, header)
    assert header.is_log_append_time
    assert all_steps(log.offset_for_timestamp(START - 1)) == (START, 0, 0)
    log.close()


def test_append_as_is_keeps_offsets_and_every_byte(tmp_path: Path) -> None:
    source, copy = a_log(tmp_path / "a-0"), a_log(tmp_path / "b-0")
    for i in range(5):
        source.append(a_batch(2, value=b"%d" % i), now=START, leader_epoch=i)
    copy.append_as_is(log_bytes(source), now=START)
    assert log_bytes(copy) == log_bytes(source)
    assert copy.log_end_offset == 10
    assert list(copy.leader_epochs) == list(source.leader_epochs) == [(i, 2 * i) for i in range(5)]
    with pytest.raises(InvalidAppend, match="the log goes on at 10"):
        copy.append_as_is(log_bytes(source), now=START)
    source.close()
    copy.close()


@pytest.mark.parametrize("cut", [1, 30, 61, 75])
def test_a_batch_that_is_not_whole_is_refused(tmp_path: Path, cut: int) -> None:
    log = a_log(tmp_path / "t-0")
    with pytest.raises(CorruptBatch):
        log.append(a_batch()[:cut], now=START)
    with pytest.raises(CorruptBatch):
        log.append(a_batch() + a_batch()[:cut], now=START)
    assert log.log_end_offset == 0
    assert not log.exists


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_the_limit_of_batches_is_not_for_those_that_the_broker_has_built(tmp_path: Path, timestamp_type: str) -> None:
    log = a_log(tmp_path / "t-0", max_message_bytes=100, message_timestamp_type=timestamp_type)
    log.append_placed(a_batch(10), START + 5)
    log.append_placed(build_batch([(b"k", b"v" * 100)], timestamp=START, base_offset=10), START + 5)
    assert log.log_end_offset == 11
    expected = START if timestamp_type == "CreateTime" else START + 5
    assert {record.timestamp for record in records_of(log)} == {expected}
    log.close()


def test_a_wrong_checksum_a_wrong_count_and_too_many_bytes_are_refused(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0", max_message_bytes=500, segment_bytes=900)
    damaged = bytearray(a_batch())
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch):
        log.append(damaged, now=START)
    with pytest.raises(BatchTooLarge, match=r"max.message.bytes is 500"):
        log.append(a_batch(value=b"x" * 500), now=START)
    with pytest.raises(BatchTooLarge, match=r"segment.bytes is 900"):
        log.append(a_batch(value=b"x" * 300) * 3, now=START)
    with pytest.raises(InvalidAppend):
        log.append(b"", now=START)
    assert log.log_end_offset == 0


def test_an_empty_log_is_not_on_disk_until_its_first_append(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = a_log(tmp_path / "t-0", disk=disk)
    log.flush()
    assert not (tmp_path / "t-0").exists()
    assert len(disk.operations) == 1, "looking for the folder is all"
    log.append(a_batch(), now=START)
    assert (tmp_path / "t-0" / "00000000000000000000.log").exists()
    log.close()


# --- rolling --------------------------------------------------------------------------------------


def test_a_segment_rolls_before_it_grows_above_its_size(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0", segment_bytes=1000)
    for _ in range(50):
        log.append(a_batch(), now=START)
    assert len(log.segments) > 3
    assert all(segment.size_bytes <= 1000 for segment in log.segments)
    assert [segment.base_offset for segment in log.segments[1:]] == [
        segment.next_offset for segment in log.segments[:-1]
    ]
    assert records_of(log)[-1].offset == 49
    log.close()


def test_a_batch_above_the_segment_size_gets_a_segment_of_its_own(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0", segment_bytes=200)
    for size in (10, 500, 10):
        log.append(a_batch(value=b"x" * size), now=START)
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]
    log.close()


def test_new_settings_hold_at_once(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0")
    for _ in range(5):
        log.append(a_batch(), now=START)
    log.reconfigure(replace(log.config, segment_bytes=300))
    log.append(a_batch(), now=START)
    assert [segment.base_offset for segment in log.segments] == [0, 5]
    log.close()


def test_a_segment_rolls_by_the_time_of_its_records(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0", segment_ms=1000)
    for later in (0, 1000, 1001, 2001, 2002, 500):
        log.append(a_batch(timestamp=START + later), now=START)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    log.close()


def test_without_timestamps_a_segment_rolls_by_the_clock(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0", segment_ms=1000)
    for later in (0, 1000, 1001):
        log.append(a_batch(timestamp=-1), now=START + later)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    log.close()


def test_a_segment_rolls_when_an_index_is_full(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0", segment_index_bytes=100, index_interval_bytes=0)
    for i in range(30):
        log.append(a_batch(timestamp=START + i), now=START)
    assert len(log.segments) > 3
    log.close()
    assert max(path.stat().st_size for path in Path(log.folder).glob("*.*index")) <= 100


def test_a_segment_rolls_before_its_offsets_overflow(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0")
    log.append(a_batch(), now=START)
    far = bytearray(a_batch())
    far[0:8] = (2**31).to_bytes(8, "big")
    log.append_as_is(far, now=START)
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    log.close()


# --- reading --------------------------------------------------------------------------------------


def filled(tmp_path: Path, **settings: object) -> PartitionLog:
    """100 batches of two records each."""
    log = a_log(tmp_path / "t-0", disk=None, **settings)
    for i in range(100):
        log.append(a_batch(2, timestamp=START + i, value=b"v%03d" % i), now=START)
    return log


def read(log: PartitionLog, offset: int, max_bytes: int, **options: object) -> list[Record]:
    """The whole batches of what a fetch would send."""
    piece = log.read(offset, max_bytes, **options)  # type: ignore[arg-type]
    data = piece.read() if piece else b""
    records: list[Record] = []
    while len(data) >= 61 and len(data) >= parse_header(data).size_bytes:
        records += read_records(data)
        data = data[parse_header(data).size_bytes :]
    return records


@pytest.mark.parametrize("offset", [0, 1, 57, 100, 198, 199])
def test_a_read_starts_with_the_batch_that_holds_the_offset(tmp_path: Path, offset: int) -> None:
    log = filled(tmp_path, segment_bytes=3000, index_interval_bytes=200)
    records = read(log, offset, 10_000)
    assert records[0].offset == offset // 2 * 2
    assert [record.offset for record in records] == list(range(records[0].offset, records[-1].offset + 1))
    again = reopened(log, clean=True, disk=log.disk)
    log.close()
    assert read(again, offset, 10_000) == records
    again.abandon()


def test_a_read_is_bounded_by_max_bytes_but_gives_one_whole_batch(tmp_path: Path) -> None:
    log = filled(tmp_path)
    batch_bytes = log.size_bytes // 100
    for max_bytes, expected in ((batch_bytes, 1), (batch_bytes * 3, 3), (batch_bytes * 3 + 5, 3), (1, 1), (0, 1)):
        piece = log.read(10, max_bytes)
        assert piece is not None
        assert piece.length == max(max_bytes, batch_bytes)
        piece.close()
        assert len(read(log, 10, max_bytes)) == 2 * expected
    exact = log.read(10, 7, min_one_batch=False)
    assert exact is not None
    assert exact.length == 7
    exact.close()
    assert log.read(10, 0, min_one_batch=False) is None
    log.close()


def test_a_read_stays_below_the_high_watermark(tmp_path: Path) -> None:
    log = filled(tmp_path, segment_bytes=3000)
    assert [record.offset for record in read(log, 4, 10_000, up_to=10)] == [4, 5, 6, 7, 8, 9]
    assert log.read(10, 10_000, up_to=10) is None
    assert log.read(4, 10_000, up_to=0) is None
    log.close()


def test_reads_outside_of_the_log_are_refused_and_its_end_is_empty(tmp_path: Path) -> None:
    log = filled(tmp_path)
    assert log.read(200, 1000) is None
    for offset in (-1, 201):
        with pytest.raises(OffsetOutOfRange, match="there is 0 to 200"):
            log.read(offset, 1000)
    log.close()


def test_a_slice_can_be_sent_from_the_descriptor_even_after_its_segment_is_gone(tmp_path: Path) -> None:
    log = filled(tmp_path, segment_bytes=3000)
    piece = log.read(0, 500)
    assert piece is not None
    log.delete_segments(log.segments[:2], now=START)
    log.purge_deleted(START + 10**6)
    assert os.pread(piece.file.fileno(), piece.length, piece.position) == piece.read()
    log.close()


def test_few_descriptors_stay_open_however_many_segments_are_read(tmp_path: Path) -> None:
    log = filled(tmp_path, segment_bytes=150)
    log.flush()
    assert len(log.segments) == 100
    log._open_files.capacity = 5
    for offset in range(0, 200, 2):
        assert len(read(log, offset, 100)) == 2
    assert sum(segment.is_open for segment in log.segments) <= 6
    log.close()
    assert not any(segment.is_open for segment in log.segments)


def test_replay_in_batches_and_in_chunks_sees_the_same_bytes(tmp_path: Path) -> None:
    log = filled(tmp_path, segment_bytes=3000)
    assert b"".join(chunk[:size] for chunk, size in log.chunks()) == log_bytes(log)
    assert [record.offset for record in records_of(log, 51, 60)] == list(range(50, 60))
    log.close()


# --- time -----------------------------------------------------------------------------------------


def test_the_first_record_at_or_after_a_time_is_found_inside_its_batch(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0")
    log.append(a_batch_at([10, 30, 20]), now=START, leader_epoch=4)
    log.append(a_batch_at([40, 25, 40]), now=START, leader_epoch=5)
    assert all_steps(log.offset_for_timestamp(0)) == (10, 0, 4)
    assert all_steps(log.offset_for_timestamp(15)) == (30, 1, 4)
    assert all_steps(log.offset_for_timestamp(31)) == (40, 3, 5)
    assert all_steps(log.offset_for_timestamp(41)) is None
    assert all_steps(log.latest_timestamp()) == (40, 3, 5)
    log.advance_log_start(2)
    assert all_steps(log.offset_for_timestamp(15)) == (20, 2, 4)
    log.close()


def test_an_empty_log_has_no_times(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0")
    assert all_steps(log.offset_for_timestamp(0)) is None
    assert all_steps(log.latest_timestamp()) is None


# --- cutting --------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 1, 2, 99, 100, 150, 199])
def test_truncation_removes_batches_that_reach_to_the_offset(tmp_path: Path, offset: int) -> None:
    log = filled(tmp_path, segment_bytes=3000, index_interval_bytes=200)
    log.flush()
    log.truncate_to(offset)
    assert log.log_end_offset == offset // 2 * 2
    assert log.recovery_point <= log.log_end_offset
    assert [record.offset for record in records_of(log)] == list(range(log.log_end_offset))
    again = reopened(log, recovery_point=log.recovery_point)
    assert again.log_end_offset == log.log_end_offset
    again.abandon()
    assert log.append(a_batch(value=b"new"), now=START).first_offset == log.log_end_offset - 1
    assert records_of(log)[-1].value == b"new-0"
    log.close()


def test_truncation_forgets_later_leader_epochs(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0")
    for epoch in (1, 1, 3, 4):
        log.append(a_batch(2), now=START, leader_epoch=epoch)
    assert log.leader_epochs.end_offset_for(1, 8) == (1, 4)
    assert log.leader_epochs.end_offset_for(2, 8) == (1, 4)
    assert log.leader_epochs.end_offset_for(4, 8) == (4, 8)
    assert log.leader_epochs.end_offset_for(0, 8) == log.leader_epochs.end_offset_for(5, 8) == (-1, -1)
    log.truncate_to(5)
    assert list(log.leader_epochs) == [(1, 0)]
    log.append(a_batch(), now=START, leader_epoch=9)
    log.close()
    assert (tmp_path / "t-0" / "leader-epoch-checkpoint").read_bytes() == b"0\n2\n1 0\n9 4\n"


def test_lost_leader_epochs_are_found_again_in_the_batches(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0")
    for epoch in (1, 1, 3, 4):
        log.append(a_batch(2), now=START, leader_epoch=epoch)
    log.close()
    for content in (None, b"", b"0\n7\n"):
        path = tmp_path / "t-0" / "leader-epoch-checkpoint"
        path.unlink() if content is None else path.write_bytes(content)
        again = reopened(log)
        assert list(again.leader_epochs) == [(1, 0), (3, 4), (4, 6)]
        again.close()


def test_delete_records_moves_the_start_and_survives_a_reopening(tmp_path: Path) -> None:
    log = filled(tmp_path, segment_bytes=3000)
    log.advance_log_start(51)
    log.advance_log_start(7)
    assert log.log_start_offset == 51
    with pytest.raises(OffsetOutOfRange):
        log.read(50, 1000)
    assert read(log, 51, 1)[0].offset == 50, "batches are not split; clients skip what they did not ask for"
    with pytest.raises(OffsetOutOfRange, match="the log ends at 200"):
        log.advance_log_start(201)
    log.close()
    again = reopened(log, clean=True, log_start_offset=51)
    assert (again.log_start_offset, again.log_end_offset) == (51, 200)
    again.abandon()


def test_a_log_that_lost_its_tail_behind_its_start_goes_on_at_the_start(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close()
    again = reopened(log, log_start_offset=500)
    assert (again.log_start_offset, again.log_end_offset) == (500, 500)
    assert again.append(a_batch(), now=START).first_offset == 500
    again.close()
    once_more = reopened(log, log_start_offset=500)
    assert (once_more.log_start_offset, once_more.log_end_offset) == (500, 501)
    once_more.abandon()


def test_old_segments_are_deleted_after_a_delay(tmp_path: Path) -> None:
    log = filled(tmp_path, segment_bytes=3000)
    kept = [segment.base_offset for segment in log.segments[2:]]
    log.delete_segments(log.segments[:2], now=START)
    assert log.log_start_offset == kept[0]
    assert len(list(Path(log.folder).glob("*.deleted"))) == 6
    assert log.purge_deleted(START + 59_999) == 0
    assert log.purge_deleted(START + 60_000) == 6
    assert not list(Path(log.folder).glob("*.deleted"))
    log.close()


def test_when_everything_is_deleted_the_end_offset_remains(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.delete_segments(list(log.segments), now=START)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (200, 200, 0)
    log.abandon()
    again = reopened(log, recovery_point=200)
    assert (again.log_start_offset, again.log_end_offset) == (200, 200)
    again.abandon()


# --- a failing disk -------------------------------------------------------------------------------


def on_a_simulated_disk(**settings: object) -> tuple[SimulatedDisk, PartitionLog]:
    disk = SimulatedDisk(seed=1)
    disk.make_folder("/data")
    log = a_log("/data/t-0", disk=disk, **settings)
    log.append(a_batch(2), now=START)
    log.flush()
    return disk, log


def test_a_failed_sync_stops_writes_and_is_not_retried_while_reads_go_on() -> None:
    disk, log = on_a_simulated_disk()
    log.append(a_batch(), now=START)
    disk.fail_next("sync", ".log")
    with pytest.raises(LogFailed, match="takes no more writes"):
        log.flush()
    assert log.recovery_point == 2
    steps = disk.steps
    with pytest.raises(LogFailed, match="takes no more writes"):
        log.append(a_batch(), now=START)
    with pytest.raises(LogFailed, match="takes no more writes"):
        log.flush()
    assert log.begin_flush() is None
    assert disk.steps == steps, "the disk was not even asked"
    assert len(records_of(log)) == 3


def test_a_full_disk_refuses_an_append_and_takes_the_next_one_when_there_is_space() -> None:
    disk, log = on_a_simulated_disk()
    before = log_bytes(log)
    disk.fail_next("append", ".log", errno.ENOSPC)
    with pytest.raises(LogFailed, match="nothing was appended"):
        log.append(a_batch(), now=START)
    assert log.failed is None
    assert log_bytes(log) == before
    assert log.append(a_batch(), now=START).first_offset == 2


def test_any_other_failed_write_fails_the_log() -> None:
    disk, log = on_a_simulated_disk()
    before = log_bytes(log)
    disk.fail_next("append", ".log", errno.EIO)
    with pytest.raises(LogFailed, match="takes no more writes"):
        log.append(a_batch(), now=START)
    assert log_bytes(log) == before, "what was written in part was taken back"
    with pytest.raises(LogFailed):
        log.append(a_batch(), now=START)


def test_a_compacted_log_syncs_a_segment_before_anything_follows_it() -> None:
    disk, log = on_a_simulated_disk(cleanup_policy="compact", segment_bytes=300)
    log.append(a_batch(value=b"x" * 80), now=START)
    old = log.active.log_path
    assert not disk.is_durable(old)
    log.append(a_batch(value=b"x" * 80), now=START)
    assert log.active.log_path != old
    assert disk.is_durable(old)
