"""Generations that are not numbered one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from audit.checks.kit.check import ERROR, HISTORY, INFO, Check, Limits, Row, finding
from audit.checks.kit.part import Part
from audit.checks.kit.words import count
from audit.tables import GROUP_GENERATIONS

CHECK = Check(
    "generation_gap_or_decrease",
    ERROR,
    "A group's generation or epoch is lower than the one before it in the log, or leaves numbers out.",
    "A lower number means lost records or two coordinators at once: compare with a replica; a number left out is a"
    " rebalance that ended before the leader had assigned, look at the leader then.",
    {"gap": 2},
    needs=(HISTORY,),
)

EPOCHS = (2, 3, 11)  # types of records that number what a group goes through


def find(part: Part, limits: Limits) -> Iterator[Row]:
    """`gap`: from this difference on. A group that was deleted begins anew."""
    lower: dict[str, list[tuple[Any, ...]]] = {}
    gaps: dict[str, list[tuple[Any, ...]]] = {}
    before: dict[tuple[str, int], int] = {}
    names = ("group_id", "record_type", "tombstone", "generation", "log_offset", "record_time")
    rows = part.table(GROUP_GENERATIONS.name).select(names).sort_by("log_offset")
    for group_id, kind, tombstone, generation, *place in zip(*(rows[name].to_pylist() for name in names), strict=True):
        last = before.pop((group_id, kind), None)
        if tombstone or kind not in EPOCHS:
            continue
        before[group_id, kind] = generation
        if last is not None and generation < last:
            lower.setdefault(group_id, []).append((generation, last, *place))
        elif last is not None and generation - last >= limits["gap"]:
            gaps.setdefault(group_id, []).append((generation, last, *place))
    yield from (_finding(group_id, found, ERROR, "lower than the one before") for group_id, found in lower.items())
    yield from (_finding(group_id, found, INFO, "after a gap") for group_id, found in gaps.items())


def _finding(group_id: str, found: list[tuple[Any, ...]], severity: str, how: str) -> Row:
    generation, last, log_offset, time = found[0]
    return finding(
        CHECK,
        f"{count(len(found), 'generation')} {how}; first {generation} after {last}",
        severity=severity,
        group_id=group_id,
        generation=generation,
        log_offset=log_offset,
        time=time,
        until=found[-1][3],
        value=float(max(abs(one[0] - one[1]) for one in found)),
    )
