"""A log whose last batch was written only in part."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.audit.checks.kit.check import WARNING, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import count
from kohort.audit.checks.undecodable_record import end_of_readable
from kohort.audit.tables import LOG_BATCHES

CHECK = Check(
    "torn_tail",
    WARNING,
    "Bytes at the end of a log partition that are no whole batch.",
    "After a crash, or in a copy of a running broker's files, this is normal and the broker cuts it off; else copy"
    " again.",
)


def find(part: Part, _: Limits) -> Iterator[Row]:
    batches = part.table(LOG_BATCHES.name)
    end, next_offset = end_of_readable(batches)
    torn = [
        row
        for row in batches.filter(batches["problem"].is_valid()).to_pylist()
        if row["problem"] in ("torn", "garbage") and (row["segment"], row["position"]) > end
    ]
    if torn:
        first = min(torn, key=lambda row: (row["segment"], row["position"]))
        size_bytes = sum(row["size_bytes"] for row in torn)
        yield finding(
            CHECK,
            f"the last {count(size_bytes, 'byte')}, from byte {first['position']} of segment {first['segment']} on,"
            f" are no whole batch: {first['detail']}",
            log_offset=next_offset,
            value=float(size_bytes),
        )
