"""Locks on a store, so that two audits do not remove each other's unfinished files.

A folder of this machine is locked with flock, which ends with the process.

An address, such as s3://bucket/nightly, has no locks and no renames. There each audit puts a lease into the store, a
small object of its own, and then lists all leases. If it sees another one, it takes its own away and gives up. Of two
audits that begin at the same time, the one whose lease was written later sees the other's; so never both go on, and
sometimes neither does. This needs what S3, Google Cloud Storage, Azure and HDFS promise: a list has every object that
was written before it was asked for.

A lease is written again every minute. One that is older than ten minutes belongs to an audit that was killed, and is
removed. Ages are differences of the store's own times, so the clocks of machines do not matter. An audit that could not
renew its lease in time, because it stood still for minutes, ends with an error before its run would count.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from contextlib import suppress
from datetime import timedelta
from threading import Event, Thread
from time import monotonic
from typing import Protocol

from pyarrow.fs import FileSelector, FileSystem, FileType

LEASES = ".leases"
RENEW_S = 60.0
LEASE_S = 600.0


class StoreBusy(OSError):
    """Another run is writing to the store. Two runs at the same time would remove each other's unfinished files."""


class StoreLock(Protocol):
    def check(self) -> None:
        """Raises StoreBusy if the lock was lost."""

    def release(self) -> None: ...


class FolderLock:
    """A lock on a local folder. It ends with `release`, with this object, or with the process."""

    def __init__(self, folder: str) -> None:
        self._file: int | None = os.open(os.path.join(folder, ".lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise StoreBusy(f"{folder}: another audit is writing there") from None

    def check(self) -> None:
        pass

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    __del__ = release


class Lease:
    """A lock on an address. It is renewed in a thread until `release`."""

    def __init__(
        self, filesystem: FileSystem, root: str, *, renew_s: float = RENEW_S, lease_s: float = LEASE_S
    ) -> None:
        self._filesystem, self._root = filesystem, root
        self._folder = f"{root}/{LEASES}"
        self._path = f"{self._folder}/{uuid.uuid4().hex}"
        self._renew_s, self._lease_s = renew_s, lease_s
        self._over = Event()
        filesystem.create_dir(self._folder)
        self._write()
        if self._others():
            self._remove(self._path)
            raise StoreBusy(f"another audit is writing there, or was killed within the last {lease_s / 60:.0f} minutes")
        self._thread = Thread(target=self._renew, name="kohort-lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        there = self._filesystem.get_file_info(self._path).type == FileType.File
        if not there or monotonic() - self._written_at > self._lease_s / 2:
            raise StoreBusy("this audit stood still for minutes, and another one may have begun: audit again")

    def release(self) -> None:
        if not self._over.is_set():
            self._over.set()
            self._thread.join()
            self._remove(self._path)

    def _write(self) -> None:
        began = monotonic()
        with self._filesystem.open_output_stream(self._path) as file:
            file.write(b"an audit is writing to this store\n")
        self._written_at = began

    def _others(self) -> bool:
        """Whether there is a lease of somebody who is alive. Those of the dead are removed."""
        found = {info.path: info.mtime for info in self._filesystem.get_file_info(FileSelector(self._folder))}
        if self._path not in found:
            raise StoreBusy("the lease that this audit has written is not in the list: is this store consistent?")
        oldest = found.pop(self._path) - timedelta(seconds=self._lease_s)
        for path in [path for path, written in found.items() if written < oldest]:
            del found[path]
            self._remove(path)
        return bool(found)

    def _renew(self) -> None:
        """A write that fails is tried again; `check` sees it if none succeeds."""
        while not self._over.wait(self._renew_s):
            with suppress(OSError):
                self._write()

    def _remove(self, path: str) -> None:
        with suppress(OSError):
            self._filesystem.delete_file(path)
