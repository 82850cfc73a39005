"""The hand-written layout of an offset commit says what the generated codec says."""

from __future__ import annotations

import pytest

from kohort.protocol import commit_record
from kohort.protocol.log_records import OFFSET_COMMIT, encode_key, encode_value
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.wire import NO_UUID

TOPIC_ID = bytes(range(16))


@pytest.mark.parametrize("metadata", ["", "é", "x" * 200])
@pytest.mark.parametrize("topic_id", [NO_UUID, TOPIC_ID])
@pytest.mark.parametrize("leader_epoch", [-1, 7])
def test_a_value_has_the_bytes_that_the_generated_codec_writes(
    metadata: str, topic_id: bytes, leader_epoch: int
) -> None:
    value = OffsetCommitValue(2**40, leader_epoch, metadata, 1_800_000_000_000, -1, topic_id)
    packed = commit_record.pack_value(2**40, leader_epoch, metadata, 1_800_000_000_000, topic_id)
    assert packed == encode_value(OFFSET_COMMIT, value)


def test_a_plain_value_is_read_by_one_unpack() -> None:
    raw = encode_value(OFFSET_COMMIT, OffsetCommitValue(5, 7, "", 1_800_000_000_000, -1, TOPIC_ID))
    assert len(raw) == commit_record.PLAIN_VALUE_BYTES == 42
    version, offset, epoch, metadata, time, tag, topic_id = commit_record.unpack_plain_value(raw)
    assert (version, offset, epoch, time, topic_id) == (commit_record.VERSION, 5, 7, 1_800_000_000_000, TOPIC_ID)
    assert (metadata, tag) == (commit_record.EMPTY_METADATA, commit_record.TOPIC_ID_TAG)


@pytest.mark.parametrize(("group", "topic"), [("g", "t"), ("", ""), ("é" * 100, "a topic")])
def test_a_key_is_its_prefix_and_the_partition(group: str, topic: str) -> None:
    key = encode_key(OFFSET_COMMIT, OffsetCommitKey(group, topic, 77))
    prefix = commit_record.key_prefix(group, topic)
    assert key == prefix + commit_record.pack_partition(77)
    assert commit_record.read_key_prefix(prefix) == (group, topic)
    assert commit_record.read_key_prefix(prefix + b"x") is None
    assert commit_record.read_key_prefix(prefix[:-1]) is None


@pytest.mark.parametrize("metadata", ["", "why", "日本"])
def test_a_value_with_an_expiry_is_packed_as_by_the_generated_codec(metadata: str) -> None:
    value = OffsetCommitValue(7, -1, metadata, 1_000, 2_000)
    assert commit_record.pack_expiring_value(7, metadata, 1_000, 2_000) == encode_value(OFFSET_COMMIT, value, 1)
