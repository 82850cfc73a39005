"""Offsets whose transaction had not ended at the end of the log: neither committed nor aborted."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.decode.schemas import schema
from kohort.audit.tables import PENDING_OFFSETS

OPEN = "open"


def pending_offsets(commits: pa.Table) -> pa.Table:
    """From the rows of offset_commits. A tombstone drops what is pending for its partition."""
    is_open = pc.equal(commits["transaction"], OPEN)
    of = schema(PENDING_OFFSETS.name)
    if not pc.any(is_open).as_py():
        return of.empty_table()
    wanted = ["log_offset", "log_partition", "group_id", "topic", "partition", "offset", "producer_id", "record_time"]
    about = commits.filter(pc.or_(is_open, commits["tombstone"])).select([*wanted, "member_id", "tombstone"])
    pending: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in about.sort_by("log_offset").to_pylist():
        place = row["group_id"], row["topic"], row["partition"]
        since = row.pop("record_time")
        if row.pop("tombstone"):
            for key in [key for key in pending if key[:3] == place]:
                del pending[key]
            continue
        key = (*place, row["producer_id"])
        pending[key] = {**row, "since": pending[key]["since"] if key in pending else since}
    return pa.Table.from_pylist(list(pending.values()), of)
