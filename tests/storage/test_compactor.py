"""What compaction keeps, what it drops, and when."""

import threading
import tracemalloc
from dataclasses import replace

import pytest

from kohort.protocol.record_batch import BATCH_HEADER_BYTES, CorruptBatch, NewRecord, build_batch
from kohort.storage.cleanable import group_segments, is_due
from kohort.storage.compactor import MAP_ENTRY_BYTES, IoThrottle
from kohort.storage.errors import LogFailed
from kohort.storage.memory_disk import NEVER_FULL
from tests.simulation.disk import SimulatedDisk
from tests.storage.compaction_story import CONFIG, NOW, Story

A, B, C = b"key-a", b"key-b", b"key-c"


@pytest.fixture
def story() -> Story:
    disk = SimulatedDisk()
    disk.make_folder("data")
    return Story(disk)


# --- keys -----------------------------------------------------------------------------------------


def test_the_newest_record_of_each_key_stays_at_its_offset(story: Story) -> None:
    story.write((A, b"1"), (B, b"1"))
    story.write((A, b"2"))
    story.roll()
    story.write((A, b"3"), (C, b"1"))
    story.roll()
    story.write((C, b"2"))  # the active segment: C at 4 stays, the map does not see this
    before = story.state()
    done = story.compact()
    assert [(r.offset, r.key, r.value) for r in story.records()] == [
        (1, B, b"1"),
        (3, A, b"3"),
        (4, C, b"1"),
        (5, C, b"2"),
    ]
    assert story.state() == before
    assert (done.records_before, done.records_after, done.cleaned_up_to) == (5, 3, 5)
    assert done.bytes_after < done.bytes_before


def test_the_log_ends_and_goes_on_where_it_did(story: Story) -> None:
    for _ in range(5):
        story.write((A, b"x"))
    story.roll()
    story.compact()
    assert story.log.log_end_offset == 5
    assert story.write((A, b"y")) == 5


def test_batches_that_lose_nothing_are_copied_byte_by_byte(story: Story) -> None:
    story.write((A, b"1"))
    story.write((B, b"1"), (C, b"1"))
    story.write((A, b"2"))
    story.roll()
    first, second, third = story.batches()
    story.compact()
    assert story.batches() == [second, third]
    assert first not in story.batches()


@pytest.mark.parametrize("compression", [0, 4])
def test_record_headers_stay_as_they_are_and_are_not_read(story: Story, compression: int) -> None:
    """Two bytes each in the batch, and 64 bytes or more each for somebody who reads them."""
    many = tuple((b"", b"") for _ in range(300_000))
    records: list[NewRecord] = [(A, b"1"), (A, b"2", many), (B, b"1", ((b"name", None),))]
    story.log.append(build_batch(records, timestamp=NOW, compression=compression), now=NOW)
    story.roll()
    tracemalloc.start()
    try:
        story.compact()
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 10_000_000
    assert [(r.offset, len(r.headers)) for r in story.records()] == [(1, 300_000), (2, 1)]
    assert story.records()[1].headers == ((b"name", None),)


def test_a_rebuilt_batch_keeps_its_place_its_producer_and_its_epoch(story: Story) -> None:
    story.write((A, b"1"), (B, b"1"), (A, b"2"), producer=9)
    story.end_transaction(9, commit=True)
    story.roll()
    before = story.headers()[0]
    story.compact()
    after = story.headers()[0]
    assert story.offsets() == [1, 2]
    assert (after.base_offset, after.last_offset) == (before.base_offset, before.last_offset) == (0, 2)
    assert after.partition_leader_epoch == 5
    assert (after.producer_id, after.producer_epoch, after.base_sequence) == (9, 3, 0)
    assert after.is_transactional


def test_records_without_a_key_are_dropped(story: Story) -> None:
    story.write((None, b"x"), (A, b"1"), (None, None))
    story.write((B, b"1"))
    story.roll()
    story.compact()
    assert story.offsets() == [1, 3]


def test_records_that_no_coordinator_can_read_stay(story: Story) -> None:
    unreadable = [
        (b"", b"x"),
        (b"\0", b"value"),
        (b"\0\x01\0\x40half a key", b"\0\x03"),
        (b"\0\x02\0\x01g", b"\0\x63?"),
    ]
    story.write(*unreadable)
    story.write((A, b"1"))
    story.write((A, b"2"))
    story.roll()
    story.compact()
    assert story.state() == {**dict(unreadable), A: b"2"}


