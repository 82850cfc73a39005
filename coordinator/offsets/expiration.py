"""Offsets that nobody needs any more: expiry (KIP-211), and deletion of topics.

group                                   offsets that may expire     counted from
simple, nobody ever joined              all                         each commit
empty, with a protocol type             all                         when it became empty
stable consumers, subscription known    of topics not subscribed    each commit
otherwise                               none
"""

from __future__ import annotations

from collections.abc import Iterable

from kohort.coordinator.classic.group import CONSUMER, ClassicGroup
from kohort.coordinator.classic.state import EMPTY, STABLE
from kohort.coordinator.offsets.store import NO_EXPIRY, CommittedOffset, Place
from kohort.coordinator.outcome import Outcome, Record
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.log_records import GROUP_METADATA, OFFSET_COMMIT
from kohort.protocol.messages.log_group_metadata import GroupMetadataKey
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey
from kohort.protocol.wire import NO_UUID


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    return Record(OFFSET_COMMIT, OffsetCommitKey(group_id, topic, partition), None)


def group_tombstone(group_id: str) -> Record:
    return Record(GROUP_METADATA, GroupMetadataKey(group_id), None)


def expire_offsets(shard: ShardState, now: int) -> Outcome:
    """Tombstones for what has expired, and for groups that are left with nothing."""
    out = Outcome()
    for group in list(shard.groups.values()):
        kept = _expire_group(shard, group, now, out)
        if group.state is EMPTY and not kept:
            out.records.append(group_tombstone(group.group_id))
    return out


def _expire_group(shard: ShardState, group: ClassicGroup, now: int, out: Outcome) -> int:
    """How many offsets stay, pending ones included."""
    kept = sum(1 for _ in shard.offsets.pending_places(group.group_id))
    for topic, partitions in shard.offsets.topics(group.group_id).items():
        may_expire = _may_expire(group, topic)
        for index, committed in partitions.items():
            if (
                may_expire
                and _is_expired(shard, group, committed, now)
                and not shard.offsets.has_pending(group.group_id, topic, index)
            ):
                out.records.append(offset_tombstone(group.group_id, topic, index))
            else:
                kept += 1
    return kept


def _may_expire(group: ClassicGroup, topic: str) -> bool:
    if group.state is EMPTY:
        return True
    return group.state is STABLE and group.protocol_type == CONSUMER and not group.is_subscribed_to(topic)


def _is_expired(shard: ShardState, group: ClassicGroup, committed: CommittedOffset, now: int) -> bool:
    if committed.expire_timestamp != NO_EXPIRY:
        return now >= committed.expire_timestamp
    since = committed.commit_timestamp
    if group.state is EMPTY and not group.is_simple and group.state_timestamp >= 0:
        since = group.state_timestamp
    return now - since >= shard.config.offsets_retention_ms


def forget_topics(shard: ShardState, deleted: Iterable[tuple[str, bytes]]) -> Outcome:
    """Tombstones for all offsets of deleted topics, given by name and id."""
    ids: dict[str, set[bytes]] = {}
    for name, topic_id in deleted:
        ids.setdefault(name, {NO_UUID}).add(topic_id)
    places: dict[Place, None] = {}
    for place, offset in shard.offsets.of_topics(ids):
        if offset.topic_id in ids[place[1]]:
            places[place] = None
    return Outcome([offset_tombstone(*place) for place in places])
