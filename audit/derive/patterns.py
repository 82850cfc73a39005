"""Regular expressions that members of consumer groups subscribe to, and the topics that match them.

The coordinator resolves an expression, and writes the topics to a record of type 16 of the group. The record is in
other_records, as JSON. It holds until the next one for the same expression; a tombstone follows when the last member
has given the expression up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.derive.records import PATTERN, PatternRecord


def patterns_in(other_records: pa.Table) -> dict[str, list[PatternRecord]]:
    """Group -> its records of type 16, in the order of the log."""
    rows = other_records.filter(
        pc.and_(pc.equal(other_records["record_type"], PATTERN), other_records["problem"].is_null())
    )
    rows = rows.sort_by("log_offset")
    times = rows["record_time"].cast(pa.timestamp("ms"), safe=False).cast(pa.int64()).to_pylist()
    found: dict[str, list[PatternRecord]] = {}
    for row, time_ms in zip(rows.to_pylist(), times, strict=True):
        pattern = json.loads(row["key"])["data"]["regularExpression"]
        topics = frozenset() if row["tombstone"] else frozenset(json.loads(row["value"])["data"]["topics"])
        record = PatternRecord(PATTERN, row["log_offset"], time_ms, pattern, topics, row["tombstone"])
        found.setdefault(row["group_id"], []).append(record)
    return found


def subscription(
    names: frozenset[str] | None, pattern: str | None, resolved: Mapping[str, frozenset[str]]
) -> frozenset[str] | None:
    """The topics of a member by its names and its expression; None if the log does not say what matches."""
    if not pattern or names is None:
        return names
    matching = resolved.get(pattern)
    return None if matching is None else names | matching