def test_long_keys_are_told_apart(story: Story) -> None:
    long = [bytes([letter]) * 64 for letter in b"abc"] + [b"a" * 63, b"a" * 100_0]
    for value in (b"1", b"2"):
        for key in long:
            story.write((key, value))
    story.roll()
    story.compact()
    assert story.offsets() == [5, 6, 7, 8, 9]


def test_compressed_batches_stay_compressed(story: Story) -> None:
    for codec in (1, 2, 3, 4):
        batch = build_batch([(A, b"1" * 50), (b"own-%d" % codec, b"2" * 50)], timestamp=NOW, compression=codec)
        story.log.append(batch, now=NOW)
    story.roll()
    story.compact()
    assert story.offsets() == [1, 3, 5, 6, 7]
    assert [header.compression for header in story.headers()] == [1, 2, 3, 4]


# --- ends and segments ----------------------------------------------------------------------------


def test_the_last_batch_stays_as_a_bare_header_when_nothing_is_left_in_it(story: Story) -> None:
    story.write((A, b"1"))
    story.write((None, b"no key"), (None, b"no key"))
    story.roll()
    story.compact()
    last = story.headers()[-1]
    assert (last.size_bytes, last.record_count) == (BATCH_HEADER_BYTES, 0)
    assert (last.base_offset, last.last_offset, last.max_timestamp) == (1, 2, NOW)
    assert story.reopened_on(story.disk).log.log_end_offset == 3


def test_the_active_segment_is_never_compacted(story: Story) -> None:
    story.write((A, b"1"))
    story.write((A, b"2"))
    story.checkpoint()
    assert story.cleanable() is None


def test_what_is_not_known_to_be_durable_is_not_compacted(story: Story) -> None:
    story.write((A, b"1"))
    story.log.roll(NOW)
    assert story.cleanable() is None


def test_small_segments_are_merged_up_to_the_size_of_one(story: Story) -> None:
    story.config = replace(CONFIG, segment_bytes=1000)
    story.open()
    for number in range(12):
        story.write((b"key-%d" % number, b"v" * 150))  # 230 bytes in a segment of their own
        story.roll()
    groups = group_segments(story.log.cleanable_segments(), 1000)
    assert [len(group) for group in groups] == [4, 4, 4]
    before = story.state()
    story.compact()
    assert [segment.base_offset for segment in story.log.segments] == [0, 4, 8, 12]
    assert story.state() == before


def test_a_group_never_spans_more_offsets_than_an_index_can_name(story: Story) -> None:
    story.write((A, b"1"))
    story.roll()
    story.write((A, b"2"))
    story.roll()
    first, second = story.log.cleanable_segments()
    second.next_offset = first.base_offset + 2**31
    assert group_segments([first, second], 10**9) == [[first], [second]]


def test_old_files_are_gone_after_the_delay(story: Story) -> None:
    story.config = replace(CONFIG, file_delete_delay_ms=60_000)
    story.open()
    story.write((A, b"1"))
    story.roll()
    story.compact()
    assert "data/offsets-0/00000000000000000000.log.deleted" in story.disk.files()  # type: ignore[attr-defined]
    assert story.log.purge_deleted(NOW + 59_999) == 0
    assert story.log.purge_deleted(NOW + 60_000) > 0
    names = {info.name.partition(".")[2] for info in story.disk.scan_folder("data/offsets-0")}
    assert not any("deleted" in name or "swap" in name or "cleaned" in name for name in names)


# --- tombstones -----------------------------------------------------------------------------------


def later(story: Story, now: int) -> list[int]:
    """Another run at `now`, with something dirty to run for; returns the offsets that are left below it."""
    end = story.log.log_end_offset
    story.now = now
    story.write((b"other", b"x"))
    story.roll()
    story.compact()
    return [offset for offset in story.offsets() if offset < end]


def test_a_tombstone_stays_until_its_horizon_and_then_goes(story: Story) -> None:
    story.write((A, b"1"))
    story.write((A, None), (B, b"1"))
    story.roll()
    story.compact()
    assert story.offsets() == [1, 2]
    assert story.headers()[0].delete_horizon_ms == NOW + 1_000
    assert later(story, NOW + 999) == [1, 2]
    assert story.headers()[0].delete_horizon_ms == NOW + 1_000
    assert later(story, NOW + 1_000) == [2]
    assert story.state() == {B: b"1", b"other": b"x"}


def test_timestamps_survive_the_horizon_in_their_batch(story: Story) -> None:
    story.write((A, None), (B, b"1"))
    story.roll()
    story.compact()
    assert {record.timestamp for record in story.records()} == {NOW}


