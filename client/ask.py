"""What is asked of a cluster about groups: which there are, their offsets, lag, members. Kohort's or Apache Kafka's.

Each question goes to the brokers that can answer it: about a group to its coordinator, about a partition to its leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from time import sleep
from typing import NamedTuple

from kohort.client.answers import READY_PAUSE_S, fail_on, once_ready
from kohort.client.client import Client
from kohort.client.cluster import Cluster, TopicPartition
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest
from kohort.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from kohort.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from kohort.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kohort.protocol.subscription import read_assignment

EARLIEST, LATEST = -2, -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
NEWEST_COMMIT_WITH_NAMES = 9
NEWEST_FETCH_WITH_NAMES = 9
CLASSIC_DESCRIBE = 5  # up to here an unknown group is shown as Dead, later versions call it an error

CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"
DEAD = "Dead"
LEADER_TRIES = 30
LED_BY_ANOTHER = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.LEADER_NOT_AVAILABLE,
)

Owner = tuple[str, str, str]  # member id, host, client id


class PartitionRow(NamedTuple):
    """A line of `kohort groups describe`."""

    topic: str
    partition: int
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    member_id: str | None
    host: str | None
    client_id: str | None


def wait_for_coordinator(cluster: Cluster, group_id: str) -> DescribedGroup:
    """The group, as soon as its coordinator is ready. A new Kafka first has to create its offsets topic, and any broker
    that has just started has to load its groups."""

    def ask() -> list[DescribedGroup]:
        coordinator = cluster.coordinator(group_id)
        version = min(coordinator.newest_version(ApiKey.DESCRIBE_GROUPS), CLASSIC_DESCRIBE)
        answer = coordinator.send(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest([group_id]), version)
        if answer.groups[0].error_code:
            cluster.forget_coordinator(group_id)
        return list(answer.groups)

    return once_ready(ask, f"group {group_id}")[0]


def list_groups(cluster: Cluster, states: Iterable[str] = ()) -> list[ListedGroup]:
    request = ListGroupsRequest(list(states), [])
    found: dict[str, ListedGroup] = {}
    for broker in cluster.each_broker():
        for group in _groups_of(broker, request).groups:
            found[group.group_id] = group
    return [found[group_id] for group_id in sorted(found)]


def _groups_of(broker: Client, request: ListGroupsRequest) -> ListGroupsResponse:
    def ask() -> list[ListGroupsResponse]:
        return [broker.send(ApiKey.LIST_GROUPS, request)]

    return once_ready(ask, f"groups of {broker.address}")[0]


def describe(cluster: Cluster, group_id: str) -> tuple[DescribedGroup, str]:
    """A group and its type. A group that does not exist is Dead. DescribeGroups calls groups of newer types Dead, too;
    for these the state and the type come from ListGroups."""
    group = wait_for_coordinator(cluster, group_id)
    if group.group_state == DEAD:
        for listed in _groups_of(cluster.coordinator(group_id), ListGroupsRequest([], [])).groups:
            if listed.group_id == group_id:
                group.group_state, group.protocol_type = listed.group_state, listed.protocol_type
                return group, listed.group_type
    return group, CLASSIC


def committed_offsets(cluster: Cluster, group_id: str) -> dict[TopicPartition, int]:
    client = cluster.coordinator(group_id)
    version = min(client.newest_version(ApiKey.OFFSET_FETCH), NEWEST_FETCH_WITH_NAMES)
    request = OffsetFetchRequest(group_id, None, [OffsetFetchRequestGroup(group_id, None, -1, None)], False)
    answer = client.send(ApiKey.OFFSET_FETCH, request, version)
    if version >= 8:
        fail_on(answer.groups[0].error_code, f"group {group_id}")
    else:
        fail_on(answer.error_code, f"group {group_id}")
    topics = answer.groups[0].topics if version >= 8 else answer.topics
    return {
        (topic.name, p.partition_index): p.committed_offset
        for topic in topics
        for p in topic.partitions
        if p.committed_offset >= 0
    }


def partition_counts(cluster: Cluster, topics: Iterable[str]) -> dict[str, int]:
    """How many partitions each topic has; topics that do not exist are left out."""
    answer = cluster.metadata(sorted(set(topics)))
    return {topic.name or "": len(topic.partitions) for topic in answer.topics if not topic.error_code}


def offsets_at(
    cluster: Cluster, places: Iterable[TopicPartition], timestamp: int, *, committed: bool = False
) -> dict[TopicPartition, int]:
    """The offsets at a time (or EARLIEST, LATEST); -1 where no record is so late. Partitions that are offline or do not
    exist are left out. `committed`: as readers of committed records see them; the latest is the last stable offset."""
    isolation = READ_COMMITTED if committed else READ_UNCOMMITTED
    found: dict[TopicPartition, int] = {}
    left = set(places)
    for number in range(LEADER_TRIES):
        if number:
            sleep(READY_PAUSE_S)
        moved = set()
        for client, some in by_leader(cluster, left):
            for place, told in list_offsets(client, some, timestamp, isolation).items():
                if told.error_code in LED_BY_ANOTHER:
                    moved.add(place)
                elif not told.error_code:
                    found[place] = told.offset
        left = moved
        if not left:
            break
    return found


def by_leader(cluster: Cluster, places: Iterable[TopicPartition]) -> list[tuple[Client, list[TopicPartition]]]:
    """The leaders, each with its partitions of `places`."""
    wanted = set(places)
    led: dict[int, list[TopicPartition]] = {}
    for place, leader in cluster.leaders(wanted).items() if wanted else ():
        led.setdefault(leader.node_id, []).append(place)
    return [(cluster.broker(node_id), sorted(some)) for node_id, some in sorted(led.items())]


def list_offsets(
    client: Client, places: Iterable[TopicPartition], timestamp: int, isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, ListOffsetsPartitionResponse]:
    asked = [
        ListOffsetsTopic(topic, [ListOffsetsPartition(index, -1, timestamp) for index in indexes])
        for topic, indexes in by_topic(places).items()
    ]
    answer = client.send(ApiKey.LIST_OFFSETS, ListOffsetsRequest(-1, isolation, asked))
    return {(topic.name, p.partition_index): p for topic in answer.topics for p in topic.partitions}


def commit(cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets without being a member of the group. Brokers allow that only if the group has no members."""
    topics = [
        OffsetCommitRequestTopic(
            topic, partitions=[OffsetCommitRequestPartition(index, offsets[topic, index]) for index in indexes]
        )
        for topic, indexes in by_topic(offsets).items()
    ]
    client = cluster.coordinator(group_id)
    version = min(client.newest_version(ApiKey.OFFSET_COMMIT), NEWEST_COMMIT_WITH_NAMES)
    answer = client.send(ApiKey.OFFSET_COMMIT, OffsetCommitRequest(group_id, -1, "", None, -1, topics), version)
    for topic in answer.topics:
        for partition in topic.partitions:
            fail_on(partition.error_code, f"{topic.name}-{partition.partition_index} of group {group_id}")


