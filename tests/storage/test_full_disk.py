"""A disk that is full while a log is written: what was appended is answered, and no file is left half written."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from kohort.storage.disk import File, RealDisk
from kohort.storage.errors import LogFailed
from kohort.storage.log_config import LogConfig
from kohort.storage.partition_log import PartitionLog
from tests.simulation.disk import SimulatedDisk
from tests.storage.support import START, a_batch, records_of

TOPIC_ID = b"t" * 16


def a_log(disk: SimulatedDisk) -> PartitionLog:
    disk.make_folder("/data")
    return PartitionLog.open(disk, "/data/t-0", LogConfig(), topic_id=TOPIC_ID)


def test_an_append_whose_leader_epoch_cannot_be_saved_is_answered() -> None:
    disk = SimulatedDisk()
    log = a_log(disk)
    disk.fail_next("append", "leader-epoch-checkpoint", errno.ENOSPC)
    assert log.append(a_batch(3), now=START).first_offset == 0
    assert log.append(a_batch(3), now=START).first_offset == 3
    assert "/data/t-0/leader-epoch-checkpoint" not in disk.files()
    log.close()
    assert disk.files()["/data/t-0/leader-epoch-checkpoint"] == b"0\n1\n0 0\n"
    assert len(records_of(PartitionLog.open(disk, "/data/t-0", log.config, clean=True))) == 6


def test_partition_metadata_is_whole_or_missing_and_written_when_there_is_room() -> None:
    disk = SimulatedDisk()
    log = a_log(disk)
    disk.fail_next("append", "partition.metadata", errno.ENOSPC)
    with pytest.raises(LogFailed, match="nothing was appended"):
        log.append(a_batch(3), now=START)
    assert "/data/t-0/partition.metadata" not in disk.files()
    assert log.append(a_batch(3), now=START).first_offset == 0
    log.flush()
    assert disk.is_durable("/data/t-0/partition.metadata")
    log.abandon()
    assert PartitionLog.open(disk, "/data/t-0", log.config).topic_id == TOPIC_ID


class CountingDisk(RealDisk):
    """The real disk, which counts open files and has no room for time indexes while `is_full`."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[File] = []
        self.is_full = False

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:
        if self.is_full and path.endswith(".timeindex"):
            raise OSError(errno.ENOSPC, "No space left on device")
        file = super().open(path, create=create, truncate=truncate)
        self.opened.append(file)
        return file

    def open_paths(self) -> list[str]:
        return [Path(file.path).name for file in self.opened if file.fileno() >= 0]


def test_a_roll_that_cannot_save_the_indexes_leaves_nothing_open_and_nothing_half_written(tmp_path: Path) -> None:
    disk = CountingDisk()
    log = PartitionLog.open(disk, str(tmp_path / "t-0"), LogConfig(segment_bytes=400))
    log.append(a_batch(3), now=START)
    log.flush()
    while not log.active.must_roll(len(a_batch(3)), START, log.log_end_offset, START):
        log.append(a_batch(3), now=START)
    end = log.log_end_offset
    log.flush()
    before = disk.open_paths()
    disk.is_full = True
    for _ in range(3):
        with pytest.raises(LogFailed, match="nothing was appended"):
            log.append(a_batch(3), now=START)
    assert disk.open_paths() == before
    assert [path.name for path in tmp_path.rglob("*index")] == []
    disk.is_full = False
    assert log.append(a_batch(3), now=START).first_offset == end
    assert len(log.segments) == 2
    log.close()
    assert len(records_of(PartitionLog.open(RealDisk(), log.folder, log.config, clean=True))) == end + 3
