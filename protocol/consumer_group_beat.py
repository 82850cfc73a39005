"""ConsumerGroupHeartbeat requests, versions 0 and 1, read by hand: while a group converges, there are very many.

Behind the group's and the member's name, of a member that has neither an instance id nor a rack, and asks for neither a
regular expression nor an assignor:

    epoch int32 | instance 00 | rack 00 | rebalance timeout int32 | topic names | regex 00, from v1 on | assignor 00
    | topics that the member has | tags 00                         a topic: id 16 bytes | partitions int32[] | tags 00

Strings and arrays begin with their length + 1, which is one byte here; 0 means null. The generated codec reads whatever
is unusual. Both read the same; a test compares them.

Members that join together say the same behind their names, and so do those of one epoch that say nothing. That is read
once and remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct

from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
    decode_request_v0,
    decode_request_v1,
)
from kohort.protocol.wire import READ_ERRORS, read_ints

Said = tuple[int, int, Sequence[str] | None, Sequence[TopicPartitions] | None]
"""Epoch, rebalance timeout, topic names, and what the member has."""

MOST = 126  # elements of an array, or bytes of a string
MOST_PARTITIONS = 32  # of a topic: one call reads all of them
MAX_REMEMBERED_BYTES = 512

_start = Struct(">iBBiB").unpack_from  # epoch, instance, rack, rebalance timeout, count of topic names
_START_BYTES = 11
_id_and_count = Struct(">16sB").unpack_from
_ID_AND_COUNT_BYTES = 17
_NOTHING = b"\0\0"  # null, and no tags
_SILENCE_BYTES = 15  # an epoch, and nothing else
_JOIN = b"\0\0\0\0"  # the epoch of a member that joins


def decode_heartbeat_v0(data: bytes, pos: int = 0) -> ConsumerGroupHeartbeatRequest:
    return _decode(data, pos, 0) or decode_request_v0(data, pos)


def decode_heartbeat_v1(data: bytes, pos: int = 0) -> ConsumerGroupHeartbeatRequest:
    return _decode(data, pos, 1) or decode_request_v1(data, pos)


def _decode(data: bytes, pos: int, version: int) -> ConsumerGroupHeartbeatRequest | None:
    end = names_end(data, pos)
    said = read_usual(data[end:], version) if end > 0 else None
    if said is None:
        return None
    middle = pos + data[pos]
    group_id, member_id = data[pos + 1 : middle].decode("utf-8", "java"), data[middle + 1 : end].decode("utf-8", "java")
    return heartbeat(group_id, member_id, said)


def names_end(data: bytes, pos: int) -> int:
    """Where the epoch stands, if the group's name is at `pos` and both names are short. Otherwise -1."""
    try:
        middle = pos + data[pos]
        end = middle + data[middle]
    except IndexError:
        return -1
    return end if 0 <= pos < middle < pos + 128 and middle < end < middle + 128 else -1


def heartbeat(group_id: str, member_id: str, said: Said) -> ConsumerGroupHeartbeatRequest:
    epoch, timeout_ms, names, owned = said
    return ConsumerGroupHeartbeatRequest(group_id, member_id, epoch, None, None, timeout_ms, names, None, None, owned)


def read_usual(rest: bytes, version: int) -> Said | None:
    """What a heartbeat says behind the member's name. None: it is not usual, or cannot be read."""
    if len(rest) <= _SILENCE_BYTES or (rest[:4] == _JOIN and len(rest) <= MAX_REMEMBERED_BYTES):
        return _remembered(rest, version)
    return _read(rest, version)


def _read(rest: bytes, version: int) -> Said | None:
    try:
        epoch, instance_id, rack_id, timeout_ms, count = _start(rest)
        if instance_id or rack_id or count > MOST:
            return None
        pos = _START_BYTES
        names: list[str] | None = None
        if count:
            names = []
            for _ in range(count - 1):
                end = pos + rest[pos]
                if not pos < end < pos + 128:
                    return None
                names.append(rest[pos + 1 : end].decode("utf-8", "java"))
                pos = end
        if rest[pos] or (version and rest[pos + 1]):
            return None
        pos += 1 + version  # behind the regular expression and the assignor
        if rest[pos:] == _NOTHING:
            return epoch, timeout_ms, None if names is None else tuple(names), None
        owned = _read_owned(rest, pos)
    except READ_ERRORS:
        return None
    return None if owned is None else (epoch, timeout_ms, None if names is None else tuple(names), owned)


_remembered = lru_cache(maxsize=256)(_read)


def _read_owned(rest: bytes, pos: int) -> Sequence[TopicPartitions] | None:
    count = rest[pos] - 1
    if not 0 <= count < MOST:
        return None
    pos += 1
    topics: list[TopicPartitions] = []
    for _ in range(count):
        topic_id, size = _id_and_count(rest, pos)
        if not 0 < size <= MOST_PARTITIONS + 1:
            return None
        partitions, pos = read_ints(rest, pos + _ID_AND_COUNT_BYTES, size - 1, "i")
        if rest[pos]:
            return None
        pos += 1
        topics.append(TopicPartitions(topic_id, partitions))
    return tuple(topics) if rest[pos:] == b"\0" else None