def delete_offsets(cluster: Cluster, group_id: str, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The error code for each partition; 0 also where there was no offset."""
    topics = [
        OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(index) for index in indexes])
        for topic, indexes in by_topic(places).items()
    ]
    answer = cluster.coordinator(group_id).send(ApiKey.OFFSET_DELETE, OffsetDeleteRequest(group_id, topics))
    fail_on(answer.error_code, f"group {group_id}")
    return {(t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}


def delete_groups(cluster: Cluster, group_ids: Iterable[str]) -> list[DeletableGroupResult]:
    """What each coordinator says about its groups, in the order of `group_ids`."""
    wanted = list(group_ids)
    for group_id in wanted:
        wait_for_coordinator(cluster, group_id)
    results: dict[str, DeletableGroupResult] = {}
    for node_id, some in cluster.coordinators(wanted).items():
        answer = cluster.broker(node_id).send(ApiKey.DELETE_GROUPS, DeleteGroupsRequest(some))
        results |= {result.group_id: result for result in answer.results}
    return [results[group_id] for group_id in dict.fromkeys(wanted)]


def by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in places:
        found.setdefault(topic, []).append(partition)
    return found


def partition_rows(cluster: Cluster, group_id: str, owners: dict[TopicPartition, Owner]) -> list[PartitionRow]:
    """Every partition that is owned or has a committed offset, with its lag."""
    committed = committed_offsets(cluster, group_id)
    places = sorted({*owners, *committed})
    existing = partition_counts(cluster, {topic for topic, _ in places})
    ends = offsets_at(cluster, [(t, p) for t, p in places if p < existing.get(t, 0)], LATEST)
    rows = []
    for place in places:
        offset, end = committed.get(place), ends.get(place)
        lag = None if offset is None or end is None else end - offset  # below zero: committed beyond the end
        rows.append(PartitionRow(*place, offset, end, lag, *owners.get(place, (None, None, None))))
    return rows


def assigned_partitions(assignment: bytes) -> list[TopicPartition]:
    """The partitions of a consumer's assignment; none if the bytes have another form, as Connect's have."""
    if not assignment:
        return []
    try:
        read = read_assignment(assignment)
    except MalformedMessage:
        return []
    return [(topic.topic, partition) for topic in read.assigned_partitions for partition in topic.partitions]
