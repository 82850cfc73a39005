"""The data folder: fast after a clean stop, careful after a crash, and never silent about loss."""

import logging
import os
import re
import shutil
from pathlib import Path

import pytest

from kohort.storage.disk import RealDisk
from kohort.storage.errors import LogCorrupt, LogFailed, StorageError
from kohort.storage.flush import TicketSync
from kohort.storage.log_config import LogConfig
from kohort.storage.log_directory import LogDirectory
from tests.simulation.disk import SimulatedDisk
from tests.storage.support import START, CountingDisk, a_batch, records_of

SMALL = LogConfig(segment_bytes=20_000)


def opened(path: Path, *, disk: RealDisk | None = None, config: LogConfig = SMALL) -> LogDirectory:
    path.mkdir(exist_ok=True)
    return LogDirectory.open(disk or RealDisk(), str(path), lambda _: config, now=START)


def fill(directory: LogDirectory, *, topics: int = 3, batches: int = 200) -> None:
    for number in range(topics):
        log = directory.log(f"topic-{number}", 0, topic_id=bytes([number]) * 16)
        for i in range(batches):
            log.append(a_batch(3, value=b"v%d" % i), now=START)


def test_a_clean_stop_leaves_what_kafka_would(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    fill(directory, topics=2)
    directory.logs["topic-0", 0].advance_log_start(5)
    directory.logs["topic-1", 0].cleaned_up_to = 7
    directory.close()
    read = {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()}
    assert read["recovery-point-offset-checkpoint"] == "0\n2\ntopic-0 0 600\ntopic-1 0 600\n"
    assert read["replication-offset-checkpoint"] == "0\n2\ntopic-0 0 600\ntopic-1 0 600\n"
    assert read["log-start-offset-checkpoint"] == "0\n1\ntopic-0 0 5\n"
    assert read["cleaner-offset-checkpoint"] == "0\n1\ntopic-1 0 7\n"
    assert read[".kafka_cleanshutdown"] == '{"version":0,"brokerEpoch":-1}'
    names = {path.name for path in (tmp_path / "topic-1-0").iterdir()}
    assert {"partition.metadata", "leader-epoch-checkpoint", "00000000000000000000.index"} <= names
    again = opened(tmp_path)
    assert again.logs["topic-0", 0].log_start_offset == 5
    assert again.logs["topic-1", 0].cleaned_up_to == 7
    assert again.logs["topic-1", 0].topic_id == b"\x01" * 16
    again.close()


def test_after_a_clean_stop_almost_nothing_is_read(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    fill(directory)
    total_bytes = sum(log.size_bytes for log in directory.logs.values())
    directory.close()
    disk = CountingDisk()
    again = opened(tmp_path, disk=disk)
    assert again.was_clean
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    assert {log.log_end_offset for log in again.logs.values()} == {600}
    assert total_bytes > 60_000
    assert disk.bytes_read < 3 * 10_000, "the indexes of the last segment and the last batches"
    again.abandon()

    disk = CountingDisk()
    crashed = opened(tmp_path, disk=disk)
    assert not crashed.was_clean
    last_segments = sum(log.active.size_bytes for log in crashed.logs.values())
    assert last_segments < disk.bytes_read < total_bytes, "from the recovery point on, no further"
    crashed.close()


def test_opening_many_empty_partitions_takes_few_operations(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    for number in range(50):
        directory.log("__consumer_offsets", number).create(START)
    directory.close()
    disk = CountingDisk()
    again = opened(tmp_path, disk=disk)
    assert len(again.logs) == 50
    assert len(disk.operations) <= 50 + 10, "one look into each folder"
    disk.operations.clear()
    for number in range(50):
        again.log("another", number)
    assert disk.operations == []
    again.close()


def test_after_a_crash_everything_is_there_and_synced_before_it_is_shown(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    fill(directory)
    directory.abandon()
    again = opened(tmp_path)
    for log in again.logs.values():
        assert log.log_end_offset == log.recovery_point == log.checkpointed_recovery_point == 600
        assert len(records_of(log)) == 600
    again.close()


def test_a_damaged_log_is_listed_and_the_others_open(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    directory = opened(tmp_path, config=LogConfig())
    fill(directory)
    directory.checkpoint()
    directory.flush()
    directory.checkpoint()
    directory.abandon()
    victim = tmp_path / "topic-1-0" / "00000000000000000000.log"
    content = bytearray(victim.read_bytes())
    content[3000] ^= 4
    victim.write_bytes(content)
    again = opened(tmp_path, config=LogConfig())
    assert set(again.failed) == {("topic-1", 0)}
    assert "Restore the folder from a backup" in again.failed["topic-1", 0]
    assert "topic-1-0 is not available" in caplog.text
    assert victim.read_bytes() == content
    with pytest.raises(LogFailed, match="Restore"):
        again.log("topic-1", 0)
    again.logs["topic-0", 0].append(a_batch(), now=START)
    with pytest.raises(StorageError, match="no clean stop"):
        again.close()
    once_more = opened(tmp_path, config=LogConfig())
    assert set(once_more.failed) == {("topic-1", 0)}, "still known, still refused"
    assert once_more.logs["topic-0", 0].log_end_offset == 601
    once_more.abandon()

    # What the message says to do, helps.
    match = re.search(r"batch at byte (\d+)", once_more.failed["topic-1", 0])
    assert match
    os.truncate(victim, int(match[1]))
    checkpoint = tmp_path / "recovery-point-offset-checkpoint"
    lines = [line for line in checkpoint.read_text().splitlines() if not line.startswith("topic-1 ")]
    checkpoint.write_text("\n".join(["0", str(len(lines) - 2), *lines[2:]]) + "\n")
    given_up = opened(tmp_path, config=LogConfig())
    assert not given_up.failed
    assert 0 < given_up.logs["topic-1", 0].log_end_offset < 600
    given_up.close()


def test_a_folder_that_vanished_is_not_taken_for_an_empty_log(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    fill(directory)
    directory.close()
    for path in (tmp_path / "topic-2-0").iterdir():
        path.unlink()
    (tmp_path / "topic-2-0").rmdir()
    again = opened(tmp_path)
    assert "its folder is gone, with offsets up to 600" in again.failed["topic-2", 0]
    again.abandon()


def test_deleted_partitions_are_gone_for_good(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    fill(directory)
    directory.flush()
    directory.checkpoint()
    doomed = directory.logs["topic-1", 0]
    directory.delete([("topic-1", 0), ("never", 7)])
    with pytest.raises(LogFailed, match="was deleted"):
        doomed.append(a_batch(), now=START)
    assert directory.log("topic-1", 0).log_end_offset == 0
    directory.close()
    (tmp_path / "topic-9-0.00112233445566778899aabbccddeeff-delete").mkdir()  # a crash came in between
    again = opened(tmp_path)
    assert not again.failed
    assert set(again.logs) == {("topic-0", 0), ("topic-2", 0)}
    assert not list(tmp_path.glob("*-delete"))
    again.close()


def test_a_truncated_log_is_not_missed_after_a_crash(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    fill(directory)
    directory.flush()
    directory.checkpoint()
    directory.truncate("topic-0", 0, 300)
    assert directory.logs["topic-0", 0].log_end_offset == 300
    directory.abandon()
    again = opened(tmp_path)
    assert not again.failed
    assert again.logs["topic-0", 0].log_end_offset == 300
    again.close()


def test_a_checkpoint_that_was_overtaken_is_not_written(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    fill(directory)
    directory.flush()
    old = directory.plan_checkpoint()
    directory.truncate("topic-0", 0, 300)
    old.write()
    directory.checkpoint_written(old)
    assert directory.logs["topic-0", 0].checkpointed_recovery_point == 0
    directory.abandon()
    again = opened(tmp_path)
    assert not again.failed
    assert again.logs["topic-0", 0].log_end_offset == 300
    again.close()


def test_a_log_whose_records_were_all_deleted_keeps_its_offsets(tmp_path: Path) -> None:
    directory = opened(tmp_path)
    fill(directory, topics=1)
    log = directory.logs["topic-0", 0]
    log.advance_log_start(600)
    log.delete_segments(list(log.segments), now=START)
    directory.close()
    again = opened(tmp_path)
    assert again.logs["topic-0", 0].append(a_batch(), now=START).first_offset == 600
    again.close()


def test_a_disk_that_fails_at_the_end_leaves_no_marker() -> None:
    disk = SimulatedDisk(seed=3)
    disk.make_folder("/data")
    directory = LogDirectory.open(disk, "/data")
    directory.log("t", 0).append(a_batch(), now=START)
    disk.fail_next("sync", ".log")
    with pytest.raises(StorageError, match="no clean stop"):
        directory.close()
    assert "/data/.kafka_cleanshutdown" not in disk.files()


def failing_once(operation: str) -> tuple[SimulatedDisk, LogDirectory]:
    """Two records synced, two more appended, and then the disk failed once."""
    disk = SimulatedDisk(seed=4)
    disk.make_folder("/data")
    disk.sync_folder("/")
    directory = LogDirectory.open(disk, "/data")
    log = directory.log("t", 0, topic_id=bytes(16))
    log.append(a_batch(2), now=START)
    log.flush()
    if operation == "sync":
        log.append(a_batch(2), now=START)
    disk.fail_next(operation, ".log")
    with pytest.raises(LogFailed):
        log.append(a_batch(2), now=START) if operation == "append" else log.flush()
    return disk, directory


@pytest.mark.parametrize(("operation", "end"), [("sync", 4), ("append", 2)])
def test_a_failed_log_can_be_opened_again_when_the_disk_is_fine(operation: str, end: int) -> None:
    disk, directory = failing_once(operation)
    stale = directory.logs["t", 0]
    log = directory.reopen("t", 0, START)
    assert directory.log("t", 0) is log
    assert log.log_end_offset == log.recovery_point == end
    assert log.append(a_batch(), now=START).first_offset == end
    log.flush()
    with pytest.raises(LogFailed):
        stale.append(a_batch(), now=START)
    again = LogDirectory.open(disk.after_power_loss(), "/data")
    assert len(records_of(again.logs["t", 0])) == end + 1, "and a power loss takes none of it"
    again.close()


def test_a_log_that_cannot_be_opened_again_stays_unavailable_until_it_can() -> None:
    disk, directory = failing_once("sync")
    disk.fail_next("sync", ".log.cleaned")
    with pytest.raises(OSError, match="error"):
        directory.reopen("t", 0, START)
    with pytest.raises(LogFailed):
        directory.log("t", 0)
    directory.checkpoint()
    assert disk.files()["/data/recovery-point-offset-checkpoint"] == b"0\n1\nt 0 2\n"
    assert directory.reopen("t", 0, START).log_end_offset == 4
    assert not directory.failed
    directory.close()


def test_a_damaged_log_can_be_opened_again_after_a_repair(tmp_path: Path) -> None:
    directory = opened(tmp_path, config=LogConfig())
    fill(directory, topics=1)
    directory.flush()
    directory.checkpoint()
    directory.abandon()
    victim = tmp_path / "topic-0-0" / "00000000000000000000.log"
    good = victim.read_bytes()
    victim.write_bytes(good[:1000])
    again = opened(tmp_path, config=LogConfig())
    with pytest.raises(LogCorrupt):
        again.reopen("topic-0", 0, START)
    victim.write_bytes(good)
    assert again.reopen("topic-0", 0, START).log_end_offset == 600
    again.close()


@pytest.mark.parametrize("removed", ["the data folder", "the partition's folder"])
def test_a_log_whose_files_were_removed_takes_nothing_more(tmp_path: Path, removed: str) -> None:
    directory = opened(tmp_path / "data")
    log = directory.log("t", 0)
    log.append(a_batch(3), now=START)
    log.flush(START)
    shutil.rmtree(tmp_path / "data" if removed == "the data folder" else tmp_path / "data" / "t-0")
    log.append(a_batch(3), now=START)
    with pytest.raises(LogFailed, match="its files were removed while the broker was running"):
        log.flush(START + 1000)  # that is how often it looks
    with pytest.raises(LogFailed, match="were removed"):
        log.append(a_batch(3), now=START)
    with pytest.raises(LogCorrupt, match="its folder is gone, with offsets up to 3"):
        directory.reopen("t", 0)
    with pytest.raises(LogFailed, match="its folder is gone"):
        directory.log("t", 0)
    directory.abandon()


def test_an_append_sees_within_a_second_that_the_files_were_removed(tmp_path: Path) -> None:
    """Nobody may sync the log for a long time."""
    directory = opened(tmp_path / "data")
    log = directory.log("t", 0)
    log.append(a_batch(3), now=START)
    shutil.rmtree(tmp_path / "data" / "t-0")
    with pytest.raises(LogFailed, match="its files were removed while the broker was running"):
        log.append(a_batch(3), now=START + 1000)
    directory.abandon()


def test_segments_that_retention_removes_do_not_fail_the_log(tmp_path: Path) -> None:
    directory = opened(tmp_path, config=LogConfig(segment_bytes=500, file_delete_delay_ms=0))
    log = directory.log("t", 0)
    for _ in range(20):
        log.append(a_batch(3), now=START)
    ticket = log.begin_flush()
    assert ticket is not None
    log.delete_segments(log.segments[:-1], START)
    log.purge_deleted(START)
    TicketSync(log.disk, [ticket]).run()
    log.end_flush(ticket)
    assert log.failed is None
    directory.close()
