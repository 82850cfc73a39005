"""Generations that are not numbered one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.checks.kit.check import ERROR, HISTORY, INFO, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import count
from kohort.audit.derive.commits import codes
from kohort.audit.tables import GROUP_GENERATIONS
from kohort.protocol.log_records import CONSUMER_GROUP_METADATA, GROUP_METADATA, SHARE_GROUP_METADATA

CHECK = Check(
    "generation_gap_or_decrease",
    ERROR,
    "A group's generation or epoch is lower than the one before it in the log, or leaves numbers out.",
    "A lower number means lost records or two coordinators at once: compare with a replica; a number left out is a"
    " rebalance that ended before the leader had assigned, look at the leader then.",
    {"gap": 2},
    needs=(HISTORY,),
)

# Types of records that number the generations or epochs of a group.
EPOCHS = (GROUP_METADATA, CONSUMER_GROUP_METADATA, SHARE_GROUP_METADATA)
KIND_BITS = 8
NONE = -1


def find(part: Part, limits: Limits) -> Iterator[Row]:
    """`gap`: the least difference that is reported. A deleted group may begin with any number."""
    lower: dict[str, list[Row]] = {}
    gaps: dict[str, list[Row]] = {}
    for row in _suspects(part.table(GROUP_GENERATIONS.name)):
        if row["generation"] < row["before"]:
            lower.setdefault(row["group_id"], []).append(row)
        elif row["generation"] - row["before"] >= limits["gap"]:
            gaps.setdefault(row["group_id"], []).append(row)
    yield from (_finding(group_id, found, ERROR, "lower than the one before") for group_id, found in lower.items())
    yield from (_finding(group_id, found, INFO, "after a gap") for group_id, found in gaps.items())


def _suspects(rows: pa.Table) -> list[Row]:
    """Records whose generation is not the same as `before` or one more, in the order of the log."""
    rows = rows.filter(pc.is_in(rows["record_type"], pa.array(EPOCHS, rows["record_type"].type)))
    if not len(rows):
        return []
    group, _ = codes(rows["group_id"].combine_chunks())
    numbered = group << KIND_BITS | rows["record_type"].to_numpy()
    order = np.lexsort((rows["log_offset"].to_numpy(), numbered))
    generation = rows["generation"].fill_null(NONE).to_numpy()[order].astype(np.int64)  # a tombstone has no generation
    before = np.where(np.diff(numbered[order], prepend=-1) != 0, NONE, np.roll(generation, 1))
    odd = (generation != NONE) & (before != NONE) & (generation != before) & (generation != before + 1)
    suspects = rows.take(pa.array(order[odd])).append_column("before", pa.array(before[odd]))
    found: list[Row] = suspects.sort_by("log_offset").to_pylist()
    return found


def _finding(group_id: str, found: list[Row], severity: str, how: str) -> Row:
    first = found[0]
    return finding(
        CHECK,
        f"{count(len(found), 'generation')} {how}; first {first['generation']} after {first['before']}",
        severity=severity,
        group_id=group_id,
        generation=first["generation"],
        log_offset=first["log_offset"],
        time=first["record_time"],
        until=found[-1]["record_time"],
        value=float(max(abs(row["generation"] - row["before"]) for row in found)),
    )
