"""Follows the groups of a cluster: its log of offsets, read as `kohort record` reads it, and what else it can be asked.

READ and DESCRIBE on __consumer_offsets is all that is needed. With DESCRIBE on groups the coordinators' own states are
shown, with DESCRIBE on topics also lag.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from itertools import islice
from threading import Condition, Thread
from time import monotonic
from typing import Final

from kohort.broker.live.group import SHARE, Place
from kohort.broker.live.log_source import Listed, LogSource
from kohort.broker.record.copied import FollowedPartition, Truncate, whole_batches
from kohort.broker.record.follower import Follower
from kohort.client import ask
from kohort.client.cluster import Cluster
from kohort.client.errors import ClientError
from kohort.client.overview import share_starts
from kohort.client.settings import ClientSettings
from kohort.protocol.wire import NO_UUID

MAX_WAITING_BYTES: Final = 32 * 1024 * 1024  # that were fetched and not read yet
ASK_EVERY_S: Final = 1.0
PAUSE_FOR_WORK: Final = 2.0  # a pause of so many times what the questions took
NAMES_EVERY_S: Final = 10.0
PLACES_AT_ONCE: Final = 5_000
ROOM_S: Final = 0.2


class ReadPartition(FollowedPartition):
    def __init__(self, number: int, read: Callable[[int, bytes], None]) -> None:
        super().__init__(number, 0)
        self._read = read

    def take(self, data: bytes, now: int, truncate: Truncate) -> int:  # noqa: ARG002
        fetched = whole_batches(data, self.position)
        if not fetched.batches:
            return 0
        self.position = fetched.next_offset
        self._read(self.number, data[fetched.start : fetched.end])
        self.batches += fetched.batches
        self.bytes += fetched.end - fetched.start
        return fetched.end - fetched.start

    def diverged(self, epoch: int, end_offset: int, truncate: Truncate) -> int:  # noqa: ARG002
        return self.truncate_to(end_offset, truncate)

    def truncate_to(self, offset: int, truncate: Truncate) -> int:  # noqa: ARG002
        """The cluster has lost what was read: what follows sets it right."""
        self.position = min(self.position, offset)
        return 0

    def jump_to(self, offset: int) -> int:
        self.position = offset
        return 0


class ClusterTail(Follower):
    """Hands what it fetches to the event loop, and waits while that has too much to read."""

    def __init__(self, settings: ClientSettings, source: LogSource, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(settings, tell=self._tell)
        self._source = source
        self._loop = loop
        self._waiting_bytes = 0
        self._room = Condition()

    def _tell(self, news: str) -> None:
        self._loop.call_soon_threadsafe(self._show, news)

    def _show(self, news: str) -> None:
        self._source.troubles = [*(each for each in self._source.troubles if each != news), news][-3:]

    def new_partition(self, number: int) -> ReadPartition:
        return ReadPartition(number, self._read)

    def _read(self, number: int, data: bytes) -> None:
        with self._room:
            while self._waiting_bytes > MAX_WAITING_BYTES and not self.is_stopping:
                self._room.wait(ROOM_S)
            self._waiting_bytes += len(data)
        self._loop.call_soon_threadsafe(self._add, number, data)

    def _add(self, number: int, data: bytes) -> None:
        self._source.work.add(self._steps(number, data))

    def _steps(self, number: int, data: bytes) -> Iterator[None]:
        yield from self._source.reader.read(number, data)
        with self._room:
            self._waiting_bytes -= len(data)
            self._room.notify_all()

    def after_tick(self) -> None:
        with self.lock:
            behind = sum(part.lag for part in self.partitions.values())
            if behind == 0 and self._source.troubles and all(part.leader for part in self.partitions.values()):
                self._loop.call_soon_threadsafe(self._source.troubles.clear)
        self._source.behind = behind


class Questions(Thread):
    """Asks the cluster again and again for states, ends of logs and names of topics."""

    def __init__(self, settings: ClientSettings, source: LogSource, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(name="kohort-questions", daemon=True)
        self._settings = settings
        self._source = source
        self._loop = loop
        self._changed = Condition()
        self._stopping = False
        self._names_at = 0.0

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def run(self) -> None:
        while not self._stopping:
            try:
                with Cluster(settings=self._settings) as cluster:
                    while not self._stopping:
                        began = monotonic()
                        self._ask(cluster)
                        self._pause(max(ASK_EVERY_S, PAUSE_FOR_WORK * (monotonic() - began)))
            except (RuntimeError, CancelledError):
                return  # the event loop has ended
            except (ClientError, OSError):
                self._pause(ASK_EVERY_S)  # the follower says what is wrong with the cluster

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping, seconds)

    def _ask(self, cluster: Cluster) -> None:
        self._loop.call_soon_threadsafe(self._source.take_listed, self._listed(cluster))
        if self._source.histories.unknown_topics and monotonic() >= self._names_at:
            self._names_at = monotonic() + NAMES_EVERY_S
            names = {topic.topic_id: topic.name for topic in cluster.metadata(None).topics if topic.topic_id != NO_UUID}
            self._loop.call_soon_threadsafe(self._learn, names)
        if shares := [group_id for group_id, (kind, _) in (self._source.listed or {}).items() if kind == SHARE]:
            self._loop.call_soon_threadsafe(self._source.take_share_starts, share_starts(cluster, shares))
        places = iter(asyncio.run_coroutine_threadsafe(self._places(), self._loop).result())
        while some := list(islice(places, PLACES_AT_ONCE)):
            self._loop.call_soon_threadsafe(self._source.ends.update, _ends(cluster, some))

    def _listed(self, cluster: Cluster) -> Listed | None:
        """Without a right to groups a broker lists none: then states are inferred from the log."""
        listed = {
            each.group_id: ((each.group_type or "classic").lower(), each.group_state)
            for each in ask.list_groups(cluster)
        }
        return listed or None

    def _learn(self, names: dict[bytes, str | None]) -> None:
        for topic_id, name in names.items():
            if name is not None:
                self._source.histories.learn(bytes(topic_id), name)

    async def _places(self) -> list[Place]:
        found: set[Place] = set()
        for number, some in enumerate(self._source.places()):
            found.update(some)
            if number % 100 == 0:
                await asyncio.sleep(0)
        return sorted(found)


def _ends(cluster: Cluster, places: list[Place]) -> dict[Place, int]:
    known = ask.partition_counts(cluster, {topic for topic, _ in places})
    return ask.offsets_at(cluster, [place for place in places if place[1] < known.get(place[0], 0)], ask.LATEST)
