"""Makes many files durable with as few waits for the disk as possible: one by one, or the whole file system.

To sync fifty small files one by one takes fifty journal commits of the file system; with syncfs(2) it takes one. On
ext4 that was 10.7 ms against 0.5 ms. But syncfs also waits for everything that other programs wrote to the file system:
100 MB of it took 48 ms. So the recent cost of both ways is remembered, and the cheaper one is used. The remembered cost
of the other way falls a little each time, so that it is tried again.

Both ways report a failed write. syncfs (since Linux 5.8) does not say which file failed, and reports it only once. So
all files of that sync count as failed, and from then on files are synced one by one. They are also synced one by one if
there is no syncfs, and on any file system but the few of which it is known that their syncfs waits for the medium and
reports errors: that of FUSE, for instance, may return before anything is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache
from time import perf_counter
from typing import Final

MIN_FILES: Final = 3
FORGET: Final = (
    0.998  # factor for each time a way is not used: if it cost twice as much, it is tried again after 350 times
)
WEIGHT: Final = 0.2  # weight of the newest measurement in the running mean

TRUSTED_FILE_SYSTEMS: Final = frozenset({"ext4", "xfs", "btrfs", "f2fs"})
MOUNTS: Final = "/proc/self/mountinfo"


@cache
def is_trusted(device: int) -> bool:
    """Whether the device has one of the file systems whose syncfs is as good as a sync of each file."""
    return file_system_of(device) in TRUSTED_FILE_SYSTEMS


def file_system_of(device: int, mounts: str = MOUNTS) -> str | None:
    """The type of the file system with this number (st_dev); None if it is not known."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    try:
        with open(mounts, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                place, _, source = line.partition(" - ")  # mount id, parent id, major:minor ... - type, source, options
                if place.split(" ", 3)[2:3] == [wanted]:
                    return source.split(" ", 1)[0]
    except OSError:
        pass
    return None


def load_syncfs() -> Callable[[int], None] | None:
    """syncfs(2) from the C library; None if there is none, or if it does not report errors."""
    release = os.uname().release.split(".")
    if os.uname().sysname != "Linux" or not release[1].isdigit() or (int(release[0]), int(release[1])) < (5, 8):
        return None
    import ctypes  # takes some milliseconds; only a broker with several busy partitions needs it

    try:
        function = ctypes.CDLL(None, use_errno=True).syncfs
    except (AttributeError, OSError):
        return None

    def syncfs(fd: int) -> None:
        if function(fd) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    return syncfs


class SyncChooser:
    """Remembers the recent cost of both ways, and chooses one."""

    def __init__(self) -> None:
        self._syncfs: Callable[[int], None] | None = None
        self._loaded = False
        self._file_seconds = 0.0  # mean time to sync one file
        self._whole_seconds = 0.0  # mean time of one syncfs

    def prefers_whole(self, count: int) -> bool:
        """Whether one syncfs is likely to be cheaper than `count` single syncs."""
        if count < MIN_FILES:
            return False
        if not self._loaded:
            self._syncfs, self._loaded = load_syncfs(), True
        if self._syncfs is None:
            return False
        if self._whole_seconds <= self._file_seconds * count:
            self._file_seconds *= FORGET
            return True
        self._whole_seconds *= FORGET
        return False

    def sync_whole(self, fd: int) -> None:
        """Sync the file system of `fd`. OSError if any of its files could not be written."""
        assert self._syncfs is not None
        started = perf_counter()
        try:
            self._syncfs(fd)
        except OSError:
            self._syncfs = None
            raise
        self._whole_seconds += (perf_counter() - started - self._whole_seconds) * WEIGHT

    def sync_singly(self, syncs: Sequence[Callable[[], OSError | None]]) -> list[OSError | None]:
        """Call these syncs one after the other."""
        started = perf_counter()
        results = [sync() for sync in syncs]
        self._file_seconds += ((perf_counter() - started) / len(syncs) - self._file_seconds) * WEIGHT
        return results
