"""Reduces Arrow tables of any length to the few rows that are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.report.limits import BINS, INTERVALS, POINTS_OF_LINE, REWINDS_OF_LINE
from kohort.audit.report.rows import SEVERITIES, Row


def ms(table: pa.Table, *names: str) -> pa.Table:
    """The table with these time columns as milliseconds since 1970."""
    for name in names:
        times = table[name].cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64())
        table = table.set_column(table.column_names.index(name), name, times)
    return table


def rows(table: pa.Table) -> list[Row]:
    listed: list[Row] = table.to_pylist()
    return listed


def codes(column: pa.ChunkedArray) -> Any:
    """A number for each distinct text."""
    return pc.fill_null(column, "").combine_chunks().dictionary_encode().indices.to_numpy()


def first_of_each(table: pa.Table, by: str, limit: int) -> pa.Table:
    """The first `limit` rows of each value, in the order of the table."""
    if not len(table):
        return table
    group = codes(table[by])
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    lengths = np.diff(np.append(starts, len(order)))
    place_in_group = np.arange(len(order)) - np.repeat(starts, lengths)
    return table.take(np.sort(order[place_in_group < limit]))


def worst_first(findings: pa.Table) -> pa.Table:
    rank = pc.fill_null(pc.index_in(findings["severity"], pa.array(SEVERITIES)), len(SEVERITIES))
    ranked = findings.append_column("rank", rank)
    return ranked.sort_by([("rank", "ascending"), ("time", "descending"), ("log_offset", "ascending")]).drop(["rank"])


def finding_counts(findings: pa.Table) -> list[Row]:
    counted = findings.group_by(["check", "severity", "group_id"]).aggregate([([], "count_all")])
    return rows(counted.rename_columns(["check", "severity", "group_id", "found"]))


def histogram(findings: pa.Table) -> tuple[list[Row], tuple[int, int] | None]:
    """The number of findings by interval of time and severity. `time` is in ms."""
    placed = findings.filter(findings["time"].is_valid())
    if not len(placed):
        return [], None
    times = placed["time"].to_numpy()
    start, end = int(times.min()), int(times.max()) + 1
    bins = (times - start) * BINS // (end - start)
    counted = pa.table({"bin": bins, "severity": placed["severity"]}).group_by(["bin", "severity"])
    return rows(counted.aggregate([([], "count_all")]).rename_columns(["bin", "severity", "found"])), (start, end)


# --- groups ---------------------------------------------------------------------------------------


def groups(facts: pa.Table, rebalances: pa.Table) -> list[Row]:
    """`last_time` is in ms."""
    known: dict[str, Row] = {}

    def of(group_id: str) -> Row:
        empty = {"group_type": None, "rebalances": 0, "members": None, "partitions": 0, "commits": 0, "rewinds": 0}
        return known.setdefault(group_id, {"group_id": group_id, **empty, "last": None, "longest": None, "updates": 0})

    committed = [("partition", "count"), ("commits", "sum"), ("rewinds", "sum"), ("last_time", "max")]
    for row in rows(facts.group_by("group_id").aggregate(committed)):
        of(row["group_id"]).update(
            partitions=row["partition_count"], commits=row["commits_sum"] or 0, rewinds=row["rewinds_sum"] or 0,
            last=row["last_time_max"],
        )  # fmt: skip
    balanced = [("log_offset", "count"), ("member_count", "last"), ("group_type", "last"), ("duration_ms", "max")]
    in_order = rebalances.sort_by("log_offset").group_by("group_id", use_threads=False)
    for row in rows(in_order.aggregate(balanced)):
        of(row["group_id"]).update(
            rebalances=row["log_offset_count"], members=row["member_count_last"], group_type=row["group_type_last"],
            longest=row["duration_ms_max"],
        )  # fmt: skip
    return list(known.values())


def what_if_totals(what_if: pa.Table, rebalances: pa.Table) -> list[Row]:
    """Sums over the whole history: a row per assignor, and a row without an assignor for what really happened."""
    sums = [("moved", "sum"), ("interrupted", "sum"), ("gap", "max"), ("own", "max"), ([], "count_all")]
    names = ["group_id", "assignor", "moved", "interrupted", "gap", "own", "rebalances"]
    if_so = _with_gap(what_if).append_column("own", what_if["actual"].cast(pa.int8()))
    totals = rows(if_so.group_by(["group_id", "assignor"]).aggregate(sums).rename_columns(names))
    classic = rebalances.filter(pc.equal(rebalances["group_type"], "classic"))
    was = _with_gap(classic).group_by("group_id").aggregate([("moved", "sum"), ("gap", "max"), ([], "count_all")])
    for row in rows(was.rename_columns(["group_id", "moved", "gap", "rebalances"])):
        totals.append({**row, "assignor": None, "interrupted": None, "own": 1})
    return [{**row, "own": bool(row["own"]), "moved": row["moved"] or 0} for row in totals]


def _with_gap(table: pa.Table) -> pa.Table:
    return table.append_column("gap", pc.subtract(table["max_load"], table["min_load"]))


def within(table: pa.Table, windows: Mapping[str, tuple[int, int]]) -> list[Row]:
    """The rows whose log offset is in the window of their group."""
    inside = []
    for row in rows(table):
        first, last = windows.get(row["group_id"], (0, -1))
        if first <= row["log_offset"] <= last:
            inside.append(row)
    return inside


def latest_intervals(intervals: pa.Table) -> list[Row]:
    """The latest intervals of each group. `of`: the number of all intervals of the group."""
    counts = dict(zip(*_counted(intervals["group_id"]), strict=True))
    latest = first_of_each(intervals.sort_by([("start_log_offset", "descending")]), "group_id", INTERVALS)
    return [{**row, "of": counts[row["group_id"]]} for row in rows(latest)]


def _counted(column: pa.ChunkedArray) -> tuple[list[str], list[int]]:
    counted = pc.value_counts(column)
    return counted.field("values").to_pylist(), counted.field("counts").to_pylist()


# --- the log --------------------------------------------------------------------------------------


def log_partitions(segments: pa.Table) -> list[Row]:
    parts: dict[int, Row] = {}
    for row in rows(segments):
        part = parts.setdefault(
            row["log_partition"],
            {"log_partition": row["log_partition"], "bytes": 0, "batches": 0, "records": 0, "problems": 0,
             "first": None, "end": None, "segments": set(), "codecs": set()},
        )  # fmt: skip
        for name in ("bytes", "batches", "records", "problems"):
            part[name] += row[name] or 0
        part["segments"].add(row["segment"])
        part["codecs"] |= {row["codec"]} - {None}
        if row["first"] is not None:
            part["first"] = row["first"] if part["first"] is None else min(part["first"], row["first"])
            part["end"] = max(part["end"] or 0, row["last"] + 1)
    return [
        {**part, "segments": len(part["segments"]), "codecs": ", ".join(sorted(part["codecs"]))}
        for part in parts.values()
    ]


# --- offsets --------------------------------------------------------------------------------------


def offset_points(steps: pa.Table, lines: Sequence[Row], points: int) -> list[Row]:
    """Each line with its points and its largest rewinds. `time` is in ms."""
    steps = steps.sort_by([("group_id", "ascending"), ("topic", "ascending"), ("partition", "ascending"),
                           ("log_offset", "ascending")])  # fmt: skip
    names = [steps[name].to_pylist() for name in ("group_id", "topic", "partition")]
    numbers = {name: steps[name].to_numpy() for name in ("time", "offset")}
    back = pc.fill_null(pc.less(steps["step"], 0), False).to_numpy()
    previous = pc.fill_null(steps["previous_offset"], 0).to_numpy()
    spans = _spans(list(zip(*names, strict=True)))
    drawn = []
    for line in lines:
        start, end = spans.get((line["group_id"], line["topic"], line["partition"]), (0, 0))
        if start == end:
            continue
        times, offsets = numbers["time"][start:end], numbers["offset"][start:end]
        jumps = np.flatnonzero(back[start:end])
        largest = jumps[np.argsort(offsets[jumps] - previous[start:end][jumps], kind="stable")][:REWINDS_OF_LINE]
        rewinds = np.stack([times[largest], previous[start:end][largest], offsets[largest]], axis=1)
        drawn.append({**line, "points": _thinned(times, offsets, line, points), "back": sorted(rewinds.tolist())})
    return drawn


def _spans(keys: Sequence[tuple[str, str, int]]) -> dict[tuple[str, str, int], tuple[int, int]]:
    spans: dict[tuple[str, str, int], tuple[int, int]] = {}
    start = 0
    for index in range(1, len(keys) + 1):
        if index == len(keys) or keys[index] != keys[start]:
            spans[keys[start]] = (start, index)
            start = index
    return spans


def _thinned(times: Any, offsets: Any, line: Row, points: int) -> list[list[int]]:
    """The last commit of each interval of time, and the last commit of all, which may be missing from the sample."""
    width = max(1, -(-int(times[-1] - times[0] + 1) // min(points, POINTS_OF_LINE)))
    stretch = (times - times[0]) // width
    last = np.flatnonzero(np.append(stretch[1:] != stretch[:-1], True))
    thinned: list[list[int]] = np.stack([times[last], offsets[last]], axis=1).tolist()
    if line["last_offset"] is not None and line["last_time"] > thinned[-1][0]:
        thinned.append([line["last_time"], line["last_offset"]])
    return thinned
