"""The quick way to replay offsets leads to the same state as reading every record in full."""

from collections.abc import Iterator
from random import Random

import pytest

from kohort.coordinator.group_shard import GroupShard
from kohort.coordinator.shard import Shard
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.log_records import (
    GROUP_METADATA,
    LEGACY_OFFSET_COMMIT,
    OFFSET_COMMIT,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from kohort.protocol.messages.log_group_metadata import GroupMetadataKey, GroupMetadataValue
from kohort.protocol.messages.log_legacy_offset_commit import LegacyOffsetCommitKey, LegacyOffsetCommitValue
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.record_batch import build_batch, build_marker, parse_header, parse_marker, read_records
from kohort.protocol.txn_marker import TxnMarker
from tests.coordinator.support import START, FakeTopics, Host

Row = tuple[bytes, bytes | None]
PRODUCERS = (7, 8)


def a_record(random: Random) -> Row:
    group, topic = random.choice(("g", "h", "gh")), random.choice(("t", "u", "tu", ""))
    partition = random.choice((0, 1, 255, 2**31 - 1, -1))
    key = encode_key(OFFSET_COMMIT, OffsetCommitKey(group, topic, partition))
    offset = random.randrange(-5, 1_000)
    topic_id = random.choice((bytes(16), b"a" * 16, b"b" * 16))
    match random.choices(
        ("plain", "metadata", "v1", "v3", "tombstone", "legacy", "group", "gone"), [20, 3, 2, 2, 4, 1, 2, 2]
    )[0]:
        case "plain":
            return key, encode_value(
                OFFSET_COMMIT, OffsetCommitValue(offset, random.randrange(-1, 3), "", START, -1, topic_id)
            )
        case "metadata":
            return key, encode_value(
                OFFSET_COMMIT, OffsetCommitValue(offset, -1, random.choice("xyé") * 3, START, -1, topic_id)
            )
        case "v1":
            return key, encode_value(OFFSET_COMMIT, OffsetCommitValue(offset, -1, "", START, START + 5), 1)
        case "v3":
            return key, encode_value(OFFSET_COMMIT, OffsetCommitValue(offset, 2, "", START), 3)
        case "tombstone":
            return key, None
        case "legacy":
            value = encode_value(LEGACY_OFFSET_COMMIT, LegacyOffsetCommitValue(offset, "old", START))
            return encode_key(LEGACY_OFFSET_COMMIT, LegacyOffsetCommitKey(group, topic, partition)), value
        case "group":
            return encode_key(GROUP_METADATA, GroupMetadataKey(group)), encode_value(
                GROUP_METADATA, GroupMetadataValue("", 0, None, None, START)
            )
    return encode_key(GROUP_METADATA, GroupMetadataKey(group)), None


def a_log(random: Random) -> Iterator[bytes]:
    """Batches, some of them transactional, some of them markers."""
    end = 0
    for _ in range(60):
        producer_id = random.choice(PRODUCERS)
        if random.random() < 0.1:
            batch = build_marker(
                random.random() < 0.6, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=START,
                base_offset=end,
            )  # fmt: skip
        else:
            transactional = random.random() < 0.15
            rows = [a_record(random) for _ in range(random.randint(1, 8))]
            if transactional:
                rows = [row for row in rows if row[1] is not None and row[0][:2] == b"\x00\x01"] or [
                    (
                        encode_key(OFFSET_COMMIT, OffsetCommitKey("g", "t", 0)),
                        encode_value(OFFSET_COMMIT, OffsetCommitValue(1, -1, "", START)),
                    )
                ]
            batch = build_batch(
                rows, timestamp=START, base_offset=end, transactional=transactional,
                producer_id=producer_id if transactional else -1, producer_epoch=0 if transactional else -1,
            )  # fmt: skip
        end = parse_header(batch).next_offset
        yield batch


def read_in_full(shard: Shard[ShardState], batch: bytes) -> None:
    assert isinstance(shard, GroupShard)
    header = parse_header(batch)
    for record in read_records(batch):
        assert record.key is not None
        if header.is_control:
            marker = parse_marker(record.key, record.value)
            assert marker is not None
            epochs = header.producer_epoch, marker.coordinator_epoch
            ends = TxnMarker(header.producer_id, epochs[0], marker.commit, epochs[1], 0)
            shard.replay_marker(ends, record.offset, record.timestamp)
            continue
        if header.is_transactional and header.producer_id >= 0:
            pending = shard.state.offsets.pending
            pending.begin(header.producer_id, header.producer_epoch, record.offset, record.timestamp)
        kind, key = decode_key(record.key)
        value = None if record.value is None else decode_value(kind, record.value)
        shard.replay(kind, key, value, record.offset, header.producer_id if header.is_transactional else -1)


def seen(state: ShardState) -> object:
    fields = ("offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp", "topic_id", "log_offset")
    offsets = sorted((place, [getattr(each, name) for name in fields]) for place, each in state.offsets.all_offsets())
    return (
        sorted(state.groups),
        offsets,
        {id_: each.pending for id_, each in state.offsets.pending.open.items()},
        {
            id_: (each.epoch, each.coordinator_epoch, each.marker_offset, each.first_offset)
            for id_, each in state.offsets.pending.producers.items()
        },
    )


@pytest.mark.parametrize("seed", range(60))
def test_chunks_of_any_size_give_what_reading_in_full_gives(seed: int) -> None:
    random = Random(seed)
    batches = list(a_log(random))
    in_full = Host(topics=FakeTopics(), load=False).runtime.shards[0]
    for batch in batches:
        read_in_full(in_full, batch)
    quick = Host(topics=FakeTopics(), load=False).runtime.shards[0]
    rest = list(batches)
    while rest:
        count = random.randint(1, 9)
        chunk, rest = b"".join(rest[:count]), rest[count:]
        list(quick.load_chunk(chunk + b"more", len(chunk)))
    assert seen(quick.state) == seen(in_full.state)
    assert quick.next_offset == parse_header(batches[-1]).next_offset
