"""Batches whose bytes have changed since they were written."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.audit.checks.kit.check import CRITICAL, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import count
from kohort.audit.tables import LOG_BATCHES

CHECK = Check(
    "crc_mismatch",
    CRITICAL,
    "Record batches whose checksum does not match their bytes.",
    "Restore this log partition from a replica or a copy, and look at the disk: a broker refuses to load it.",
)


def find(part: Part, _: Limits) -> Iterator[Row]:
    batches = part.table(LOG_BATCHES.name)
    damaged = [row for row in batches.filter(batches["problem"].is_valid()).to_pylist() if row["problem"] == "crc"]
    if damaged:
        first = damaged[0]
        yield finding(
            CHECK,
            f"{count(len(damaged), 'batch', 'batches')} with a wrong checksum, the first in segment {first['segment']}"
            f" at byte {first['position']}: {first['detail']}",
            log_offset=first["log_offset"],
            time=first["max_time"],
            value=float(len(damaged)),
        )
