"""What the command line asks a broker about groups: offsets, lag, members. Works against Apache Kafka as well."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from broker.client import Client, ClientError
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.errors import MalformedMessage
from protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.subscription import read_assignment
from protocol.wire import NO_UUID

EARLIEST, LATEST = -2, -1
NEWEST_COMMIT_WITH_NAMES = 9
NEWEST_FETCH_WITH_NAMES = 9
CLASSIC_DESCRIBE = 5  # up to here an unknown group is shown as Dead, later versions call it an error

TopicPartition = tuple[str, int]


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


def error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def fail_on(code: int, what: str) -> None:
    if code:
        raise ClientError(f"{what}: {error_name(code)}")


def wait_for_coordinator(client: Client, group_id: str) -> None:
    """A fresh Kafka makes its offsets topic first, and says so until it is there."""
    for _ in range(100):
        answer = client.send(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(group_id, 0), 2)
        if answer.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
            fail_on(answer.error_code, f"group {group_id}")
            return
    raise ClientError(f"group {group_id}: no coordinator yet, try again")


def list_groups(client: Client, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[ListedGroup]:
    answer = client.send(ApiKey.LIST_GROUPS, ListGroupsRequest(list(states), list(types)))
    fail_on(answer.error_code, "groups")
    return sorted(answer.groups, key=lambda group: group.group_id)


def find_group(client: Client, group_id: str) -> ListedGroup | None:
    """As the list shows it: also groups of newer protocols, of which DescribeGroups knows nothing."""
    return next((group for group in list_groups(client) if group.group_id == group_id), None)


def describe(client: Client, group_id: str) -> DescribedGroup:
    """A group that nobody knows is Dead."""
    version = min(client.newest_version(ApiKey.DESCRIBE_GROUPS), CLASSIC_DESCRIBE)
    group: DescribedGroup = client.send(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest([group_id]), version).groups[0]
    fail_on(group.error_code, f"group {group_id}")
    return group


def committed_offsets(client: Client, group_id: str) -> dict[TopicPartition, int]:
    version = min(client.newest_version(ApiKey.OFFSET_FETCH), NEWEST_FETCH_WITH_NAMES)
    request = OffsetFetchRequest(group_id, None, [OffsetFetchRequestGroup(group_id, None, -1, None)], False)
    answer = client.send(ApiKey.OFFSET_FETCH, request, version)
    if version >= 8:
        fail_on(answer.groups[0].error_code, f"group {group_id}")
    topics = answer.groups[0].topics if version >= 8 else answer.topics
    return {
        (topic.name, p.partition_index): p.committed_offset
        for topic in topics
        for p in topic.partitions
        if p.committed_offset >= 0
    }


def partition_counts(client: Client, topics: Iterable[str]) -> dict[str, int]:
    """How many partitions each topic has; topics that do not exist are left out."""
    asked = [MetadataRequestTopic(NO_UUID, name) for name in sorted(set(topics))]
    answer = client.send(ApiKey.METADATA, MetadataRequest(asked, False))
    return {topic.name: len(topic.partitions) for topic in answer.topics if not topic.error_code}


def offsets_at(client: Client, places: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    """The offsets at a time (or EARLIEST, LATEST); what does not exist is left out."""
    by_topic: dict[str, list[ListOffsetsPartition]] = {}
    for topic, partition in places:
        by_topic.setdefault(topic, []).append(ListOffsetsPartition(partition, -1, timestamp))
    if not by_topic:
        return {}
    asked = [ListOffsetsTopic(topic, partitions) for topic, partitions in by_topic.items()]
    answer = client.send(ApiKey.LIST_OFFSETS, ListOffsetsRequest(-1, 0, asked))
    return {(t.name, p.partition_index): p.offset for t in answer.topics for p in t.partitions if not p.error_code}


def commit(client: Client, group_id: str, offsets: dict[TopicPartition, int]) -> None:
    """As an administrator: without being a member, which only an empty group allows."""
    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        by_topic.setdefault(topic, []).append(OffsetCommitRequestPartition(partition, offset))
    topics = [OffsetCommitRequestTopic(topic, partitions=partitions) for topic, partitions in by_topic.items()]
    version = min(client.newest_version(ApiKey.OFFSET_COMMIT), NEWEST_COMMIT_WITH_NAMES)
    answer = client.send(ApiKey.OFFSET_COMMIT, OffsetCommitRequest(group_id, -1, "", None, -1, topics), version)
    for topic in answer.topics:
        for partition in topic.partitions:
            fail_on(partition.error_code, f"{topic.name}-{partition.partition_index} of group {group_id}")


def partition_rows(client: Client, group: DescribedGroup) -> list[PartitionRow]:
    """Every partition that is owned or has a committed offset, with its lag."""
    owners = {}
    for member in group.members:
        for place in assigned_partitions(member.member_assignment):
            owners[place] = member
    committed = committed_offsets(client, group.group_id)
    places = sorted({*owners, *committed})
    existing = partition_counts(client, {topic for topic, _ in places})
    ends = offsets_at(client, [(t, p) for t, p in places if p < existing.get(t, 0)], LATEST)
    rows = []
    for place in places:
        offset, end, owner = committed.get(place), ends.get(place), owners.get(place)
        lag = None if offset is None or end is None else end - offset  # below zero: committed beyond the end
        who = (None, None, None) if owner is None else (owner.member_id, owner.client_host, owner.client_id)
        rows.append(PartitionRow(*place, offset, end, lag, *who))
    return rows


def assigned_partitions(assignment: bytes) -> list[TopicPartition]:
    """Nothing if it is not a consumer's assignment: Connect and others have their own."""
    if not assignment:
        return []
    try:
        read = read_assignment(assignment)
    except MalformedMessage:
        return []
    return [(topic.topic, partition) for topic in read.assigned_partitions for partition in topic.partitions]
