"""Committed offsets are packed in two quick ways; both give the bytes of the generated codecs."""

from __future__ import annotations

import random

import pytest

from kohort.coordinator.outcome import AtomicRecords, CommitRecords, Headers, LogEntry, Record, StepRecords
from kohort.coordinator.record_codec import MAX_BATCH_BYTES, Batches, batches
from kohort.protocol.log_records import CONSUMER_OFFSETS, GROUP_METADATA
from kohort.protocol.messages.log_group_metadata import GroupMetadataKey, GroupMetadataValue
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.messages.offset_commit import OffsetCommitRequestPartition
from kohort.protocol.record_batch import encode_headers, parse_header, read_records
from kohort.protocol.wire import NO_UUID

NOW = 1_790_000_000_000
TOPIC_ID = bytes(range(16))
HEADERS: dict[bytes, Headers] = {
    encode_headers(headers): headers
    for headers in ((), *(((b"kohort.member", b"m" * n), (b"kohort.generation", b"7")) for n in (0, 40, 80)))
}


def plain(commit: CommitRecords) -> list[Record]:
    """The same records in the form that the generated codecs pack."""
    return [
        Record(
            1,
            OffsetCommitKey(commit.group, commit.topic, row.partition_index),
            OffsetCommitValue(
                row.committed_offset,
                row.committed_leader_epoch,
                row.committed_metadata or "",
                commit.now,
                -1,
                commit.topic_id,
            ),
            HEADERS[commit.headers],
        )
        for row in commit.rows
    ]


def random_commit(rng: random.Random) -> CommitRecords:
    group, topic = rng.choice(["orders", "日本", "g" * 200]), rng.choice(["payments", "t" * 100])
    topic_id = rng.choice([TOPIC_ID, TOPIC_ID, NO_UUID])
    headers = rng.choice(list(HEADERS))
    metadata: list[str | None] = rng.choice([["", None], ["", None], ["", "m", "é" * 100]])
    rows = [
        OffsetCommitRequestPartition(
            rng.choice([0, 1, 2**31 - 1]), rng.choice([0, -5, 2**63 - 1]), rng.choice([-1, 3]), rng.choice(metadata)
        )
        for _ in range(rng.choice([1, 2, 3, 10, 70, 200, 1500]))
    ]
    is_plain = not any(row.committed_metadata for row in rows)
    return CommitRecords(group, topic, topic_id, rows, is_plain, NOW - 5, headers)


@pytest.mark.parametrize("seed", range(40))
def test_quick_ways_give_the_bytes_of_the_generated_codecs(seed: int) -> None:
    rng = random.Random(seed)
    quick: list[Record | CommitRecords] = []
    slow: list[Record | CommitRecords] = []
    for _ in range(rng.randrange(1, 6)):
        commit = random_commit(rng)
        quick.append(commit)
        slow += plain(commit)
        if rng.random() < 0.3:
            other = Record(GROUP_METADATA, GroupMetadataKey("g"), GroupMetadataValue("consumer", 3), ((b"h", None),))
            quick.append(other)
            slow.append(other)
    assert batches(quick, 17, NOW) == batches(slow, 17, NOW)


def test_what_does_not_fit_into_one_batch_goes_on_in_the_next() -> None:
    rng = random.Random(1)
    commits = [random_commit(rng) for _ in range(200)]
    made = batches(commits, 100, NOW)
    assert len(made) > 1
    assert all(len(batch) < MAX_BATCH_BYTES + 100_000 for batch in made)
    offsets = [record.offset for batch in made for record in read_records(batch)]
    assert offsets == list(range(100, 100 + sum(len(commit.rows) for commit in commits)))
    assert parse_header(made[1]).base_offset == 100 + parse_header(made[0]).record_count


# --- records that must be replayed together


def groups(count: int, name: str = "other") -> list[Record]:
    value = GroupMetadataValue("", 1, None, None, NOW, [])
    return [Record(GROUP_METADATA, GroupMetadataKey(f"{name}{number}"), value) for number in range(count)]


def keys(batch: bytes) -> list[bytes | None]:
    return [record.key for record in read_records(batch)]


@pytest.mark.parametrize("before", range(0, 40, 3))
def test_atomic_records_stand_in_one_batch_wherever_the_limit_falls(before: int) -> None:
    atomic = groups(10, "atomic")
    made = batches([*groups(before), AtomicRecords(atomic), *groups(5)], 7, NOW, max_bytes=1_000)
    (wanted,) = batches([AtomicRecords(atomic)], 0, NOW)
    assert any(set(keys(wanted)) <= set(keys(batch)) for batch in made)
    assert sum(len(keys(batch)) for batch in made) == before + 10 + 5
    expected = 7
    for batch in made:
        assert parse_header(batch).base_offset == expected
        expected = parse_header(batch).next_offset


def test_atomic_records_are_larger_than_a_batch_should_be_rather_than_in_two() -> None:
    (batch,) = batches([AtomicRecords(groups(100))], 0, NOW, max_bytes=100)
    assert len(keys(batch)) == 100


@pytest.mark.parametrize("seed", range(30))
def test_steps_that_fit_into_one_batch_are_packed_at_once(seed: int) -> None:
    rng = random.Random(seed)
    sizes = rng.choice([[0, 30, 60, 61, 100], [500, 996, 1000, 1001], [20]])
    entries: list[LogEntry] = [
        StepRecords([rng.randbytes(rng.choice(sizes)) for _ in range(rng.choice([0, 1, 1, 3, 52]))], lambda: None)
        for _ in range(rng.choice([1, 2, 50, 300]))
    ]
    max_bytes = rng.choice([MAX_BATCH_BYTES, 5_000, 100])
    one_by_one = Batches(7, NOW, max_bytes, CONSUMER_OFFSETS)
    for entry in entries:
        assert isinstance(entry, StepRecords)
        if entry.fields:
            one_by_one.add_step(entry)
    one_by_one.finish()
    assert batches(entries, 7, NOW, max_bytes) == one_by_one.done
