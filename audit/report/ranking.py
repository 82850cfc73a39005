"""Which groups come first, and which part of a long history is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kohort.audit.report.limits import DETAILED_GROUPS, GENERATIONS
from kohort.audit.report.rows import SEVERITIES, Row, severity_rank

THE_END = 2**63 - 1  # greater than all log offsets


def found_by_group(counts: Iterable[Row]) -> dict[str, list[int]]:
    """Group -> number of its findings of each severity."""
    found: dict[str, list[int]] = {}
    for row in counts:
        rank = severity_rank(row)
        if row["group_id"] is not None and rank < len(SEVERITIES):
            found.setdefault(row["group_id"], [0] * len(SEVERITIES))[rank] += row["found"]
    return found


def ranked(groups: Sequence[Row], found: Mapping[str, Sequence[int]]) -> list[Row]:
    """Groups with the worst findings first; among equals, the one with most commits first."""
    nothing = [0] * len(SEVERITIES)

    def rank(group: Row) -> tuple[list[int], int, int, str]:
        worst = [-count for count in found.get(group["group_id"], nothing)]
        return worst, -(group["rebalances"] or 0), -(group["commits"] or 0), group["group_id"]

    return sorted(groups, key=rank)


def detailed(groups: Sequence[Row]) -> list[str]:
    return [group["group_id"] for group in groups[:DETAILED_GROUPS]]


def window(rebalances: Sequence[Row], findings: Sequence[Row]) -> tuple[int, int] | None:
    """First and last log offset that are drawn: the end of the history, or the time around the worst finding.

    What followed from the last rebalance that is drawn is drawn, too: in consumer groups, members move later.
    """
    if not rebalances:
        return None
    start = max(0, len(rebalances) - GENERATIONS)
    placed = [row for row in findings if row["log_offset"] is not None]
    if start and placed:
        worst = min(placed, key=lambda row: (severity_rank(row), -row["log_offset"]))
        index = sum(row["log_offset"] <= worst["log_offset"] for row in rebalances)
        if index <= start:
            start = max(0, index - GENERATIONS // 2)
    later = rebalances[start + GENERATIONS :]
    return rebalances[start]["log_offset"], later[0]["log_offset"] - 1 if later else THE_END
