"""The copy of one partition: what it takes of an answer, and how it is cut."""

from __future__ import annotations

import pytest

from kohort.broker.record.copied import CopiedPartition, whole_batches
from kohort.broker.record.limits import Rate, parse_rate
from kohort.broker.record.recorder import CONFIG
from kohort.protocol.record_batch import build_batch, with_base_offset
from kohort.storage.memory_disk import MemoryDisk
from kohort.storage.partition_log import PartitionLog

NOW = 1_800_000_000_000


def batch(offset: int, count: int = 1, epoch: int = 0) -> bytes:
    data = bytearray(build_batch([(b"k", b"v")] * count, timestamp=NOW))
    with_base_offset(data, offset, epoch, 0)
    return bytes(data)


@pytest.fixture
def part() -> CopiedPartition:
    disk = MemoryDisk()
    disk.make_folder("/rec")
    log = PartitionLog(disk, "/rec/__consumer_offsets-0", CONFIG)
    log.create(NOW)
    return CopiedPartition(0, log)


def take(part: CopiedPartition, data: bytes) -> int:
    return part.take(data, NOW, lambda _, offset: part.log.truncate_to(offset))


def diverged(part: CopiedPartition, epoch: int, end: int) -> int:
    return part.diverged(epoch, end, lambda _, offset: part.log.truncate_to(offset))


def content(part: CopiedPartition) -> bytes:
    return b"".join(chunk[:size] for chunk, size in part.log.chunks())


def test_batches_are_kept_byte_for_byte(part: CopiedPartition) -> None:
    data = batch(0, 3) + batch(3, epoch=2) + batch(4, 2, epoch=2)
    assert take(part, data) == len(data)
    assert content(part) == data
    assert (part.position, part.last_epoch, part.log.cleaned_up_to, part.batches) == (6, 2, 0, 3)


def test_a_batch_that_is_cut_is_left_for_the_next_fetch(part: CopiedPartition) -> None:
    first, second = batch(0), batch(1)
    for cut in (0, 5, 60, len(second) - 1):
        assert whole_batches(first + second[:cut], 0).end == len(first)
    take(part, first + second[:-1])
    assert part.position == 1
    take(part, second)
    assert content(part) == first + second


def test_what_the_copy_has_already_is_not_taken_again(part: CopiedPartition) -> None:
    take(part, batch(0) + batch(1))
    assert take(part, batch(0) + batch(1)) == 0
    take(part, batch(1) + batch(2))
    assert content(part) == batch(0) + batch(1) + batch(2)


def test_gaps_of_compaction_stay_and_say_up_to_where_history_is_missing(part: CopiedPartition) -> None:
    take(part, batch(0) + batch(7) + batch(8))
    assert (part.position, part.log.cleaned_up_to) == (9, 8)
    thinned = bytearray(batch(9, 1))
    thinned[23:27] = (4).to_bytes(4, "big")  # five offsets, one record
    assert whole_batches(bytes(thinned), 9).gap_end == 14


def test_a_batch_that_reaches_back_over_the_end_takes_the_place_of_what_it_covers(part: CopiedPartition) -> None:
    take(part, batch(0) + batch(1) + batch(2))
    take(part, batch(1, 4))
    assert content(part) == batch(0) + batch(1, 4)


@pytest.mark.parametrize(
    ("epoch", "end", "left"),
    [
        (2, 5, 5),  # the leader has lost the last batch of our epoch
        (1, 4, 4),  # it never had our epoch
        (1, 3, 3),  # and only a part of the one before
        (0, 2, 2),
    ],
)
def test_the_copy_is_cut_back_to_what_it_has_in_common_with_the_leader(
    part: CopiedPartition, epoch: int, end: int, left: int
) -> None:
    data = [batch(0), batch(1), batch(2, epoch=1), batch(3, epoch=1), batch(4, epoch=2), batch(5, epoch=2)]
    take(part, b"".join(data))
    assert diverged(part, epoch, end) == 6 - left
    assert content(part) == b"".join(data[:left])
    assert (part.position, part.truncations) == (left, 1)


def test_nothing_in_common_leaves_nothing(part: CopiedPartition) -> None:
    take(part, batch(0, epoch=5) + batch(1, epoch=5))
    assert diverged(part, 3, 9) == 2
    assert (content(part), part.position) == (b"", 0)


def test_a_log_that_begins_later_leaves_a_gap_in_a_recording_and_none_in_an_empty_one(part: CopiedPartition) -> None:
    assert part.jump_to(10) == 0
    take(part, batch(10))
    assert (part.log.log_start_offset, part.log.cleaned_up_to) == (10, 0)
    assert part.jump_to(50) == 39
    assert part.last_epoch == -1  # the leader cannot be asked to compare what it has removed
    take(part, batch(50))
    assert content(part) == batch(10) + batch(50)
    assert (part.lost, part.log.cleaned_up_to) == (39, 50)


def test_a_damaged_batch_is_refused_and_nothing_is_taken(part: CopiedPartition) -> None:
    damaged = bytearray(batch(0))
    damaged[-1] ^= 1
    with pytest.raises(ValueError, match="CRC"):
        take(part, bytes(damaged))
    assert (part.position, content(part)) == (0, b"")


def test_rates_are_read_and_kept() -> None:
    assert [parse_rate(text) for text in ("1000", "500kB", "5MB", "1.5g", "2 MB/s")] == [1000, 5e5, 5e6, 1.5e9, 2e6]
    for text in ("", "0", "fast", "-1", "5 miles"):
        with pytest.raises(ValueError, match="is no rate"):
            parse_rate(text)
    rate = Rate(1_000_000)
    assert rate.fetch_bytes == 250_000
    assert rate.used(2_000_000) == pytest.approx(2, abs=0.1)
    assert rate.used(1_000_000) == pytest.approx(3, abs=0.1)
    assert Rate(None).used(1_000_000_000) == 0
