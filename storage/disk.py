"""All access to the file system goes through this file: the interface of a disk, and the real disk.

Everything under `storage/` reaches files through a `Disk` and the `File`s it opens, never through `os`. So
the same log engine runs on the real disk below and on the simulated one of the tests, which tears, loses,
fails and delays what it is told to write.

What a disk promises, and what it does not:

- `append` writes all of the bytes at the end of the file, or raises OSError; then an unknown part of them may be
  there. Appended bytes can be read at once. They are durable only after a `sync` that began later has returned.
- `sync` may fail. Then it is unknown which bytes are on the medium, and the kernel may report success for a second
  try. So a failed sync is never retried: the file refuses further syncs, and its log stops writing.
- Creating, renaming or removing a file is durable only after `sync_folder` of its folder.
- `rename` replaces its target atomically.

Files are shared: the event loop appends while a worker thread syncs, or while the network sends a slice.
Everyone who keeps a file calls `retain`, and `close` when done; the last one closes the descriptor.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import NamedTuple

from kohort.storage.spare_descriptor import SpareDescriptor
from kohort.storage.syncfs import SyncChooser, is_trusted

Buffer = bytes | bytearray | memoryview
SyncPlan = Callable[[], list[OSError | None] | None]  # None: all files are durable; else what went wrong, per file

OUT_OF_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

# Other users of the machine must not read records and names of groups. Files that exist keep the mode they have.
FILE_MODE = 0o600
FOLDER_MODE = 0o700


class SyncFailed(OSError):
    """A sync of this file failed, now or earlier. It is unknown which of its bytes are on the medium."""


class FolderInUse(OSError):
    """Another process, or another part of this one, holds the lock of the data folder."""

    owner = ""  # its process id, if it has left that in the lock


class FileInfo(NamedTuple):
    """One entry of a folder."""

    name: str
    size_bytes: int
    modified_ms: int
    is_folder: bool


class File(ABC):
    """An open file: appended to at its end, read anywhere, shared by counting its users."""

    __slots__ = ("_users", "_users_lock", "device", "path", "sync_error")

    def __init__(self, path: str, device: int = -1) -> None:
        self.path = path
        self.device = device  # the number of the file system; -1: not known
        self._users = 1
        self._users_lock = Lock()
        self.sync_error: OSError | None = None

    @abstractmethod
    def append(self, data: Buffer) -> None:
        """Write all of `data` at the end of the file, or raise OSError with an unknown part of it written."""

    @abstractmethod
    def pread(self, size_bytes: int, position: int) -> bytes:
        """`size_bytes` bytes from `position`; fewer only at the end of the file."""

    @abstractmethod
    def truncate(self, size_bytes: int) -> None:
        """Cut the file to its first `size_bytes`."""

    @abstractmethod
    def size_bytes(self) -> int:
        """How long the file is now."""

    def is_removed(self) -> bool:
        """Whether the file has no name any more. What is written to it then is lost when it is closed."""
        return False

    @abstractmethod
    def fileno(self) -> int:
        """The descriptor for sendfile, or -1 when there is none (a simulated disk)."""

    @abstractmethod
    def _sync(self) -> None:
        """Make the content durable, or raise OSError."""

    @abstractmethod
    def _close(self) -> None:
        """Close the descriptor; called once, when the last user has closed the file."""

    def sync(self) -> None:
        """Make everything appended so far durable. After a failure every later call fails, too; the module says why."""
        if self.sync_error is not None:
            raise SyncFailed(self.sync_error.errno, f"an earlier sync of {self.path} failed: {self.sync_error}")
        self.retain()
        try:
            self._sync()
        except OSError as error:
            self.distrust(error)
            raise SyncFailed(error.errno, f"sync of {self.path} failed: {error}") from error
        finally:
            self.close()

    def distrust(self, error: OSError) -> None:
        """Treat the file as one whose sync has failed."""
        self.sync_error = error

    def retain(self) -> None:
        """Keep the file open until one more `close`."""
        with self._users_lock:
            if self._users == 0:
                raise ValueError(f"{self.path} is closed")
            self._users += 1

    def close(self) -> None:
        """A user has finished with the file. The last one closes it."""
        with self._users_lock:
            if self._users == 0:
                raise ValueError(f"{self.path} is closed already")
            self._users -= 1
            last = self._users == 0
        if last:
            self._close()


class Disk(ABC):
    """Folders and files by path. Paths are plain strings with '/'; errors are OSError as from `os`."""

    @abstractmethod
    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:
        """Open for reading and appending; FileNotFoundError unless `create`. `truncate` empties it first."""

    @abstractmethod
    def scan_folder(self, path: str) -> list[FileInfo]:
        """What is in the folder, in no particular order; FileNotFoundError if there is none."""

    @abstractmethod
    def make_folder(self, path: str) -> bool:
        """Create a folder in an existing one. False: it is there already."""

    @abstractmethod
    def remove_folder(self, path: str) -> None:
        """Remove an empty folder."""

    @abstractmethod
    def rename(self, source: str, target: str) -> None:
        """Give a file or folder another name, replacing a file of that name atomically."""

    @abstractmethod
    def unlink(self, path: str) -> None:
        """Remove a file; FileNotFoundError if there is none."""

    @abstractmethod
    def sync_folder(self, path: str) -> None:
        """Make creations, renames and removals in this folder durable, or raise OSError."""

    @abstractmethod
    def lock(self, path: str) -> FolderLock:
        """Take the exclusive lock file until released, or raise FolderInUse."""

    def plan_sync(self, files: Sequence[File]) -> SyncPlan:
        """How to sync these files. The plan does it: it blocks, in any thread, and never raises OSError.

        A plan is made on the event loop so that the thread which runs it touches next to nothing of Python's: the two
        would wait for each other's turn to run.
        """
        return lambda: all_or_errors([_sync_one(file) for file in files])

    def space(self, path: str) -> tuple[int, int]:  # noqa: ARG002
        """(size, free bytes) of the disk of `path`; -1 if unknown."""
        return -1, -1

    def read_file(self, path: str) -> bytes:
        """The whole content of a (small) file."""
        file = self.open(path)
        try:
            return file.pread(file.size_bytes(), 0)
        finally:
            file.close()

    def write_file(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Replace the content of the file at once: after a crash it has the old content or the new, never a mixture."""
        file = self.put_file(path, data, durable=durable)
        file.close()
        if durable:
            self.sync_folder(os.path.dirname(path))

    def put_file(self, path: str, data: bytes, *, durable: bool = False) -> File:
        """Like `write_file`, but the caller syncs the folder, and the file unless `durable`; and closes the file."""
        temporary = path + ".tmp"
        file = self.open(temporary, create=True, truncate=True)
        try:
            file.append(data)
            if durable:
                file.sync()
            self.rename(temporary, path)
        except BaseException:
            file.close()
            raise
        return file


