"""Work beside requests: retention, compaction in its thread, checkpoints, overdue flushes, silent producers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread, current_thread

import pytest

from kohort.broker.housekeeping import Housekeeping
from kohort.broker.topics.producer_state import PRODUCERS, Producers
from kohort.protocol.record_batch import build_batch
from kohort.storage.layout import parse_offsets
from tests.broker.broker_box import BrokerBox

DAY_MS = 86_400_000


class Household(BrokerBox):
    """A box with its housekeeping started."""

    def __init__(self, folder: Path, **overrides: str) -> None:
        super().__init__(folder, None, **overrides)
        self.housekeeping = Housekeeping(self.broker, self._posted.put, lambda: self.now)
        self.housekeeping.start()

    def checkpoint(self) -> None:
        self.housekeeping.checkpoint()
        self.finish_checkpoint()

    def finish_checkpoint(self) -> None:
        assert self.housekeeping.is_checkpointing
        while self.housekeeping.is_checkpointing:
            self.run_posted()

    def finish_compaction(self) -> None:
        """Do what its thread asks of the event loop, until it is done."""
        assert self.housekeeping.is_compacting
        while self.housekeeping.is_compacting:
            self.run_posted()

    def stop(self) -> None:
        self.housekeeping.stop()
        self.close()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Household]:
    made = Household(tmp_path / "data")
    yield made
    made.stop()


def write_keys(box: BrokerBox, topic: str, rounds: int) -> None:
    """Each round writes every key anew, and then the log rolls."""
    log = box.broker.catalog.get(topic).partitions[0].log  # type: ignore[union-attr]
    for number in range(rounds):
        batch = build_batch([(b"key%d" % i, b"%d" % number) for i in range(10)], timestamp=box.now)
        assert box.produce(batch, topic).error_code == 0
        log.roll(box.now)
    log.flush(box.now)


def test_old_segments_go_after_retention_ms_and_their_files_after_the_delay(box: Household, tmp_path: Path) -> None:
    topic = box.topic("t", retention_ms=str(DAY_MS), segment_ms=str(DAY_MS // 2))
    for _ in range(4):
        box.append(b"x")
        box.pass_time(DAY_MS // 2 + 1)
    log = topic.partitions[0].log
    box.pass_time(300_000)
    assert log.log_start_offset == 3
    box.pass_time(600_000)
    for _ in range(2):  # the first may have begun before; the thread writes the second after it has unlinked the files
        box.checkpoint()
    assert list((tmp_path / "data" / "t-0").glob("*.deleted")) == []


def test_a_dirty_log_is_compacted_and_the_cleaners_offset_written_down(box: Household, tmp_path: Path) -> None:
    topic = box.topic("t", cleanup_policy="compact")
    write_keys(box, "t", rounds=5)
    box.checkpoint()  # only what a checkpoint calls durable may be compacted
    box.pass_time(15_000)
    box.finish_compaction()
    box.finish_checkpoint()
    assert {record.key: record.value for record in box.read_all()} == {b"key%d" % i: b"4" for i in range(10)}
    assert topic.partitions[0].log.cleaned_up_to == 50
    path = tmp_path / "data" / "cleaner-offset-checkpoint"
    assert parse_offsets(path.read_bytes(), str(path)) == {("t", 0): 50}


def test_compaction_stops_at_the_last_stable_offset(box: Household) -> None:
    topic = box.topic("t", cleanup_policy="compact")
    write_keys(box, "t", rounds=5)
    box.checkpoint()
    producers = topic.partitions[0].extra[PRODUCERS] = Producers()
    producers.open[7] = 35  # as if this were the first record of a transaction
    box.pass_time(15_000)
    box.finish_compaction()
    assert topic.partitions[0].log.cleaned_up_to == 30
    del producers.open[7]
    box.pass_time(15_000)
    box.finish_compaction()
    assert topic.partitions[0].log.cleaned_up_to == 50


def test_compaction_need_not_wait_until_somebody_asks_for_stable_offsets(box: Household) -> None:
    box.broker.had_transactions = True
    topic = box.topic("t", cleanup_policy="compact")
    write_keys(box, "t", rounds=5)
    box.checkpoint()
    box.pass_time(15_000)
    box.finish_compaction()
    assert topic.partitions[0].log.cleaned_up_to == 50


def test_a_log_is_left_alone_until_it_is_dirty_enough(box: Household) -> None:
    box.topic("t", cleanup_policy="compact", min_compaction_lag_ms=str(DAY_MS))
    write_keys(box, "t", rounds=3)
    box.checkpoint()
    box.pass_time(60_000)
    assert len(box.read_all()) == 30


def test_a_topic_that_is_deleted_during_its_compaction_leaves_nothing_behind(box: Household, tmp_path: Path) -> None:
    topic = box.topic("t", cleanup_policy="compact")
    write_keys(box, "t", rounds=5)
    box.checkpoint()
    box.pass_time(15_000)
    box.broker.catalog.make(box.broker.catalog.deletion_of([topic]))
    box.finish_compaction()
    assert [path.name for path in (tmp_path / "data").iterdir() if path.is_dir()] == []


def test_stopping_breaks_off_a_compaction(tmp_path: Path) -> None:
    box = Household(tmp_path / "data", log_cleaner_io_max_bytes_per_second="1")
    box.topic("t", cleanup_policy="compact")
    write_keys(box, "t", rounds=5)
    box.checkpoint()
    box.pass_time(15_000)
    box.stop()
    again = BrokerBox(tmp_path / "data")
    assert {record.key: record.value for record in again.read_all()} == {b"key%d" % i: b"4" for i in range(10)}
    again.close()


def test_recovery_points_are_written_down_in_time(box: Household, tmp_path: Path) -> None:
    topic = box.topic("t")
    box.append(b"x")
    topic.partitions[0].log.flush(box.now)
    box.pass_time(60_000)
    box.finish_checkpoint()
    path = tmp_path / "data" / "recovery-point-offset-checkpoint"
    assert parse_offsets(path.read_bytes(), str(path)) == {("t", 0): 1}


def test_flush_ms_flushes_what_nobody_waits_for(box: Household) -> None:
    topic = box.topic("t", flush_ms="5000")
    log = topic.partitions[0].log
    log.flush(box.now)
    box.append(b"x")
    box.pass_time(4000)
    assert log.recovery_point == 0
    box.pass_time(2000)
    box.run_posted()
    box.run_posted()
    assert log.recovery_point == 1


def test_producers_are_forgotten_after_a_day_of_silence(box: Household) -> None:
    topic = box.topic("t")
    batch = build_batch([(b"k", b"v")], timestamp=box.now, producer_id=1, producer_epoch=0, base_sequence=0)
    box.produce(batch)
    producers = topic.partitions[0].extra[PRODUCERS]
    box.pass_time(DAY_MS - 1)
    assert 1 in producers.by_id
    box.pass_time(600_000)
    assert producers.by_id == {}


def test_a_log_with_many_old_segments_loses_one_per_step(box: Household, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = box.topic("t", retention_ms="1")
    log = topic.partitions[0].log
    for _ in range(20):
        box.append(b"x")
        log.roll(box.now)
    syncs: list[str] = []
    sync_folder = box.disk.sync_folder

    def count(path: str) -> None:
        syncs.append(path)
        sync_folder(path)

    monkeypatch.setattr(box.disk, "sync_folder", count)
    box.now += 10
    steps = [len(syncs) for _ in box.housekeeping._retain_all()]
    assert log.log_start_offset == 20
    assert max(after - before for before, after in zip([0, *steps], steps, strict=False)) <= 2
    assert len(syncs) >= 20


def test_checkpoints_are_written_and_files_unlinked_in_a_thread(
    box: Household, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = current_thread()
    writers: list[Thread] = []
    unlinkers: list[Thread] = []
    write_file, unlink = box.disk.write_file, box.disk.unlink

    def write(path: str, data: bytes, **more: bool) -> None:
        writers.append(current_thread())
        write_file(path, data, **more)

    def remove(path: str) -> None:
        unlinkers.append(current_thread())
        unlink(path)

    log = box.topic("t", retention_ms="1", file_delete_delay_ms="0").partitions[0].log
    box.append(b"x")
    log.roll(box.now)
    monkeypatch.setattr(box.disk, "write_file", write)
    monkeypatch.setattr(box.disk, "unlink", remove)
    box.now += 10
    for _ in box.housekeeping._retain_all():
        pass
    box.checkpoint()  # by the same thread, after the files are unlinked
    assert writers
    assert unlinkers
    assert here not in writers + unlinkers
