"""How fast the log engine is: appends with and without sync, replay, and opening. Prints a Markdown table.

    python -m benchmarks.storage [folder]        the folder decides which disk is measured; default: here

Appends share syncs as in the broker: one thread appends, another syncs, at most one flush is in
flight. `clients` is how many appends wait for their sync at a time; each of them appends again when it hears
back. MB are 10**6 bytes.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from statistics import median
from time import perf_counter

from kohort.protocol.record_batch import build_batch, scan_records
from kohort.storage.disk import RealDisk
from kohort.storage.errors import LogFailed
from kohort.storage.log_config import LogConfig
from kohort.storage.log_directory import LogDirectory
from kohort.storage.partition_log import PartitionLog
from kohort.storage.shared_sync import Flush, SharedSync

NOW = 1_700_000_000_000
OFFSETS_CONFIG = LogConfig(cleanup_policy="compact", segment_bytes=104_857_600)
SECONDS = 3.0
REPLAY_RECORDS = 1_000_000
RECORDS_PER_BATCH = 10
LARGE_BATCH_RECORDS = 800


def offset_record(number: int) -> tuple[bytes, bytes]:
    """A key and a value as OffsetCommit writes them."""
    group = b"group-%06d" % (number % 5000)
    key = b"\0\1" + len(group).to_bytes(2, "big") + group + b"\0\6orders" + (number % 12).to_bytes(4, "big")
    value = (
        b"\0\4" + number.to_bytes(8, "big") + b"\xff\xff\xff\xff\1" + NOW.to_bytes(8, "big") + b"\1\0\x10" + b"t" * 16
    )
    return key, value


def offsets_batch(first: int, count: int = RECORDS_PER_BATCH) -> bytes:
    return build_batch([offset_record(first + i) for i in range(count)], timestamp=NOW, base_sequence=0)


class Appender:
    """Keeps `clients` appends waiting, spread over all logs."""

    def __init__(self, folder: str, partitions: int, *, sync: bool, batch: bytes) -> None:
        self.directory = LogDirectory.open(RealDisk(), folder, lambda _: OFFSETS_CONFIG)
        self.logs = [self.directory.log("__consumer_offsets", number) for number in range(partitions)]
        self.syncs = SharedSync(self.directory.disk, sync=sync)
        self.batch = batch
        self.acknowledged = 0
        self.flushes = 0
        self.latencies: list[float] = []
        self._ready: list[int] = []

    def append(self, client: int) -> None:
        log: PartitionLog = self.logs[client % len(self.logs)]
        log.append(self.batch, now=NOW, verify=False)
        started = perf_counter()

        def durable(error: LogFailed | None) -> None:
            assert error is None
            self.acknowledged += 1
            self.latencies.append(perf_counter() - started)
            self._ready.append(client)

        self.syncs.appended(log, durable)

    def run(self, clients: int) -> float:
        """Append for a while; returns how long it took."""
        self._ready = list(range(clients))
        running: tuple[Flush, Future[None]] | None = None
        started = perf_counter()
        with ThreadPoolExecutor(1) as pool:
            while perf_counter() - started < SECONDS or running is not None:
                ready, self._ready = self._ready, []
                if perf_counter() - started < SECONDS:
                    for client in ready:
                        self.append(client)
                if running is not None and (running[1].done() or not self._ready):
                    running[1].result()
                    self.syncs.finished(running[0], NOW)
                    running = None
                if running is None and (flush := self.syncs.take()):
                    self.flushes += 1
                    running = flush, pool.submit(flush.run)
        return perf_counter() - started


def measure_appends(parent: str, partitions: int, *, sync: bool, clients: int, records: int) -> str:
    folder = tempfile.mkdtemp(dir=parent)
    try:
        batch = offsets_batch(0, records)
        appender = Appender(folder, partitions, sync=sync, batch=batch)
        seconds = appender.run(clients)
        count = appender.acknowledged
        appender.directory.abandon()
    finally:
        shutil.rmtree(folder)
    megabytes = count * len(batch) / 1e6
    flushes = f"{appender.flushes / seconds:,.0f}" if sync else "-"
    wait = f"{median(appender.latencies) * 1000:.2f} ms" if sync else "-"
    cells = (
        f"append {'+ sync' if sync else 'without sync'}", f"{partitions}", f"{clients}", f"{len(batch):,}",
        f"{count / seconds:,.0f}", f"{count * records / seconds:,.0f}", f"{megabytes / seconds:,.1f}", flushes, wait,
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def measure_replay(parent: str) -> str:
    folder = tempfile.mkdtemp(dir=parent)
    try:
        directory = LogDirectory.open(RealDisk(), folder, lambda _: OFFSETS_CONFIG)
        log = directory.log("__consumer_offsets", 0)
        for first in range(0, REPLAY_RECORDS, RECORDS_PER_BATCH):
            log.append(offsets_batch(first), now=NOW, verify=False)
        size = log.size_bytes
        directory.close()
        child = subprocess.run(
            [sys.executable, "-m", "benchmarks.storage", "--replay", folder], capture_output=True, check=True
        )
    finally:
        shutil.rmtree(folder)
    result = json.loads(child.stdout)
    return (
        f"| {result['records']:,} | {size / 1e6:,.0f} MB | {result['records'] / result['seconds']:,.0f} "
        f"| {size / 1e6 / result['seconds']:,.0f} | {result['before_mb']:.0f} MB | {result['peak_mb']:.0f} MB |"
    )


def peak_memory_mb() -> float:
    """The most that this process ever had in memory (getrusage would count its parent's, too)."""
    match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match
    return int(match[1]) * 1024 / 1e6


def replay(folder: str) -> None:
    """In a process of its own, so that its peak memory is the replay's."""
    directory = LogDirectory.open(RealDisk(), folder, lambda _: OFFSETS_CONFIG)
    before = peak_memory_mb()
    records = 0
    started = perf_counter()
    for chunk, size in directory.log("__consumer_offsets", 0).chunks():
        for _, _, _, _key, _value, _ in scan_records(chunk, 0, size):
            records += 1
    seconds = perf_counter() - started
    peak = peak_memory_mb()
    directory.abandon()
    print(json.dumps({"records": records, "seconds": seconds, "before_mb": before, "peak_mb": peak}))


def measure_opening(parent: str) -> str:
    folder = tempfile.mkdtemp(dir=parent)
    try:
        directory = LogDirectory.open(RealDisk(), folder)
        for number in range(50):
            directory.log("__consumer_offsets", number, topic_id=bytes(16)).create(NOW)
        for number in range(20):
            log = directory.log("orders", number, topic_id=bytes(16))
            for i in range(100):
                log.append(offsets_batch(i), now=NOW)
        started = perf_counter()
        directory.close()
        closing = perf_counter() - started
        times = {}
        for name in ("clean", "after a crash"):
            started = perf_counter()
            directory = LogDirectory.open(RealDisk(), folder)
            times[name] = perf_counter() - started
            directory.abandon()
    finally:
        shutil.rmtree(folder)
    return f"| {times['clean'] * 1e3:.1f} ms | {times['after a crash'] * 1e3:.1f} ms | {closing * 1e3:.1f} ms |"


def report() -> None:
    parent = sys.argv[1] if len(sys.argv) > 1 else str(Path.cwd())
    print("| what | partitions | clients | bytes | batches/s | records/s | MB/s | flushes/s | median wait |")
    print("|---|---|---|---|---|---|---|---|---|")
    for records in (RECORDS_PER_BATCH, LARGE_BATCH_RECORDS):
        for sync, clients in ((True, 50), (True, 1000), (False, 50)):
            for partitions in (1, 50):
                row = measure_appends(parent, partitions, sync=sync, clients=clients, records=records)
                print(row, flush=True)
    print("\n| replayed records | log | records/s | MB/s | memory before | peak memory |\n|---|---|---|---|---|---|")
    print(measure_replay(parent))
    print("\n| opening 50 empty and 20 filled partitions | the same after a crash | clean stop |\n|---|---|---|")
    print(measure_opening(parent))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--replay"]:
        replay(sys.argv[2])
    else:
        report()
