"""The bytes of an offset commit in __consumer_offsets: the only place that knows their layout.

The generated codec (messages/log_offset_commit.py) reads and writes these records, too. Nearly all records of a log are
offset commits, so the coordinator and the audit also handle them as bytes, many at once; they take everything they know
about the layout from here.

The key, of type OFFSET_COMMIT. All partitions of a group and topic share everything before the partition, the prefix:

    | type int16 | group: int16 length, bytes | topic: int16 length, bytes | partition int32 |
    0            2                                                         -4

The value, in its version 4, which Kafka 4 and Kohort write:

    | version int16 | offset int64 | leader epoch int32 | metadata: varint length + 1, bytes | commit time int64 | tags
    0               2              10                   14

    tags   | 0 |                                                         the topic id is not known
           | 1 field, number 0, 16 bytes: 01 00 10 | topic id 16 bytes |

Most values have no metadata, and a topic id. Such a plain value has a fixed layout of 42 bytes:

    | 00 04 | offset int64 | leader epoch int32 | 01 | commit time int64 | 01 00 10 | topic id 16 bytes |
    0       2              10                   14   15                  23         26                  42

Older versions differ. Before version 4 the length of the metadata is an int16, and there are no tags. Before version 3
there is no leader epoch. In version 1 alone an expiry time, int64, follows the commit time. The legacy type of key has
values of version 0.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from kohort.protocol.log_records import OFFSET_COMMIT, RECORD_TYPES, encode_key
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey
from kohort.protocol.wire import NO_UUID, pack_compact_string, pack_string

# --- the key

PARTITION_BYTES: Final = 4  # at the end of the key
MIN_KEY_BYTES: Final = 10  # type, two empty strings, partition
_GROUP_AT: Final = 4  # behind the type and the group's length

pack_partition = Struct(">i").pack
unpack_partition = Struct(">i").unpack_from


def key_prefix(group: str, topic: str) -> bytes:
    """The key without the partition."""
    return encode_key(OFFSET_COMMIT, OffsetCommitKey(group, topic, 0))[:-PARTITION_BYTES]


def read_key_prefix(prefix: bytes) -> tuple[str, str] | None:
    """Group and topic; None if the bytes are no prefix of a key."""
    topic_at = _GROUP_AT + 2 + int.from_bytes(prefix[_GROUP_AT - 2 : _GROUP_AT], "big")
    if topic_at > len(prefix) or topic_at + int.from_bytes(prefix[topic_at - 2 : topic_at], "big") != len(prefix):
        return None
    return prefix[_GROUP_AT : topic_at - 2].decode("utf-8", "java"), prefix[topic_at:].decode("utf-8", "java")


# --- the value

VERSION: Final = RECORD_TYPES[OFFSET_COMMIT].value_version
OFFSET_AT: Final = 2
LEADER_EPOCH_AT: Final = 10
METADATA_AT: Final = 14  # from version 3 on
METADATA_AT_WITHOUT_EPOCH: Final = 10
TIME_BYTES: Final = 8  # the commit time, and the expiry time of version 1
TOPIC_ID_BYTES: Final = 16

VERSION_BYTES: Final = Struct(">h").pack(VERSION)
EMPTY_METADATA: Final = 1  # the compact length of an empty string
NO_TAGS: Final = b"\0"
TOPIC_ID_TAG: Final = b"\x01\x00\x10"  # one tagged field, number 0, of 16 bytes
TAGS_WITH_TOPIC_ID_BYTES: Final = len(TOPIC_ID_TAG) + TOPIC_ID_BYTES

_PLAIN_VALUE: Final = Struct(">hqiBq3s16s")
PLAIN_VALUE_BYTES: Final = _PLAIN_VALUE.size
unpack_plain_value = _PLAIN_VALUE.unpack  # version, offset, leader epoch, metadata length, time, tag, topic id

EXPIRING_VERSION: Final = 1
_EXPIRING_START = Struct(">hq").pack
_TWO_TIMES = Struct(">qq").pack
_int32 = Struct(">i").pack
_int64 = Struct(">q").pack


def pack_tags(topic_id: bytes) -> bytes:
    return TOPIC_ID_TAG + topic_id if topic_id != NO_UUID else NO_TAGS


def constant_parts(leader_epoch: int, metadata: str, topic_id: bytes) -> tuple[bytes, bytes, bytes]:
    """What stands before the offset, between the offset and the commit time, and behind the commit time."""
    return VERSION_BYTES, _int32(leader_epoch) + pack_compact_string(metadata), pack_tags(topic_id)


def pack_value(offset: int, leader_epoch: int, metadata: str, commit_time: int, topic_id: bytes) -> bytes:
    before_offset, after_offset, after_time = constant_parts(leader_epoch, metadata, topic_id)
    return before_offset + _int64(offset) + after_offset + _int64(commit_time) + after_time


def pack_expiring_value(offset: int, metadata: str, commit_time: int, expire_time: int) -> bytes:
    """A value of version 1, the only version with an expiry time."""
    return _EXPIRING_START(EXPIRING_VERSION, offset) + pack_string(metadata) + _TWO_TIMES(commit_time, expire_time)
