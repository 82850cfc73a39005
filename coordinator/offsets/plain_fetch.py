"""The answer to the usual OffsetFetch, as bytes at once: offsets of one group, without metadata, nothing pending.

offset_fetch.py can make every answer. This module makes the same bytes for the usual request, without an object per
partition. A test compares both byte by byte.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct

from kohort.coordinator.config import MAX_REMEMBERED_ID
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from kohort.protocol.wire import NO_UUID, Encoded, uvarint

_new = object.__new__

# A row: partition, offset, leader epoch; then empty metadata, no error and no tags: the same four bytes each time.
ROW = "iqi4s"
_ROW_END = b"\1\0\0\0"
FEW_ROWS = 100  # of a topic: so many are packed at once
_START = b"\0\0\0\0\x02"  # no throttling, one group
_END = b"\0\0\0\0"  # no error, no tags of the group, none of the answer


FIRST_VERSION_WITH_TOPIC_IDS = 10


def _start(group_id: str, topic_count: int) -> bytes:
    raw = group_id.encode()
    return _START + uvarint(len(raw) + 1) + raw + uvarint(topic_count + 1)


_known_start = lru_cache(maxsize=10_000)(_start)


def _topic(name: str, partition_count: int) -> bytes:
    raw = name.encode()
    return uvarint(len(raw) + 1) + raw + uvarint(partition_count + 1)


_known_topic = lru_cache(maxsize=1_000)(_topic)


@lru_cache(maxsize=FEW_ROWS + 1)
def _rows(count: int) -> Callable[..., bytes]:
    """Packs the rows of a topic, and its tags."""
    return Struct(f">{ROW * count}x").pack


def refusal(shard: ShardState, group: OffsetFetchRequestGroup) -> ErrorCode | None:
    """Why the sender may not fetch: it claims to be a member that it is not."""
    if group.member_id is None and group.member_epoch < 0:
        return None
    known = shard.groups.get(group.group_id)
    return None if known is None else known.check_fetch(group)


def plain_answer(
    shard: ShardState, group: OffsetFetchRequestGroup, require_stable: bool, version: int
) -> Encoded | None:
    """For v8 and later; None if anything is special."""
    group_id = group.group_id
    known = shard.groups.get(group_id)
    if group.topics is None or (require_stable and shard.offsets.pending.has_any(group_id)):
        return None
    if known is not None and known.check_fetch(group) is not None:
        return None
    by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
    offsets = {} if known is None else shard.offsets.topics(group_id)  # as shard.offsets_of
    start = _known_start if len(group_id) <= MAX_REMEMBERED_ID else _start
    parts = [start(group_id, len(group.topics))]
    for topic in group.topics:
        topic_id = topic.topic_id
        name = shard.topics.name_of(topic_id) if by_id else topic.name
        if name is None:
            return None
        if by_id:
            parts += (topic_id, uvarint(len(topic.partition_indexes) + 1))
        else:
            head = _known_topic if len(name) <= MAX_REMEMBERED_ID else _topic
            parts.append(head(name, len(topic.partition_indexes)))
        partitions = offsets.get(name, {})
        if len(topic.partition_indexes) > FEW_ROWS:
            return None
        row_fields: list[int | bytes] = []
        for index in topic.partition_indexes:
            committed = partitions.get(index)
            if committed is None:
                row_fields += (index, -1, -1, _ROW_END)
            elif committed[2] or (by_id and committed[5] != topic_id and committed[5] != NO_UUID):
                return None  # it has metadata, or is of a deleted topic with the same name
            else:
                row_fields += (index, committed[0], committed[1], _ROW_END)
        parts.append(_rows(len(topic.partition_indexes))(*row_fields))
    parts.append(_END)
    answer = _new(Encoded)  # calling Encoded(...) takes three times as long
    answer.encoded = b"".join(parts)
    return answer