def test_a_tombstone_that_is_not_the_newest_goes_at_once(story: Story) -> None:
    story.write((A, None))
    story.write((A, b"2"))
    story.roll()
    story.compact()
    assert story.offsets() == [1]
    assert not story.headers()[0].has_delete_horizon


# --- when -----------------------------------------------------------------------------------------


def test_young_segments_wait_for_the_compaction_lag(story: Story) -> None:
    story.config = replace(CONFIG, min_compaction_lag_ms=500)
    story.open()
    story.write((A, b"1"))
    story.roll()
    story.now = NOW + 400
    story.write((A, b"2"))
    story.roll()
    story.now = NOW + 499
    assert story.cleanable() is None
    story.now = NOW + 500
    found = story.cleanable()
    assert found is not None
    assert found.end_offset == 1


def test_a_run_is_due_when_enough_is_dirty(story: Story) -> None:
    for key in (A, B, C):
        story.write((key, b"v" * 500))
    story.roll()
    found = story.cleanable()
    assert found is not None
    assert found.dirty_ratio == 1.0
    story.compact()
    assert story.cleanable() is None
    story.write((A, b"v" * 500))
    story.roll()
    found = story.cleanable()
    assert found is not None
    assert found.dirty_ratio == pytest.approx(0.25)
    assert not is_due(found, story.config, NOW)
    assert is_due(found, replace(CONFIG, min_cleanable_dirty_ratio=0.25), NOW)


def test_a_run_is_due_when_something_was_dirty_for_too_long(story: Story) -> None:
    config = replace(CONFIG, min_cleanable_dirty_ratio=2.0, max_compaction_lag_ms=700)
    story.write((A, b"1"))
    story.roll()
    found = story.cleanable()
    assert found is not None
    assert not is_due(found, config, NOW + 700)
    assert is_due(found, config, NOW + 701)


def test_a_checkpoint_beyond_the_log_is_not_believed(story: Story) -> None:
    story.write((A, b"1"))
    story.roll()
    story.cleaned_up_to = 1_000
    found = story.cleanable()
    assert found is not None
    assert found.first_dirty_offset == 0


def test_the_map_takes_no_more_memory_than_allowed_and_the_next_run_goes_on(story: Story) -> None:
    for number in range(40):
        story.write((b"key-%d" % (number % 20), b"%d" % number))
    story.roll()
    before = story.state()
    ends = [story.compact(max_map_bytes=8 * MAP_ENTRY_BYTES).cleaned_up_to]
    while ends[-1] != 40:
        assert story.state() == before
        ends.append(story.compact(max_map_bytes=8 * MAP_ENTRY_BYTES).cleaned_up_to)
    assert ends == [8, 16, 24, 32, 40]
    assert story.offsets() == list(range(20, 40))


def test_a_batch_with_more_records_than_the_map_holds_passes_but_its_tombstones_stay_for_good(story: Story) -> None:
    story.write((A, b"1"))
    story.write((A, None), (B, b"1"))  # too large for a map of one: A at 0 is not known to be old
    story.write((C, b"1"))
    story.roll()
    story.compact(max_map_bytes=1)
    story.compact(max_map_bytes=1)
    story.now += 1_000_000
    story.write((C, b"2"))
    story.roll()
    story.compact(max_map_bytes=1)
    assert story.offsets() == [0, 1, 2, 4]
    assert story.state() == {B: b"1", C: b"2"}


# --- trouble --------------------------------------------------------------------------------------


def test_a_run_that_is_given_up_leaves_nothing_behind(story: Story) -> None:
    for number in range(600):
        story.write((b"key-%d" % number, b"v" * 200))
    story.roll()
    files = {info.name for info in story.disk.scan_folder(story.folder)}
    for stop_after in range(1, 100):
        steps = story.compaction().steps()
        for _ in range(stop_after):
            next(steps)
        steps.close()
        found = {info.name for info in story.disk.scan_folder(story.folder)}
        assert not any(name.endswith((".cleaned", ".swap")) for name in found)
        if found != files:
            break  # the first group was swapped in before the end of the run
    assert stop_after > 5


