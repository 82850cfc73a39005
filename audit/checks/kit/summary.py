"""What one log partition amounts to, for the checks that compare log partitions with each other."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from audit.checks.kit.part import Part
from audit.tables import COMMIT_STEPS, LOG_BATCHES


class Summary(NamedTuple):
    log_partition: int
    records: int
    busiest: str | None  # the group with most commits
    commits: int  # of that group


def summarize(part: Part) -> Summary:
    records = pc.sum(part.table(LOG_BATCHES.name)["record_count"]).as_py() or 0
    groups: pa.Table = part.table(COMMIT_STEPS.name).group_by("group_id").aggregate([("log_offset", "count")])
    if not len(groups):
        return Summary(part.log_partition, records, None, 0)
    busiest = groups.sort_by([("log_offset_count", "descending"), ("group_id", "ascending")]).slice(0, 1).to_pylist()[0]
    return Summary(part.log_partition, records, busiest["group_id"], busiest["log_offset_count"])
