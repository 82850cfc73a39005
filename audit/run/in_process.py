"""An audit in this process, without Spark: for small logs, such as a test leaves behind.

It finds what `kohort audit` finds, in the same words: both go through pipeline.py, and tests/audit/test_in_process.py
compares them. It keeps no tables and makes no report. It needs numpy and pyarrow; neither Spark nor a JVM is started.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from kohort.audit import pipeline
from kohort.audit.checks import Settings
from kohort.audit.checks.kit.baseline import Answers
from kohort.audit.checks.kit.check import Row
from kohort.audit.checks.kit.world import KAFKAS_PARTITIONS, World, make_world
from kohort.audit.decode import files, topics
from kohort.audit.decode.access import kept_open
from kohort.audit.decode.folders import LogFolder, find_logs
from kohort.audit.decode.partition_count import guess_partition_count
from kohort.audit.store import topic_names
from kohort.audit.tables import keeps_groups
from kohort.storage.disk import Disk

GROUPS_SAMPLED = 20  # as in store/check.py

Parts = dict[int, Mapping[str, pa.Table]]


class Audited(NamedTuple):
    findings: list[Row]  # rows of the table findings, worst first
    check_results: list[Row]
    problems: list[str]  # what could not be read, a line each
    records: int


class Options(NamedTuple):
    """What is asked for. The defaults are those of `kohort audit`."""

    settings: Settings = Settings()
    only: Collection[str] | None = None  # names of checks; None: all
    group: str | None = None
    since: datetime | None = None  # leaves out findings that were over before
    now: datetime | None = None  # until when the last assignment was in force; None: until the last record of the log
    baseline: Callable[[], Answers] | None = None  # asked when all commits have been read: ends come after commits
    log_partition_count: int | None = None  # None: guessed
    command_config: str | None = None  # of a cluster among the paths


DEFAULTS = Options()


def audit_paths(paths: Sequence[str], options: Options = DEFAULTS) -> Audited:
    """Audit the log folders in these paths, which are those that `kohort audit` takes."""
    with kept_open():
        return _audit(paths, options)


def _audit(paths: Sequence[str], options: Options) -> Audited:
    folders, found = find_logs(paths, options.command_config)
    problems = [str(problem) for problem in found]
    parts: Parts = {}
    runs = []
    for folder in folders:
        try:
            base = pipeline.decode(folder) if folder.size_bytes else None  # there may be many empty ones
        except OSError as error:
            problem = error.strerror or str(error)
            problems.append(files.shown(f"{folder.path}: {problem}"))
            runs.append(_run_row(folder, problem))
            continue
        runs.append(_run_row(folder, None))
        if base is not None:
            parts[folder.log_partition] = base
    topic_names.name_topics(parts)
    world = _world(folders, parts, runs, options)
    seen = [
        pipeline.check(
            number, pipeline.derive(number, base, with_what_if=False), world, options.settings, group=options.group,
            only=options.only,
        )
        for number, base in parts.items()
    ]  # fmt: skip
    findings, results = pipeline.conclude(seen, world, options.settings, options.only)
    records = sum(summary.records for one in seen for summary in one.summaries)
    return Audited(findings, results, problems, records)


def audit_disk(disk: Disk, folder: str, options: Options = DEFAULTS) -> Audited:
    """Audit the log folders in a data folder of a disk, which may be in memory."""
    with files.mounted(files.DiskFiles(disk), folder) as address:
        try:
            audited = audit_paths([address], options)
        finally:
            topics.forget(address)
    return audited._replace(problems=[problem.replace(address, folder) for problem in audited.problems])


def _run_row(folder: LogFolder, problem: str | None) -> dict[str, Any]:
    """The columns of audit_runs that checks look at."""
    return {
        "log_partition": folder.log_partition, "first_log_offset": folder.first_offset, "from_log_offset": 0,
        "end_log_offset": folder.end_offset, "cleaned_to": folder.cleaned_to, "problem": problem,
    }  # fmt: skip


def _world(folders: Sequence[LogFolder], parts: Parts, runs: Sequence[Mapping[str, Any]], options: Options) -> World:
    """Facts about the log as a whole. The number of log partitions is guessed as `kohort audit` does it."""
    ends = [options.now, *map(pipeline.end_time, parts.values())]
    groups = [(group_id, number) for number in sorted(parts) for group_id in pipeline.groups(parts[number])]

    baseline = None if options.baseline is None else options.baseline()

    def world(some: Sequence[tuple[str, int]]) -> World:
        return make_world(ends, runs, some, baseline, options.log_partition_count, options.since)

    by_all = world(groups)
    if by_all.log_partition_count == (guess_partition_count(folders) or KAFKAS_PARTITIONS):
        return by_all
    sampled = [number for number in sorted(parts) if keeps_groups(number)][-GROUPS_SAMPLED:]
    return world([(group_id, number) for group_id, number in groups if number in sampled])
