"""All groups of a cluster in a line each: state, members, lag. Few questions, however many groups there are.

What a broker does not tell, because it is too old or the user may not ask, is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from kohort.client import ask
from kohort.client.ask import CLASSIC, CONSUMER, LATEST, SHARE
from kohort.client.client import Client
from kohort.client.cluster import Cluster, TopicPartition
from kohort.client.errors import AccessDenied
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from kohort.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kohort.protocol.messages.list_groups import ListedGroup
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kohort.protocol.messages.share_group_describe import ShareGroupDescribeRequest

GROUPS_AT_ONCE = 500
PARTITIONS_AT_ONCE = 2_000
OFFSETS_OF_SEVERAL = 8  # the version of OffsetFetch that takes several groups

Item = TypeVar("Item")
Offsets = dict[TopicPartition, int]


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
        for some in _chunks(groups, GROUPS_AT_ONCE):
            kinds = {group_id: _kind(listed[group_id]) for group_id in some}
            members |= _members(coordinator, kinds)
            lags |= _share_lags(coordinator, [group_id for group_id, kind in kinds.items() if kind == SHARE])
            committed |= _committed(coordinator, [group_id for group_id, kind in kinds.items() if kind != SHARE])
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


def _committed(coordinator: Client, groups: Sequence[str]) -> dict[str, Offsets]:
    """The committed offsets of each group that the broker tells of."""
    version = min(coordinator.newest_version(ApiKey.OFFSET_FETCH), ask.NEWEST_FETCH_WITH_NAMES)
    found: dict[str, Offsets] = {}
    for some in _chunks(groups, GROUPS_AT_ONCE if version >= OFFSETS_OF_SEVERAL else 1):
        asked = [OffsetFetchRequestGroup(group_id, None, -1, None) for group_id in some]
        answer = coordinator.send(ApiKey.OFFSET_FETCH, OffsetFetchRequest(some[0], None, asked, False), version)
        told = [(g.group_id, g) for g in answer.groups] if version >= OFFSETS_OF_SEVERAL else [(some[0], answer)]
        for group_id, one in told:
            if not one.error_code:
                found[group_id] = {
                    (topic.name, p.partition_index): p.committed_offset
                    for topic in one.topics
                    for p in topic.partitions
                    if p.committed_offset >= 0
                }
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


def _lags(cluster: Cluster, committed: dict[str, Offsets]) -> dict[str, int]:
    places = sorted({place for offsets in committed.values() for place in offsets})
    ends: Offsets = {}
    try:
        for some in _chunks(places, PARTITIONS_AT_ONCE):
            ends |= ask.offsets_at(cluster, some, LATEST)
    except AccessDenied:  # no right to a topic
        pass
    found: dict[str, int] = {}
    for group_id, offsets in committed.items():
        known = [max(0, ends[place] - offset) for place, offset in offsets.items() if place in ends]
        if known:
            found[group_id] = sum(known)
    return found


def _chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
