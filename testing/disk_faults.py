"""A disk that is slow or full: for all files, or for those of one topic, or of the log that holds one group.

Requests share writes and syncs, so these faults concern files, and know no APIs and no clients. Threads of the broker
meet them.
"""

from __future__ import annotations

from pathlib import PurePath
from threading import Event, Lock
from typing import TYPE_CHECKING, Self

from kohort.broker.topics.catalog import CONSUMER_OFFSETS
from kohort.coordinator.partitioner import partition_of
from kohort.storage.layout import parse_partition_folder
from kohort.testing.faults import Fault, Filter

if TYPE_CHECKING:
    from kohort.testing.host import Host


class DiskFault(Fault):
    def __init__(self, host: Host, group: str | None, topic: str | None, times: int | None) -> None:
        super().__init__(host, Filter(None, group, None, topic, times))
        self._counting = Lock()

    @property
    def concerns_all(self) -> bool:
        return self._wanted.group is None and self._wanted.topic is None

    def _meets(self, path: str) -> bool:
        """Whether it concerns this file. Count it, and end the fault after the last of `times`."""
        if not self._concerns(path):
            return False
        with self._counting:
            if self.hits == self._wanted.times:
                return False
            self.hits += 1
        self._host.changed_elsewhere()
        return True

    def _concerns(self, path: str) -> bool:
        if self.concerns_all:
            return True
        place = parse_partition_folder(PurePath(path).parent.name)
        if place is None:
            return False
        group, count = self._wanted.group, self._host.config.offsets_topic_num_partitions
        return place[0] == self._wanted.topic or (
            group is not None and place == (CONSUMER_OFFSETS, partition_of(group, count))
        )


class SlowDisk(DiskFault):
    """Each sync takes so long, at least. Commits and new generations wait for it."""

    def __init__(
        self, host: Host, seconds: float, group: str | None = None, topic: str | None = None, times: int | None = None
    ) -> None:
        super().__init__(host, group, topic, times)
        self._seconds = seconds
        self._is_over = Event()
        self.what = f"each sync takes {seconds:g} s"

    def begin(self) -> Self:
        self._host.disk.slow += (self,)
        return self

    def stop(self) -> None:
        """End the fault. Syncs that wait go on."""
        self._host.disk.slow = tuple(each for each in self._host.disk.slow if each is not self)
        self._is_over.set()

    def hold(self, path: str) -> None:
        """Wait, if the fault concerns this file."""
        if self._meets(path):
            self._is_over.wait(self._seconds)


class FullDisk(DiskFault):
    """Nothing can be written."""

    what = "the disk is full"

    def begin(self) -> Self:
        self._host.disk.full += (self,)
        return self

    def stop(self) -> None:
        self._host.disk.full = tuple(each for each in self._host.disk.full if each is not self)

    def refuses(self, path: str) -> bool:
        return self._meets(path)
