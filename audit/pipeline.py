"""decode -> derive -> check, for one partition of the log. Every audit goes through the functions of this file.

    base = decode(folder)                                   log folder -> base tables
    tables = derive(log_partition, base)                    base tables -> all tables
    seen = check(log_partition, tables, world, settings)    all tables -> what the rules found there
    conclude([seen, ...], world, settings)                  all partitions -> findings and check_results

The uses differ in where base tables come from, where tables are kept, and who calls:

    run/one_pass.py  decodes a folder and writes its base tables to the store at the same time; in Spark tasks
    store/           reads base tables from the store and writes the others to it (tasks.py, check.py); in Spark tasks
    follow/          keeps the base tables of the last hour in memory; when Spark's stream says that something is new
    owners/          decodes the base tables of one group; no checks, no Spark
    run/in_process.py  decodes, derives and checks small logs one after the other; no Spark
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.checks.kit.baseline import Answers
from kohort.audit.checks.kit.check import Row
from kohort.audit.checks.kit.part import COLUMNS, Part
from kohort.audit.checks.kit.world import World, make_world
from kohort.audit.checks.run import Seen, check_part, conclude
from kohort.audit.checks.settings import Settings
from kohort.audit.decode import EVERYTHING, Wanted, whole_tables
from kohort.audit.decode.folders import LogFolder
from kohort.audit.derive.partition import MADE, NEEDED, derive_partition
from kohort.audit.tables import BASE, GROUP_GENERATIONS, LOG_BATCHES

__all__ = ["MADE", "NEEDED", "Tables", "check", "check_all", "conclude", "decode", "derive", "end_time", "groups"]

Tables = Mapping[str, pa.Table]  # of one log partition, by name


def decode(folder: LogFolder, wanted: Wanted = EVERYTHING, names: Collection[str] = BASE) -> dict[str, pa.Table]:
    """Base tables of a log folder, or those of them that are named."""
    return whole_tables(folder, names, wanted)


def derive(log_partition: int, base: Tables, *, with_what_if: bool = True) -> dict[str, pa.Table]:
    """The tables in `base`, which must have those of NEEDED, and the tables of MADE; what_if may stay empty."""
    return {**base, **derive_partition(log_partition, base, with_what_if=with_what_if)}


def check(
    log_partition: int, tables: Tables, world: World, settings: Settings, *, group: str | None = None,
    only: Collection[str] | None = None,
) -> Seen:  # fmt: skip
    """What the rules find in one log partition; about one group only, by some rules only, if they are named."""
    seen = {name: _of_group(tables[name].select(columns), group) for name, columns in COLUMNS.items()}
    return check_part(Part(log_partition, seen, world), settings, only)


def check_all(
    parts: Mapping[int, Tables], runs: Iterable[Mapping[str, Any]], settings: Settings | None = None, *,
    only: Collection[str] | None = None, baseline: Answers | None = None, since: datetime | None = None,
) -> tuple[list[Row], list[Row]]:  # fmt: skip
    """Rows of findings and check_results for log partitions whose tables are all in memory. `runs`: of audit_runs."""
    settings = settings or Settings()
    places = [(group_id, number) for number, tables in parts.items() for group_id in groups(tables)]
    world = make_world(map(end_time, parts.values()), runs, places, baseline, since=since)
    seen = [check(number, tables, world, settings, only=only) for number, tables in parts.items()]
    return conclude(seen, world, settings, only)


def end_time(base: Tables) -> datetime | None:
    """The latest time of a record in the log partition."""
    latest: datetime | None = pc.max(base[LOG_BATCHES.name]["max_time"]).as_py()
    return latest


def groups(base: Tables) -> list[str]:
    """Ids of the groups that have a generation in the log partition."""
    found: list[str] = base[GROUP_GENERATIONS.name]["group_id"].unique().to_pylist()
    return found


def _of_group(table: pa.Table, group: str | None) -> pa.Table:
    if group is None or "group_id" not in table.column_names:
        return table
    return table.filter(pc.equal(table["group_id"], group))
