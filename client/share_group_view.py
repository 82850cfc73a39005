"""A share group as `kohort groups describe` shows it, asked from Kohort or from Apache Kafka.

Where the group reads is asked with DescribeShareGroupOffsets. How often records were delivered that are not finished is
in the state that the share coordinator keeps (ReadShareGroupState). Which records are locked at the moment is known to
the leader of the partition alone, and no API tells it: such a record counts once it has come back.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from kohort.client import ask, share_offsets
from kohort.client.answers import fail_on
from kohort.client.ask import LATEST
from kohort.client.client import Client
from kohort.client.cluster import SHARE_PARTITION, Cluster, TopicPartition
from kohort.client.errors import AccessDenied
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.read_share_group_state import (
    PartitionData,
    ReadShareGroupStateRequest,
    ReadStateData,
    StateBatch,
)
from kohort.protocol.messages.share_group_describe import DescribedGroup, Member, ShareGroupDescribeRequest

AVAILABLE = 0  # the state of a record that was delivered and has come back
NO_LEADER = -1  # the leader's epoch of somebody who only looks


class ShareMember(NamedTuple):
    member_id: str
    client_id: str
    host: str
    epoch: int
    state: str  # Stable, or Behind: it will learn of the newest target with its next heartbeat
    rack: str | None
    topics: list[str]
    partitions: list[TopicPartition]


class ShareGroup(NamedTuple):
    group_id: str
    state: str
    assignor: str
    epoch: int
    target_epoch: int
    members: list[ShareMember]


class SharePartitionRow(NamedTuple):
    """A line of `kohort groups describe`."""

    topic: str
    partition: int
    start_offset: int | None  # None: nobody has read the partition yet
    log_end_offset: int | None
    lag: int | None
    returned: int | None  # records that were delivered, and wait to be delivered again; None: not told
    deliveries: int | None  # of the one of them that was delivered most often
    members: int  # that read the partition


def share_view(cluster: Cluster, group_id: str) -> ShareGroup:
    coordinator = cluster.coordinator(group_id)
    answer = coordinator.send(ApiKey.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest([group_id], False))
    group: DescribedGroup = answer.groups[0]
    fail_on(group.error_code, f"group {group_id}")
    in_order = sorted(group.members, key=lambda member: member.member_id)  # Kafka tells them in no order
    members = [_member(member, group.assignment_epoch) for member in in_order]
    head = group.group_id, group.group_state, group.assignor_name
    return ShareGroup(*head, group.group_epoch, group.assignment_epoch, members)


def _member(member: Member, target_epoch: int) -> ShareMember:
    topics = member.assignment.topic_partitions
    return ShareMember(
        member.member_id,
        member.client_id,
        member.client_host,
        member.member_epoch,
        "Stable" if member.member_epoch == target_epoch else "Behind",
        member.rack_id,
        sorted(member.subscribed_topic_names),
        sorted((topic.topic_name, number) for topic in topics for number in topic.partitions),
    )


def share_rows(cluster: Cluster, group: ShareGroup) -> list[SharePartitionRow]:
    """Every partition that has a start offset or is assigned."""
    readers = Counter(place for member in group.members for place in member.partitions)
    found = share_offsets.described(cluster, group.group_id)
    known = {
        (topic.topic_name, row.partition_index): row
        for topic in found.topics
        for row in topic.partitions
        if not row.error_code
    }
    places = sorted({*readers, *known})
    ends = ask.offsets_at(cluster, places, LATEST)
    topic_ids = {topic.topic_name: topic.topic_id for topic in found.topics}
    batches = _batches(cluster, group.group_id, topic_ids, known)
    rows = []
    for place in places:
        row, end = known.get(place), ends.get(place)
        start = None if row is None or row.start_offset < 0 else row.start_offset
        lag = None if row is None or row.lag < 0 else row.lag
        rows.append(SharePartitionRow(*place, start, end, lag, *_returned(batches.get(place)), readers[place]))
    return rows


def _batches(
    cluster: Cluster, group_id: str, topic_ids: dict[str, bytes], places: Iterable[TopicPartition]
) -> dict[TopicPartition, list[StateBatch]]:
    """What the share coordinators keep. Empty where the broker does not tell, or the user may not ask."""
    if not cluster.any().offers(ApiKey.READ_SHARE_GROUP_STATE):
        return {}
    keys = {f"{group_id}:{_text(topic_ids[topic])}:{index}": (topic, index) for topic, index in places}
    found: dict[TopicPartition, list[StateBatch]] = {}
    try:
        coordinators = cluster.coordinators(keys, SHARE_PARTITION)
    except AccessDenied:  # brokers ask this of one another; users need a right to the cluster for it
        return {}
    for node_id, some in coordinators.items():
        asked = [
            ReadStateData(topic_ids[topic], [PartitionData(index, NO_LEADER) for index in indexes])
            for topic, indexes in ask.by_topic(keys[key] for key in some).items()
        ]
        found |= _batches_at(cluster.broker(node_id), group_id, topic_ids, asked)
    return found


def _batches_at(
    client: Client, group_id: str, topic_ids: dict[str, bytes], asked: list[ReadStateData]
) -> dict[TopicPartition, list[StateBatch]]:
    names = {topic_id: name for name, topic_id in topic_ids.items()}
    answer = client.send(ApiKey.READ_SHARE_GROUP_STATE, ReadShareGroupStateRequest(group_id, asked))
    return {
        (names[topic.topic_id], row.partition): list(row.state_batches)
        for topic in answer.results
        for row in topic.partitions
        if not row.error_code
    }


def _text(topic_id: bytes) -> str:
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def _returned(batches: list[StateBatch] | None) -> tuple[int | None, int | None]:
    if batches is None:
        return None, None
    returned = [batch for batch in batches if batch.delivery_state == AVAILABLE and batch.delivery_count]
    records = sum(batch.last_offset - batch.first_offset + 1 for batch in returned)
    return records, max((batch.delivery_count for batch in returned), default=0)
