"""A log that was cut or damaged anywhere opens with an exact prefix of its records, or refuses loudly."""

import logging
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kohort.protocol.record_batch import CorruptBatch, Record, read_records
from kohort.storage.disk import File, RealDisk
from kohort.storage.errors import LogCorrupt
from kohort.storage.log_config import LogConfig
from kohort.storage.partition_log import PartitionLog
from tests.storage.support import START, a_batch, a_log, log_bytes, records_of

SECTOR_BYTES = 512


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logger = logging.getLogger("storage")
    logger.setLevel(logging.CRITICAL)  # each of 50,000 cuts says so in a line
    yield
    logger.setLevel(logging.NOTSET)


class Original:
    """A log of about 30 kB in one segment, and what may be left of it."""

    def __init__(self, folder: Path) -> None:
        rng = random.Random(30)
        log = a_log(folder)
        self.ends = [0]  # byte and
        self.offsets = [0]  # offset after each batch
        while log.log_end_offset == 0 or log.size_bytes < 29_500:
            value = rng.randbytes(rng.randrange(1, 600))
            log.append(a_batch(rng.randrange(1, 4), timestamp=START + rng.randrange(9999), value=value), now=START)
            self.ends.append(log.size_bytes)
            self.offsets.append(log.log_end_offset)
        self.end_offset = log.log_end_offset
        self.records = records_of(log)
        log.close()
        self.bytes = log_bytes(log)
        self.folder = folder
        self.path = folder / "00000000000000000000.log"

    def open(
        self, content: bytes | bytearray | None, *, clean: bool = False, recovery_point: int | None = None,
        compacted: bool = False, disk: RealDisk | None = None,
    ) -> PartitionLog:  # fmt: skip
        if content is not None:
            self.path.write_bytes(content)
        config = LogConfig(cleanup_policy="compact") if compacted else LogConfig()
        folder = str(self.folder)
        return PartitionLog.open(disk or RealDisk(), folder, config, clean=clean, recovery_point=recovery_point)

    def assert_is_prefix(self, log: PartitionLog) -> list[Record]:
        """The log's records are the first so many of the original; returns them."""
        found = self.path.read_bytes()
        if self.bytes.startswith(found) and len(found) in self.ends:  # the quick way to see the same
            assert log.log_end_offset == self.offsets[self.ends.index(len(found))]
            return self.records[: log.log_end_offset]
        records = records_of(log)
        assert records == self.records[: len(records)]
        assert log.log_end_offset == (records[-1].offset + 1 if records else 0)
        return records


def test_a_log_cut_at_any_byte_keeps_every_batch_that_is_whole(tmp_path: Path) -> None:
    original = Original(tmp_path / "t-0")
    assert 29_000 < len(original.bytes) < 31_000
    original.path.write_bytes(b"")
    whole = 0
    for size in range(len(original.bytes) + 1):
        if size == original.ends[min(whole + 1, len(original.ends) - 1)]:
            whole += 1
        with original.path.open("ab") as file:  # what the last round kept is there: its end is all that is missing
            file.write(original.bytes[file.tell() : size])
        log = original.open(None)
        assert log.log_end_offset == original.offsets[whole]
        assert original.path.stat().st_size == original.ends[whole]
        log.abandon()


