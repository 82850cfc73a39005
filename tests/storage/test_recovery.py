"""What a crash may leave in a partition's folder, and what opening makes of it."""

import shutil
import struct
from pathlib import Path

import pytest

from kohort.storage.disk import RealDisk
from kohort.storage.errors import LogCorrupt, LogFailed
from kohort.storage.log_config import LogConfig
from kohort.storage.partition_log import PartitionLog
from kohort.storage.segment import Segment
from tests.simulation.disk import SimulatedDisk
from tests.storage.support import START, a_batch, a_log, log_bytes, records_of, reopened


def filled(tmp_path: Path, **settings: object) -> PartitionLog:
    """Six segments of three batches each, closed."""
    log = a_log(tmp_path / "t-0", disk=None, segment_bytes=3 * len(a_batch(2)), **settings)
    for _ in range(18):
        log.append(a_batch(2), now=START)
    log.close()
    assert [segment.base_offset for segment in log.segments] == [0, 6, 12, 18, 24, 30]
    return log


def names(log: PartitionLog) -> set[str]:
    return {path.name for path in Path(log.folder).iterdir() if path.name[0] == "0"}


def expected_names(*bases: int) -> set[str]:
    return {f"{base:020d}{kind}" for base in bases for kind in (".log", ".index", ".timeindex")}


@pytest.mark.parametrize("clean", [True, False])
def test_deleted_and_half_made_files_are_removed(tmp_path: Path, clean: bool) -> None:
    log = filled(tmp_path)
    folder = Path(log.folder)
    for name in (
        "00000000000000000000.log.deleted",
        "00000000000000000006.log.cleaned",
        "00000000000000000006.index.cleaned",
    ):
        (folder / name).write_bytes(b"anything")
    again = reopened(log, clean=clean)
    assert names(again) >= expected_names(0, 6, 12, 18, 24)
    assert not any(name.endswith((".deleted", ".cleaned")) for name in names(again))
    assert len(records_of(again)) == 36
    again.abandon()


def test_indexes_without_a_log_are_removed(tmp_path: Path) -> None:
    log = filled(tmp_path)
    (Path(log.folder) / "00000000000000000099.index").write_bytes(b"")
    again = reopened(log, clean=True)
    assert names(again) == expected_names(0, 6, 12, 18, 24, 30)
    again.abandon()


def compacted_output(log: PartitionLog, suffix: str) -> None:
    """What compaction makes of the segments 6 and 12: only the last batch, at offset 16."""
    output = Segment.create(RealDisk(), log.folder, 6, log.config, suffix)
    for header, chunk, at in log.segments[2].batches():
        if header.base_offset == 16:
            output.append(chunk[at : at + header.size_bytes], [header])
    output.finish()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("gone", [(), (6,), (6, 12)], ids=["none", "one", "both"])
def test_a_swap_that_was_interrupted_is_finished(tmp_path: Path, gone: tuple[int, ...], clean: bool) -> None:
    log = filled(tmp_path, cleanup_policy="compact")
    compacted_output(log, ".swap")
    for base in gone:
        for kind in (".log", ".index", ".timeindex"):
            path = Path(log.folder) / f"{base:020d}{kind}"
            path.rename(f"{path}.deleted")
    again = reopened(log, clean=clean, recovery_point=36)
    assert names(again) == expected_names(0, 6, 18, 24, 30)
    offsets = [record.offset for record in records_of(again)]
    assert offsets == [*range(6), 16, 17, *range(18, 36)]
    again.abandon()


def test_output_beside_a_half_made_one_is_not_believed(tmp_path: Path) -> None:
    log = filled(tmp_path, cleanup_policy="compact")
    compacted_output(log, ".swap")
    (Path(log.folder) / "00000000000000000000.log.cleaned").write_bytes(b"")
    again = reopened(log, recovery_point=36)
    assert len(records_of(again)) == 36
    again.abandon()


