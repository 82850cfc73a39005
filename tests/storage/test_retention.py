"""Retention: whole segments go, oldest first, by age, by size, or because they lie below the start."""

from dataclasses import replace

import pytest

from kohort.protocol.record_batch import build_batch
from kohort.storage.log_config import LogConfig
from kohort.storage.partition_log import PartitionLog
from kohort.storage.retention import apply_retention
from tests.simulation.disk import SimulatedDisk

DAY_MS = 86_400_000
BY_AGE = LogConfig(retention_ms=7 * DAY_MS, segment_ms=10**15, file_delete_delay_ms=60_000)
FOLDER = "data/orders-0"


def a_log(config: LogConfig, *timestamps: int) -> PartitionLog:
    """One segment of two 1,067-byte batches per timestamp; the last one is active."""
    disk = SimulatedDisk()
    disk.make_folder("data")
    log = PartitionLog.open(disk, FOLDER, config)
    for number, timestamp in enumerate(timestamps):
        if number:
            log.roll(timestamp)
        for _ in range(2):
            log.append(build_batch([(None, b"v" * 997)], timestamp=timestamp), now=timestamp)
    log.flush()
    return log


def bases(log: PartitionLog) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_segments_go_when_their_newest_record_is_too_old() -> None:
    log = a_log(BY_AGE, 1 * DAY_MS, 2 * DAY_MS, 3 * DAY_MS)
    apply_retention(log, 9 * DAY_MS)
    assert bases(log) == [2, 4]
    apply_retention(log, 9 * DAY_MS + 1)
    assert (bases(log), log.log_start_offset) == ([4], 4)


def test_a_young_segment_protects_the_older_looking_ones_behind_it() -> None:
    log = a_log(BY_AGE, 5 * DAY_MS, 1 * DAY_MS, 6 * DAY_MS)
    assert apply_retention(log, 9 * DAY_MS) == []


def test_the_active_segment_is_rolled_before_it_goes() -> None:
    log = a_log(BY_AGE, 1 * DAY_MS, 2 * DAY_MS)
    apply_retention(log, 30 * DAY_MS)
    assert (bases(log), log.log_start_offset, log.log_end_offset) == ([4], 4, 4)
    assert apply_retention(log, 60 * DAY_MS) == []  # an empty log has nothing to lose
    assert log.append(build_batch([(None, b"v")], timestamp=61 * DAY_MS), now=61 * DAY_MS).first_offset == 4


def test_without_a_limit_nothing_goes() -> None:
    log = a_log(replace(BY_AGE, retention_ms=-1), 1, 2)
    assert apply_retention(log, 10_000 * DAY_MS) == []


def test_the_oldest_go_while_the_rest_is_large_enough() -> None:
    size = 2_134
    for limit, left in ((4 * size, 4), (4 * size - 1, 4), (3 * size, 3), (3 * size - 1, 3), (size, 1)):
        log = a_log(LogConfig(retention_bytes=limit, retention_ms=-1, segment_ms=10**15), 1, 2, 3, 4)
        assert log.size_bytes == 4 * size
        apply_retention(log, 5)
        assert (limit, len(log.segments)) == (limit, left)
        assert log.log_end_offset == 8


def test_a_limit_of_no_bytes_empties_the_log() -> None:
    log = a_log(LogConfig(retention_bytes=0, retention_ms=-1, segment_ms=10**15), 1, 2)
    apply_retention(log, 5)
    assert (bases(log), log.size_bytes, log.log_start_offset) == ([4], 0, 4)


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_what_lies_below_the_log_start_goes_whatever_the_policy(policy: str) -> None:
    log = a_log(LogConfig(cleanup_policy=policy, segment_ms=10**15), 1, 2, 3)
    log.advance_log_start(3)
    apply_retention(log, 4)
    assert (bases(log), log.log_start_offset) == ([2, 4], 3)
    log.advance_log_start(6)
    apply_retention(log, 4)
    assert (bases(log), log.log_start_offset) == ([4], 6)


def test_a_compacted_log_loses_nothing_by_age_unless_it_also_deletes() -> None:
    compacted = a_log(replace(BY_AGE, cleanup_policy="compact"), 1, 2, 3)
    assert apply_retention(compacted, 90 * DAY_MS) == []
    both = a_log(replace(BY_AGE, cleanup_policy="compact,delete"), 1, 2, 3)
    assert len(apply_retention(both, 90 * DAY_MS)) == 3


def test_deleted_files_keep_their_bytes_for_the_delay_and_then_go() -> None:
    log = a_log(BY_AGE, 1 * DAY_MS, 20 * DAY_MS)
    now = 21 * DAY_MS
    apply_retention(log, now)

    def deleted() -> list[str]:
        return [info.name for info in log.disk.scan_folder(FOLDER) if info.name.endswith(".deleted")]

    assert f"{0:020d}.log.deleted" in deleted()
    log.purge_deleted(now + 59_999)
    assert deleted() != []
    log.purge_deleted(now + 60_000)
    assert deleted() == []


def test_retention_survives_a_restart() -> None:
    log = a_log(BY_AGE, 1 * DAY_MS, 20 * DAY_MS)
    apply_retention(log, 21 * DAY_MS)
    log.close()
    again = PartitionLog.open(log.disk, FOLDER, BY_AGE, clean=True)
    assert (bases(again), again.log_start_offset, again.log_end_offset) == ([2], 2, 4)
