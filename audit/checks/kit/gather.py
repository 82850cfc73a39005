"""Gathers bad rows by place, so that a defect that shows in ten thousand rows becomes one finding with a count."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from kohort.audit.checks.kit.check import Row
from kohort.audit.checks.kit.steps import Array, Steps


class Hit(NamedTuple):
    """Bad rows of one place."""

    rows: int
    first: Row
    worst: Row
    value: float  # of the worst row
    last_time: datetime

    @property
    def place(self) -> Row:
        """The columns that every finding about this place has."""
        first = self.first
        return {
            "group_id": first["group_id"], "topic": first.get("topic"), "partition": first.get("partition"),
            "log_offset": first["log_offset"], "time": first["time"], "until": self.last_time,
        }  # fmt: skip


def gather_steps(steps: Steps, bad: Array, value: Array | None = None) -> list[Hit]:
    """The bad rows by place. Without `value` all rows are equally bad, and the first one counts as the worst."""
    rows = np.flatnonzero(bad)
    if not len(rows):
        return []
    place, log_offset = steps.place[rows], steps.table["log_offset"].to_numpy()[rows]
    values = np.ones(len(rows)) if value is None else value[rows].astype(np.float64)
    in_order = np.lexsort((log_offset, place))
    starts = np.flatnonzero(np.diff(place[in_order], prepend=-1))
    ends = np.append(starts[1:], len(rows))
    by_value = np.lexsort(
        (-log_offset, values, place)
    )  # the worst row of each place comes last; the earlier one of two
    firsts, worst, last = in_order[starts], by_value[ends - 1], in_order[ends - 1]
    return [
        Hit(count, first, bad_one, amount, last_one["time"])
        for count, first, bad_one, amount, last_one in zip(
            (ends - starts).tolist(),
            steps.table.take(rows[firsts]).to_pylist(),
            steps.table.take(rows[worst]).to_pylist(),
            values[worst].tolist(),
            steps.table.select(["time"]).take(rows[last]).to_pylist(),
            strict=True,
        )
    ]


def gather_rows(rows: Iterable[Row], value: Callable[[Row], float]) -> list[Hit]:
    """The rows by group. They must come in the order of the log."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["group_id"], []).append(row)
    hits = []
    for some in groups.values():
        worst = max(some, key=value)
        hits.append(Hit(len(some), some[0], worst, value(worst), some[-1]["time"]))
    return hits