@pytest.mark.parametrize("operation", ["create", "append", "sync", "rename", "sync_folder"])
def test_a_disk_that_fails_the_output_does_not_hurt_the_log(story: Story, operation: str) -> None:
    story.write((A, b"1"))
    story.write((A, b"2"))
    story.roll()
    story.write((B, b"1"))
    before = story.batches()
    assert isinstance(story.disk, SimulatedDisk)
    story.disk.fail_next(operation, "" if operation == "sync_folder" else "0000")
    with pytest.raises(OSError, match="error"):
        story.compact()
    assert story.batches() == before
    assert not any(info.name.endswith((".cleaned", ".swap")) for info in story.disk.scan_folder(story.folder))
    story.compact()
    assert story.offsets() == [1, 2]
    story.write((B, b"2"))


def test_a_full_disk_gives_up_the_run_and_keeps_the_log(story: Story) -> None:
    for number in range(100):
        story.write((b"key-%d" % number, b"v" * 100))
    story.roll()
    assert isinstance(story.disk, SimulatedDisk)
    story.disk.capacity_bytes = story.disk.used_bytes() + 5_000
    before = story.batches()
    with pytest.raises(OSError, match="space"):
        story.compact()
    assert story.batches() == before
    story.disk.capacity_bytes = NEVER_FULL
    story.compact()
    assert story.state().keys() == {b"key-%d" % number for number in range(100)}


def test_a_swap_that_fails_half_way_stops_the_log_and_a_restart_finishes_it(story: Story) -> None:
    story.write((A, b"1"))
    story.write((A, b"2"))
    story.roll()
    before = story.state()
    assert isinstance(story.disk, SimulatedDisk)
    story.disk.fail_next("rename", ".log.deleted")
    with pytest.raises(OSError, match="error"):
        story.compact()
    with pytest.raises(LogFailed):
        story.write((A, b"3"))
    again = story.reopened_on(story.disk)
    assert again.state() == before
    assert again.offsets() == [1]


@pytest.mark.parametrize("chunks_before", [1, 2])
def test_a_replay_in_steps_is_not_disturbed_by_a_compaction(story: Story, chunks_before: int) -> None:
    for value in (b"1", b"2", b"3"):
        story.write((A, value))
        story.write((B, None if value == b"3" else value))
        story.roll()
    before = [bytes(chunk[:size]) for chunk, size in story.log.chunks()]
    steps = story.log.chunks()
    read = [next(steps) for _ in range(chunks_before)]
    story.compact()
    assert [bytes(chunk[:size]) for chunk, size in [*read, *steps]] == before
    assert len(list(story.log.chunks())) < len(before), "it was compacted"


def test_the_throttle_keeps_the_average_below_the_rate() -> None:
    throttle = IoThrottle(1_000_000, now_s=10.0)
    assert throttle.rest_s(500_000, 10.0) == pytest.approx(0.5)
    assert throttle.rest_s(500_000, 10.5) == pytest.approx(0.5)
    assert throttle.rest_s(100_000, 11.0) == pytest.approx(0.1)
    assert throttle.rest_s(100, 1_000.0) == 0.0  # time not used is saved, but only a second of it
    assert throttle.rest_s(2_000_000, 1_000.0) == pytest.approx(1.0001)


def test_a_run_counts_its_reading_and_writing_in_small_steps(story: Story) -> None:
    for number in range(500):
        story.write((b"key-%d" % number, b"v" * 200))
        if story.log.active.size_bytes > 90_000:
            story.roll()
    story.roll()
    size = sum(segment.size_bytes for segment in story.log.cleanable_segments())
    steps = list(story.compaction().steps())
    assert sum(steps) == 3 * size  # once for the map, once to copy, and the copy
    assert max(steps) < 34_000


def test_a_batch_that_rots_on_disk_ends_the_run_and_is_not_made_worse(story: Story) -> None:
    story.write((A, b"1"))
    story.write((B, b"sound before"))
    story.write((A, b"2"))
    story.roll()
    assert isinstance(story.disk, SimulatedDisk)
    path = story.log.segments[0].log_path
    inode = story.disk._inode(path)
    inode.content[100] ^= 0x40
    rotten = bytes(inode.content)
    with pytest.raises(CorruptBatch):
        story.compact()
    assert story.disk.read_file(path) == rotten
    assert not any(info.name.endswith((".cleaned", ".swap")) for info in story.disk.scan_folder(story.folder))


@pytest.mark.parametrize("bytes_per_second", [0.0, 1e-300])
def test_a_limit_of_nothing_is_a_wait_that_a_thread_can_wait(bytes_per_second: float) -> None:
    rest_s = IoThrottle(bytes_per_second, now_s=10.0).rest_s(32_768, 10.0)
    assert 0 < rest_s < threading.TIMEOUT_MAX
