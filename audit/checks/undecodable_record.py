"""Records that cannot be decoded, or only by a newer Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.checks.kit.check import ERROR, INFO, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import count
from kohort.audit.tables import LOG_BATCHES, OTHER_RECORDS

CHECK = Check(
    "undecodable_record",
    ERROR,
    "Bytes between batches, batches and records that cannot be decoded, and records of an unknown type.",
    "An unknown type comes from a newer Kafka and is skipped; anything else stops a coordinator from loading: find out"
    " who wrote it.",
)


def find(part: Part, _: Limits) -> Iterator[Row]:
    """Leaves out what is unreadable at the very end of the log: torn_tail reports that."""
    kinds: dict[str, list[Row]] = {}
    for row in [*_batches(part.table(LOG_BATCHES.name)), *_records(part.table(OTHER_RECORDS.name))]:
        kinds.setdefault(row["problem"], []).append(row)
    for kind, rows in kinds.items():
        first = rows[0]
        yield finding(
            CHECK,
            f"{count(len(rows), 'place')} ({kind}), the first: {first['detail']}",
            severity=INFO if kind == "unknown" else ERROR,
            group_id=first["group_id"] if len(rows) == 1 else None,
            log_offset=first["log_offset"],
            time=first["time"],
            value=float(len(rows)),
        )


def _batches(batches: pa.Table) -> Iterator[Row]:
    end, _ = end_of_readable(batches)
    for row in batches.filter(batches["problem"].is_valid()).to_pylist():
        lost = row["problem"] in ("torn", "garbage") and (row["segment"], row["position"]) < end
        if lost or row["problem"] == "undecodable":
            detail = f"batch at byte {row['position']} of segment {row['segment']}, {row['detail']}"
            yield row | {"time": row["max_time"], "group_id": None, "detail": detail}


def _records(records: pa.Table) -> Iterator[Row]:
    for row in records.filter(records["problem"].is_valid()).sort_by("log_offset").to_pylist():
        yield row | {"time": row["record_time"], "detail": row["detail"] or f"type {row['record_type']}"}


def end_of_readable(batches: pa.Table) -> tuple[tuple[int, int], int | None]:
    """Segment and position of the last batch that can be read, and the log offset after it."""
    good = batches.filter(batches["problem"].is_null())
    if not len(good):
        return (-1, -1), None
    segment = pc.max(good["segment"]).as_py()
    position = pc.max(good.filter(pc.equal(good["segment"], segment))["position"]).as_py()
    return (segment, position), pc.max(good["last_log_offset"]).as_py() + 1
