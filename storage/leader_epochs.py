"""The `leader-epoch-checkpoint` of a partition: which leader epoch started at which offset.

The file only saves time, because every batch has its epoch in its header. If the file is missing or broken after a
crash, it is made again from the batch headers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from kohort.storage.disk import Disk, File
from kohort.storage.layout import LEADER_EPOCHS_FILE, CorruptCheckpoint, format_leader_epochs, parse_leader_epochs

logger = logging.getLogger(__name__)


class LeaderEpochs:
    """(epoch, start offset) in ascending order; read from disk at the first use."""

    __slots__ = ("_disk", "_entries", "_path", "_rescan", "changed")

    def __init__(self, disk: Disk, folder: str, rescan: Callable[[], Iterable[tuple[int, int]]]) -> None:
        self._disk = disk
        self._path = f"{folder}/{LEADER_EPOCHS_FILE}"
        self._rescan = rescan  # (epoch, base offset) of every batch of the log
        self._entries: list[tuple[int, int]] | None = None
        self.changed = False

    @property
    def entries(self) -> list[tuple[int, int]]:
        if self._entries is None:
            try:
                self._entries = parse_leader_epochs(self._disk.read_file(self._path), self._path)
            except FileNotFoundError:
                self._rebuild()
            except CorruptCheckpoint as error:
                logger.warning("%s; made anew from the log", error)
                self._rebuild()
        assert self._entries is not None
        return self._entries

    @property
    def latest(self) -> int:
        """The newest epoch, -1 if there is none."""
        return self.entries[-1][0] if self.entries else -1

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self.entries)

    def _rebuild(self) -> None:
        self._entries = []
        for epoch, offset in self._rescan():
            self.assign(epoch, offset)

    def assign(self, epoch: int, start_offset: int) -> None:
        """A batch of this epoch starts at `start_offset`."""
        if epoch > self.latest:
            self.entries.append((epoch, start_offset))
            self.changed = True

    def truncate(self, log_end_offset: int) -> None:
        """Forget epochs that start at or behind the end of the log."""
        while self.entries and self.entries[-1][1] >= log_end_offset:
            self.entries.pop()
            self.changed = True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """For OffsetForLeaderEpoch: (epoch, end offset) of the last epoch up to this one; (-1, -1) if there is none."""
        found = -1
        for candidate, start in self.entries:
            if candidate > epoch:
                return (found, start) if found >= 0 else (-1, -1)
            found = candidate
        return (found, log_end_offset) if found == epoch else (-1, -1)

    def save(self) -> list[File]:
        """Write the file if it changed. The caller must sync and close the files that are returned."""
        if not self.changed:
            return []
        file = self._disk.put_file(self._path, format_leader_epochs(self.entries))
        self.changed = False
        return [file]
