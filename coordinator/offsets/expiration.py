"""Offsets that nobody needs any more: expiry (KIP-211), and deletion of topics.

group                                   offsets that may expire     counted from
simple, nobody ever joined              all                         each commit
empty, with a protocol type             all                         when it became empty
stable consumers, subscription known    of topics not subscribed    each commit
otherwise                               none

Each kind of group says which line it is: `may_expire` and `offsets_unused_since`.
"""

from __future__ import annotations

from collections.abc import Iterable

from kohort.coordinator.group import Group
from kohort.coordinator.offset_store import NO_EXPIRY, CommittedOffset, Place, offset_tombstone
from kohort.coordinator.outcome import Outcome
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.wire import NO_UUID


def expire_offsets(shard: ShardState) -> Outcome:
    """Tombstones for offsets that have expired, and for groups that have no offsets left."""
    out = Outcome()
    for group in list(shard.groups.values()):
        kept = _expire_group(shard, group, out)
        if group.ends_without_offsets and not kept:
            out.records += group.tombstones()
    return out


def _expire_group(shard: ShardState, group: Group, out: Outcome) -> int:
    """Add tombstones for the expired offsets of a group. Returns how many offsets stay, pending ones included."""
    kept = sum(1 for _ in shard.offsets.pending_places(group.group_id))
    unused_since = group.offsets_unused_since
    for topic, partitions in shard.offsets.topics(group.group_id).items():
        may_expire = group.may_expire(topic)
        for index, committed in partitions.items():
            if (
                may_expire
                and _is_expired(shard, unused_since, committed)
                and not shard.offsets.has_pending(group.group_id, topic, index)
            ):
                out.records.append(offset_tombstone(group.group_id, topic, index))
            else:
                kept += 1
    return kept


def _is_expired(shard: ShardState, unused_since: int | None, committed: CommittedOffset) -> bool:
    if committed.expire_timestamp != NO_EXPIRY:
        return shard.clock.wall >= committed.expire_timestamp
    since = committed.commit_timestamp if unused_since is None else unused_since
    return shard.clock.wall - since >= shard.config.offsets_retention_ms


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
