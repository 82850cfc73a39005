"""Records a topic of a cluster: finds its leaders, keeps a thread for each, syncs what they have written."""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Event, RLock
from time import monotonic, time

from kohort.broker.record.copied import CopiedPartition
from kohort.broker.record.leader import LeaderThread
from kohort.broker.record.limits import Rate
from kohort.client.answers import NOT_ALLOWED, error_name
from kohort.client.cluster import Cluster, Leader
from kohort.client.errors import AccessDenied, ClientError, ConnectionLost
from kohort.client.settings import ClientSettings
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.metadata import MetadataResponseTopic
from kohort.protocol.wire import NO_UUID
from kohort.storage.disk import Disk, RealDisk
from kohort.storage.flush import TicketSync
from kohort.storage.log_config import FOREVER, LogConfig
from kohort.storage.log_directory import LogDirectory

OFFSETS_TOPIC = "__consumer_offsets"
SEGMENT_BYTES = 104_857_600  # Kafka's, for this topic
TICK_S = 1.0
CHECKPOINT_S = 60.0
METADATA_AGE_S = 30.0
METADATA_PAUSE_S = 0.25  # at least between two questions, however many leaders are missing
STOP_TIMEOUT_S = 15.0
FILES_OF_BROKERS = ("meta.properties", "kohort-catalog.json")

# Compacted: offsets may be missing. Whatever the cluster has accepted is kept, however large.
CONFIG = LogConfig(
    cleanup_policy="compact", segment_bytes=SEGMENT_BYTES, segment_ms=FOREVER, max_message_bytes=2**31 - 1
)


class CannotRecord(Exception):
    """The folder or the topic cannot be recorded; the text says why."""


