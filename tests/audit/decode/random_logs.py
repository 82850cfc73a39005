"""Random batches of the offsets topic: all kinds of records, well made and not, in all wrappings."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from kohort.protocol.log_records import GROUP_METADATA, OFFSET_COMMIT, RECORD_TYPES, encode_key, encode_value
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.record_batch import (
    Headers,
    NewRecord,
    build_batch,
    build_marker,
    parse_header,
    read_records,
    rebuild_batch,
)
from tests.protocol.random_messages import kinds, random_values

NOW = 1_790_000_000_000
KINDS = {kind.name: kind for kind in kinds()}
GROUPS = ("", "g", "orders", "billing-of-the-north", "日本", "x" * 120)
TOPICS = ("t", "payments", "clicks.eu", "y" * 249)
METADATA = ("", "", "", "m", "é\x00", "z" * 300)
IDS = (bytes(16), b"\x01" * 16, bytes(range(16)))
HEADERS: tuple[Headers, ...] = (
    (),
    (),
    ((b"kohort.member", b"consumer-1-9f1c"), (b"kohort.generation", b"7")),
    ((b"kohort.member", b""), (b"kohort.generation", b"-1")),
    ((b"kohort.member", b"\xff"), (b"kohort.generation", b"many")),
    ((b"kohort.generation", b"99999999999"), (b"kohort.member", None)),
    ((b"kohort.join.start.ms", b"1790000000000"), (b"kohort.cause", b"member joined"), (b"kohort.trigger", b"m")),
    ((b"other", b"v" * 400),),
)


def random_log(rng: random.Random, batch_count: int) -> list[bytes]:
    """Batches with their offsets, as they would stand in a file."""
    made = []
    offset = 0
    for _ in range(batch_count):
        batch = _renumbered(random_batch(rng), offset + rng.choice((0, 0, 0, 3)))
        offset = parse_header(batch).next_offset
        made.append(batch)
    return made


def random_batch(rng: random.Random) -> bytes:
    now = NOW + rng.randrange(100_000)
    producer = rng.randrange(3)
    match rng.randrange(12):
        case 0:
            return build_marker(
                rng.random() < 0.5, producer_id=producer, producer_epoch=0, coordinator_epoch=4, timestamp=now
            )
        case 1:
            return build_batch(
                records(rng), timestamp=now, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True
            )
        case 2:
            return build_batch([(b"\x00\x00\x00\x07", b"?")], timestamp=now, control=True)
        case 3:
            return compacted(rng, build_batch(records(rng), timestamp=now, base_sequence=0))
        case 4:
            return build_batch(records(rng), timestamp=now, log_append_time=True)
        case 5:
            return build_batch(records(rng), timestamp=now, compression=rng.randrange(5))
        case _:
            return build_batch(records(rng), timestamp=now, base_sequence=0)


def compacted(rng: random.Random, batch: bytes) -> bytes:
    header = parse_header(batch)
    left = [record for record in read_records(batch) if rng.random() < 0.5]
    return rebuild_batch(header, left, delete_horizon_ms=NOW + 86_400_000 if rng.random() < 0.5 else None)


def records(rng: random.Random) -> list[NewRecord]:
    count = rng.choice((1, 1, 1, 1, 2, 5, 5, 40))
    return [record(rng) for _ in range(count)]


def record(rng: random.Random) -> NewRecord:
    headers = rng.choice(HEADERS)
    match rng.randrange(16):
        case 0:
            return None, rng.choice((None, b"v")), headers
        case 1:
            return (
                rng.choice((b"", b"\x00", b"\x00\x63future", b"\x00\x09", b"\x00\x01", b"\x00\x02\x7f\xff")),
                b"",
                headers,
            )
        case 2:
            key, value = commit(rng)
            return key, damaged(rng, value), headers
        case 3:
            key, value = commit(rng)
            return damaged(rng, key), value, headers
        case 4 | 5 | 6:
            key, told = any_kind(rng)
            return key, told if rng.random() < 0.9 else damaged(rng, told or b"\0\0"), headers
        case 7:
            return commit(rng)[0], None, headers
        case _:
            return *commit(rng), headers


def commit(rng: random.Random) -> tuple[bytes, bytes]:
    kind = rng.choice((1, 1, 1, 1, 0))
    key = OffsetCommitKey(rng.choice(GROUPS), rng.choice(TOPICS), rng.choice((0, 7, 2**31 - 1, -1)))
    value = OffsetCommitValue(
        rng.choice((0, 5, 2**63 - 1, -1)), rng.choice((-1, 3)), rng.choice(METADATA),
        rng.choice((NOW, NOW + 5, -1, 2**62)), rng.choice((-1, NOW + 9)), rng.choice(IDS),
    )  # fmt: skip
    version = rng.choice((4, 4, 4, 3, 2, 1, 0))
    return kind.to_bytes(2, "big") + encode_key(OFFSET_COMMIT, key)[2:], encode_value(OFFSET_COMMIT, value, version)


def damaged(rng: random.Random, raw: bytes) -> bytes:
    """Cut, longer, or with another byte."""
    match rng.randrange(3):
        case 0:
            return raw[: rng.randrange(len(raw) + 1)]
        case 1:
            return raw + rng.choice((b"\0", b"rest"))
        case _:
            place = rng.randrange(max(1, len(raw)))
            return raw[:place] + bytes([rng.randrange(256)]) + raw[place + 1 :]


def any_kind(rng: random.Random) -> tuple[bytes, bytes | None]:
    record_type, kind = rng.choice([*RECORD_TYPES.items(), *[(GROUP_METADATA, RECORD_TYPES[GROUP_METADATA])] * 6])
    key_kind, value_kind = KINDS[f"{kind.name}Key"], KINDS[f"{kind.name}Value"]
    key = encode_key(record_type, key_kind.build(random_values(key_kind, 0, rng)))
    if rng.random() < 0.1:
        return key, None
    version = rng.choice(list(value_kind.versions()))
    return key, encode_value(record_type, value_kind.build(random_values(value_kind, version, rng)), version)


def _renumbered(batch: bytes, offset: int) -> bytes:
    return offset.to_bytes(8, "big") + batch[8:]


def write_segments(folder: Path, batches: list[bytes], breaks: set[int]) -> None:
    """The batches as the files of a log folder; a new file begins with each batch whose number is in `breaks`."""
    folder.mkdir(parents=True)
    for first, stop in _runs(len(batches), breaks):
        base = parse_header(batches[first]).base_offset if first else 0
        (folder / f"{base:020d}.log").write_bytes(b"".join(batches[first:stop]))


def _runs(count: int, breaks: set[int]) -> Iterator[tuple[int, int]]:
    bounds = sorted({0, count, *(number for number in breaks if 0 < number < count)})
    yield from pairwise(bounds)
