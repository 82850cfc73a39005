"""Metrics of each group, for Prometheus. Clients choose the names of groups, so there is a limit: MAX_GROUPS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kohort.broker.live.group import GroupHistory
from kohort.broker.live.rows import GroupRow
from kohort.broker.live.source import Source
from kohort.broker.live.view import cut
from kohort.broker.metrics import metric

MAX_GROUPS: Final = 1_000  # of more groups, those that have members come first, then by name
MS_PER_S: Final = 1_000

Value = Callable[[GroupRow], object | None]


def group_lines(source: Source) -> Iterator[str]:
    """An empty line is not part of the text, but ends a step."""
    rows: list[GroupRow] = []
    for row in source.rows():
        if row is not None:
            rows.append(row)
        yield ""
    rows.sort(key=lambda row: (not row.members, row.group))
    left_out = max(0, len(rows) - MAX_GROUPS)
    rows = rows[:MAX_GROUPS]
    yield ""
    now = source.now_ms()
    labels = {row.group: label(row.group) for row in rows}
    gauges: tuple[tuple[str, str, Value], ...] = (
        ("member_count", "members of the group", lambda row: row.members),
        ("lag", "records behind the committed offsets, of all partitions together", lambda row: row.lag),
        ("max_lag", "records behind the committed offset, of the partition with most", lambda row: row.max_lag),
        ("last_commit_age_seconds", "how long ago the group has committed", lambda row: _age(row, now)),
        ("unowned_partitions", "partitions that nobody owns and somebody owned before", lambda row: row.unowned),
    )  # fmt: skip
    for name, about, value in gauges:
        told = ((labels[row.group], shown) for row in rows if (shown := value(row)) is not None)
        yield from metric(f"kohort_group_{name}", "gauge", f"{about}; by group", told)
    histories = [(labels[row.group], found) for row in rows if (found := source.histories.get(row.group)) is not None]
    yield from metric(
        "kohort_group_rebalances_total", "counter", "rebalances since the start; by group and cause", _causes(histories)
    )
    without_owner = ((each, f"{found.unowned_ms_at(now) / MS_PER_S:.3f}") for each, found in histories)
    about = "in which a partition had no owner that had one before; by group"
    yield from metric("kohort_group_without_owner_seconds_total", "counter", about, without_owner)
    about = f"groups beyond the first {MAX_GROUPS}, which have no metrics of their own"
    yield from metric("kohort_groups_without_metrics", "gauge", about, [("", left_out)])


def _age(row: GroupRow, now: int) -> object | None:
    return None if row.last_commit_ms is None else f"{max(0, now - row.last_commit_ms) / MS_PER_S:.3f}"


def _causes(histories: list[tuple[str, GroupHistory]]) -> Iterator[tuple[str, object]]:
    for label_of_group, history in histories:
        for cause, count in sorted(history.by_cause.items()):
            yield f'{label_of_group},cause="{escaped(cause)}"', count


def label(group_id: str) -> str:
    return f'group="{escaped(cut(group_id))}"'


def escaped(text: str) -> str:
    r"""As Prometheus wants it. A lone surrogate, which no text in UTF-8 can hold, becomes a question mark."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text.encode("utf-8", "replace").decode()