def all_or_errors(errors: list[OSError | None]) -> list[OSError | None] | None:
    """None if there is no error among them."""
    return errors if any(errors) else None


def _sync_one(file: File) -> OSError | None:
    try:
        file.sync()
    except OSError as error:
        return error
    return None


class FolderLock(ABC):
    """A lock that is held."""

    @abstractmethod
    def release(self) -> None:
        """Release the lock, so that another process can take it."""


class RealFile(File):
    """A file of the operating system: one descriptor, O_APPEND, no buffering of our own."""

    __slots__ = ("_fd",)

    def __init__(self, path: str, fd: int) -> None:
        super().__init__(path, os.fstat(fd).st_dev)
        self._fd = fd

    def append(self, data: Buffer) -> None:
        written = os.write(self._fd, data)
        if written != len(data):
            rest = memoryview(data)
            while written < len(
                rest
            ):  # a write may be short: the disk is nearly full, a signal came, or data is over 2 GB
                written += os.write(self._fd, rest[written:])

    def pread(self, size_bytes: int, position: int) -> bytes:
        data = os.pread(self._fd, size_bytes, position)
        if len(data) == size_bytes or not data:
            return data
        parts = [data]
        missing, position = size_bytes - len(data), position + len(data)
        while missing and (data := os.pread(self._fd, missing, position)):
            parts.append(data)
            missing, position = missing - len(data), position + len(data)
        return b"".join(parts)

    def truncate(self, size_bytes: int) -> None:
        os.ftruncate(self._fd, size_bytes)

    def size_bytes(self) -> int:
        return os.fstat(self._fd).st_size

    def is_removed(self) -> bool:
        return os.fstat(self._fd).st_nlink == 0

    def fileno(self) -> int:
        return self._fd

    def _sync(self) -> None:
        os.fdatasync(self._fd)  # writes the new file size, too; leaves out only the times of the file

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        os.close(fd)