def test_holes_of_compaction_are_fine_below_the_recovery_point_and_where_none_is_known(tmp_path: Path) -> None:
    log = filled(tmp_path, cleanup_policy="compact")
    compacted_output(log, ".swap")
    reopened(log, recovery_point=36).close()
    for point in (None, 36, 18, 16):
        again = reopened(log, recovery_point=point)
        assert (again.log_end_offset, len(records_of(again))) == (36, 26)
        again.abandon()
    with pytest.raises(LogCorrupt, match="offsets 6 to 15 are missing"):
        reopened(log, recovery_point=6)


def test_a_hole_in_an_ordinary_log_is_refused_inside_a_segment_and_cut_between_two(tmp_path: Path) -> None:
    log = filled(tmp_path, cleanup_policy="compact")
    compacted_output(log, ".swap")
    reopened(log, recovery_point=36).close()
    with pytest.raises(LogCorrupt, match="offsets 6 to 15 are missing"):
        PartitionLog.open(RealDisk(), log.folder, LogConfig())
    Path(log.folder, "00000000000000000006.log").unlink()
    again = PartitionLog.open(RealDisk(), log.folder, LogConfig(), recovery_point=3)
    assert again.log_end_offset == 6
    again.abandon()


def test_a_log_that_was_compacted_once_may_have_holes_for_ever(tmp_path: Path) -> None:
    log = filled(tmp_path, cleanup_policy="compact")
    compacted_output(log, ".swap")
    reopened(log, recovery_point=36).close()
    again = PartitionLog.open(RealDisk(), log.folder, LogConfig(), cleaned_up_to=18)
    assert len(records_of(again)) == 26
    again.abandon()


def test_snapshots_of_producers_behind_the_end_are_removed(tmp_path: Path) -> None:
    log = filled(tmp_path)
    folder = Path(log.folder)
    for offset in (6, 36, 37):
        (folder / f"{offset:020d}.snapshot").write_bytes(b"")
    again = reopened(log)
    assert sorted(path.name for path in folder.glob("*.snapshot")) == [f"{o:020d}.snapshot" for o in (6, 36)]
    again.truncate_to(20)
    assert sorted(path.name for path in folder.glob("*.snapshot")) == [f"{6:020d}.snapshot"]
    again.abandon()


def test_aborted_transactions_behind_the_cut_are_forgotten(tmp_path: Path) -> None:
    log = filled(tmp_path)
    path = Path(log.folder) / "00000000000000000012.txnindex"
    aborted = [struct.pack(">hqqqq", 0, 7, first, first + 1, first) for first in (12, 14, 16)]
    path.write_bytes(b"".join(aborted))
    again = reopened(log, clean=True)
    again.truncate_to(15)
    assert path.read_bytes() == aborted[0]
    again.close()


def test_an_empty_folder_is_an_empty_log(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    log = a_log(tmp_path / "t-0")
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert log.append(a_batch(), now=START).first_offset == 0
    log.close()


def test_recovery_of_a_recovered_log_changes_nothing(tmp_path: Path) -> None:
    log = filled(tmp_path)
    again = reopened(log)
    again.close()
    shutil.copytree(log.folder, tmp_path / "copy")
    once_more = reopened(log)
    once_more.close()
    for path in (tmp_path / "copy").iterdir():
        assert path.read_bytes() == (Path(log.folder) / path.name).read_bytes()


def test_after_a_failed_sync_the_next_start_writes_anew_what_it_can_read() -> None:
    disk = SimulatedDisk(seed=11)
    disk.make_folder("/data")
    disk.sync_folder("/")
    log = a_log("/data/t-0", disk=disk)
    log.append(a_batch(2), now=START)
    log.flush()
    log.append(a_batch(2), now=START)
    disk.fail_next("sync", ".log")
    with pytest.raises(LogFailed):
        log.flush()
    shown = log_bytes(log)

    disk = disk.after_kill()
    log = reopened(log, recovery_point=2, disk=disk)
    log.flush()
    assert log_bytes(log) == shown
    assert "/data/t-0/kohort-sync-failed" not in disk.files()

    disk = disk.after_power_loss()
    log = reopened(log, recovery_point=4, disk=disk)
    assert log_bytes(log) == shown, "it is on the medium now"
