"""Offsets that nobody needs any more: expiry (KIP-211), and deletion of topics.

group                                   offsets that may expire     counted from
simple, nobody ever joined              all                         each commit
empty, with a protocol type             all                         when it became empty
stable consumers, subscription known    of topics not subscribed    each commit
otherwise                               none

Each kind of group says which line it is: `may_expire` and `offsets_unused_since`.

A shard can have a million offsets, so the work is done in pieces (coordinator/pieces.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kohort.coordinator.group import Group
from kohort.coordinator.offset_store import NO_EXPIRY, CommittedOffset
from kohort.coordinator.outcome import OffsetTombstones, Outcome
from kohort.coordinator.pieces import Pieces, slices
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.wire import NO_UUID


def expire_offsets(shard: ShardState) -> Iterator[Outcome]:
    """Tombstones for offsets that have expired, and for groups that have no offsets left."""
    pieces = Pieces()
    for group in list(shard.groups.values()):
        yield from _expire_group(shard, group, pieces)
        if _is_current(shard, group) and group.ends_without_offsets:
            kept = shard.offsets.count_of(group.group_id) - pieces.not_applied(group.group_id)
            if not kept and not shard.offsets.pending.has_any(group.group_id):
                pieces.end(group)
    yield from pieces.rest()


def _expire_group(shard: ShardState, group: Group, pieces: Pieces) -> Iterator[Outcome]:
    group_id = group.group_id
    yield from pieces.looked_at(1)
    for topic in list(shard.offsets.topics(group_id)):
        yield from pieces.looked_at(1)
        for indexes in slices(list(shard.offsets.topics(group_id).get(topic, ()))):
            if not _is_current(shard, group):
                return
            if group.may_expire(topic):
                expired = [index for index in indexes if _is_expired(shard, group, topic, index)]
                if expired:
                    pieces.add(OffsetTombstones(group_id, topic, expired))
            yield from pieces.looked_at(len(indexes))


def _is_current(shard: ShardState, group: Group) -> bool:
    """The group may have been deleted or replaced between two pieces."""
    return shard.groups.get(group.group_id) is group


def _is_expired(shard: ShardState, group: Group, topic: str, index: int) -> bool:
    committed = shard.offsets.get(group.group_id, topic, index)
    if committed is None or shard.offsets.pending.has(group.group_id, topic, index):
        return False
    return _is_too_old(shard, group.offsets_unused_since, committed)


def _is_too_old(shard: ShardState, unused_since: int | None, committed: CommittedOffset) -> bool:
    if committed.expire_timestamp != NO_EXPIRY:
        return shard.clock.wall >= committed.expire_timestamp
    since = committed.commit_timestamp if unused_since is None else unused_since
    return shard.clock.wall - since >= shard.config.offsets_retention_ms


def forget_topics(shard: ShardState, deleted: Iterable[tuple[str, bytes]]) -> Iterator[Outcome]:
    """Tombstones for all offsets of deleted topics, given by name and id; and what else groups know of the topics."""
    deleted = list(deleted)
    yield from _forget_offsets(shard, deleted)
    topic_ids = frozenset(topic_id for _, topic_id in deleted)
    pieces = Pieces()
    for group in list(shard.groups.values()):
        if _is_current(shard, group) and (record := group.topics_deleted(shard, topic_ids)) is not None:
            pieces.write(record)
        yield from pieces.looked_at(1)
    yield from pieces.rest()


def _forget_offsets(shard: ShardState, deleted: Iterable[tuple[str, bytes]]) -> Iterator[Outcome]:
    ids: dict[str, set[bytes]] = {}
    for name, topic_id in deleted:
        ids.setdefault(name, {NO_UUID}).add(topic_id)
    pieces = Pieces()
    pending = shard.offsets.pending
    for group_id in pending.group_ids():
        for topic in [topic for topic in pending.topics(group_id) if topic in ids]:
            for indexes in slices(list(pending.topics(group_id).get(topic, ()))):
                gone = [index for index in indexes if ids[topic] & pending.topic_ids(group_id, topic, index)]
                if gone:
                    pieces.add(OffsetTombstones(group_id, topic, gone))
                yield from pieces.looked_at(len(indexes))
        yield from pieces.looked_at(1)
    for group_id in shard.offsets.group_ids():
        topics = shard.offsets.topics(group_id)
        fewer, more = (topics, ids) if len(topics) < len(ids) else (ids, topics)
        found = [topic for topic in fewer if topic in more]
        yield from pieces.looked_at(1 + len(fewer))
        for topic in found:
            for indexes in slices(list(shard.offsets.topics(group_id).get(topic, ()))):
                gone = [index for index in indexes if shard.offsets.topic_id_of(group_id, topic, index) in ids[topic]]
                if gone:
                    pieces.add(OffsetTombstones(group_id, topic, gone))
                yield from pieces.looked_at(len(indexes))
    yield from pieces.rest()
