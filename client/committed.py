"""The committed offsets of many groups, in few questions to their coordinator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from kohort.client.ask import NEWEST_FETCH_WITH_NAMES
from kohort.client.client import Client
from kohort.client.cluster import TopicPartition
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

GROUPS_AT_ONCE = 500
OFFSETS_OF_SEVERAL = 8  # the version of OffsetFetch that takes several groups

Item = TypeVar("Item")
Offsets = dict[TopicPartition, int]


def committed_offsets(coordinator: Client, groups: Sequence[str]) -> dict[str, Offsets]:
    """The committed offsets of each group that the broker tells of."""
    version = min(coordinator.newest_version(ApiKey.OFFSET_FETCH), NEWEST_FETCH_WITH_NAMES)
    found: dict[str, Offsets] = {}
    for some in in_chunks(groups, GROUPS_AT_ONCE if version >= OFFSETS_OF_SEVERAL else 1):
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


def in_chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
