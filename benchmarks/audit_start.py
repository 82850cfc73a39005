"""Seconds from nothing to the first Spark job that runs Python, as `kohort audit` starts, and what else was tried.

    python -m benchmarks.audit_start [rounds]

Each start is a process of its own. CPU is that of the JVM and of Python together, which says more on a busy machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from statistics import median

START = """
import sys
from kohort.audit.spark import session
from kohort.audit.spark.arrow import map_in_arrow
session.SHORT_LIFE = tuple(sys.argv[2:])
spark = session.start_session(cores=2, jvm_cache=sys.argv[1] or None)
map_in_arrow(spark.range(4), lambda batches: batches, "id bigint").collect()
print("ready", flush=True)
session.stop_session(spark)
"""
PYSPARKS_OWN = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
from kohort.audit.spark.arrow import map_in_arrow
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
map_in_arrow(spark.range(4), lambda batches: batches, "id bigint").collect()
print("ready", flush=True)
gateway = spark.sparkContext._gateway
spark.stop()
gateway.proc.stdin.close()
gateway.proc.wait()
"""
C1, SERIAL = "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory() as cache:
        variants = {
            "pyspark's own launch": [sys.executable, "-c", PYSPARKS_OWN],
            "own launch": [sys.executable, "-c", START, ""],
            "own launch, C1 and serial GC (as it is)": [sys.executable, "-c", START, "", C1, SERIAL],
            "the same with --jvm-cache": [sys.executable, "-c", START, cache, C1, SERIAL],
        }
        _start(variants["the same with --jvm-cache"])  # writes the cache
        print(f"load {os.getloadavg()[0]:.1f}, best and median of {rounds}")
        print("| | to the first job s | CPU s |\n|---|---|---|")
        for name, command in variants.items():
            walls, cpus = zip(*(_start(command) for _ in range(rounds)), strict=True)
            print(f"| {name} | {min(walls):.1f}, {median(walls):.1f} | {median(cpus):.1f} |", flush=True)


def _start(command: list[str]) -> tuple[float, float]:
    before = os.times()
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        wall = time.perf_counter() - began
        process.stdout.read()
    after = os.times()
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


if __name__ == "__main__":
    main()
