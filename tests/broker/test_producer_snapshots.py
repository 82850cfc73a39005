"""What a partition remembers of its producers and their transactions survives restarts, kills and damaged files."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kohort.broker.steps import all_steps
from kohort.broker.topics import producer_snapshots
from kohort.broker.topics.producer_snapshots import (
    RECOVERY,
    forget_producers,
    from_bytes,
    recover_producers,
    save_all_snapshots,
    to_bytes,
)
from kohort.broker.topics.producer_state import PRODUCERS, Producers
from kohort.broker.topics.stable_offset import finding_stable_offset, is_known, last_stable_offset
from kohort.protocol.crc32c import crc32c
from kohort.storage.memory_disk import MemoryDisk
from tests.broker.broker_box import START_MS
from tests.broker.transaction_box import TransactionBox, data

DAY_MS = 86_400_000


def a_box(disk: MemoryDisk, **settings: str) -> TransactionBox:
    made = TransactionBox("/data", disk, **settings)
    if made.broker.catalog.get("t") is None:
        made.topic("t", 2, segment_bytes="1048576")
        made.broker.catalog.ensure_internal("__transaction_state")
    return made


def reopened(box: TransactionBox, disk: MemoryDisk, *, clean: bool) -> TransactionBox:
    if clean:
        save_all_snapshots(box.broker)
        box.close()
    else:
        box.crash()
    again = a_box(disk)
    again.pass_time(box.now - again.now)
    return again


def known(box: TransactionBox, partition: int = 0) -> Any:
    """Everything that matters of the producers of a partition. Of its last batch a snapshot does not know the time."""
    place = box.partition(partition)
    all_steps(recover_producers(box.broker, place, box.now))
    return remembered(place.extra[PRODUCERS])


def remembered(producers: Producers) -> Any:
    return list(producers.open.items()), {
        key: (each.epoch, each.coordinator_epoch, each.timestamp, [batch[:4] for batch in each.batches[-1:]])
        for key, each in producers.by_id.items()
    }


# --- the file -------------------------------------------------------------------------------------


def test_a_snapshot_has_kafkas_bytes() -> None:
    disk = MemoryDisk()
    box = a_box(disk)
    box.write(0, producer_id=1, epoch=2, count=3)
    box.end(producer_id=1, epoch=3, coordinator_epoch=4, version=2)
    box.write(0, producer_id=5, epoch=6, count=2)
    entry = struct.Struct(">qhiqiqiq")
    body = struct.pack(">i", 2)
    body += entry.pack(1, 3, -1, -1, 0, box.now, 4, -1)
    body += entry.pack(5, 6, 1, 5, 1, box.now, -1, 4)
    assert to_bytes(box.producers()) == struct.pack(">hI", 1, crc32c(body)) + body
    assert remembered(from_bytes(to_bytes(box.producers()))) == remembered(box.producers())
    box.close()


def test_open_transactions_of_a_snapshot_are_put_in_order() -> None:
    producers = Producers()
    box = a_box(MemoryDisk())
    for producer_id in (3, 1, 2):
        box.write(0, producer_id=producer_id)
    for producer_id in (1, 3, 2):  # the order of the file is another one
        box.write(1, producer_id=producer_id)
    producers = from_bytes(to_bytes(box.producers()))
    assert list(producers.open.items()) == [(3, 0), (1, 1), (2, 2)]
    box.close()


@pytest.mark.parametrize("size", [0, 5, 9, 10, 30, 55])
def test_a_snapshot_that_is_cut_off_is_none(size: int) -> None:
    box = a_box(MemoryDisk())
    box.write(0)
    with pytest.raises(ValueError, match=r"too short|checksum|producers in"):
        from_bytes(to_bytes(box.producers())[:size])
    box.close()


# --- restarts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_knows_the_open_transactions(clean: bool) -> None:
    disk = MemoryDisk()
    box = a_box(disk)
    box.append(b"a")
    box.write(0, producer_id=1, epoch=2)
    box.write(0, producer_id=2)
    box.end(producer_id=1, epoch=3, coordinator_epoch=9, version=2, commit=False)
    box.write(0, producer_id=1, epoch=3)
    before = known(box)
    again = reopened(box, disk, clean=clean)
    assert not is_known(again.broker, again.partition())
    assert again.stable() == 0, "nothing is certain to be stable yet"
    assert all_steps(finding_stable_offset(again.broker, again.partition(), again.now)) == 2
    assert known(again) == before
    assert again.end(producer_id=1, epoch=3, coordinator_epoch=8, version=0) == "TRANSACTION_COORDINATOR_FENCED"
    assert again.write(1, producer_id=2) == 5, "the transaction goes on, without a question to the coordinator"
    assert not again.coordinator.asked
    assert again.end(producer_id=2) == "NONE"
    assert again.stable() == 4
    again.close()


def test_a_marker_finds_the_transaction_of_an_earlier_run() -> None:
    disk = MemoryDisk()
    box = a_box(disk)
    box.write(0)
    again = reopened(box, disk, clean=False)
    assert again.end(commit=False) == "NONE"
    assert again.stable() == 2
    index = again.partition().log.active.txn_index
    assert index is not None
    assert [tuple(each) for each in index.entries()] == [(7, 0, 1, 2)]
    again.close()


def test_many_markers_after_a_restart_share_one_look_into_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    box = a_box(disk)
    for producer_id in range(300):
        box.write(0, producer_id=producer_id)
    again = reopened(box, disk, clean=False)
    looks = 0
    look = producer_snapshots._recover

    def counted(*args: Any) -> Any:
        nonlocal looks
        looks += 1
        return look(*args)

    monkeypatch.setattr(producer_snapshots, "_recover", counted)
    waiting = [recover_producers(again.broker, again.partition(), again.now) for _ in range(20)]
    for steps in waiting:
        next(steps, None)
    for producer_id in range(300):
        assert again.end(producer_id=producer_id) == "NONE"
    assert looks == 1
    assert again.stable() == 600
    assert RECOVERY not in again.partition().extra
    again.close()


def test_a_broker_that_had_no_transactions_knows_its_stable_offsets_at_once() -> None:
    disk = MemoryDisk()
    box = TransactionBox("/data", disk)
    box.topic("t")
    box.append(b"a")
    box.crash()
    again = TransactionBox("/data", disk)
    assert is_known(again.broker, again.partition())
    assert again.stable() == 1
    again.broker.catalog.ensure_internal("__transaction_state")
    assert again.write(0) == 1
    assert again.stable() == 1
    again.close()


@pytest.mark.parametrize("had_transactions", [True, False])
def test_old_segments_are_read_only_where_a_transaction_may_be_open(had_transactions: bool) -> None:
    disk = MemoryDisk()
    box = TransactionBox("/data", disk)
    if had_transactions:
        box.broker.catalog.ensure_internal("__transaction_state")
    topic = box.topic("t")
    box.write(0, producer_id=1, transactional=False)
    box.write(0, producer_id=2)
    topic.partitions[0].log.roll(box.now)
    box.pass_time(2 * DAY_MS)
    box.write(0, producer_id=3)
    box.crash()
    (path,) = (path for path in disk.files() if path.endswith(".snapshot"))  # of the second segment
    disk.unlink(path)
    again = TransactionBox("/data", disk)
    again.pass_time(2 * DAY_MS)
    transactions, producers = known(again)
    assert transactions == ([(2, 1), (3, 2)] if had_transactions else [(3, 2)])
    assert list(producers) == ([2, 3] if had_transactions else [3])
    again.close()


def test_a_log_that_is_opened_anew_is_looked_at_again() -> None:
    disk = MemoryDisk()
    box = TransactionBox("/data", disk)
    box.topic("t")
    box.broker.catalog.ensure_internal("__transaction_state")
    box.write(0)
    assert is_known(box.broker, box.partition())
    forget_producers(box.broker, box.partition())
    assert not is_known(box.broker, box.partition()), "though the broker had no transactions at its start"
    assert known(box)[0] == [(7, 0)]
    box.close()


def test_after_a_long_replay_a_snapshot_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_snapshots, "LONG_REPLAY", 10)
    disk = MemoryDisk()
    box = a_box(disk)
    for sequence in range(11):
        box.write(sequence, version=11)
    again = reopened(box, disk, clean=False)
    before = known(again)
    third = reopened(again, disk, clean=False)
    assert [path for path in disk.files() if path.endswith(".snapshot")] == ["/data/t-0/00000000000000000011.snapshot"]
    assert known(third) == before
    third.close()


def test_the_log_may_grow_while_it_is_read() -> None:
    disk = MemoryDisk()
    box = a_box(disk)
    for sequence in range(500):
        box.write(sequence, version=11)
    again = reopened(box, disk, clean=False)
    steps = recover_producers(again.broker, again.partition(), again.now)
    next(steps)
    assert again.append(b"plain") == 500
    all_steps(steps)
    assert again.write(500, version=11) == 501
    again.close()


# --- what is forgotten ----------------------------------------------------------------------------


def test_a_producer_is_not_forgotten_while_its_transaction_is_open() -> None:
    box = a_box(MemoryDisk())
    box.write(0, producer_id=1)
    box.write(0, producer_id=2, transactional=False)
    box.pass_time(DAY_MS)
    box.producers().expire(box.now - DAY_MS)
    assert list(box.producers().by_id) == [1]
    box.end(producer_id=1)
    box.pass_time(DAY_MS - 1)
    box.producers().expire(box.now - DAY_MS)
    assert list(box.producers().by_id) == [1], "the marker counts as a sign of life"
    box.pass_time(1)
    box.producers().expire(box.now - DAY_MS)
    assert not box.producers().by_id
    box.close()


def test_an_open_transaction_outlives_a_long_stop() -> None:
    disk = MemoryDisk()
    box = a_box(disk)
    box.write(0)
    box.crash()
    again = a_box(disk)
    again.pass_time(10 * DAY_MS)
    assert known(again)[0] == [(7, 0)]
    again.close()


def test_who_has_an_open_transaction_is_kept_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.broker.topics.producer_state.MAX_PRODUCERS", 10)
    box = a_box(MemoryDisk())
    for producer_id in range(5):
        box.write(0, producer_id=producer_id)
    for producer_id in range(100, 200):
        box.write(0, producer_id=producer_id, transactional=False)
    assert set(box.producers().open) == set(range(5)) <= set(box.producers().by_id)
    assert len(box.producers().by_id) <= 10 + 3
    for producer_id in range(200, 230):
        box.write(0, producer_id=producer_id)
    assert len(box.producers().open) == 35, "open transactions are never forgotten"
    box.close()


# --- anything, in any order -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_what_a_replay_tells_is_what_was_known(seed: int) -> None:
    """Random batches and markers with rolls and restarts: a fresh look into the log tells the same."""
    random = Random(seed)
    disk = MemoryDisk()
    box = a_box(disk)
    sequences: dict[tuple[int, int], int] = {}
    epochs = dict.fromkeys(range(5), 0)
    for _ in range(150):
        producer_id = random.randrange(5)
        epoch = epochs[producer_id]
        match random.randrange(12):
            case 0 | 1 | 2:
                bump = random.randrange(2)
                epochs[producer_id] += bump
                box.end(producer_id=producer_id, epoch=epoch + bump, commit=random.random() < 0.5, version=2 * bump)
            case 3:
                box.partition().log.roll(box.now)
            case 4:
                before = known(box)
                box = reopened(box, disk, clean=random.random() < 0.5)
                assert known(box) == before
            case 5:
                box.append(b"plain")
            case _:
                sequence = sequences.get((producer_id, epoch), 0)
                told = box.write(
                    sequence, producer_id=producer_id, epoch=epoch, transactional=random.random() < 0.7, version=11
                )
                if isinstance(told, int):
                    sequences[producer_id, epoch] = sequence + 1
        box.pass_time(random.randrange(1000))
        stable = last_stable_offset(box.broker, box.partition())
        is_open = known(box)[0]
        assert stable == (is_open[0][1] if is_open else box.partition().log.log_end_offset)
    box.close()


def test_snapshots_beyond_the_end_of_the_log_are_not_believed(tmp_path: Path) -> None:
    """After a power cut the log may have lost what a snapshot knows."""
    box = TransactionBox(tmp_path)
    box.topic("t")
    box.broker.catalog.ensure_internal("__transaction_state")
    box.write(0)
    box.write(0, producer_id=8)
    save_all_snapshots(box.broker)
    box.crash()
    path = tmp_path / "t-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[: len(data(START_MS, 0))])
    again = TransactionBox(tmp_path)
    assert known(again)[0] == [(7, 0)]
    again.close()