class RealFolderLock(FolderLock):
    """A `.lock` file, locked in two ways: with fcntl, as Java does, and with flock."""

    def __init__(self, fd: int, on_release: Callable[[], object]) -> None:
        self._fd = fd
        self._on_release = on_release

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._on_release()
            os.close(fd)


class RealDisk(Disk):
    """The files of the operating system. One instance is enough for any number of data folders."""

    def __init__(self) -> None:
        self._chooser = SyncChooser()
        self._locks: dict[int, int] = {}  # device: descriptor of the first lock file on it
        self._spare = SpareDescriptor()  # there while a data folder is locked

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        if create:
            flags |= os.O_CREAT
        if truncate:
            flags |= os.O_TRUNC
        return RealFile(path, os.open(path, flags, FILE_MODE))

    def scan_folder(self, path: str) -> list[FileInfo]:
        found = []
        with os.scandir(path) as entries:
            for entry in entries:
                info = entry.stat()
                found.append(
                    FileInfo(entry.name, info.st_size, info.st_mtime_ns // 1_000_000, stat.S_ISDIR(info.st_mode))
                )
        return found

    def make_folder(self, path: str) -> bool:
        try:
            os.mkdir(path, FOLDER_MODE)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
            return False
        return True

    def remove_folder(self, path: str) -> None:
        os.rmdir(path)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def sync_folder(self, path: str) -> None:
        with self._spare.opened(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) as fd:
            os.fsync(fd)

    def space(self, path: str) -> tuple[int, int]:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def plan_sync(self, files: Sequence[File]) -> SyncPlan:
        if self._chooser.prefers_whole(len(files)) and (fd := self._witness(files)) is not None:
            return partial(self._sync_whole, fd, files)
        return partial(self._sync_singly, files)

    def _sync_singly(self, files: Sequence[File]) -> list[OSError | None] | None:
        if not files:
            return None
        return all_or_errors(self._chooser.sync_singly([partial(_sync_one, file) for file in files]))

    def _witness(self, files: Sequence[File]) -> int | None:
        """The lock file of the device that all the files lie on; None: sync them one by one.

        syncfs reports the errors since its descriptor was opened, and the lock file is opened before all data files. A
        file that failed earlier stays failed, whatever the kernel says now; only a sync of the file itself tells that.
        """
        devices = {file.device if file.sync_error is None else -1 for file in files}
        if len(devices) != 1:
            return None
        device = devices.pop()
        return self._locks.get(device) if device >= 0 and is_trusted(device) else None

    def _sync_whole(self, fd: int, files: Sequence[File]) -> list[OSError | None] | None:
        try:
            self._chooser.sync_whole(fd)
        except OSError as error:
            for file in files:
                file.distrust(error)  # syncfs does not say which file failed; it may even be another program's
            return [SyncFailed(error.errno, f"sync of the disk below {file.path}: {error}") for file in files]
        return None

    def lock(self, path: str) -> FolderLock:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            # flock keeps out a second broker of ours, even in the same process; lockf keeps out Apache Kafka.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
            os.close(fd)
            in_use = FolderInUse(
                error.errno,
                f"the data folder {os.path.dirname(path)} is in use by another process"
                f"{f' (pid {owner})' if owner else ''}: stop that one, or give this broker another log.dirs",
            )
            in_use.owner = owner
            raise in_use from error
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        self._spare.set_aside()
        device = os.fstat(fd).st_dev
        if device in self._locks:
            return RealFolderLock(fd, lambda: None)
        self._locks[device] = fd
        return RealFolderLock(fd, lambda: self._released(device))

    def _released(self, device: int) -> None:
        del self._locks[device]
        if not self._locks:
            self._spare.release()
