"""Finds the logs of a cluster, kafka://host:port[,host:port], and where each begins and ends.

Nothing is read but the first batches of each log. A task that wants the records fetches them; see fetch.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kohort.audit.decode.access import Access, connected
from kohort.audit.decode.folders import CLUSTER, LogFolder
from kohort.audit.tables import FIRST_NUMBER, OFFSETS_TOPIC, STATE_TOPIC
from kohort.client import ask
from kohort.client.answers import NOT_ALLOWED, NOT_READY, error_name
from kohort.client.ask import EARLIEST, LATEST, LED_BY_ANOTHER
from kohort.client.client import Client
from kohort.client.cluster import Cluster, TopicPartition
from kohort.client.errors import AccessDenied, ClientError
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from kohort.protocol.messages.metadata import MetadataResponseTopic
from kohort.protocol.record_batch import CorruptBatch, parse_header

RECORD_BYTES = 150  # if nothing tells how large records are
SAMPLE_BYTES = 16_384  # of each log
SAMPLE_WAIT_MS = 0
MAX_TIMESTAMP = -3
KNOWS_MAX_TIMESTAMP = 7  # the version of ListOffsets
NO_ACTIVE_SEGMENT = -1
RIGHTS = "the user needs READ and DESCRIBE on the topic"


def access_to(path: str, command_config: str | None) -> Access:
    """`kafka://` alone means the cluster that the environment or the file of settings names."""
    return Access.load(path.removeprefix(CLUSTER).rstrip("/") or None, command_config)


class Found(NamedTuple):
    folders: list[LogFolder]
    leaderless: list[str]  # paths of log partitions that nobody leads at the moment


def logs_of_cluster(access: Access) -> Found:
    """The log partitions that the user may see, as they are now. Raises ClientError.

    Without a right to __share_group_state or __transaction_state, and where these do not exist, they are left out.
    """
    folders: list[LogFolder] = []
    leaderless: list[str] = []
    with connected(access) as cluster:
        for topic in cluster.metadata(list(FIRST_NUMBER)).topics:
            if topic.error_code:
                _complain_about(topic)
                continue
            found = _logs_of_topic(cluster, access, topic)
            folders += found.folders
            leaderless += found.leaderless
    return Found(sorted(folders, key=lambda folder: folder.log_partition), leaderless)


def _complain_about(topic: MetadataResponseTopic) -> None:
    if topic.name != OFFSETS_TOPIC:
        return
    if topic.error_code in NOT_ALLOWED:
        raise AccessDenied(f"{RIGHTS} {OFFSETS_TOPIC}")
    if topic.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, *NOT_READY, *LED_BY_ANOTHER):
        raise ClientError(f"the cluster has no {OFFSETS_TOPIC} yet: it is made for the first group")
    raise ClientError(f"{OFFSETS_TOPIC}: {error_name(topic.error_code)}")


def _logs_of_topic(cluster: Cluster, access: Access, topic: MetadataResponseTopic) -> Found:
    name = topic.name or ""
    places = [(name, partition.partition_index) for partition in topic.partitions]
    starts = ask.offsets_at(cluster, places, EARLIEST)
    ends = ask.offsets_at(cluster, places, LATEST)
    if not ends:
        _refuse(cluster, places)
    samples = _first_bytes(cluster, topic.topic_id, {place: starts.get(place, 0) for place in ends})
    times = _latest_times(cluster, ends)
    found = Found([], [])
    for place in places:
        number, path = place[1], f"{CLUSTER}{access.bootstrap}/{name}-{place[1]}"
        if place not in ends:
            found.leaderless.append(path)
            continue
        start, end = starts.get(place, 0), ends[place]
        first, record_bytes = _first_offset(samples.get(place, b""), start)
        found.folders.append(
            LogFolder(
                path, FIRST_NUMBER[name] + number, None if end <= start else first, end,
                0 if name == STATE_TOPIC else None, NO_ACTIVE_SEGMENT, 0, int(max(0, end - first) * record_bytes),
                times.get(place), len(places), access,
            )
        )  # fmt: skip
    return found


def _refuse(cluster: Cluster, places: Sequence[TopicPartition]) -> None:
    """Say why no partition tells its end."""
    for client, some in ask.by_leader(cluster, places):
        for told in ask.list_offsets(client, some, LATEST).values():
            if told.error_code in NOT_ALLOWED:
                raise AccessDenied(f"{RIGHTS} {places[0][0]}")
            if told.error_code:
                raise ClientError(f"{places[0][0]}: {error_name(told.error_code)}")


def _latest_times(cluster: Cluster, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The greatest time of a record, where the broker can tell."""
    found: dict[TopicPartition, int] = {}
    for client, some in ask.by_leader(cluster, places):
        if client.newest_version(ApiKey.LIST_OFFSETS) < KNOWS_MAX_TIMESTAMP:
            continue
        for place, told in ask.list_offsets(client, some, MAX_TIMESTAMP).items():
            if not told.error_code and told.timestamp >= 0:
                found[place] = told.timestamp
    return found


def _first_bytes(cluster: Cluster, topic_id: bytes, starts: dict[TopicPartition, int]) -> dict[TopicPartition, bytes]:
    """The first bytes of each log, for a guess of its size."""
    found: dict[TopicPartition, bytes] = {}
    for client, some in ask.by_leader(cluster, starts):
        for topic in _sample(client, topic_id, [(place, starts[place]) for place in some]).responses:
            for data in topic.partitions:
                if data.error_code in NOT_ALLOWED:
                    raise AccessDenied(f"{RIGHTS} {some[0][0]}")
                found[some[0][0], data.partition_index] = bytes(data.records or b"")
    return found


def _sample(client: Client, topic_id: bytes, asked: Sequence[tuple[TopicPartition, int]]) -> FetchResponse:
    parts = [FetchPartition(number, -1, start, partition_max_bytes=SAMPLE_BYTES) for (_, number), start in asked]
    request = FetchRequest(
        max_wait_ms=SAMPLE_WAIT_MS, max_bytes=SAMPLE_BYTES * len(parts),
        topics=[FetchTopic(asked[0][0][0], topic_id, parts)],
    )  # fmt: skip
    answer: FetchResponse = client.send(ApiKey.FETCH, request)
    return answer


def _first_offset(sample: bytes, start: int) -> tuple[int, float]:
    """The offset of the first batch, and the size of a record, as far as the sample tells."""
    try:
        first = parse_header(sample)
    except CorruptBatch:
        return start, RECORD_BYTES
    return first.base_offset, first.size_bytes / (first.last_offset_delta + 1)
