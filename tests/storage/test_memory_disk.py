"""The disk in memory keeps what was synced, and a crash loses the rest."""

import errno

import pytest

from kohort.storage.disk import FolderInUse
from kohort.storage.memory_disk import MemoryDisk


def a_disk_with(content: bytes) -> MemoryDisk:
    """A disk with one file that is durable, d/f."""
    disk = MemoryDisk()
    disk.make_folder("d")
    disk.sync_folder("")
    disk.write_file("d/f", content)
    return disk


def test_a_crash_keeps_what_was_synced_and_loses_the_rest() -> None:
    disk = a_disk_with(b"synced")
    file = disk.open("d/f")
    file.append(b" and not")
    assert disk.read_file("d/f") == b"synced and not"
    assert disk.after_crash().read_file("d/f") == b"synced"
    file.sync()
    assert disk.after_crash().read_file("d/f") == b"synced and not"


def test_a_name_survives_only_if_its_folder_was_synced() -> None:
    disk = a_disk_with(b"")
    disk.open("d/new", create=True).sync()
    disk.rename("d/f", "d/renamed")
    assert {each.name for each in disk.scan_folder("d")} == {"new", "renamed"}
    assert {each.name for each in disk.after_crash().scan_folder("d")} == {"f"}
    disk.sync_folder("d")
    assert {each.name for each in disk.after_crash().scan_folder("d")} == {"new", "renamed"}


def test_writes_to_the_disk_of_before_the_crash_change_nothing() -> None:
    disk = a_disk_with(b"synced")
    file = disk.open("d/f")
    after = disk.after_crash()
    file.append(b" late")
    file.sync()
    assert after.read_file("d/f") == b"synced"


def test_a_full_disk_takes_what_there_is_room_for() -> None:
    disk = a_disk_with(b"1234")
    disk.capacity_bytes = 6
    file = disk.open("d/f")
    with pytest.raises(OSError, match="No space left") as raised:
        file.append(b"5678")
    assert raised.value.errno == errno.ENOSPC
    assert disk.read_file("d/f") == b"123456"
    disk.unlink("d/f")
    assert disk.space("d") == (6, 6)


def test_a_file_without_a_name_can_still_be_read() -> None:
    disk = a_disk_with(b"content")
    file = disk.open("d/f")
    disk.unlink("d/f")
    assert file.pread(7, 0) == b"content"
    with pytest.raises(FileNotFoundError):
        disk.open("d/f")


def test_a_lock_is_held_once_and_does_not_outlive_a_crash() -> None:
    disk = a_disk_with(b"")
    disk.lock("d/.lock")
    with pytest.raises(FolderInUse):
        disk.lock("d/.lock")
    disk.after_crash().lock("d/.lock").release()
