"""Records that were delivered again and again, and that no member accepted.

A record that comes back (released, session closed, lock expired) is delivered again until it reaches the limit
(group.share.delivery.count.limit); then it is archived: nobody gets it any more. A member that rejects a record
decides that on purpose. Kohort's headers tell the two apart. Where they are missing, an archived record that was
delivered `limit` times counts as given up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.checks.kit.check import CAUSES, ERROR, SHARE_HISTORY, WARNING, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.share import RETURNS, in_words, place_of
from kohort.audit.checks.kit.words import count
from kohort.audit.derive.share_states import ARCHIVED, ShareRows, share_rows
from kohort.audit.tables import SHARE_STATES
from kohort.coordinator.share_state.headers import Cause

CHECK = Check(
    "poison_record",
    ERROR,
    "Records that a share group has given up after too many deliveries, or that were delivered many times and are still"
    " not accepted.",
    "Read the record at that offset, and see why its members fail or time out: let them reject what they cannot"
    " process, and keep a copy of it, because nobody gets an archived record again (set the start offset back to read"
    " it once more).",
    {"limit": 5, "deliveries": 4},
    needs=(SHARE_HISTORY, CAUSES),
)


def find(part: Part, limits: Limits) -> Iterator[Row]:
    states = part.table(SHARE_STATES.name)
    given_up = list(_given_up(share_rows(states), limits)) if len(states) else []
    yield from given_up
    found = {(row["group_id"], row["topic"], row["partition"]) for row in given_up}
    for row in part.share_partitions:
        where = place_of(row)
        often = (row["deliveries"] or 0) >= max(1, limits["deliveries"]) and not row["deleted"]
        if often and tuple(where.values()) not in found:
            yield finding(
                CHECK,
                f"offset {row['most_delivered']} was delivered {count(row['deliveries'], 'time')} and not accepted;"
                f" {count(row['waiting'], 'record')} wait to be delivered again",
                severity=WARNING,
                **where,
                time=row["last_time"],
                value=float(row["deliveries"]),
            )


def _given_up(share: ShareRows, limits: Limits) -> Iterator[Row]:
    bad = np.flatnonzero(_bad_batches(share, max(1, limits["limit"])))
    if not len(bad):
        return
    places = share.place[share.batch_row[bad]]
    for start, stop in _runs(places):
        yield _finding(share, bad[start:stop])


def _bad_batches(share: ShareRows, limit: float) -> Any:
    """Which batches tell of records that were given up. A snapshot repeats what updates have said, and does not say
    why; so it counts only if updates do not say it either.
    """
    causes, row = share.rows["cause"], share.batch_row
    told = causes.is_valid().to_numpy()
    returned = pc.is_in(causes, pa.array(RETURNS)).to_numpy()
    tells = np.zeros(int(share.place.max()) + 1, np.bool_)
    tells[share.place[told]] = True
    by_count = np.where(share.snapshot, ~tells[share.place], ~told)
    by_cause = ~share.snapshot & returned
    archived = (share.batches["state"] == ARCHIVED) & (share.batches["deliveries"] > 0)
    return archived & (by_cause[row] | (by_count[row] & (share.batches["deliveries"] >= limit)))


def _finding(share: ShareRows, bad: Any) -> Row:
    rows = share.rows.take(share.batch_row[bad]).to_pylist()
    ranges = sorted(zip(share.batches["first"][bad].tolist(), share.batches["last"][bad].tolist(), strict=True))
    deliveries = int(share.batches["deliveries"][bad].max())
    records = _covered(ranges)
    which = f"offset {ranges[0][0]} was" if records == 1 else f"{records:,} records were"
    first = "" if records == 1 else f", the first at offset {ranges[0][0]}"
    up_to = "" if records == 1 else "up to "
    causes, members = _who_gave_back(share, int(share.batch_row[bad[0]]), ranges[0][0])
    return finding(
        CHECK,
        f"{which} given up after {up_to}{count(deliveries, 'delivery', 'deliveries')}{first}"
        f"{in_words('; came back by ', causes)}{in_words('; had by ', members)}",
        **place_of(rows[0]),
        member_id=next(iter(members)) if len(members) == 1 else None,
        log_offset=rows[0]["log_offset"],
        time=rows[0]["record_time"],
        until=rows[-1]["record_time"],
        value=float(records),
    )


def _covered(ranges: list[tuple[int, int]]) -> int:
    """How many offsets are in sorted ranges, which may overlap."""
    records, reached = 0, -1
    for first, last in ranges:
        records += max(0, last - max(first, reached + 1) + 1)
        reached = max(reached, last)
    return records


def _who_gave_back(share: ShareRows, row: int, offset: int) -> tuple[Counter[str], Counter[str]]:
    """Why the record at this offset came back each time, and which members had it."""
    rows_here = [np.searchsorted(share.place, share.place[row], side) for side in ("left", "right")]
    here = slice(*np.searchsorted(share.batch_row, rows_here, "left"))
    of_row = share.batch_row[here]
    about_it = (share.batches["first"][here] <= offset) & (share.batches["last"][here] >= offset)
    updates = of_row[about_it & ~share.snapshot[of_row]]
    rows = share.rows.select(["cause", "member_id"]).take(updates).to_pylist()
    # Beside records that were accepted, one that was released came back with an acknowledgement.
    named = {Cause.ACKNOWLEDGE.value: Cause.RELEASE.value}
    causes = Counter(named.get(one["cause"], one["cause"]) for one in rows if one["cause"])
    return causes, Counter(one["member_id"] for one in rows if one["cause"] and one["member_id"])


def _runs(values: Any) -> Iterator[tuple[int, int]]:
    """Beginning and end of each run of equal values."""
    starts = np.flatnonzero(np.diff(values, prepend=-1) != 0)
    yield from zip(starts.tolist(), np.append(starts[1:], len(values)).tolist(), strict=True)
