"""Offsets that were committed in a transaction by a producer that had been replaced.

Each producer that begins to use a transactional id gets a higher epoch, and the marker that ends a transaction may
raise it, too. A coordinator that does its work refuses what comes with a lower epoch later.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc

from kohort.audit.checks.kit.check import ERROR, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import count
from kohort.audit.tables import COMMIT_STEPS, LOG_BATCHES, PENDING_OFFSETS, keeps_groups

CHECK = Check(
    "commit_by_fenced_producer",
    ERROR,
    "Offsets committed in a transaction by a producer whose epoch was over: another producer had taken its place.",
    "Records may have been processed twice: see why the coordinator let the old producer write, and whether something"
    " else than a broker has written this log.",
)


def find(part: Part, _: Limits) -> Iterator[Row]:
    batches = part.table(LOG_BATCHES.name)
    batches = batches.filter(pc.fill_null(pc.and_(batches["transactional"], batches["log_offset"].is_valid()), False))
    if not len(batches) or not keeps_groups(part.log_partition):
        return
    batches = batches.sort_by([("producer_id", "ascending"), ("log_offset", "ascending")])
    producer, epoch = (batches[name].to_numpy().astype(np.int64) for name in ("producer_id", "producer_epoch"))
    rank = np.unique(producer, return_inverse=True)[1]
    before = np.maximum.accumulate(rank << 16 | np.maximum(epoch, 0)) & 0xFFFF  # the greatest epoch of the producer
    is_data = pc.is_null(batches["marker"]).to_numpy(zero_copy_only=False)
    bad: dict[int, list[int]] = {}
    for row in np.flatnonzero(is_data & (epoch < before)).tolist():
        bad.setdefault(int(producer[row]), []).append(row)
    for producer_id, rows in bad.items():
        first = batches.slice(rows[0], 1).to_pylist()[0]
        yield finding(
            CHECK,
            f"{count(len(rows), 'commit')} of producer {producer_id} with epoch {first['producer_epoch']}, after epoch"
            f" {before[rows[0]]} had been seen",
            **_whose(part, first["log_offset"], first["last_log_offset"]),
            log_offset=first["log_offset"],
            time=first["max_time"],
            value=float(len(rows)),
        )


def _whose(part: Part, first: int, last: int) -> Row:
    """The group and a partition of the records between these log offsets, unless they were aborted."""
    for name in (COMMIT_STEPS.name, PENDING_OFFSETS.name):
        rows = part.table(name)
        here = pc.and_(pc.greater_equal(rows["log_offset"], first), pc.less_equal(rows["log_offset"], last))
        found: list[Row] = rows.filter(here).slice(0, 1).select(["group_id", "topic", "partition"]).to_pylist()
        if found:
            return found[0]
    return {}
