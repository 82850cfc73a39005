"""Committed offsets are packed in two quick ways; both give the bytes of the generated codecs."""

from __future__ import annotations

import random

import pytest

from coordinator.offsets.store import NO_EXPIRY, CommittedOffset
from coordinator.outcome import CommitRecord, Record
from coordinator.record_codec import MAX_BATCH_BYTES, batches
from protocol.messages.log_group_metadata import GroupMetadataKey, GroupMetadataValue
from protocol.messages.log_offset_commit import OffsetCommitKey, OffsetCommitValue
from protocol.record_batch import parse_header, read_records
from protocol.wire import NO_UUID

NOW = 1_790_000_000_000
TOPIC_ID = bytes(range(16))


def plain(record: CommitRecord) -> Record:
    """The same record in the form that the generated codecs pack."""
    c = record.committed
    value = OffsetCommitValue(c.offset, c.leader_epoch, c.metadata, c.commit_timestamp, -1, c.topic_id)
    return Record(1, OffsetCommitKey(record.group, record.topic, record.partition), value, record.headers)


def random_commit(rng: random.Random) -> list[CommitRecord]:
    group, topic = rng.choice(["orders", "日本", "g" * 200]), rng.choice(["payments", "t" * 100])
    topic_id = rng.choice([TOPIC_ID, TOPIC_ID, NO_UUID])
    headers = rng.choice([(), ((b"kohort.member", b"m" * rng.randrange(80)), (b"kohort.generation", b"7"))])
    metadata = rng.choice(["", "", "m", "é" * 100])
    return [
        CommitRecord(
            group,
            topic,
            rng.choice([0, 1, 2**31 - 1]),
            CommittedOffset(
                rng.choice([0, -5, 2**63 - 1]), rng.choice([-1, 3]), metadata, NOW, NO_EXPIRY, topic_id, -1
            ),
            headers,
        )
        for _ in range(rng.choice([1, 2, 3, 10, 70, 200]))
    ]


@pytest.mark.parametrize("seed", range(40))
def test_quick_ways_give_the_bytes_of_the_generated_codecs(seed: int) -> None:
    rng = random.Random(seed)
    records: list[Record | CommitRecord] = []
    for _ in range(rng.randrange(1, 6)):
        records += random_commit(rng)
        if rng.random() < 0.3:
            records.append(Record(2, GroupMetadataKey("g"), GroupMetadataValue("consumer", 3), ((b"h", None),)))
    slow = [plain(record) if isinstance(record, CommitRecord) else record for record in records]
    assert batches(records, 17, NOW) == batches(slow, 17, NOW)


def test_what_does_not_fit_into_one_batch_goes_on_in_the_next() -> None:
    rng = random.Random(1)
    records = [record for _ in range(200) for record in random_commit(rng)]
    made = batches(records, 100, NOW)
    assert len(made) > 1
    assert all(len(batch) < MAX_BATCH_BYTES + 100_000 for batch in made)
    offsets = [record.offset for batch in made for record in read_records(batch)]
    assert offsets == list(range(100, 100 + len(records)))
    assert parse_header(made[1]).base_offset == 100 + parse_header(made[0]).record_count
