"""The seam keeps its promises on the real disk."""

import os
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from kohort.storage.disk import FolderInUse, RealDisk, SyncFailed
from kohort.storage.log_config import LogConfig
from kohort.storage.log_directory import LogDirectory
from kohort.storage.syncfs import SyncChooser, file_system_of
from tests.storage.support import START, a_batch


def test_appends_can_be_read_at_once_and_cut(tmp_path: Path) -> None:
    disk = RealDisk()
    file = disk.open(f"{tmp_path}/f", create=True)
    file.append(b"hello ")
    file.append(memoryview(b"world"))
    assert file.pread(100, 6) == b"world"
    file.truncate(5)
    file.append(b"!")
    assert disk.read_file(f"{tmp_path}/f") == b"hello!"
    assert file.size_bytes() == 6
    file.close()


def test_a_file_stays_open_for_whoever_retains_it(tmp_path: Path) -> None:
    file = RealDisk().open(f"{tmp_path}/f", create=True)
    file.append(b"bytes")
    file.retain()
    file.close()
    assert file.pread(5, 0) == b"bytes"
    file.close()
    with pytest.raises(ValueError, match="is closed"):
        file.close()
    with pytest.raises(ValueError, match="is closed"):
        file.sync()


def test_a_failed_sync_is_never_tried_again(tmp_path: Path) -> None:
    file = RealDisk().open(f"{tmp_path}/f", create=True)
    file.distrust(OSError(5, "Input/output error"))
    with pytest.raises(SyncFailed, match=r"an earlier sync of .* failed"):
        file.sync()
    file.close()


def test_a_failed_sync_stays_failed_when_the_whole_disk_is_synced(tmp_path: Path) -> None:
    disk = RealDisk()
    lock = disk.lock(f"{tmp_path}/.lock")
    files = [disk.open(f"{tmp_path}/{i}", create=True) for i in range(10)]
    for _ in range(3):
        for file in files:
            file.append(b"x" * 100)
        assert disk.plan_sync(files)() is None
    files[4].distrust(OSError(5, "Input/output error"))
    results = disk.plan_sync(files)()
    assert results is not None
    assert [number for number, error in enumerate(results) if error] == [4]
    for file in files:
        file.close()
    lock.release()


def test_the_cheaper_way_to_sync_is_taken_and_the_other_tried_again() -> None:
    chooser = SyncChooser()
    chooser._syncfs, chooser._loaded = (lambda fd: None), True
    chooser._file_seconds, chooser._whole_seconds = 0.001, 0.0005
    assert not chooser.prefers_whole(2), "not worth it"
    assert chooser.prefers_whole(50)
    chooser._whole_seconds = 0.05  # somebody else writes a lot
    turns = 0
    while not chooser.prefers_whole(20):
        turns += 1
    assert 100 < turns < 1000


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    disk = RealDisk()
    disk.write_file(f"{tmp_path}/f", b"old")
    disk.write_file(f"{tmp_path}/f", b"new")
    assert disk.read_file(f"{tmp_path}/f") == b"new"
    assert [info.name for info in disk.scan_folder(str(tmp_path))] == ["f"]


def test_folders_are_made_scanned_and_removed(tmp_path: Path) -> None:
    disk = RealDisk()
    disk.make_folder(f"{tmp_path}/t-0")
    disk.make_folder(f"{tmp_path}/t-0")
    (info,) = disk.scan_folder(str(tmp_path))
    assert (info.name, info.is_folder) == ("t-0", True)
    disk.remove_folder(f"{tmp_path}/t-0")
    assert disk.scan_folder(str(tmp_path)) == []
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        disk.make_folder(f"{tmp_path}/file")


HOLD = """
import sys
from kohort.storage.disk import RealDisk
from kohort.storage.log_directory import LogDirectory
directory = LogDirectory.open(RealDisk(), sys.argv[1])
print("held", flush=True)
sys.stdin.readline()
directory.close()
"""


def test_a_second_process_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with first:
        assert first.stdout is not None
        assert first.stdin is not None
        assert first.stdout.readline() == "held\n"
        with pytest.raises(FolderInUse, match=rf"in use by another process \(pid {first.pid}\): stop that one"):
            LogDirectory.open(RealDisk(), str(tmp_path))
        first.stdin.write("\n")
    assert first.returncode == 0
    LogDirectory.open(RealDisk(), str(tmp_path)).close()


def test_a_second_broker_in_the_same_process_is_refused_too(tmp_path: Path) -> None:
    directory = LogDirectory.open(RealDisk(), str(tmp_path))
    with pytest.raises(FolderInUse):
        LogDirectory.open(RealDisk(), str(tmp_path))
    directory.close()


def test_files_and_folders_are_for_their_owner_only(tmp_path: Path) -> None:
    usual = os.umask(0o022)
    try:
        directory = LogDirectory.open(RealDisk(), str(tmp_path), lambda _: LogConfig(segment_bytes=500))
        log = directory.log("t", 0, topic_id=b"i" * 16)
        for _ in range(20):
            log.append(a_batch(3), now=START)
        directory.close()
    finally:
        os.umask(usual)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes.pop("t-0") == 0o700
    assert len(modes) > 10
    assert {name: oct(mode) for name, mode in modes.items() if mode != 0o600} == {}


def test_a_folder_of_an_older_release_keeps_its_modes_and_is_read(tmp_path: Path) -> None:
    directory = LogDirectory.open(RealDisk(), str(tmp_path))
    directory.log("t", 0).append(a_batch(3), now=START)
    directory.close()
    for path in tmp_path.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    again = LogDirectory.open(RealDisk(), str(tmp_path))
    assert again.log("t", 0).log_end_offset == 3
    again.close()
    assert stat.S_IMODE((tmp_path / "t-0").stat().st_mode) == 0o755


def test_the_whole_disk_is_synced_at_once_only_where_that_is_known_to_wait(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "21 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
        "30 21 0:44 / /mnt/s3 rw,nosuid shared:7 - fuse.s3fs s3fs rw,user_id=0\n"
        "31 21 0:45 / /with\\040space rw - xfs /dev/vdb rw\n"
    )

    def found(major: int, minor: int) -> str | None:
        return file_system_of(os.makedev(major, minor), str(mounts))

    assert [found(254, 0), found(0, 44), found(0, 45), found(9, 9)] == ["ext4", "fuse.s3fs", "xfs", None]
    assert file_system_of(os.makedev(254, 0), str(tmp_path / "nowhere")) is None


def test_files_on_a_file_system_that_is_not_trusted_are_synced_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.storage.disk.is_trusted", lambda _: False)
    disk = RealDisk()
    lock = disk.lock(f"{tmp_path}/.lock")
    files = [disk.open(f"{tmp_path}/{i}", create=True) for i in range(10)]
    for file in files:
        file.append(b"x")
    plan = disk.plan_sync(files)
    assert isinstance(plan, partial)
    assert plan.func == disk._sync_singly
    assert plan() is None
    for file in files:
        file.close()
    lock.release()
