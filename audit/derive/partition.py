"""Derived tables of one partition of the log, from its base tables: all of it in Arrow, without Spark.

A group lives in one partition of the log, so no other partition is needed. If records of a group are in a second
partition by mistake, the group has a separate history there. The logs of share groups' progress have no groups in this
sense: there each partition of a topic that a group reads has a history of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from kohort.audit.decode.schemas import schema
from kohort.audit.derive.commits import visible_commits
from kohort.audit.derive.facts import facts_of
from kohort.audit.derive.history import History, Interval, Rebalance, walk
from kohort.audit.derive.patterns import patterns_in
from kohort.audit.derive.pending_offsets import pending_offsets
from kohort.audit.derive.records import GroupLog, group_logs
from kohort.audit.derive.share_members import share_members
from kohort.audit.derive.share_states import share_partitions, share_rows, share_steps
from kohort.audit.derive.steps import steps_of
from kohort.audit.derive.what_if import WhatIf, what_if_rows
from kohort.audit.tables import (
    COMMIT_STEPS,
    GROUP_GENERATIONS,
    MEMBER_ASSIGNMENTS,
    OFFSET_COMMITS,
    OTHER_RECORDS,
    OWNERSHIP_INTERVALS,
    PARTITION_FACTS,
    PENDING_OFFSETS,
    REBALANCES,
    SHARE_MEMBERS,
    SHARE_PARTITIONS,
    SHARE_STATES,
    SHARE_STEPS,
    WHAT_IF,
)

NEEDED = (
    OFFSET_COMMITS.name, GROUP_GENERATIONS.name, MEMBER_ASSIGNMENTS.name, OTHER_RECORDS.name, SHARE_STATES.name,
)  # fmt: skip
MADE = (
    OWNERSHIP_INTERVALS.name, REBALANCES.name, WHAT_IF.name, COMMIT_STEPS.name, PARTITION_FACTS.name,
    PENDING_OFFSETS.name, SHARE_MEMBERS.name, SHARE_STEPS.name, SHARE_PARTITIONS.name,
)  # fmt: skip

_TIMES = {
    "start_ms": "start_time", "end_ms": "end_time", "revoking_since_ms": "revoking_since", "time_ms": "time",
    "join_start_ms": "join_start",
}  # fmt: skip


def derive_partition(
    log_partition: int, base: Mapping[str, pa.Table], *, with_what_if: bool = True
) -> dict[str, pa.Table]:  # fmt: skip
    """The tables of MADE, from those of NEEDED. All rows must be of this log partition.

    `with_what_if`: whether the table what_if, which no check looks at, has rows. It costs as much as all others.
    """
    generations = base[GROUP_GENERATIONS.name]
    patterns = patterns_in(base[OTHER_RECORDS.name])
    logs = dict(group_logs(generations, base[MEMBER_ASSIGNMENTS.name], patterns))
    histories = {group_id: walk(log) for group_id, log in logs.items()}
    intervals = _intervals(log_partition, histories)
    commits, owned = visible_commits(base[OFFSET_COMMITS.name], intervals)
    steps = steps_of(commits, generations, intervals, owned)
    facts = facts_of(commits, steps, intervals, owned)
    return {
        OWNERSHIP_INTERVALS.name: intervals,
        REBALANCES.name: _rebalances(log_partition, histories),
        WHAT_IF.name: _what_if(logs if with_what_if else {}),
        COMMIT_STEPS.name: _table(COMMIT_STEPS.name, steps, log_partition=log_partition),
        PARTITION_FACTS.name: _table(PARTITION_FACTS.name, facts, log_partition=log_partition),
        PENDING_OFFSETS.name: pending_offsets(base[OFFSET_COMMITS.name]),
        SHARE_MEMBERS.name: share_members(base[MEMBER_ASSIGNMENTS.name]),
        **_share_states(log_partition, base[SHARE_STATES.name]),
    }


def _share_states(log_partition: int, states: pa.Table) -> dict[str, pa.Table]:
    if not len(states):
        return {name: schema(name).empty_table() for name in (SHARE_STEPS.name, SHARE_PARTITIONS.name)}
    share = share_rows(states)
    steps = share_steps(share)
    return {
        SHARE_STEPS.name: _table(SHARE_STEPS.name, steps, log_partition=log_partition),
        SHARE_PARTITIONS.name: _table(
            SHARE_PARTITIONS.name, share_partitions(share, steps), log_partition=log_partition
        ),
    }


def _intervals(log_partition: int, histories: Mapping[str, History]) -> pa.Table:
    rows = [interval for history in histories.values() for interval in history.intervals]
    group_ids = [group_id for group_id, history in histories.items() for _ in history.intervals]
    columns = _columns(Interval._fields, rows)
    return _table(OWNERSHIP_INTERVALS.name, columns, log_partition=log_partition, group_id=group_ids)


def _rebalances(log_partition: int, histories: Mapping[str, History]) -> pa.Table:
    rows = [rebalance for history in histories.values() for rebalance in history.rebalances]
    group_ids = [group_id for group_id, history in histories.items() for _ in history.rebalances]
    columns = _columns(Rebalance._fields, rows)
    return _table(REBALANCES.name, columns, log_partition=log_partition, group_id=group_ids)


def _what_if(logs: Mapping[str, GroupLog]) -> pa.Table:
    found = {group_id: list(what_if_rows(log)) for group_id, log in logs.items()}
    rows = [row for of_group in found.values() for row in of_group]
    group_ids = [group_id for group_id, of_group in found.items() for _ in of_group]
    return _table(WHAT_IF.name, _columns(WhatIf._fields, rows), group_id=group_ids)


def _columns(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    return dict(zip(names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True))


def _table(name: str, columns: Mapping[str, Any] | pa.Table, **same: Any) -> pa.Table:
    """A table with the columns and types of its schema. Columns that are not given are null; `same`: for all rows."""
    given = {key: columns[key] for key in (columns.column_names if isinstance(columns, pa.Table) else columns)}
    given = {_TIMES.get(key, key): _times(value) if key in _TIMES else value for key, value in given.items()} | same
    count = max((len(value) for value in given.values() if not isinstance(value, int)), default=0)
    of = schema(name)
    return pa.table([_column(given.get(field.name), field.type, count) for field in of], schema=of)


def _times(ms: Sequence[int | None]) -> pa.Array:
    return pa.array(ms, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))


def _column(value: Any, kind: pa.DataType, count: int) -> Any:
    if value is None:
        return pa.nulls(count, kind)
    if isinstance(value, int):
        return pa.repeat(pa.scalar(value, kind), count)
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        return value.cast(kind)
    return pa.array(value, kind)
