"""Requests about groups, made from plain words: topics by name, partitions and offsets in dicts.

Tests of the coordinator hand such a request to it, the others send it to a broker. `id_of` gives the id of a topic, for
versions that name topics by id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import pack

from kohort.protocol.messages.consumer_group_heartbeat import TopicPartitions
from kohort.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from kohort.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
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
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kohort.protocol.subscription import pack_assignment, pack_subscription
from kohort.protocol.wire import NO_UUID

FIRST_FETCH_OF_SEVERAL = 8
GROUP_RESOURCE = 32  # settings of a group
SET = 0

Partitions = Mapping[str, Sequence[int]]  # topic: partitions
Offsets = Mapping[tuple[str, int], int]  # topic and partition: offset
IdOf = Callable[[str], bytes]


def without_ids(topic: str) -> bytes:
    """For versions that name topics by name."""
    return NO_UUID


# --- what consumers say in JoinGroup and SyncGroup


def subscription(*topics: str, version: int = 0, user_data: bytes | None = None) -> bytes:
    """The metadata of a consumer, with the fields of version 0 only, whatever version it says it is."""
    names = b"".join(pack(">h", len(name.encode())) + name.encode() for name in topics)
    rest = pack(">i", -1) if user_data is None else pack(">i", len(user_data)) + user_data
    return pack(">hi", version, len(topics)) + names + rest


def full_subscription(
    topics: Iterable[str],
    owned: Partitions | None = None,
    generation: int = -1,
    version: int = 3,
    rack: str | None = None,
) -> bytes:
    """The metadata of a consumer that says which partitions it owns, and since which generation."""
    said = ConsumerProtocolSubscription(list(topics), None, _rows(owned or {}), generation, rack)
    return pack_subscription(said, version)


def assignment_bytes(assigned: Partitions, user_data: bytes | None = None, version: int = 3) -> bytes:
    """What a leader assigns to a member."""
    return pack_assignment(ConsumerProtocolAssignment(_rows(assigned), user_data), version)


def _rows(partitions: Partitions) -> list[TopicPartition]:
    return [TopicPartition(topic, list(indexes)) for topic, indexes in partitions.items()]


def owned_rows(owned: Partitions, id_of: IdOf) -> list[TopicPartitions]:
    """What a KIP-848 member says that it has."""
    return [TopicPartitions(id_of(topic), list(indexes)) for topic, indexes in owned.items()]


# --- offsets


def commit_request(
    group: str,
    offsets: Offsets,
    generation: int = -1,
    member_id: str = "",
    instance: str | None = None,
    *,
    id_of: IdOf = without_ids,
    metadata: str | None = "",
    retention_ms: int = -1,
    leader_epoch: int = -1,
) -> OffsetCommitRequest:
    """Without a member id it is the commit of somebody who is no member."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        row = OffsetCommitRequestPartition(partition, offset, leader_epoch, metadata)
        topics.setdefault(topic, []).append(row)
    rows = [OffsetCommitRequestTopic(topic, id_of(topic), partitions) for topic, partitions in topics.items()]
    return OffsetCommitRequest(group, generation, member_id, instance, retention_ms, rows)


def fetch_request(
    groups: Sequence[tuple[str, Partitions | None]],
    version: int,
    *,
    id_of: IdOf = without_ids,
    member_id: str | None = None,
    epoch: int = -1,
    require_stable: bool = False,
) -> OffsetFetchRequest:
    """Offsets of these groups: of the given partitions, or of all (None). Before version 8 there can be one group."""
    if version < FIRST_FETCH_OF_SEVERAL:
        ((group, topics),) = groups
        asked = None if topics is None else [OffsetFetchRequestTopic(t, list(p)) for t, p in topics.items()]
        return OffsetFetchRequest(group, asked, (), require_stable)
    several = []
    for group, topics in groups:
        rows = None
        if topics is not None:
            rows = [OffsetFetchRequestTopics(topic, id_of(topic), list(p)) for topic, p in topics.items()]
        several.append(OffsetFetchRequestGroup(group, member_id, epoch, rows))
    return OffsetFetchRequest("", (), several, require_stable)


def delete_offsets_request(group: str, *topics: tuple[str, Iterable[int]]) -> OffsetDeleteRequest:
    asked = [OffsetDeleteRequestTopic(t, [OffsetDeleteRequestPartition(index) for index in p]) for t, p in topics]
    return OffsetDeleteRequest(group, asked)


# --- settings


def group_settings_request(group: str, settings: Mapping[str, str]) -> IncrementalAlterConfigsRequest:
    configs = [AlterableConfig(name, SET, value) for name, value in settings.items()]
    return IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, group, configs)])