class Recorder:
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
        self.settings = settings
        self.folder = folder
        self.topic = topic
        self.topic_id = NO_UUID
        self.rate = Rate(max_rate)
        self.tell = tell
        self.lock = RLock()  # of the logs and of everything that says who records which of them
        self.partitions: dict[int, CopiedPartition] = {}
        self.failure: BaseException | None = None
        self._stop = Event()
        self._wake = Event()
        self._threads: dict[int, LeaderThread] = {}
        self._cluster = Cluster(settings=settings)
        self._look_again_at = 0.0
        self._checkpoint_at = monotonic() + CHECKPOINT_S
        self._says_waiting = False
        try:
            self._directory = self._open(disk or RealDisk())
        except BaseException:
            self._cluster.close()
            raise

    def _open(self, disk: Disk) -> LogDirectory:
        os.makedirs(self.folder, exist_ok=True)
        if any(os.path.exists(f"{self.folder}/{name}") for name in FILES_OF_BROKERS):
            raise CannotRecord(f"{self.folder} is the data folder of a broker: record into a folder of its own")
        return LogDirectory.open(disk, self.folder, lambda _: CONFIG, now=_now_ms())

    # --- the main thread

    def run(self, *, once: bool = False, tick: Callable[[], object] = lambda: None) -> None:
        """Record until `stop`; with `once` until everything is there that the cluster had at the start.

        `tick` is called every second. Raises what has ended the recording, if that was not `stop`.
        """
        try:
            while not self._stop.is_set() and not (once and self.has_caught_up):
                if monotonic() >= self._look_again_at:
                    self._find_leaders()
                self._wake.wait(TICK_S)
                self._wake.clear()
                self._sync()
                tick()
        except BaseException as problem:
            self.failure = self.failure or problem
        finally:
            self._end()
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        """Any thread, and a signal handler, may call this."""
        self._stop.set()
        self._wake.set()

    def _end(self) -> None:
        self._stop.set()
        for thread in list(self._threads.values()):
            thread.join(STOP_TIMEOUT_S)
        self._cluster.close()
        with self.lock:
            self._directory.close(_now_ms())

    @property
    def has_caught_up(self) -> bool:
        parts = list(self.partitions.values())
        return bool(parts) and all(part.goal is not None and part.position >= part.goal for part in parts)

    # --- leaders

    def _find_leaders(self) -> None:
        self._look_again_at = monotonic() + METADATA_AGE_S
        try:
            found = self._cluster.metadata([self.topic]).topics[0]
        except ConnectionLost as problem:
            self.tell(f"{problem}; trying again")
            self._look_again_at = monotonic() + TICK_S
            return
        if found.error_code in NOT_ALLOWED:
            raise AccessDenied(f"the user needs READ and DESCRIBE on the topic {self.topic}")
        if found.error_code or not found.partitions:
            self._wait_for_topic(found.error_code)
            return
        with self.lock:
            self._check(found)
            self._make_logs(found)
            self._assign(found)

    def _wait_for_topic(self, code: int) -> None:
        if self.partitions and code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise CannotRecord(f"the topic {self.topic} was deleted; the recording ends here")
        if not self._says_waiting:
            self.tell(f"{self.topic}: {error_name(code)}: a cluster makes it for its first group; waiting for it")
            self._says_waiting = True
        self._look_again_at = monotonic() + TICK_S

    def _check(self, found: MetadataResponseTopic) -> None:
        """Another topic of the same name must not be recorded into the same logs."""
        if self.topic_id not in (NO_UUID, found.topic_id):
            raise CannotRecord(f"{self.topic} was deleted and created anew: record it into another folder")
        self.topic_id = found.topic_id
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

    def _make_logs(self, found: MetadataResponseTopic) -> None:
        """A folder for each partition, also for those without records: the number of folders means something."""
        if self.partitions and len(found.partitions) > len(self.partitions):
            self.tell(
                f"{self.topic} has {len(found.partitions)} partitions now, {len(self.partitions)} before: groups have"
                " moved to other partitions, and their history is in both"
            )
        for partition in found.partitions:
            number = partition.partition_index
            if number not in self.partitions:
                log = self._directory.log(
                    self.topic, number, topic_id=found.topic_id if found.topic_id != NO_UUID else None
                )
                log.create(_now_ms())
                self.partitions[number] = CopiedPartition(number, log)

    def _assign(self, found: MetadataResponseTopic) -> None:
        nodes = self._cluster.addresses
        missing = False
        for partition in found.partitions:
            known = partition.leader_id in nodes and not partition.error_code
            leader = Leader(partition.leader_id, partition.leader_epoch) if known else None
            missing |= leader is None
            self.partitions[partition.partition_index].lead_by(leader)
            if leader is not None and leader.node_id not in self._threads and not self._stop.is_set():
                thread = self._threads[leader.node_id] = LeaderThread(self, leader.node_id)
                thread.start()
        if missing:
            self._look_again_at = monotonic() + TICK_S

    # --- called by the threads

    def still_needs(self, thread: LeaderThread) -> bool:
        """Whether the thread's broker leads partitions. If not, the thread is forgotten and must end."""
        with self.lock:
            if not self._stop.is_set() and self.failure is None and self._leads(thread.node_id):
                return True
            self._threads.pop(thread.node_id, None)
            return False

    def _leads(self, node_id: int) -> bool:
        return any(part.leader is not None and part.leader.node_id == node_id for part in self.partitions.values())

    def led_by(self, node_id: int) -> list[CopiedPartition]:
        with self.lock:
            return [
                part for part in self.partitions.values() if part.leader is not None and part.leader.node_id == node_id
            ]

    def address_of(self, node_id: int) -> str:
        address = self._cluster.addresses.get(node_id)
        if address is None:
            raise ConnectionLost(f"broker {node_id} is not there at the moment")
        return address

    def lost_leader(self, node_id: int, problem: ClientError) -> None:
        if not self._stop.is_set():
            self.tell(f"{problem}; looking for the leaders of its partitions (broker {node_id})")
            self.look_for_leaders()

    def look_for_leaders(self) -> None:
        self._look_again_at = min(self._look_again_at, monotonic() + METADATA_PAUSE_S)
        self._wake.set()

    def fail(self, problem: BaseException) -> None:
        with self.lock:
            self.failure = self.failure or problem
        self.stop()

    def pause(self, seconds: float) -> None:
        if seconds > 0:
            self._stop.wait(seconds)

    def truncate(self, number: int, offset: int) -> None:
        self._directory.truncate(self.topic, number, offset)

    # --- the disk

    def _sync(self) -> None:
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
