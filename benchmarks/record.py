"""`kohort record` of 1,000,000 commits from a real Kafka, beside kafka-console-consumer reading the same topic.

    python -m benchmarks.record [--commits 1000000] [--rounds 3] [--log FOLDER]

The log is made beforehand (benchmarks/audit_log.py), and Kafka takes it over as its own. Each round: `kohort record
--once` into an empty folder; kafka-console-consumer from the beginning, its output thrown away. CPU is that of the
process alone, not of the broker. Both start a process; how long that takes is measured with an empty topic and given
apart. Commits per second are those of the whole command.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.audit_log import make_log
from kohort.broker.record.recorder import OFFSETS_TOPIC
from tests.kafka.jars import java_command
from tests.kafka.server import KafkaServer

COMMITS_PER_GENERATION = 50
KOHORT = str(Path(sys.executable).with_name("kohort"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commits", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--log", type=Path, help="where the log is, or is made; default: a temporary folder")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        log = told.log or Path(scratch) / "log"
        if not log.exists():
            make_log(log, commits=told.commits, generations=told.commits // COMMITS_PER_GENERATION)
        with KafkaServer(Path(scratch) / "kafka", {"log.cleaner.enable": "false"}) as kafka:
            kafka.take_over_offsets(log)
            _compare(kafka.address, Path(scratch), told.commits, told.rounds)


def _compare(address: str, scratch: Path, commits: int, rounds: int) -> None:
    recording = scratch / "recording"
    record = [KOHORT, "record", str(recording), "--bootstrap-server", address, "--once"]
    records = commits + commits // COMMITS_PER_GENERATION
    consume = java_command(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", address, "--topic", OFFSETS_TOPIC,
        "--from-beginning", "--max-messages", str(records),
    )  # fmt: skip
    ours, theirs = [], []
    for _ in range(rounds):
        shutil.rmtree(recording, ignore_errors=True)
        ours.append(_timed(record))
        theirs.append(_timed(consume))
    again = _timed(record)  # everything is there already
    size = sum(file.stat().st_size for file in recording.glob("*/*.log"))
    print(f"load {os.getloadavg()[0]:.1f}; {size / 1e6:,.0f} MB, {records:,} records")
    print(f"to find nothing new: {again[0]:.1f} s")
    print("| | s | CPU s | MB/s | records/s |\n|---|---|---|---|---|")
    for name, figures in (("kohort record", ours), ("kafka-console-consumer", theirs)):
        wall, cpu = (median(each[at] for each in figures) for at in (0, 1))
        print(f"| {name} | {wall:.1f} | {cpu:.1f} | {size / 1e6 / wall:,.0f} | {records / wall:,.0f} |")


def _timed(command: list[str]) -> tuple[float, float]:
    """Seconds, and seconds of CPU."""
    before = os.times()
    began = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    wall = time.perf_counter() - began
    after = os.times()
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


if __name__ == "__main__":
    main()
