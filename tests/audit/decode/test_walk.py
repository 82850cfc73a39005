"""Files are walked to their end whatever is in them; damage is named, and costs no more than what it hit."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from crc32c import crc32c

from kohort.audit.decode import read_table
from kohort.audit.decode.chain import chain
from kohort.audit.decode.folders import find_logs
from kohort.audit.decode.sums import further, sums_of
from kohort.audit.decode.walk import Walk, headers_at, walk
from kohort.protocol.log_records import OFFSET_COMMIT, encode_key, encode_value
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.record_batch import build_batch, parse_header
from tests.audit.decode.random_logs import NOW, random_log


def commit_batch(number: int, producer_id: int = -1) -> bytes:
    key = encode_key(OFFSET_COMMIT, OffsetCommitKey("orders", "t", number % 10))
    value = encode_value(OFFSET_COMMIT, OffsetCommitValue(number, -1, "", NOW, topic_id=b"\x01" * 16))
    return build_batch([(key, value)], timestamp=NOW, base_offset=number, base_sequence=0, producer_id=producer_id)


@pytest.fixture(scope="module")
def batches() -> list[bytes]:
    return [commit_batch(number) for number in range(30)]


def problems(found: Walk) -> list[tuple[str, int, int]]:
    """(problem, position, size) of each damaged batch and stretch, in order."""
    damaged = [("crc", int(found.positions[n]), int(found.sizes[n])) for n in found.damaged]
    return sorted([*damaged, *((one.problem, *one[:2]) for one in found.stretches)], key=lambda one: one[1])


def offsets(found: Walk) -> list[int]:
    """Of the sound batches."""
    every = found.headers["base_offset"].tolist()
    return [offset for number, offset in enumerate(every) if number not in found.damaged]


def test_a_long_file_of_small_batches_is_one_chain_with_right_sums() -> None:
    rng = random.Random(5)
    batches = [commit_batch(number) for number in range(3_000)]
    batches[1000:1000] = [commit_batch(n, producer_id=7) for n in range(200)]  # no guess fits these
    batches.insert(2000, build_batch([(rng.randbytes(70_000), b"\xff" * 200)], timestamp=NOW))
    data = b"".join(batches)
    starts = np.cumsum([0, *map(len, batches)])
    found, broken = chain(data, 0, len(data))
    assert not broken
    assert found.tolist() == starts.tolist()
    walked = walk(data)
    assert (walked.positions == starts[:-1]).all()
    assert problems(walked) == []
    some, broken = chain(data, int(starts[500]), int(starts[1500]) + 1)
    assert (some.tolist(), broken) == (starts[500:1502].tolist(), False)


def test_sums_are_those_of_each_batch() -> None:
    data = bytearray(b"".join(random_log(random.Random(9), 300)))
    starts, _ = chain(bytes(data), 0, len(data))
    sizes = np.diff(starts)
    for number in (3, 4, 150):
        data[int(starts[number]) + 40] ^= 8
    claimed = headers_at(bytes(data), starts[:-1])["crc"]
    right = [crc32c(bytes(data[start + 21 : end])) for start, end in pairwise(starts)]
    assert sums_of(bytes(data), starts[:-1], sizes, claimed).tolist() == right
    assert np.flatnonzero(claimed != right).tolist() == [3, 4, 150]


def test_a_sum_is_taken_further_by_bytes() -> None:
    start = crc32c(b"orders")
    for count in (0, 1, 255, 256, 257, 40_000, 65_535):
        whole = crc32c(b"orders" + bytes(count))
        moved = int(further(np.array([start], np.uint32), np.array([count]))[0])
        assert moved ^ crc32c(bytes(count)) == whole


def test_a_flipped_byte_costs_one_batch(batches: list[bytes]) -> None:
    size = len(batches[0])
    data = bytearray(b"".join(batches))
    data[7 * size + 80] ^= 1
    found = walk(bytes(data))
    assert problems(found) == [("crc", 7 * size, size)]
    assert offsets(found) == [*range(7), *range(8, 30)]
    assert "its bytes give" in found.damaged[7]


@pytest.mark.parametrize("length", [0, 49, 90, 5_000, 2**31 - 1, -1])
def test_a_wrong_length_costs_one_batch(batches: list[bytes], length: int) -> None:
    """The length lies outside the sum, and says where the next batch begins."""
    size = len(batches[0])
    data = bytearray(b"".join(batches))
    data[7 * size + 8 : 7 * size + 12] = length.to_bytes(4, "big", signed=True)
    found = walk(bytes(data))
    assert [one[1] for one in problems(found)][:1] == [7 * size]
    assert offsets(found) == [*range(7), *range(8, 30)]
    assert int(found.sizes.sum()) + sum(one.size_bytes for one in found.stretches) == len(data)


def test_a_wrong_length_at_the_edge_of_a_window_costs_one_batch(
    batches: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(batches[0])
    for window in range(1, 3 * size, 40):
        monkeypatch.setattr("kohort.audit.decode.walk.WINDOW_BYTES", window)
        data = bytearray(b"".join(batches))
        data[2 * size + 11] += 5
        found = walk(bytes(data))
        assert problems(found) == [("crc", 2 * size, size)], window
        assert offsets(found) == [0, 1, *range(3, 30)]


def test_garbage_and_zeros_between_batches_are_stepped_over(batches: list[bytes]) -> None:
    size = len(batches[0])
    data = b"".join([*batches[:5], b"\x02garbage" * 30, *batches[5:9], bytes(100), *batches[9:]])
    found = walk(data)
    assert problems(found) == [("garbage", 5 * size, 240), ("garbage", 9 * size + 240, 100)]
    assert found.stretches[1].detail == "100 bytes that are no batch: zeros"
    assert offsets(found) == list(range(30))


@pytest.mark.parametrize("cut", [1, 30, 61, 100])
def test_a_torn_end_is_told_from_garbage(batches: list[bytes], cut: int) -> None:
    size = len(batches[0])
    data = b"".join(batches)[:-cut]
    found = walk(data)
    assert problems(found) == [("torn", 29 * size, size - cut)]
    assert offsets(found) == list(range(29))
    walked = walk(data[: 29 * size] + bytes(size))
    assert problems(walked) == [("garbage", 29 * size, size)]  # the disk's, not the broker's


def test_two_bad_batches_at_a_torn_end_are_three_problems(batches: list[bytes]) -> None:
    size = len(batches[0])
    data = bytearray(b"".join(batches)[:-20])
    data[27 * size + 70] ^= 1
    data[28 * size + 70] ^= 1
    assert problems(walk(bytes(data))) == [
        ("crc", 27 * size, size), ("crc", 28 * size, size), ("torn", 29 * size, size - 20),
    ]  # fmt: skip


def test_old_message_formats_are_named(batches: list[bytes]) -> None:
    old = bytearray(batches[0])
    old[16] = 1
    found = walk(bytes(old) + b"".join(batches[1:]))
    assert offsets(found) == list(range(1, 30))
    assert found.stretches[0].size_bytes == len(old)
    assert "format 1, from before Kafka 0.11" in found.stretches[0].detail


def test_batches_that_cannot_be_read_are_named_and_the_rest_is_read(batches: list[bytes], tmp_path: Path) -> None:
    """The sum is right, so that this is what was written; but not by a broker."""
    header = parse_header(batches[3])
    rubbish = bytearray(batches[3])
    rubbish[61] = 0x7F  # a record that goes beyond its batch
    rubbish[17:21] = crc32c(bytes(rubbish[21:])).to_bytes(4, "big")
    unknown_codec = bytearray(batches[4])
    unknown_codec[22] |= 6
    unknown_codec[17:21] = crc32c(bytes(unknown_codec[21:])).to_bytes(4, "big")
    folder = tmp_path / "__consumer_offsets-4"
    folder.mkdir()
    parts = [*batches[:3], bytes(rubbish), bytes(unknown_codec), *batches[5:]]
    (folder / f"{0:020d}.log").write_bytes(b"".join(parts))
    (log,), _ = find_logs([str(tmp_path)])
    rows = [row for batch in read_table(log, "log_batches") for row in batch.to_pylist()]
    told = {row["log_offset"]: (row["problem"], row["detail"]) for row in rows if row["problem"]}
    assert {offset: problem for offset, (problem, _) in told.items()} == {3: "undecodable", 4: "undecodable"}
    assert all(detail for _, detail in told.values())
    commits = [row for batch in read_table(log, "offset_commits") for row in batch.to_pylist()]
    assert [row["log_offset"] for row in commits] == [0, 1, 2, *range(5, 30)]
    assert header.size_bytes == len(rubbish)
