"""The checkpoint files of the data folder: planned on the event loop, written by any thread, never out of order.

Writing takes several syncs, so the host does it in another thread. A plan is not written if a newer one was made
meanwhile. For instance, a truncation may have lowered a recovery point, and the old one must not come back.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

from kohort.storage.disk import Disk
from kohort.storage.layout import TopicPartition, format_offsets, parse_offsets

Offsets = Mapping[TopicPartition, int]


class CheckpointFiles:
    """Reads and writes the files, and remembers their content."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self._lock = Lock()
        self._on_disk: dict[str, bytes] = {}
        self._kept: dict[str, dict[TopicPartition, int]] = {}
        self._planned = 0
        self.in_force = 0  # number of the newest plan that was written

    def read(self, name: str) -> dict[TopicPartition, int]:
        """The offsets in a file; empty if there is no such file."""
        path = f"{self._folder}/{name}"
        try:
            self._on_disk[name] = self._disk.read_file(path)
        except FileNotFoundError:
            return {}
        return parse_offsets(self._on_disk[name], path)

    def keep(self, key: TopicPartition, checkpoints: Mapping[str, Offsets]) -> None:
        """A partition could not be opened: repeat its present lines in every file that is written from now on."""
        for name, offsets in checkpoints.items():
            if key in offsets:
                self._kept.setdefault(name, {})[key] = offsets[key]

    def kept(self, name: str, key: TopicPartition) -> int | None:
        """The offset in a file of a partition that could not be opened."""
        return self._kept.get(name, {}).get(key)

    def release(self, key: TopicPartition) -> None:
        """The partition is open again: its lines are no longer repeated."""
        for offsets in self._kept.values():
            offsets.pop(key, None)

    def plan(self, contents: Mapping[str, Offsets], recovery_points: Offsets) -> Checkpoint:
        """Plan what to write. A later plan replaces an earlier one."""
        self._planned += 1
        files = {name: {**self._kept.get(name, {}), **offsets} for name, offsets in contents.items()}
        return Checkpoint(self, self._planned, files, recovery_points)

    def write(self, number: int, files: Mapping[str, Offsets]) -> None:
        """Write the files that have changed, one after the other. Each is replaced as a whole."""
        with self._lock:
            if number < self.in_force:
                return
            for name, offsets in files.items():
                content = format_offsets(offsets)
                if self._on_disk.get(name) == content or (not offsets and name not in self._on_disk):
                    continue
                self._disk.write_file(f"{self._folder}/{name}", content)
                self._on_disk[name] = content
            self.in_force = number


class Checkpoint:
    """One plan: the content of all files at one moment."""

    __slots__ = ("_files", "_number", "_writer", "recovery_points")

    def __init__(
        self, writer: CheckpointFiles, number: int, files: Mapping[str, Offsets], recovery_points: Offsets
    ) -> None:
        self._writer = writer
        self._number = number
        self._files = files
        self.recovery_points = recovery_points

    def write(self) -> None:
        """Write the files. Blocks; any thread may do it."""
        self._writer.write(self._number, self._files)

    @property
    def is_in_force(self) -> bool:
        """Whether the files have the content of this plan."""
        return self._writer.in_force == self._number
