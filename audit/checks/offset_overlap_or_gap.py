"""Log offsets that occur twice, or are missing where compaction has not run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kohort.audit.checks.kit.check import CLEANER_CHECKPOINT, CRITICAL, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import count
from kohort.audit.tables import LOG_BATCHES

CHECK = Check(
    "offset_overlap_or_gap",
    CRITICAL,
    "Batches that begin before the one before them ends, or leave offsets out above the cleaner's checkpoint.",
    "Compare this log partition with a replica or a copy: records were lost or numbered twice.",
    needs=(CLEANER_CHECKPOINT,),
)


def find(part: Part, _: Limits) -> Iterator[Row]:
    """The CRC of a batch does not cover its offset, so only this check can find that an offset was changed."""
    batches = part.table(LOG_BATCHES.name)
    batches = batches.filter(batches["log_offset"].is_valid())
    first, last = (batches[name].to_numpy() for name in ("log_offset", "last_log_offset"))
    in_order = np.lexsort((last, first))
    found, expected = first[in_order][1:], last[in_order][:-1] + 1
    overlap, gap = found < expected, (found > expected) & (found > part.complete_from)
    if not part.is_cleaning_known:
        gap[:] = False
    if (bad := np.flatnonzero(overlap | gap)).size:
        missing = int((found - expected)[gap].sum())
        yield finding(
            CHECK,
            f"{count(overlap.sum(), 'overlap')} and {count(gap.sum(), 'gap')} ({count(missing, 'offset')} missing);"
            f" first a batch at {found[bad[0]]} where {expected[bad[0]]} should be",
            log_offset=int(found[bad[0]]),
            time=batches["max_time"][int(in_order[bad[0] + 1])].as_py(),
            value=float(bad.size),
        )
