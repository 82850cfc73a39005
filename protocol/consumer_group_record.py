"""The bytes of those records of consumer groups (KIP-848) that a rebalance writes for each member, packed by hand.

The generated codec (messages/log_consumer_group_*.py) reads and writes these records, too, and tests compare the bytes.
When fifty members join at once, packing their records is a large part of the work; here it takes a third of the time.

The keys. All keys of a member share everything behind the type, its name:

    | type int16 | group: int16 length, bytes | member: int16 length, bytes |         the group's own key has no member

The values, all of version 0. Strings and arrays begin with their length + 1 as an unsigned varint, and 0 means null:

    group epoch         | version int16 | epoch int32 | tags |         tags: 01 00 08 and the hash, or 00 if it is 0
    member              | version | instance | rack | client id | client host | topic names | regex
                        | rebalance timeout int32 | assignor | tags: 01 00 01 00, it has no classic metadata
    target of a member  | version | topics | 00 |                      topic: id 16 bytes | partitions int32[] | 00
    assignment          | version | epoch int32 | previous epoch int32 | state int8 | assigned | pending revocation
                        | 00 |                                         topic: id 16 bytes | partitions int32[] | tags
                                                                       tags: 01 00 length | epochs int32[]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct, calcsize

from kohort.protocol.log_records import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
)
from kohort.protocol.record_batch import NO_HEADERS, encode_fields
from kohort.protocol.varint import SMALL_VARINTS, encode_varint
from kohort.protocol.wire import pack_compact_ints, uvarint

_int16 = Struct(">h").pack
_int32 = Struct(">i").pack
_epoch_and_hash = Struct(">hi3sq").pack
_epoch_without_hash = Struct(">hiB").pack
_epochs_and_state = Struct(">hiib").pack
_without_partitions = Struct(">hiibBBB").pack

GROUP_EPOCH_KEY = _int16(CONSUMER_GROUP_METADATA)
MEMBER_KEY = _int16(CONSUMER_GROUP_MEMBER_METADATA)
TARGET_KEY = _int16(CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER)
ASSIGNMENT_KEY = _int16(CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT)

_VERSION = _int16(0)
_HASH_TAG = b"\x01\x00\x08"  # one tagged field, number 0, of 8 bytes
_EPOCHS_TAG = b"\x01\x00"
_NO_CLASSIC_METADATA = b"\x01\x00\x01\x00"  # one tagged field, number 0, of one byte: null, which is not its default
_NO_TAGS = b"\0"
_NULL = b"\0"
_EMPTY = b"\x01"
_SHORT = 32  # topics with fewer partitions have a format of their own: all their lengths take one byte
_target_topics = [Struct(f">16sB{count}iB").pack for count in range(_SHORT)]
_SIZE_WITHOUT_PARTITIONS = encode_varint(calcsize(">hiibBBB"))
_one_topic_formats = [Struct(f">hiibB16sB{count}i4B{count}iBB") for count in range(_SHORT)]
_one_topic = [(each.pack, encode_varint(each.size)) for each in _one_topic_formats]  # all of such an assignment
_assigned_topics = [Struct(f">16sB{count}i4B{count}i").pack for count in range(_SHORT)]


def pack_name(text: str) -> bytes:
    """The name of a group, or of a member, in a key."""
    raw = text.encode()
    return _int16(len(raw)) + raw


def group_epoch_value(epoch: int, metadata_hash: int) -> bytes:
    if metadata_hash:
        return _epoch_and_hash(0, epoch, _HASH_TAG, metadata_hash)
    return _epoch_without_hash(0, epoch, 0)


def member_value(
    instance_id: str | None, rack_id: str | None, client_id: str, client_host: str, topic_names: Sequence[str],
    topic_regex: str | None, rebalance_timeout_ms: int, server_assignor: str | None,
) -> bytes:  # fmt: skip
    """Of a member that speaks KIP-848: one with the classic protocol has more to say."""
    return b"".join((
        _VERSION,
        _NULL if instance_id is None else _text(instance_id),
        _NULL if rack_id is None else _text(rack_id),
        _text(client_id),
        _text(client_host),
        uvarint(len(topic_names) + 1),
        *map(_text, topic_names),
        _NULL if topic_regex is None else _text(topic_regex),
        _int32(rebalance_timeout_ms),
        _NULL if server_assignor is None else _text(server_assignor),
        _NO_CLASSIC_METADATA,
    ))  # fmt: skip


def target_value(target: Mapping[bytes, Sequence[int]]) -> bytes:
    packed = [_VERSION, uvarint(len(target) + 1)]
    for topic_id, partitions in target.items():
        count = len(partitions)
        if count < _SHORT:
            packed.append(_target_topics[count](topic_id, count + 1, *partitions, 0))
        else:
            packed += (topic_id, pack_compact_ints(partitions, "i"), _NO_TAGS)
    packed.append(_NO_TAGS)
    return b"".join(packed)


def assignment_value(
    epoch: int,
    previous_epoch: int,
    state: int,
    assigned: Mapping[bytes, Mapping[int, int]],
    pending_revocation: Mapping[bytes, Mapping[int, int]],
) -> bytes:
    if not (assigned or pending_revocation):  # as while a group converges
        return _without_partitions(0, epoch, previous_epoch, state, 1, 1, 0)
    start = _epochs_and_state(0, epoch, previous_epoch, state)
    first = _with_epochs(assigned) if assigned else _EMPTY
    second = _with_epochs(pending_revocation) if pending_revocation else _EMPTY
    return start + first + second + _NO_TAGS


def assignment_fields(
    names: bytes,
    epoch: int,
    previous_epoch: int,
    state: int,
    assigned: Mapping[bytes, Mapping[int, int]],
    pending_revocation: Mapping[bytes, Mapping[int, int]],
) -> bytes:
    """The record of a member's assignment from its key on: what encode_fields makes of key and value.

    `names`: group and member, as they stand in the key.
    """
    key_size = len(names) + 2
    if key_size < 1024 and not pending_revocation:
        if not assigned:
            value = _without_partitions(0, epoch, previous_epoch, state, 1, 1, 0)
            return SMALL_VARINTS[key_size] + ASSIGNMENT_KEY + names + _SIZE_WITHOUT_PARTITIONS + value + NO_HEADERS
        if len(assigned) == 1:  # as most groups have one topic
            ((topic_id, owned),) = assigned.items()
            count = len(owned)
            if 0 < count < _SHORT:
                pack, size = _one_topic[count]
                value = pack(
                    0, epoch, previous_epoch, state, 2, topic_id, count + 1, *owned,
                    *_EPOCHS_TAG, 4 * count + 1, count + 1, *owned.values(), 1, 0,
                )  # fmt: skip
                return SMALL_VARINTS[key_size] + ASSIGNMENT_KEY + names + size + value + NO_HEADERS
    value = assignment_value(epoch, previous_epoch, state, assigned, pending_revocation)
    return encode_fields(ASSIGNMENT_KEY + names, value, NO_HEADERS)


def _with_epochs(topics: Mapping[bytes, Mapping[int, int]]) -> bytes:
    packed = [uvarint(len(topics) + 1)]
    for topic_id, owned in topics.items():
        count = len(owned)
        if 0 < count < _SHORT:
            epochs = owned.values()
            pack = _assigned_topics[count]
            packed.append(pack(topic_id, count + 1, *owned, *_EPOCHS_TAG, 4 * count + 1, count + 1, *epochs))
        elif owned:
            long_epochs = pack_compact_ints(tuple(owned.values()), "i")
            packed += (topic_id, pack_compact_ints(tuple(owned), "i"))
            packed += (_EPOCHS_TAG, uvarint(len(long_epochs)), long_epochs)
        else:
            packed += (topic_id, _EMPTY, _NO_TAGS)
    return b"".join(packed)


def _text(text: str) -> bytes:
    raw = text.encode()
    return uvarint(len(raw) + 1) + raw
