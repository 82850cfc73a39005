"""Answers to ConsumerGroupHeartbeat, versions 0 and 1, packed by hand: while a group converges, there are very many.

    throttle time int32 | error int16 | error message | member | epoch int32 | interval int32 | assignment | tags 00

Strings and arrays begin with their length + 1 as an unsigned varint, and 0 means null. The assignment is int8 -1 if
there is none, or 1 | topics: id 16 bytes, partitions int32[], tags 00 | tags 00. The generated codec packs what is
unusual: an error, or long strings and arrays. Both make the same bytes.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse, encode_response_v0
from kohort.protocol.wire import SHORT_COMPACT_INTS

_MOST = 126  # bytes of a string, or elements of an array, whose length is one byte
_FEW = 32  # partitions for which there is a format

_rest = Struct(">iibB").pack  # epoch, interval, no assignment, tags
_without_topics = Struct(">iibBBB").pack  # epoch, interval, an assignment, without topics, tags of both
_rest_and_topic = Struct(">iibB16s").pack  # epoch, interval, an assignment, with one topic
_STARTS = [bytes((0, 0, 0, 0, 0, 0, 0, size + 1)) for size in range(_MOST + 1)]  # no throttling, no error, no message
_ENDS_OF_TOPICS_AND_ALL = b"\0\0\0"


def encode_answer(answer: ConsumerGroupHeartbeatResponse) -> Any:
    """As encode_response_v0 of the generated module."""
    if not answer.error_code and answer.error_message is None and not answer.throttle_time_ms:
        raw = (answer.member_id or "").encode()
        assignment = answer.assignment
        if 0 < len(raw) <= _MOST:
            start = _STARTS[len(raw)] + raw
            if assignment is None:
                return start + _rest(answer.member_epoch, answer.heartbeat_interval_ms, -1, 0)
            topics = assignment.topic_partitions
            if not topics:
                return start + _without_topics(answer.member_epoch, answer.heartbeat_interval_ms, 1, 1, 0, 0)
            if len(topics) == 1 and len(topics[0].partitions) <= _FEW:
                (topic,) = topics
                partitions, count = topic.partitions, len(topic.partitions)
                return (
                    start
                    + _rest_and_topic(answer.member_epoch, answer.heartbeat_interval_ms, 1, 2, topic.topic_id)
                    + SHORT_COMPACT_INTS[count](count + 1, *partitions)
                    + _ENDS_OF_TOPICS_AND_ALL
                )
    return encode_response_v0(answer)
