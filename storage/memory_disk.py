"""A disk in memory, for tests: it knows what was synced, so that a crash can lose the rest.

- What was written can be read at once. It survives a crash only if a `sync` came after it.
- Creations, renames and removals survive only if a `sync_folder` of their folder came after them. Truncations survive.
- `after_crash()` is the disk that the next start finds. The old disk is dead: a thread that
  still writes to it changes nothing that survives.

Names are kept in one dict, and the names that would survive in another. `tests/simulation/disk.py` builds on this: its
disk crashes at any step, and what survives there is anything that a real disk may keep.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import RLock

from kohort.storage.disk import OUT_OF_SPACE, Buffer, Disk, File, FileInfo, FolderInUse, FolderLock

NEVER_FULL = 1 << 62
assert errno.ENOSPC in OUT_OF_SPACE


@dataclass(slots=True, eq=False)
class Inode:
    """The content of a file."""

    content: bytearray = field(default_factory=bytearray)
    synced_bytes: int = 0  # so many bytes at its beginning would survive a crash
    modified_ms: int = 0


@dataclass(slots=True)
class Entry:
    """A change of names: `path` now means `inode` (None: a folder), or nothing. A rename has a source."""

    path: str
    inode: Inode | None = None
    gone: bool = False
    source: str | None = None


Names = dict[str, Inode | None]  # None: a folder


class MemoryDisk(Disk):
    def __init__(self, *, now: Callable[[], int] = lambda: 0, capacity_bytes: int = NEVER_FULL) -> None:
        """`now` (ms) stamps the files; `capacity_bytes` bounds the sum of their sizes, and may be changed."""
        self.now_ms = now
        self.capacity_bytes = capacity_bytes
        self._used_bytes = 0
        self._names: Names = {}
        self._durable_names: Names = {}
        self._unsynced_names: list[Entry] = []
        self._locked: set[str] = set()
        self._mutex = RLock()  # the event loop and the threads that sync, checkpoint and compact use one disk

    def after_crash(self) -> MemoryDisk:
        """The disk as the next start finds it: without all that was not synced."""
        with self._mutex:
            reborn = MemoryDisk(now=self.now_ms, capacity_bytes=self.capacity_bytes)
            survivors: dict[int, Inode] = {}
            for path, inode in self._durable_names.items():
                if inode is None:
                    reborn._names[path] = None
                    continue
                if id(inode) not in survivors:
                    kept = inode.content[: inode.synced_bytes]
                    survivors[id(inode)] = Inode(kept, len(kept), inode.modified_ms)
                    reborn._used_bytes += len(kept)
                reborn._names[path] = survivors[id(inode)]
            reborn._durable_names = dict(reborn._names)
            return reborn

    def files(self) -> dict[str, bytes]:
        """The content of every file, by path."""
        with self._mutex:
            found = {path: bytes(inode.content) for path, inode in self._names.items() if inode is not None}
        return dict(sorted(found.items()))

    # --- names

    def _change_name(self, operation: str, entry: Entry) -> None:  # noqa: ARG002 - for disks that fail on purpose
        with self._mutex:
            apply(self._names, entry)
            self._unsynced_names.append(entry)

    def _file(self, path: str) -> File:
        return MemoryFile(path, self, self._inode(path))

    def _inode(self, path: str) -> Inode:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        inode = self._names[path]
        if inode is None:
            raise IsADirectoryError(errno.EISDIR, "is a folder", path)
        return inode

    def _need_folder(self, path: str) -> None:
        if path not in ("", "/", ".") and self._names.get(path, self) is not None:
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)

    def _new_inode(self) -> Inode:
        return Inode(modified_ms=self.now_ms())

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:
        with self._mutex:
            if path not in self._names and create:
                self._need_folder(os.path.dirname(path))
                self._change_name("create", Entry(path, self._new_inode()))
            file = self._file(path)
        if truncate and file.size_bytes():
            file.truncate(0)
        return file

    def scan_folder(self, path: str) -> list[FileInfo]:
        found = []
        with self._mutex:
            self._need_folder(path)
            for name, inode in self._names.items():
                if os.path.dirname(name) == path and name != path:
                    size, modified = (0, 0) if inode is None else (len(inode.content), inode.modified_ms)
                    found.append(FileInfo(os.path.basename(name), size, modified, inode is None))
        return found

    def make_folder(self, path: str) -> bool:
        with self._mutex:
            self._need_folder(os.path.dirname(path))
            if path not in self._names:
                self._change_name("make_folder", Entry(path))
                return True
            if self._names[path] is not None:
                raise FileExistsError(errno.EEXIST, "a file has this name", path)
            return False

    def remove_folder(self, path: str) -> None:
        with self._mutex:
            self._need_folder(path)
            if any(os.path.dirname(name) == path for name in self._names):
                raise OSError(errno.ENOTEMPTY, "folder is not empty", path)
            self._change_name("remove_folder", Entry(path, gone=True))

    def rename(self, source: str, target: str) -> None:
        with self._mutex:
            if source not in self._names:
                raise FileNotFoundError(errno.ENOENT, "no such file", source)
            self._need_folder(os.path.dirname(target))
            replaced = self._names.get(target)
            self._change_name("rename", Entry(target, self._names[source], source=source))
            self._freed(replaced)

    def unlink(self, path: str) -> None:
        with self._mutex:
            inode = self._inode(path)
            self._change_name("unlink", Entry(path, gone=True))
            self._freed(inode)

    def _freed(self, inode: Inode | None) -> None:
        if inode is not None and inode not in self._names.values():
            self._used_bytes -= len(inode.content)

    def sync_folder(self, path: str) -> None:
        with self._mutex:
            self._need_folder(path)
            later = []
            for entry in self._unsynced_names:
                if os.path.dirname(entry.path) == path:
                    apply(self._durable_names, entry)
                else:
                    later.append(entry)
            self._unsynced_names = later

    def lock(self, path: str) -> FolderLock:
        with self._mutex:
            if path in self._locked:
                raise FolderInUse(errno.EAGAIN, f"the data folder {os.path.dirname(path)} is in use")
            if path not in self._names:
                self.open(path, create=True).close()
            self._locked.add(path)
            return MemoryLock(self._locked, path)

    def space(self, path: str) -> tuple[int, int]:  # noqa: ARG002
        if self.capacity_bytes == NEVER_FULL:
            return -1, -1
        return self.capacity_bytes, max(0, self.capacity_bytes - self._used_bytes)


class MemoryFile(File):
    """An open file of a MemoryDisk; it stays readable after its name is gone, as on POSIX."""

    __slots__ = ("_disk", "_inode")

    def __init__(self, path: str, disk: MemoryDisk, inode: Inode) -> None:
        super().__init__(path)
        self._disk = disk
        self._inode = inode

    def append(self, data: Buffer) -> None:
        disk, inode = self._disk, self._inode
        room = disk.capacity_bytes - disk._used_bytes
        written = memoryview(data)[: max(0, room)]
        inode.content += written
        inode.modified_ms = disk.now_ms()
        disk._used_bytes += len(written)
        if len(written) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)

    def pread(self, size_bytes: int, position: int) -> bytes:
        return bytes(self._inode.content[position : position + size_bytes])

    def truncate(self, size_bytes: int) -> None:
        inode = self._inode
        self._disk._used_bytes -= len(inode.content) - size_bytes
        del inode.content[size_bytes:]
        inode.synced_bytes = min(inode.synced_bytes, size_bytes)
        inode.modified_ms = self._disk.now_ms()

    def size_bytes(self) -> int:
        return len(self._inode.content)

    def fileno(self) -> int:
        return -1

    def _sync(self) -> None:
        self._inode.synced_bytes = len(self._inode.content)

    def _close(self) -> None:
        """Nothing to give back."""


class MemoryLock(FolderLock):
    def __init__(self, locked: set[str], path: str) -> None:
        self._locked = locked
        self._path = path

    def release(self) -> None:
        self._locked.discard(self._path)


def apply(names: Names, entry: Entry) -> None:
    """Make the change, if the file that it renames or removes is among these names."""
    if entry.source is not None:
        if names.get(entry.source, names) is not entry.inode:
            return
        for name in [name for name in names if name.startswith(entry.source + "/")]:
            names[entry.path + name[len(entry.source) :]] = names.pop(name)
        del names[entry.source]
    if entry.gone:
        names.pop(entry.path, None)
    else:
        names[entry.path] = entry.inode
