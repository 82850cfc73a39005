"""What the command line asks a broker about groups: offsets, lag, members. Works against Apache Kafka as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic, sleep
from typing import Any, NamedTuple

from kohort.client.client import Client, ClientError
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.list_groups import ListedGroup, ListGroupsRequest
from kohort.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
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
from kohort.protocol.wire import NO_UUID

EARLIEST, LATEST = -2, -1
NEWEST_COMMIT_WITH_NAMES = 9
NEWEST_FETCH_WITH_NAMES = 9
CLASSIC_DESCRIBE = 5  # up to here an unknown group is shown as Dead, later versions call it an error

CLASSIC, CONSUMER, SHARE = "classic", "consumer", "share"
DEAD = "Dead"
NOT_READY = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
READY_TIMEOUT_S = 30.0
READY_PAUSE_S = 0.1

_ADVICE: dict[int, str] = {
    ErrorCode.NON_EMPTY_GROUP: "it has members; stop them first",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has members; stop them first",  # the answer to a commit by a non-member
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "the group consumes this topic; stop its members first",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
}

TopicPartition = tuple[str, int]
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


def error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def why(code: int) -> str:
    """The error in words that say what to do, if there are such words; or else its name."""
    return _ADVICE.get(code, error_name(code))


def fail_on(code: int, what: str) -> None:
    if code:
        raise ClientError(f"{what}: {why(code)}")


def must_be_alone(client: Client) -> None:
    """Refuse a cluster: this client asks one broker only, and would not see the groups and logs of the others."""
    brokers = client.send(ApiKey.METADATA, MetadataRequest([], False)).brokers
    if len(brokers) > 1:
        raise ClientError(
            f"{client.address} is one of {len(brokers)} brokers and knows only a part of the groups:"
            " ask this cluster with kafka-consumer-groups"
        )


def wait_for_coordinator(client: Client, group_id: str) -> DescribedGroup:
    """The group, as soon as its coordinator is ready. A new Kafka first has to create its offsets topic, and any broker
    that has just started has to load its groups."""

    def ask() -> Any:
        found = client.send(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(group_id, 0), 2)
        if found.error_code:
            return found
        version = min(client.newest_version(ApiKey.DESCRIBE_GROUPS), CLASSIC_DESCRIBE)
        return client.send(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest([group_id]), version).groups[0]

    group: DescribedGroup = _once_ready(ask, f"group {group_id}")
    return group


def _once_ready(ask: Callable[[], Any], what: str) -> Any:
    """Ask until the broker no longer answers that it is not ready yet."""
    deadline = monotonic() + READY_TIMEOUT_S
    while (answer := ask()).error_code in NOT_READY:
        if monotonic() > deadline:
            name = error_name(answer.error_code)
            raise ClientError(f"{what}: the broker is still not ready ({name}); its log may say why")
        sleep(READY_PAUSE_S)
    fail_on(answer.error_code, what)
    return answer


def list_groups(client: Client, states: Iterable[str] = ()) -> list[ListedGroup]:
    request = ListGroupsRequest(list(states), [])
    answer = _once_ready(lambda: client.send(ApiKey.LIST_GROUPS, request), "groups")
    return sorted(answer.groups, key=lambda group: group.group_id)


def describe(client: Client, group_id: str) -> tuple[DescribedGroup, str]:
    """A group and its type. A group that does not exist is Dead. DescribeGroups calls groups of newer types Dead, too;
    for these the state and the type come from ListGroups."""
    group = wait_for_coordinator(client, group_id)
    if group.group_state == DEAD:
        for listed in list_groups(client):
            if listed.group_id == group_id:
                group.group_state, group.protocol_type = listed.group_state, listed.protocol_type
                return group, listed.group_type
    return group, CLASSIC


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
    """The offsets at a time (or EARLIEST, LATEST); -1 where no record is so late. Partitions that are offline or do not
    exist are left out."""
    asked = [
        ListOffsetsTopic(topic, [ListOffsetsPartition(index, -1, timestamp) for index in indexes])
        for topic, indexes in by_topic(places).items()
    ]
    if not asked:
        return {}
    answer = client.send(ApiKey.LIST_OFFSETS, ListOffsetsRequest(-1, 0, asked))
    return {(t.name, p.partition_index): p.offset for t in answer.topics for p in t.partitions if not p.error_code}


def commit(client: Client, group_id: str, offsets: dict[TopicPartition, int]) -> None:
    """Commit offsets without being a member of the group. Brokers allow that only if the group has no members."""
    topics = [
        OffsetCommitRequestTopic(
            topic, partitions=[OffsetCommitRequestPartition(index, offsets[topic, index]) for index in indexes]
        )
        for topic, indexes in by_topic(offsets).items()
    ]
    version = min(client.newest_version(ApiKey.OFFSET_COMMIT), NEWEST_COMMIT_WITH_NAMES)
    answer = client.send(ApiKey.OFFSET_COMMIT, OffsetCommitRequest(group_id, -1, "", None, -1, topics), version)
    for topic in answer.topics:
        for partition in topic.partitions:
            fail_on(partition.error_code, f"{topic.name}-{partition.partition_index} of group {group_id}")


def delete_offsets(client: Client, group_id: str, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The error code for each partition; 0 also where there was no offset."""
    topics = [
        OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(index) for index in indexes])
        for topic, indexes in by_topic(places).items()
    ]
    answer = client.send(ApiKey.OFFSET_DELETE, OffsetDeleteRequest(group_id, topics))
    fail_on(answer.error_code, f"group {group_id}")
    return {(t.name, p.partition_index): p.error_code for t in answer.topics for p in t.partitions}


def by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in places:
        found.setdefault(topic, []).append(partition)
    return found


def partition_rows(client: Client, group_id: str, owners: dict[TopicPartition, Owner]) -> list[PartitionRow]:
    """Every partition that is owned or has a committed offset, with its lag."""
    committed = committed_offsets(client, group_id)
    places = sorted({*owners, *committed})
    existing = partition_counts(client, {topic for topic, _ in places})
    ends = offsets_at(client, [(t, p) for t, p in places if p < existing.get(t, 0)], LATEST)
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
