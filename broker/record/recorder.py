"""Records a topic of a cluster: copies what it follows into the folders of a LogDirectory, and syncs it."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import monotonic, time

from kohort.broker.record.copied import CopiedPartition
from kohort.broker.record.follower import OFFSETS_TOPIC as OFFSETS_TOPIC
from kohort.broker.record.follower import CannotFollow, Follower
from kohort.client.settings import ClientSettings
from kohort.protocol.messages.metadata import MetadataResponseTopic
from kohort.protocol.wire import NO_UUID
from kohort.storage.disk import Disk, FolderInUse, RealDisk
from kohort.storage.flush import TicketSync
from kohort.storage.log_config import FOREVER, LogConfig
from kohort.storage.log_directory import LogDirectory

SEGMENT_BYTES = 104_857_600  # Kafka's, for this topic
CHECKPOINT_S = 60.0
FILES_OF_BROKERS = ("meta.properties", "kohort-catalog.json")

# Compacted: offsets may be missing. Whatever the cluster has accepted is kept, however large.
CONFIG = LogConfig(
    cleanup_policy="compact", segment_bytes=SEGMENT_BYTES, segment_ms=FOREVER, max_message_bytes=2**31 - 1
)


class CannotRecord(CannotFollow):
    """The folder or the topic cannot be recorded; the text says why."""


class Recorder(Follower):
    def __init__(
        self,
        settings: ClientSettings,
        folder: str,
        *,
        topic: str = OFFSETS_TOPIC,
        max_rate: float | None = None,
        tell: Callable[[str], object] = lambda _: None,
        disk: Disk | None = None,
    ) -> None:
        """Connects to the cluster and opens the folder. `tell` gets news for people."""
        super().__init__(settings, topic=topic, max_rate=max_rate, tell=tell)
        self.folder = folder
        self._checkpoint_at = monotonic() + CHECKPOINT_S
        try:
            self._directory = self._open(disk or RealDisk())
        except BaseException:
            self._cluster.close()
            raise

    def _open(self, disk: Disk) -> LogDirectory:
        os.makedirs(self.folder, exist_ok=True)
        if any(os.path.exists(f"{self.folder}/{name}") for name in FILES_OF_BROKERS):
            raise CannotRecord(f"{self.folder} is the data folder of a broker: record into a folder of its own")
        try:
            return LogDirectory.open(disk, self.folder, lambda _: CONFIG, now=_now_ms())
        except FolderInUse as problem:
            owner = f" (pid {problem.owner})" if problem.owner else ""
            raise CannotRecord(
                f"another process{owner} writes to {self.folder}: stop that one, or record into another folder"
            ) from None

    def check(self, found: MetadataResponseTopic) -> None:
        """Another topic of the same name must not be recorded into the same logs."""
        recorded = {number: log for (topic, number), log in self._directory.logs.items() if topic == self.topic}
        if recorded and max(recorded) >= len(found.partitions):
            raise CannotRecord(
                f"{self.folder} has a recording of {max(recorded) + 1} partitions, and {self.topic} has"
                f" {len(found.partitions)}: it is another topic; record it into another folder"
            )
        for number, log in recorded.items():
            if log.topic_id not in (None, NO_UUID, found.topic_id) and found.topic_id != NO_UUID:
                raise CannotRecord(
                    f"{self.folder}/{self.topic}-{number} is a recording of another cluster, or of a {self.topic} that"
                    " was deleted since: record into another folder"
                )
        if (failed := self._directory.failed) and not self.partitions:
            raise CannotRecord("; ".join(f"{topic}-{number}: {why}" for (topic, number), why in failed.items()))

    def new_partition(self, number: int) -> CopiedPartition:
        """Makes the folder, also without records: the number of folders tells how many partitions there are."""
        log = self._directory.log(self.topic, number, topic_id=self.topic_id if self.topic_id != NO_UUID else None)
        log.create(_now_ms())
        return CopiedPartition(number, log)

    def truncate(self, number: int, offset: int) -> None:
        self._directory.truncate(self.topic, number, offset)

    def at_end(self) -> None:
        with self.lock:
            self._directory.close(_now_ms())

    # --- the disk

    def after_tick(self) -> None:
        """Make durable what was appended, and say so in the checkpoints once a minute."""
        with self.lock:
            tickets = [ticket for log in self._directory.logs.values() if (ticket := log.begin_flush()) is not None]
        sync = TicketSync(self._directory.disk, tickets)
        sync.run()
        with self.lock:
            for ticket in tickets:
                ticket.log.end_flush(ticket, _now_ms())
            failed = next((log.failed for log in self._directory.logs.values() if log.failed is not None), None)
            if failed is not None:
                raise CannotRecord(failed)
            plan = self._directory.plan_checkpoint() if monotonic() >= self._checkpoint_at else None
        if plan is not None:
            self._checkpoint_at = monotonic() + CHECKPOINT_S
            plan.write()
            with self.lock:
                self._directory.checkpoint_written(plan)


def _now_ms() -> int:
    return int(time() * 1000)
