"""A disk that is slow or full when a test says so, around a disk in memory or the real one."""

from __future__ import annotations

import errno
import os
from threading import Event

from kohort.storage.disk import Buffer, Disk, File, FileInfo, FolderLock

NOT_SLOW_S = 0.0


class FaultyDisk(Disk):
    def __init__(self, inner: Disk) -> None:
        self.inner = inner
        self.is_full = False
        self._sync_s = NOT_SLOW_S
        self._is_quick_again = Event()

    @property
    def sync_s(self) -> float:
        """How long each sync takes, at least."""
        return self._sync_s

    @sync_s.setter
    def sync_s(self, seconds: float) -> None:
        self._sync_s = seconds
        self._is_quick_again.set()  # syncs that wait go on, and those to come wait for the new time
        if seconds:
            self._is_quick_again = Event()

    def wait_for_sync(self) -> None:
        if self._sync_s:
            self._is_quick_again.wait(self._sync_s)

    def check_room(self, path: str) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:
        return FaultyFile(self.inner.open(path, create=create, truncate=truncate), self)

    def scan_folder(self, path: str) -> list[FileInfo]:
        return self.inner.scan_folder(path)

    def make_folder(self, path: str) -> None:
        self.inner.make_folder(path)

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
        return size, 0 if self.is_full else free


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
        self._disk.wait_for_sync()
        self._inner.sync()

    def _close(self) -> None:
        self._inner.close()
