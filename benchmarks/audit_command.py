"""`kohort audit FOLDER` as a user runs it, from the shell to the report: seconds, CPU, memory; beside older versions.

    python -m benchmarks.audit_command [--commits 1000 1000000] [--rounds 3] [--out] [--log FOLDER]
                                       [--beside NAME=COMMAND ...]

`--beside "before=/old/.venv/bin/kohort"` runs another kohort on the same logs, in turns with this one, in the same run.
Each kohort has one run before that is not counted: so caches are written, and this is "from the second run on". Memory
is the peak of all processes together (PSS), measured in a round of its own, because looking at it costs time.
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

from benchmarks.audit import process_tree, pss
from benchmarks.audit_log import make_log

COMMITS_PER_GENERATION = 50
GROUPS = 200
SAMPLE_S = 0.1
KOHORT = str(Path(sys.executable).with_name("kohort"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--commits", type=int, nargs="+", default=[1_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--log", type=Path, help="where the logs are, or are made; default: a temporary folder")
    parser.add_argument("--out", action="store_true", help="keep the tables, too, in a new folder each time")
    parser.add_argument("--beside", nargs="*", default=[], metavar="NAME=COMMAND")
    told = parser.parse_args()
    commands = {"now": [KOHORT]} | {
        name: command.split() for name, _, command in (each.partition("=") for each in told.beside)
    }
    with tempfile.TemporaryDirectory() as scratch:
        for commits in told.commits:
            data = (told.log or Path(scratch) / "logs") / f"{commits}"
            if not data.exists():
                generations = commits // COMMITS_PER_GENERATION
                make_log(data, commits=commits, generations=generations, groups=min(GROUPS, max(1, generations // 5)))
            _compare(commands, data, commits, told.rounds, Path(scratch) / "made", told.out)


def _compare(
    commands: dict[str, list[str]], data: Path, commits: int, rounds: int, made: Path, with_tables: bool
) -> None:
    where = ["--out", str(made)] if with_tables else ["--report", str(made / "report.html")]
    audits = {name: [*command, "audit", str(data), *where] for name, command in commands.items()}
    peaks: dict[str, int] = {}
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in audits}
    for number in range(rounds + 1):
        for name, command in audits.items():
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir()
            if number == 0:
                peaks[name] = _peak(command)  # also the run that is not counted
            else:
                taken[name].append(_timed(command))
    print(f"{commits:,} commits, load {os.getloadavg()[0]:.1f}, best and median of {rounds}")
    print("| | s | CPU s | memory |\n|---|---|---|---|")
    for name, figures in taken.items():
        walls, cpus = zip(*figures, strict=True)
        print(f"| {name} | {min(walls):.1f}, {median(walls):.1f} | {median(cpus):.1f} | {peaks[name] / 1e6:,.0f} MB |")
    sys.stdout.flush()


def _timed(command: list[str]) -> tuple[float, float]:
    """Seconds, and seconds of CPU of all its processes."""
    before, began = os.times(), time.perf_counter()
    _check(subprocess.run(command, capture_output=True, text=True, timeout=600))
    wall, after = time.perf_counter() - began, os.times()
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


def _peak(command: list[str]) -> int:
    """The most memory that its processes have at a time."""
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(pss, process_tree(process.pid))))
            time.sleep(SAMPLE_S)
        out, err = process.communicate()
    _check(subprocess.CompletedProcess(command, process.returncode, out, err))
    return peak


def _check(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode in (0, 1), done.stderr  # 1: something was found


if __name__ == "__main__":
    main()
