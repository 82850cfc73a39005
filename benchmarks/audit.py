"""The whole audit of a log, from the folders to the report, beside Kafka's own tool printing the same log.

    python -m benchmarks.audit [--commits 1000000 4000000] [--rounds 3] [--log FOLDER]

A log has one generation per 50 commits. Both are timed in turns in the same run: `kohort audit` in a session of
local[2] that has done one audit before, into an empty folder each time; kafka-dump-log --offsets-decoder with the
options of Kafka's own scripts, its output thrown away, less the time that it takes for an empty log. Start-up is given
apart. Memory is the peak of all processes of the audit together (PSS), with the JVM's part beside it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.audit_log import make_log
from kohort.audit.result import Request
from kohort.audit.run.audit import run_audit
from kohort.audit.run.progress import Progress
from kohort.audit.spark.session import start_session, stop_session
from tests.kafka.jars import kafka_jars

KAFKAS_OPTIONS = (
    "-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)  # fmt: skip
COMMITS_PER_GENERATION = 50
SAMPLE_S = 0.25


class Steps(Progress):
    """How long each step took."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, float] = {}
        self._name, self._since = "finding the folders", time.perf_counter()

    def step(self, text: str) -> None:
        now = time.perf_counter()
        self.seconds[self._name] = now - self._since
        self._name, self._since = text.partition(",")[0], now


class Memory:
    """The greatest PSS of this process and its children, sampled by a thread."""

    def __init__(self, jvm: int) -> None:
        self.peak = self.peak_of_jvm = 0
        self._jvm = jvm
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_S):
            sizes = {pid: pss(pid) for pid in process_tree(os.getpid())}
            self.peak = max(self.peak, sum(sizes.values()))
            self.peak_of_jvm = max(self.peak_of_jvm, sizes.get(self._jvm, 0))


def process_tree(root: int) -> list[int]:
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def pss(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/smaps_rollup").read_text().split("Pss:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        return 0


def dump(*files: Path) -> float:
    """Seconds that kafka-dump-log takes."""
    names = ",".join(map(str, files))
    command = ["java", *KAFKAS_OPTIONS, "-cp", f"{kafka_jars()}/*", "org.apache.kafka.tools.DumpLogSegments"]
    began = time.perf_counter()
    subprocess.run(
        [*command, "--offsets-decoder", "--files", names], check=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return time.perf_counter() - began


def audit(spark: Any, data: Path, scratch: Path) -> tuple[float, dict[str, float]]:
    out = scratch / "out"
    shutil.rmtree(out, ignore_errors=True)
    steps = Steps()
    began = time.perf_counter()
    run_audit(spark, Request((str(data),), str(out)), steps)
    steps.step("")
    return time.perf_counter() - began, steps.seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commits", type=int, nargs="+", default=[1_000_000, 4_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--log", type=Path, help="where the logs are, or are made; default: a temporary folder")
    told = parser.parse_args()
    kafka_jars()
    with tempfile.TemporaryDirectory() as scratch:
        _run(told, told.log or Path(scratch) / "logs", Path(scratch))


def _run(told: argparse.Namespace, logs: Path, scratch: Path) -> None:
    empty = scratch / f"{0:020d}.log"
    empty.write_bytes(b"")
    began = time.perf_counter()
    spark = start_session(cores=2)
    spark.range(1).count()
    started = time.perf_counter() - began
    starts = [dump(empty) for _ in range(told.rounds)]
    theirs = median(starts)
    print(f"load {os.getloadavg()[0]:.1f}; to the first job {started:.1f} s; kafka-dump-log starts in {theirs:.1f} s")
    print("| commits | log | audit s | kafka-dump-log s | ratio | memory | of it the JVM | steps of the audit |")
    print("|---|---|---|---|---|---|---|---|")
    for commits in told.commits:
        data = logs / f"{commits}"
        if not data.exists():
            make_log(data, commits=commits, generations=commits // COMMITS_PER_GENERATION)
        files = sorted(data.glob("__consumer_offsets-*/*.log"))
        audit(spark, data, scratch)
        audits, dumps = [], []
        gateway: Any = spark.sparkContext._gateway
        peak = peak_of_jvm = 0
        for _ in range(told.rounds):
            with Memory(gateway.proc.pid) as memory:
                audits.append(audit(spark, data, scratch))
            peak, peak_of_jvm = max(peak, memory.peak), max(peak_of_jvm, memory.peak_of_jvm)
            dumps.append(dump(*files) - median(starts))
        ours, theirs = median(seconds for seconds, _ in audits), median(dumps)
        size = sum(file.stat().st_size for file in files)
        steps = ", ".join(f"{name} {seconds:.1f}" for name, seconds in min(audits, key=lambda one: one[0])[1].items())
        print(
            f"| {commits:,} | {size / 1e6:,.0f} MB | {ours:.1f} | {theirs:.1f} | {ours / theirs:.2f}"
            f" | {peak / 1e6:,.0f} MB | {peak_of_jvm / 1e6:,.0f} MB | {steps} |"
        )
        sys.stdout.flush()
    stop_session(spark)


if __name__ == "__main__":
    main()
