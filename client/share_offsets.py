"""Start offsets of share groups: what lies before them is finished. Asked, set, deleted at Kohort or Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kohort.client import ask
from kohort.client.answers import fail_on, once_ready
from kohort.client.cluster import Cluster, TopicPartition
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponsePartition,
)
from kohort.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kohort.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponseGroup,
)


def described(cluster: Cluster, group_id: str) -> DescribeShareGroupOffsetsResponseGroup:
    """Of all partitions that the group has a state of."""
    asked = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group_id, None)])
    answer = cluster.coordinator(group_id).send(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, asked)
    found: DescribeShareGroupOffsetsResponseGroup = answer.groups[0]
    fail_on(found.error_code, f"group {group_id}")
    return found


def start_offsets(cluster: Cluster, group_id: str) -> dict[TopicPartition, int]:
    """Without partitions that nobody has read yet: these have none."""
    return {
        (topic.topic_name, row.partition_index): row.start_offset
        for topic in described(cluster, group_id).topics
        for row in topic.partitions
        if not row.error_code and row.start_offset >= 0
    }


def alter(cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Say where the group goes on. A group that does not exist becomes an empty share group."""
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            topic, [AlterShareGroupOffsetsRequestPartition(index, offsets[topic, index]) for index in indexes]
        )
        for topic, indexes in ask.by_topic(offsets).items()
    ]
    request = AlterShareGroupOffsetsRequest(group_id, topics)

    def rows() -> Sequence[AlterShareGroupOffsetsResponsePartition]:
        answer = cluster.coordinator(group_id).send(ApiKey.ALTER_SHARE_GROUP_OFFSETS, request)
        fail_on(answer.error_code, f"group {group_id}")
        return [partition for topic in answer.responses for partition in topic.partitions]

    for row in once_ready(rows, f"group {group_id}"):  # the first use of share groups makes their log
        fail_on(row.error_code, f"partition {row.partition_index} of group {group_id}")


def delete(cluster: Cluster, group_id: str, topics: Iterable[str]) -> dict[str, int]:
    """The error code for each topic."""
    named = [DeleteShareGroupOffsetsRequestTopic(topic) for topic in dict.fromkeys(topics)]
    request = DeleteShareGroupOffsetsRequest(group_id, named)
    answer = cluster.coordinator(group_id).send(ApiKey.DELETE_SHARE_GROUP_OFFSETS, request)
    fail_on(answer.error_code, f"group {group_id}")
    return {topic.topic_name: topic.error_code for topic in answer.responses}
