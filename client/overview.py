"""All groups of a cluster in a line each: state, members, lag. Few questions, however many groups there are.

What a broker does not tell, because it is too old or the user may not ask, is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kohort.client import ask
from kohort.client.ask import CLASSIC, CONSUMER, LATEST, SHARE
from kohort.client.client import Client
from kohort.client.cluster import Cluster
from kohort.client.committed import GROUPS_AT_ONCE, Offsets, committed_offsets, in_chunks
from kohort.client.errors import AccessDenied
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from kohort.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kohort.protocol.messages.list_groups import ListedGroup
from kohort.protocol.messages.share_group_describe import ShareGroupDescribeRequest

PARTITIONS_AT_ONCE = 2_000


class GroupLine(NamedTuple):
    group: str
    type: str
    protocol: str | None
    state: str
    members: int | None
    lag: int | None  # of all partitions with a committed offset together; None: there are none, or it is not told


def overview(cluster: Cluster, states: Iterable[str] = ()) -> list[GroupLine]:
    listed = {group.group_id: group for group in ask.list_groups(cluster, states)}
    members: dict[str, int] = {}
    committed: dict[str, Offsets] = {}
    lags: dict[str, int] = {}
    for node_id, groups in cluster.coordinators(listed).items() if listed else ():
        coordinator = cluster.broker(node_id)
        for some in in_chunks(groups, GROUPS_AT_ONCE):
            kinds = {group_id: _kind(listed[group_id]) for group_id in some}
            members |= _members(coordinator, kinds)
            lags |= _share_lags(coordinator, [group_id for group_id, kind in kinds.items() if kind == SHARE])
            committed |= committed_offsets(coordinator, [group_id for group_id, kind in kinds.items() if kind != SHARE])
    lags |= _lags(cluster, committed)
    return [
        GroupLine(
            one.group_id, one.group_type, one.protocol_type or None, one.group_state, members.get(one.group_id),
            lags.get(one.group_id),
        )
        for one in listed.values()
    ]  # fmt: skip


def _kind(group: ListedGroup) -> str:
    return (group.group_type or CLASSIC).lower()


def _members(coordinator: Client, kinds: dict[str, str]) -> dict[str, int]:
    asked = {kind: [group_id for group_id, each in kinds.items() if each == kind] for kind in (CONSUMER, SHARE)}
    classic = [group_id for group_id, kind in kinds.items() if kind not in asked]
    questions: list[tuple[ApiKey, Any]] = []
    if classic:
        questions.append((ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(classic)))
    if asked[CONSUMER]:
        questions.append((ApiKey.CONSUMER_GROUP_DESCRIBE, ConsumerGroupDescribeRequest(asked[CONSUMER])))
    if asked[SHARE]:
        questions.append((ApiKey.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest(asked[SHARE])))
    found: dict[str, int] = {}
    for api, question in questions:
        if coordinator.offers(api):
            answer = coordinator.send(api, question)
            found |= {group.group_id: len(group.members) for group in answer.groups if not group.error_code}
    return found


def _share_lags(coordinator: Client, groups: Sequence[str]) -> dict[str, int]:
    if not groups or not coordinator.offers(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS):
        return {}
    asked = [DescribeShareGroupOffsetsRequestGroup(group_id, None) for group_id in groups]
    answer = coordinator.send(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, DescribeShareGroupOffsetsRequest(asked))
    found: dict[str, int] = {}
    for group in answer.groups:
        told = [p.lag for topic in group.topics for p in topic.partitions if not p.error_code and p.lag >= 0]
        if told:
            found[group.group_id] = sum(told)
    return found


def share_starts(cluster: Cluster, groups: Iterable[str]) -> dict[str, Offsets]:
    """How far share groups have come: where each partition of them starts. Of those that the cluster tells of."""
    found: dict[str, Offsets] = {}
    for node_id, some in cluster.coordinators(groups).items():
        coordinator = cluster.broker(node_id)
        if not coordinator.offers(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS):
            continue
        for few in in_chunks(some, GROUPS_AT_ONCE):
            asked = [DescribeShareGroupOffsetsRequestGroup(group_id, None) for group_id in few]
            answer = coordinator.send(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, DescribeShareGroupOffsetsRequest(asked))
            for group in answer.groups:
                found[group.group_id] = {
                    (topic.topic_name, p.partition_index): p.start_offset
                    for topic in group.topics
                    for p in topic.partitions
                    if not p.error_code and p.start_offset >= 0
                }
    return found


def _lags(cluster: Cluster, committed: dict[str, Offsets]) -> dict[str, int]:
    places = sorted({place for offsets in committed.values() for place in offsets})
    ends: Offsets = {}
    try:
        for some in in_chunks(places, PARTITIONS_AT_ONCE):
            ends |= ask.offsets_at(cluster, some, LATEST)
    except AccessDenied:  # no right to a topic
        pass
    found: dict[str, int] = {}
    for group_id, offsets in committed.items():
        known = [max(0, ends[place] - offset) for place, offset in offsets.items() if place in ends]
        if known:
            found[group_id] = sum(known)
    return found
