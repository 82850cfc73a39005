"""A real disk whose small files (topics, settings) can be watched, and cannot be written while it is full."""

from __future__ import annotations

import errno

from kohort.storage.disk import Buffer, File, RealDisk


class FullDisk(RealDisk):
    """The real disk. It counts what is written to small files, and has no room for more of them while `is_full`."""

    is_full = False
    tears = False  # a part of what does not fit is written
    written_bytes = 0
    syncs = 0

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:
        file = super().open(path, create=create, truncate=truncate)
        return SmallFile(self, file) if ".json" in path else file


class SmallFile(File):
    def __init__(self, disk: FullDisk, file: File) -> None:
        super().__init__(file.path, file.device)
        self.disk = disk
        self.file = file

    def append(self, data: Buffer) -> None:
        if self.disk.is_full:
            if self.disk.tears:
                self.file.append(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        self.file.append(data)
        self.disk.written_bytes += len(data)

    def pread(self, size_bytes: int, position: int) -> bytes:
        return self.file.pread(size_bytes, position)

    def truncate(self, size_bytes: int) -> None:
        self.file.truncate(size_bytes)

    def size_bytes(self) -> int:
        return self.file.size_bytes()

    def fileno(self) -> int:
        return self.file.fileno()

    def _sync(self) -> None:
        self.disk.syncs += 1
        self.file.sync()

    def _close(self) -> None:
        self.file.close()