def test_a_log_cut_below_its_recovery_point_is_refused(tmp_path: Path) -> None:
    original = Original(tmp_path / "t-0")
    point = original.offsets[len(original.offsets) // 2]
    for size in range(0, len(original.bytes), 61):
        content = original.bytes[:size]
        if size < original.ends[original.offsets.index(point)]:
            with pytest.raises(LogCorrupt, match="Restore the folder from a backup"):
                original.open(content, recovery_point=point)
            assert original.path.read_bytes() == content, "a refusal changes nothing"
        else:
            log = original.open(content, recovery_point=point)
            assert log.log_end_offset >= point
            original.assert_is_prefix(log)
            log.abandon()


class WatchedDisk(RealDisk):
    def __init__(self) -> None:
        super().__init__()
        self.opened: list[File] = []

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:
        self.opened.append(super().open(path, create=create, truncate=truncate))
        return self.opened[-1]


def test_a_refused_log_leaves_no_file_open(tmp_path: Path) -> None:
    original = Original(tmp_path / "t-0")
    disk = WatchedDisk()
    with pytest.raises(LogCorrupt):
        original.open(original.bytes[:-1], recovery_point=original.end_offset, disk=disk)
    assert disk.opened
    for file in disk.opened:
        with pytest.raises(ValueError, match="closed already"):
            file.close()


def test_a_cleanly_closed_log_that_lost_bytes_is_refused(tmp_path: Path) -> None:
    original = Original(tmp_path / "t-0")
    for size in range(0, len(original.bytes), 61):
        with pytest.raises(LogCorrupt):
            original.open(original.bytes[:size], clean=True, recovery_point=original.end_offset)


def damage(rng: random.Random, content: bytes) -> bytearray:
    """A flipped bit or a few, or a sector of zeros."""
    damaged = bytearray(content)
    if rng.random() < 0.3:
        start = rng.randrange(len(content)) // SECTOR_BYTES * SECTOR_BYTES
        end = min(start + SECTOR_BYTES, len(content))
        damaged[start:end] = bytes(end - start)
    else:
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return damaged


@pytest.mark.parametrize("how", ["nothing known", "half synced", "all synced", "clean", "compacted"])
def test_4000_random_damages_never_give_a_wrong_record(tmp_path: Path, how: str) -> None:
    original = Original(tmp_path / "t-0")
    rng = random.Random(how)
    half = original.offsets[len(original.offsets) // 2]
    points = {"nothing known": None, "half synced": half, "compacted": 0}
    refused = 0
    for _ in range(4000):
        content = damage(rng, original.bytes)
        try:
            log = original.open(
                content, clean=how == "clean", compacted=how == "compacted",
                recovery_point=points.get(how, original.end_offset),
            )  # fmt: skip
        except LogCorrupt:
            refused += 1
            continue
        if how == "clean":
            refused += reads_a_prefix_then_fails(original, log)
        else:
            records = original.assert_is_prefix(log)
            assert len(records) >= (points.get(how, original.end_offset) or 0)
        log.abandon()
    assert refused > (3000 if how in ("all synced", "clean") else 0), "flipped leader epochs do no harm"


def reads_a_prefix_then_fails(original: Original, log: PartitionLog) -> bool:
    """After a clean stop nothing is scanned, so damage shows when it is read; whether it did."""
    records = iter(original.records)
    try:
        for record in records_of_each(log):
            assert record == next(records)
    except CorruptBatch:
        return True
    assert next(records, None) is None
    return False


def records_of_each(log: PartitionLog) -> Iterator[Record]:
    for header, chunk, at in log.batches():
        yield from read_records(chunk, at, header=header)


def test_damage_in_a_later_segment_cuts_there_and_drops_what_follows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("storage").setLevel(logging.WARNING)
    log = a_log(tmp_path / "t-0", segment_bytes=1000)
    for i in range(60):
        log.append(a_batch(value=b"v%d" % i), now=START)
    log.close()
    victim = log.segments[2]
    path = Path(victim.log_path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)
    again = PartitionLog.open(RealDisk(), log.folder, log.config)
    assert victim.base_offset < again.log_end_offset < log.segments[3].base_offset
    assert [r.offset for r in records_of(again)] == list(range(again.log_end_offset))
    assert sorted(p.name for p in Path(log.folder).glob("*.log")) == [
        f"{segment.base_offset:020d}.log" for segment in log.segments[:3]
    ]
    assert sum("is cut" in message for message in caplog.messages) == 1
    again.append(a_batch(), now=START)
    again.close()
    assert replace(log.config) == again.config


def test_a_missing_segment_in_the_middle_is_noticed(tmp_path: Path) -> None:
    log = a_log(tmp_path / "t-0", segment_bytes=1000)
    for i in range(60):
        log.append(a_batch(value=b"v%d" % i), now=START)
    log.close()
    Path(log.segments[2].log_path).unlink()
    trusting = PartitionLog.open(RealDisk(), log.folder, log.config, recovery_point=log.log_end_offset)
    with pytest.raises(CorruptBatch, match=f"where {log.segments[2].base_offset} should be"):
        records_of(trusting)
    trusting.abandon()
    again = PartitionLog.open(RealDisk(), log.folder, log.config)
    assert again.log_end_offset == log.segments[2].base_offset
    again.abandon()
