"""Follows a topic of a cluster: finds its leaders, and keeps a thread for each, which fetches what comes.

A subclass says what to do with the batches: the recorder copies them into folders, and the live page reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, RLock
from time import monotonic

from kohort.broker.record.copied import FollowedPartition
from kohort.broker.record.leader import LeaderThread
from kohort.broker.record.limits import Rate
from kohort.client.answers import NOT_ALLOWED, error_name
from kohort.client.cluster import Cluster, Leader
from kohort.client.errors import AccessDenied, ClientError, ConnectionLost
from kohort.client.settings import ClientSettings
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.metadata import MetadataResponseTopic
from kohort.protocol.wire import NO_UUID

OFFSETS_TOPIC = "__consumer_offsets"
TICK_S = 1.0
METADATA_AGE_S = 30.0
METADATA_PAUSE_S = 0.25  # at least between two questions, however many leaders are missing
STOP_TIMEOUT_S = 15.0


class CannotFollow(Exception):
    """The topic cannot be followed; the text says why."""


class Follower:
    def __init__(
        self,
        settings: ClientSettings,
        *,
        topic: str = OFFSETS_TOPIC,
        max_rate: float | None = None,
        tell: Callable[[str], object] = lambda _: None,
    ) -> None:
        """Connects to the cluster. `tell` gets news for people."""
        self.settings = settings
        self.topic = topic
        self.topic_id = NO_UUID
        self.rate = Rate(max_rate)
        self.tell = tell
        self.lock = RLock()  # of the partitions and of everything that says who follows which of them
        self.partitions: dict[int, FollowedPartition] = {}
        self.failure: BaseException | None = None
        self._stop = Event()
        self._wake = Event()
        self._threads: dict[int, LeaderThread] = {}
        self._cluster = Cluster(settings=settings)
        self._look_again_at = 0.0
        self._says_waiting = False
        self._is_full = False
        self._lost: dict[int, str] = {}  # leaders that do not answer, and what was told of each

    # --- what the subclass says

    def check(self, found: MetadataResponseTopic) -> None:
        """Whether this is the topic that was followed so far. Raises CannotFollow."""

    def new_partition(self, number: int) -> FollowedPartition:
        raise NotImplementedError

    def truncate(self, number: int, offset: int) -> None:
        """The leader has nothing from this offset on."""

    def after_tick(self) -> None:
        """Called every second or so, by the main thread."""

    def at_end(self) -> None:
        """All threads have ended."""

    # --- the main thread

    def run(self, *, once: bool = False, tick: Callable[[], object] = lambda: None) -> None:
        """Follow until `stop`; with `once` until everything is there that the cluster had at the start.

        `tick` is called every second. Raises what has ended this, if that was not `stop`.
        """
        try:
            while not self._stop.is_set() and not (once and self.has_caught_up):
                if monotonic() >= self._look_again_at:
                    self._find_leaders()
                self._wake.wait(TICK_S)
                self._wake.clear()
                self.after_tick()
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
        self.at_end()

    @property
    def is_stopping(self) -> bool:
        return self._stop.is_set()

    @property
    def has_caught_up(self) -> bool:
        parts = list(self.partitions.values())
        return bool(parts) and all(part.goal is not None and part.position >= part.goal for part in parts)

    # --- leaders

    def _find_leaders(self) -> None:
        self._look_again_at = monotonic() + METADATA_AGE_S
        try:
            found = self._ask_about_topic()
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
            self._make_partitions(found)
            self._assign(found)

    def _ask_about_topic(self) -> MetadataResponseTopic:
        """ConnectionLost also if the answer makes no sense."""
        topics = self._cluster.metadata([self.topic]).topics
        if len(topics) != 1 or topics[0].name != self.topic:
            raise ConnectionLost(f"the cluster was asked about {self.topic}, and answers about something else")
        found: MetadataResponseTopic = topics[0]
        numbers = sorted(each.partition_index for each in found.partitions)
        if numbers != list(range(len(numbers))):
            raise ConnectionLost(f"{self.topic} has partitions with impossible numbers, says the cluster")
        return found

    def _wait_for_topic(self, code: int) -> None:
        if self.partitions and code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise CannotFollow(f"the topic {self.topic} was deleted; there is nothing more to follow")
        if not self._says_waiting:
            self.tell(f"{self.topic}: {error_name(code)}: a cluster makes it for its first group; waiting for it")
            self._says_waiting = True
        self._look_again_at = monotonic() + TICK_S

    def _check(self, found: MetadataResponseTopic) -> None:
        """Another topic of the same name has another history."""
        if self.topic_id not in (NO_UUID, found.topic_id):
            raise CannotFollow(f"{self.topic} was deleted and created anew: begin anew")
        self.topic_id = found.topic_id
        self.check(found)

    def _make_partitions(self, found: MetadataResponseTopic) -> None:
        if self.partitions and len(found.partitions) > len(self.partitions):
            self.tell(
                f"{self.topic} has {len(found.partitions)} partitions now, {len(self.partitions)} before: groups have"
                " moved to other partitions, and their history is in both"
            )
        for partition in found.partitions:
            number = partition.partition_index
            if number not in self.partitions:
                self.partitions[number] = self.new_partition(number)

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

    def led_by(self, node_id: int) -> list[FollowedPartition]:
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
        """It is asked again every second, and told once."""
        if not self._stop.is_set() and self._lost.get(node_id) != str(problem):
            self._lost[node_id] = str(problem)
            self.tell(f"{problem}; looking for the leaders of its partitions (broker {node_id})")
        self.look_for_leaders()

    def heard_from(self, node_id: int) -> None:
        self._lost.pop(node_id, None)

    def has_room(self, has_room: bool) -> None:
        """Whether there was room for what came. It is told once, and not for each partition."""
        if has_room == self._is_full:
            self._is_full = not has_room
            self.tell("there is room on the disk again" if has_room else "the disk is full; waiting for room")

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
