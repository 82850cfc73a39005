"""A group and its members as `kohort groups describe` shows them, whatever the type of the group.

Brokers describe classic groups (DescribeGroups) and consumer groups (ConsumerGroupDescribe) in different words. Of a
consumer group's member they tell what it has and what it shall have; the rest follows:

    Stable     it has what it shall have, and knows the newest target
    Revoking   it has partitions that it must give up first: `to_revoke`
    Waiting    others still have partitions that it shall get: `to_come`
    Behind     it has what it shall have, and will learn of the newest target with its next heartbeat
    Away       a static member that has left for a while
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kohort.client import ask
from kohort.client.answers import fail_on
from kohort.client.ask import CLASSIC, CONSUMER, DEAD
from kohort.client.cluster import Cluster, TopicPartition
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    DescribedGroup,
    Member,
)

LEFT_FOR_A_WHILE = -2  # the epoch of a static member that will come back
PROTOCOLS = {0: CLASSIC, 1: CONSUMER}  # of a member; before version 1 brokers do not tell


class Reconciliation(NamedTuple):
    """How far a member of a consumer group has come on the way to its target."""

    protocol: str | None
    epoch: int
    state: str
    to_revoke: list[TopicPartition]
    to_come: list[TopicPartition]
    rack: str | None
    topics: list[str]
    regex: str | None


class MemberView(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[TopicPartition]
    reconciliation: Reconciliation | None = None  # None: the group is classic


class GroupView(NamedTuple):
    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    members: list[MemberView] | None  # None: the broker does not tell
    epoch: int | None = None
    target_epoch: int | None = None  # the epoch that the newest target was computed for


def view(cluster: Cluster, group_id: str) -> GroupView:
    """A group that does not exist is Dead."""
    group, group_type = ask.describe(cluster, group_id)
    client = cluster.coordinator(group_id)
    if group_type == CONSUMER and client.offers(ApiKey.CONSUMER_GROUP_DESCRIBE):
        answer = client.send(ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest([group_id], False))
        described: DescribedGroup = answer.groups[0]
        fail_on(described.error_code, f"group {group_id}")
        return _consumer_view(described, group.protocol_type)
    members = [
        MemberView(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            ask.assigned_partitions(member.member_assignment),
        )
        for member in group.members
    ]
    told = members if group_type == CLASSIC else None
    return GroupView(group_id, group_type, group.group_state, group.protocol_type, group.protocol_data, told)


def partition_rows(cluster: Cluster, group: GroupView) -> list[ask.PartitionRow]:
    """Every partition that is owned or has a committed offset, with its lag."""
    if group.state == DEAD:
        return []
    owners = {}
    for member in group.members or ():
        for place in member.partitions:
            owners[place] = member.member_id, member.host, member.client_id
    return ask.partition_rows(cluster, group.group_id, owners)


def _consumer_view(group: DescribedGroup, protocol_type: str) -> GroupView:
    described = sorted(group.members, key=lambda member: member.member_id)  # Kafka tells them in no order
    members = [_consumer_member(member, group.assignment_epoch) for member in described]
    head = group.group_id, CONSUMER, group.group_state, protocol_type, group.assignor_name
    return GroupView(*head, members, group.group_epoch, group.assignment_epoch)


def _consumer_member(member: Member, target_epoch: int) -> MemberView:
    has, shall_have = _places(member.assignment), _places(member.target_assignment)
    to_revoke = sorted(set(has) - set(shall_have))
    to_come = sorted(set(shall_have) - set(has))
    reconciliation = Reconciliation(
        PROTOCOLS.get(member.member_type),
        member.member_epoch,
        state_of(member.member_epoch, target_epoch, to_revoke, to_come),
        to_revoke,
        to_come,
        member.rack_id,
        sorted(member.subscribed_topic_names),
        member.subscribed_topic_regex or None,
    )
    return MemberView(
        member.member_id, member.instance_id, member.client_id, member.client_host, has, reconciliation
    )  # fmt: skip


def _places(assignment: Assignment) -> list[TopicPartition]:
    return sorted((topic.topic_name, number) for topic in assignment.topic_partitions for number in topic.partitions)


def state_of(
    epoch: int, target_epoch: int, to_revoke: Sequence[TopicPartition], to_come: Sequence[TopicPartition]
) -> str:
    """How far a member has come: see the top of this file."""
    if epoch == LEFT_FOR_A_WHILE:
        return "Away"
    if to_revoke:
        return "Revoking"
    if to_come:
        return "Waiting"
    return "Stable" if epoch == target_epoch else "Behind"
