"""One flush in flight; what arrives meanwhile is the next; whoever waits hears of it when it is durable."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kohort.storage.disk import File, RealDisk, SyncPlan
from kohort.storage.errors import LogFailed
from kohort.storage.flush import TicketSync
from kohort.storage.partition_log import PartitionLog
from kohort.storage.shared_sync import Flush, SharedSync
from tests.simulation.disk import SimulatedDisk
from tests.storage.support import START, a_batch, a_log, records_of


class Host:
    """What a broker does with shared syncs, step by step."""

    def __init__(self, *, sync: bool = True, **settings: object) -> None:
        self.disk = SimulatedDisk(seed=5)
        self.disk.make_folder("/data")
        self.logs = [a_log(f"/data/t-{n}", disk=self.disk, **settings) for n in range(4)]
        self.syncs = SharedSync(self.disk, sync=sync)
        self.heard: list[str] = []

    def append(self, number: int, name: str, now: int = START) -> None:
        self.logs[number].append(a_batch(), now=now)
        self.syncs.appended(
            self.logs[number], lambda error: self.heard.append(f"{name} {'failed' if error else 'ok'}"), now=now
        )

    def take(self) -> Flush:
        flush = self.syncs.take()
        assert flush is not None
        return flush

    def finish(self, flush: Flush) -> None:
        flush.run()
        self.syncs.finished(flush, START)


def test_replies_wait_for_the_disk() -> None:
    host = Host()
    host.append(0, "a")
    host.append(1, "b")
    flush = host.take()
    assert host.heard == []
    flush.run()
    assert host.heard == [], "the thread that syncs calls nobody"
    host.syncs.finished(flush, START)
    assert host.heard == ["a ok", "b ok"]
    assert [log.recovery_point for log in host.logs] == [1, 1, 0, 0]
    assert host.disk.is_durable(host.logs[0].active.log_path)
    assert host.syncs.is_idle


def test_what_arrives_during_a_flush_is_the_next_one() -> None:
    host = Host()
    host.append(0, "a")
    first = host.take()
    host.append(0, "b")
    host.append(2, "c")
    assert host.syncs.take() is None
    host.finish(first)
    assert host.heard == ["a ok"]
    assert host.logs[0].recovery_point == 1
    second = host.take()
    assert len(second.tickets) == 2
    host.finish(second)
    assert host.heard == ["a ok", "b ok", "c ok"]
    assert host.logs[0].recovery_point == 2


def test_many_appends_to_one_log_need_one_sync() -> None:
    host = Host()
    for i in range(100):
        host.append(0, str(i))
    flush = host.take()
    before = host.disk.steps
    host.finish(flush)
    assert len(host.heard) == 100
    assert host.disk.steps - before <= 4, "the log, its epochs, its folder, and the folder of that"
    host.append(0, "again")
    before = host.disk.steps
    host.finish(host.take())
    assert host.disk.steps - before == 1


def test_a_failed_sync_fails_that_log_and_no_other() -> None:
    host = Host()
    host.append(0, "a")
    host.append(1, "b")
    host.disk.fail_next("sync", "t-1/")
    host.finish(host.take())
    assert host.heard == ["a ok", "b failed"]
    with pytest.raises(LogFailed):
        host.append(1, "c")
    host.append(0, "d")
    host.syncs.appended(host.logs[1], lambda error: host.heard.append(f"late {error is not None}"))
    host.finish(host.take())
    assert host.heard[2:] == ["d ok", "late True"]


def test_a_folder_that_cannot_be_synced_fails_the_log() -> None:
    host = Host()
    host.append(0, "a")
    host.disk.fail_next("sync_folder", "t-0")
    host.finish(host.take())
    assert host.heard == ["a failed"]


class BuggyDisk(SimulatedDisk):
    """A disk whose syncs end with an exception that no disk should raise."""

    def plan_sync(self, files: Sequence[File]) -> SyncPlan:
        def plan() -> None:
            raise RuntimeError("can't start new thread")

        return plan


def test_nothing_is_taken_for_durable_after_a_sync_that_ended_with_a_bug() -> None:
    host = Host()
    host.append(0, "a")
    tickets = [ticket for log in host.logs if (ticket := log.begin_flush())]
    TicketSync(BuggyDisk(seed=5), tickets).run()
    for ticket in tickets:
        ticket.log.end_flush(ticket)
    assert host.logs[0].recovery_point == 0
    assert "can't start new thread" in (host.logs[0].failed or "")


def test_with_page_cache_durability_nobody_waits_for_a_sync() -> None:
    host = Host(sync=False)
    host.append(0, "a")
    assert host.heard == []
    assert host.syncs.take() is None
    assert host.heard == ["a ok"]
    assert host.logs[0].recovery_point == 0


def test_with_page_cache_durability_a_rolled_segment_is_synced_in_the_background() -> None:
    host = Host(sync=False, segment_bytes=200)
    for i in range(4):
        host.append(0, str(i))
    flush = host.take()
    assert len(host.heard) == 4
    host.finish(flush)
    assert host.logs[0].recovery_point == 4


def test_flush_messages_and_flush_ms_ask_for_syncs() -> None:
    host = Host(sync=False, flush_messages=3, flush_ms=1000)
    for log in host.logs:
        log._flushed_at_ms = START
    host.append(0, "a")
    host.append(0, "b")
    assert host.syncs.take() is None
    host.append(0, "c")
    host.finish(host.take())
    assert host.logs[0].recovery_point == 3
    host.append(1, "d", now=START + 1000)
    host.finish(host.take())
    assert host.logs[1].recovery_point == 1


def test_a_log_that_is_cut_during_a_flush_does_not_believe_it() -> None:
    host = Host()
    for name in "abc":
        host.append(0, name)
    flush = host.take()
    host.logs[0].truncate_to(1)
    host.append(0, "d")
    host.finish(flush)
    assert host.logs[0].recovery_point <= 1
    host.finish(host.take())
    assert host.logs[0].recovery_point == 2


def test_appends_rolls_and_syncs_in_a_thread_keep_all_that_was_acknowledged(tmp_path: Path) -> None:
    disk = RealDisk()
    lock = disk.lock(f"{tmp_path}/.lock")
    logs = [a_log(tmp_path / f"t-{n}", disk=disk, segment_bytes=2000) for n in range(8)]
    syncs = SharedSync(disk)
    acknowledged: dict[PartitionLog, int] = {}
    pending: Flush | None = None
    done = threading.Event()
    flushes = 0
    with ThreadPoolExecutor(1) as pool:
        for i in range(3000):
            log = logs[i * 7 % 8]
            end = log.append(a_batch(value=b"%d" % i), now=START).last_offset
            syncs.appended(log, lambda error, log=log, end=end: acknowledged.update({log: end}))  # type: ignore[misc]
            if pending is not None and done.is_set():
                syncs.finished(pending)
                pending = None
            if pending is None and (pending := syncs.take()):
                flushes += 1
                done.clear()
                pool.submit(pending.run).add_done_callback(lambda _: done.set())
        while not syncs.is_idle:
            if pending is not None:
                assert done.wait(30)
                syncs.finished(pending)
            pending = syncs.take()
            if pending is not None:
                done.clear()
                pool.submit(pending.run).add_done_callback(lambda _: done.set())
    assert 0 < flushes < 3000
    for log in logs:
        assert acknowledged[log] == log.log_end_offset - 1 == log.recovery_point - 1
        assert len(records_of(log)) == log.log_end_offset
        log.close()
    lock.release()
