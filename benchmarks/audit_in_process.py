"""How long the audit's rules take over a small log without Spark, as `kafka.check()` runs them in a user's test.

    python -m benchmarks.audit_in_process [commits]

First the imports, each time in a fresh process: numpy, then pyarrow, then the audit itself. Then the rules, warm, over
logs as a test leaves them: each group has five rebalances of up to three members, and all together the given number of
commits, one to a batch. Best and median of several rounds, in milliseconds of wall time and of CPU time.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from kohort.audit.run.in_a_test import check_log
from kohort.storage.disk import RealDisk
from tests.audit.logs import Logs

ROUNDS, PROCESSES = 50, 10
IMPORTS = """
import json, time
times = [time.perf_counter()]
import kohort.audit.run.in_a_test
times.append(time.perf_counter())
import numpy
times.append(time.perf_counter())
import pyarrow, pyarrow.compute
times.append(time.perf_counter())
import kohort.audit.run.in_process
times.append(time.perf_counter())
print(json.dumps([1000 * (after - before) for before, after in zip(times, times[1:])]))
"""


def fill(folder: Path, groups: int, commit_count: int) -> None:
    logs = Logs(folder)
    for number in range(groups):
        group = logs.group_in(number)
        for members in (1, 2, 3, 2, 1):
            owners = {
                f"m{member}": [f"orders-{n}" for n in range(6) if n % members == member] for member in range(members)
            }
            group.generation(owners, cause="member joined", trigger="m0")
        group.commits("orders-0", range(commit_count // groups), by="m0", every_ms=10)
    logs.close()


def show(name: str, values_ms: list[float], cpu_ms: list[float] | None = None) -> None:
    cpu = f"   cpu {min(cpu_ms):6.1f} {statistics.median(cpu_ms):6.1f}" if cpu_ms else ""
    print(f"{name:44} {min(values_ms):6.1f} {statistics.median(values_ms):6.1f}{cpu}", flush=True)


def measure_imports() -> None:
    command = [sys.executable, "-c", IMPORTS]
    runs = [json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(PROCESSES)]
    for number, name in enumerate(("kohort, without both", "numpy", "pyarrow", "the audit's rules")):
        show(f"import: {name}", [run[number] for run in runs])


def measure_checks(name: str, folder: Path) -> None:
    disk = RealDisk()
    wall, cpu = [], []
    for _ in range(ROUNDS):
        wall_0, cpu_0 = time.perf_counter(), time.process_time()
        check_log(disk, str(folder))
        wall.append(1000 * (time.perf_counter() - wall_0))
        cpu.append(1000 * (time.process_time() - cpu_0))
    show(name, wall, cpu)


def main() -> None:
    commit_count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    print(f"{'ms':44} {'best':>6} {'median':>6}")
    measure_imports()
    with TemporaryDirectory() as scratch:
        for groups in (1, 3, 20):
            folder = Path(scratch) / str(groups)
            fill(folder, groups, commit_count)
            measure_checks(f"check: {groups} group{'s' * (groups > 1)}, {commit_count:,} commits", folder)


if __name__ == "__main__":
    main()
