"""What the page shows of share groups: members, their partitions, start offsets over time, and the fate of records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.report.limits import INTERVALS, OFFSET_LINES, PARTITIONS, POINTS_OF_LINE, SHARE_PARTITIONS
from kohort.audit.report.rows import Row
from kohort.audit.report.shrink import ms, rows
from kohort.audit.report.source import Source
from kohort.coordinator.share_state.headers import Cause

PARTITION = (
    "group_id", "topic", "topic_id", "partition", "deleted", "last_update", "updates", "start_offset", "accepted",
    "archived", "returned", "timeouts", "finished", "waiting", "deliveries",
)  # fmt: skip
MEMBER = (
    "group_id", "member_id", "client_id", "client_host", "partitions", "start_time", "end_time", "start_log_offset",
    "ended_by",
)  # fmt: skip
STEP = (
    "group_id", "topic", "topic_id", "partition", "log_offset", "time", "start_offset", "end_offset", "accepted",
    "archived", "returned", "deliveries", "cause",
)  # fmt: skip
START, END = 1, 2  # places in a point
SUMS = ("accepted", "archived", "returned")


def share_groups(source: Source) -> list[Row]:
    """A row per share group, as shrink.groups has them for the others."""
    partitions = ms(source.table("share_partitions", ["group_id", "last_update", "updates"]), "last_update")
    members = source.table("share_members", ["group_id", "member_id", "end_time"])
    there = (
        members.filter(members["end_time"].is_null()).group_by("group_id").aggregate([("member_id", "count_distinct")])
    )
    counts = dict(zip(there["group_id"].to_pylist(), there["member_id_count_distinct"].to_pylist(), strict=True))
    sums = partitions.group_by("group_id").aggregate([([], "count_all"), ("updates", "sum"), ("last_update", "max")])
    found = {row["group_id"]: row for row in rows(sums)}
    return [
        {
            "group_id": group_id, "group_type": "share", "rebalances": 0, "members": counts.get(group_id, 0),
            "partitions": found.get(group_id, {}).get("count_all", 0), "commits": 0, "rewinds": 0,
            "last": found.get(group_id, {}).get("last_update_max"), "longest": None,
            "updates": found.get(group_id, {}).get("updates_sum") or 0,
        }
        for group_id in sorted({*found, *members["group_id"].to_pylist()})
    ]  # fmt: skip


def share_details(source: Source, groups: Sequence[str]) -> dict[str, Row]:
    """Group -> the data of its drawings."""
    wanted = list(groups)
    members = ms(source.table("share_members", MEMBER, wanted), "start_time", "end_time").sort_by("start_log_offset")
    partitions = ms(source.table("share_partitions", PARTITION, wanted), "last_update")
    steps = ms(source.table("share_steps", STEP, wanted), "time").sort_by("log_offset")
    return {group_id: _detail(*(_of(table, group_id) for table in (members, partitions, steps))) for group_id in wanted}


def _of(table: pa.Table, group_id: str) -> pa.Table:
    return table.filter(pc.equal(table["group_id"], group_id))


def _detail(members: pa.Table, partitions: pa.Table, steps: pa.Table) -> Row:
    found = sorted(map(_named, rows(partitions)), key=lambda row: (row["topic"], row["partition"]))
    drawn = sorted(found, key=lambda row: (-row["archived"], -row["returned"], -row["updates"]))[:OFFSET_LINES]
    held = rows(members)
    times = [row[name] for row in held for name in ("start_time", "end_time") if row[name] is not None]
    times += steps["time"].to_pylist()
    return {
        "from": min(times, default=0),
        "to": max(times, default=0),
        **_members(held),
        "partitions": [_figures(row, held) for row in found[:SHARE_PARTITIONS]],
        "partitions_left_out": max(0, len(found) - SHARE_PARTITIONS),
        "lines": [line for row in drawn if (line := _line(row, steps)) is not None],
        "lines_left_out": len(found) - len(drawn),
    }


def _named(row: Row) -> Row:
    """A topic without a known name is called by its id."""
    return {**row, "topic": row["topic"] or row["topic_id"]}


def _members(held: Sequence[Row]) -> Row:
    """Bars of assignments: the latest ones of the members that came last."""
    latest = list(dict.fromkeys(row["member_id"] for row in reversed(held[-INTERVALS:])))[:PARTITIONS]
    in_order = dict.fromkeys(row["member_id"] for row in held)
    shown = {name: number for number, name in enumerate(name for name in in_order if name in set(latest))}
    about = {row["member_id"]: row for row in held}
    return {
        "members": [
            {"name": name, "client": about[name]["client_id"], "host": about[name]["client_host"]} for name in shown
        ],
        "members_left_out": len(in_order) - len(shown),
        "bars": [
            [shown[row["member_id"]], row["start_time"], row["end_time"], row["ended_by"], _partitions_of(row)]
            for row in held[-INTERVALS:]
            if row["member_id"] in shown
        ],
    }


def _partitions_of(row: Row) -> list[str]:
    return [f"{one['topic'] or one['topic_id']}-{one['partition']}" for one in row["partitions"]]


def _figures(row: Row, held: Sequence[Row]) -> list[Any]:
    place = f"{row['topic']}-{row['partition']}"
    members = {one["member_id"] for one in held if one["end_time"] is None and place in _partitions_of(one)}
    return [
        place, len(members), None if row["deleted"] else row["start_offset"], row["accepted"],
        row["archived"], row["returned"], row["timeouts"], row["finished"], row["waiting"], row["deliveries"],
        row["last_update"],
    ]  # fmt: skip


def _line(row: Row, steps: pa.Table) -> Row | None:
    """A point per interval of time: its end, the last start offset, how far records behind it were delivered, and
    sums of what became of records."""
    mine = steps.filter(
        pc.and_(pc.equal(steps["topic_id"], row["topic_id"]), pc.equal(steps["partition"], row["partition"]))
    )
    if not len(mine):
        return None
    times = mine["time"].to_numpy()
    width = max(1, -(-int(times[-1] - times[0] + 1) // POINTS_OF_LINE))
    stretch = np.maximum.accumulate((times - times[0]) // width)
    firsts = np.flatnonzero(np.diff(stretch, prepend=-1))
    lasts = np.append(firsts[1:], len(times)) - 1
    start = mine["start_offset"].fill_null(-1).to_numpy()
    ends = np.maximum.reduceat(np.maximum(mine["end_offset"].fill_null(-1).to_numpy(), start), firsts)
    timeouts = pc.fill_null(pc.equal(mine["cause"], Cause.LOCK_TIMEOUT.value), False).to_numpy().astype(np.int64)
    columns = [
        times[lasts], start[lasts], np.maximum(ends, start[lasts]),
        *(np.add.reduceat(mine[name].to_numpy(), firsts) for name in SUMS), np.add.reduceat(timeouts, firsts),
        np.maximum.reduceat(mine["deliveries"].fill_null(0).to_numpy(), firsts),
    ]  # fmt: skip
    points = np.stack(columns, axis=1).tolist()
    for before, point in pairwise(points):
        if point[START] >= before[START]:  # else the offset was set back
            point[END] = max(point[END], before[END])
    return {
        "topic": row["topic"], "partition": row["partition"], "updates": row["updates"], "archived": row["archived"],
        "points": points,
    }  # fmt: skip
