"""Fetches a group's partition of `__consumer_offsets` from its leader. The user needs READ and DESCRIBE on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from time import sleep

from kohort.broker.why.source import OFFSETS_TOPIC, CannotRead, Piece, whole_batches
from kohort.client import ask
from kohort.client.answers import NOT_ALLOWED, READY_PAUSE_S, error_name
from kohort.client.cluster import Cluster
from kohort.client.errors import AccessDenied, ClientError, ConnectionLost
from kohort.coordinator.partitioner import partition_of
from kohort.history.records import groups_in
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kohort.protocol.wire import NO_UUID

FETCH_BYTES = 4 << 20
MAX_WAIT_MS = 500
NAMES_TOPICS = 12  # the last version of Fetch that does
TRIES = 50
CONSUMER = -1


class ClusterLog:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._count: int | None = None
        self._number: int | None = None

    # --- as a source

    def pieces(self, group_id: str) -> Iterator[Piece]:
        """The partition in which the group should be. Brokers go on with the old number of partitions until they are
        started again: so a group that they list and that is not there is looked for in all others."""
        count, needle, was_seen = self._partition_count(), group_id.encode(), False
        self._number = partition_of(group_id, count)
        for piece in self._pieces_of(self._number):
            was_seen = was_seen or needle in piece.data
            yield piece
        if not was_seen and self._is_listed(group_id):
            for number in range(count):
                if number != self._number:
                    yield from self._pieces_of(number)

    def _is_listed(self, group_id: str) -> bool:
        with suppress(ClientError):
            return any(group.group_id == group_id for group in ask.list_groups(self._cluster))
        return False

    def topic_names(self) -> Iterator[tuple[bytes, str]]:
        """Names of the topics that the user may see."""
        for topic in self._cluster.metadata(None).topics:
            if topic.name is not None and not topic.error_code and topic.topic_id != NO_UUID:
                yield bytes(topic.topic_id), topic.name

    def group_ids(self) -> Iterator[str]:
        """What the cluster lists, which is nothing without the right to see groups; and what is in the partition."""
        with suppress(ClientError):
            yield from (group.group_id for group in ask.list_groups(self._cluster))
        if self._number is not None:
            for piece in self._pieces_of(self._number):
                yield from groups_in(piece.data)

    # --- the partition

    def _partition_count(self) -> int:
        if self._count is None:
            (found,) = self._cluster.metadata([OFFSETS_TOPIC]).topics
            if found.error_code in NOT_ALLOWED:
                raise AccessDenied(f"the user needs READ and DESCRIBE on the topic {OFFSETS_TOPIC}")
            if found.error_code or not found.partitions:
                raise CannotRead(f"the cluster has no topic {OFFSETS_TOPIC} yet: it never had a group")
            self._count = len(found.partitions)
        return self._count

    def _pieces_of(self, number: int) -> Iterator[Piece]:
        place = (OFFSETS_TOPIC, number)
        start, end = (ask.offsets_at(self._cluster, [place], which).get(place) for which in (ask.EARLIEST, ask.LATEST))
        if start is None or end is None:
            raise ClientError(f"{OFFSETS_TOPIC}-{number} cannot be read at the moment: nobody leads it")
        position, size = start, FETCH_BYTES
        while position < end:
            data = self._fetch(number, position, size)
            records = bytes(data.records or b"")
            whole = whole_batches(records)
            if not whole:
                if data.high_watermark <= position:
                    return
                if not records:
                    continue
                size *= 4  # a batch that is larger than what was asked for
                continue
            size = FETCH_BYTES
            following = _next_offset(records, whole)
            yield Piece(records[:whole], following - start, end - start)
            position = following

    def _fetch(self, number: int, position: int, size: int) -> PartitionData:
        for _ in range(TRIES):
            answer = self._fetch_once(number, position, size)
            if answer is not None:
                return answer
            sleep(READY_PAUSE_S)
        raise ClientError(f"{OFFSETS_TOPIC}-{number} cannot be read at the moment: nobody leads it")

    def _fetch_once(self, number: int, position: int, size: int) -> PartitionData | None:
        """None: another broker leads the partition now, or nobody."""
        try:
            for client, _ in ask.by_leader(self._cluster, [(OFFSETS_TOPIC, number)]):
                part = FetchPartition(number, -1, position, -1, partition_max_bytes=size)
                topics = [FetchTopic(OFFSETS_TOPIC, NO_UUID, [part])]
                request = FetchRequest(None, CONSUMER, None, MAX_WAIT_MS, 1, size, topics=topics)
                answer = client.send(ApiKey.FETCH, request, min(client.newest_version(ApiKey.FETCH), NAMES_TOPICS))
                found: PartitionData = answer.responses[0].partitions[0]
                if found.error_code in NOT_ALLOWED:
                    raise AccessDenied(f"the user needs READ and DESCRIBE on the topic {OFFSETS_TOPIC}")
                if found.error_code in ask.LED_BY_ANOTHER:
                    return None
                if found.error_code:
                    raise ClientError(f"{OFFSETS_TOPIC}-{number}: {error_name(found.error_code)}")
                return found
        except ConnectionLost:
            return None
        return None


def _next_offset(records: bytes, end: int) -> int:
    from kohort.protocol.record_batch import parse_header

    position, following = 0, 0
    while position < end:
        header = parse_header(records, position)
        following = header.next_offset
        position += header.size_bytes
    return following
