"""A disk that is slow or full when a test says so, around a disk in memory or the real one. See disk_faults.py."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from kohort.storage.disk import Buffer, Disk, File, FileInfo, FolderLock

if TYPE_CHECKING:
    from kohort.testing.disk_faults import FullDisk, SlowDisk


class FaultyDisk(Disk):
    """The broker's threads read the faults while a test changes them: each change is a new tuple."""

    def __init__(self, inner: Disk) -> None:
        self.inner = inner
        self.slow: tuple[SlowDisk, ...] = ()
        self.full: tuple[FullDisk, ...] = ()

    def wait_for_sync(self, path: str) -> None:
        for fault in self.slow:
            fault.hold(path)

    def check_room(self, path: str) -> None:
        if any(fault.refuses(path) for fault in self.full):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:
        return FaultyFile(self.inner.open(path, create=create, truncate=truncate), self)

    def scan_folder(self, path: str) -> list[FileInfo]:
        return self.inner.scan_folder(path)

    def make_folder(self, path: str) -> bool:
        return self.inner.make_folder(path)

    def remove_folder(self, path: str) -> None:
        self.inner.remove_folder(path)

    def rename(self, source: str, target: str) -> None:
        self.inner.rename(source, target)

    def unlink(self, path: str) -> None:
        self.inner.unlink(path)

    def sync_folder(self, path: str) -> None:
        self.inner.sync_folder(path)

    def lock(self, path: str) -> FolderLock:
        return self.inner.lock(path)

    def space(self, path: str) -> tuple[int, int]:
        size, free = self.inner.space(path)
        return size, 0 if any(fault.concerns_all for fault in self.full) else free


class FaultyFile(File):
    __slots__ = ("_disk", "_inner")

    def __init__(self, inner: File, disk: FaultyDisk) -> None:
        super().__init__(inner.path, inner.device)
        self._inner = inner
        self._disk = disk

    def append(self, data: Buffer) -> None:
        self._disk.check_room(self.path)
        self._inner.append(data)

    def pread(self, size_bytes: int, position: int) -> bytes:
        return self._inner.pread(size_bytes, position)

    def truncate(self, size_bytes: int) -> None:
        self._inner.truncate(size_bytes)

    def size_bytes(self) -> int:
        return self._inner.size_bytes()

    def is_removed(self) -> bool:
        return self._inner.is_removed()

    def fileno(self) -> int:
        return self._inner.fileno()

    def _sync(self) -> None:
        self._disk.wait_for_sync(self.path)
        self._inner.sync()

    def _close(self) -> None:
        self._inner.close()
