"""Offsets that were committed in a transaction long ago, and still wait for its end.

Readers that require stable offsets, as consumers with isolation.level=read_committed do, get no offset meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

from kohort.audit.checks.kit.check import WARNING, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import between, count, duration
from kohort.audit.tables import PENDING_OFFSETS

CHECK = Check(
    "pending_offsets",
    WARNING,
    "Offsets that were committed in a transaction, and have waited for its end for a long time.",
    "Members that get these partitions cannot start while their offsets are undecided: see what became of the producer,"
    " and end its transaction (kohort transactions abort, or kafka-transactions.sh find-hanging and abort).",
    {"minutes": 15},
)


def find(part: Part, limits: Limits) -> Iterator[Row]:
    end = part.world.end_time
    waiting: dict[tuple[str, int], list[Row]] = {}
    for row in part.table(PENDING_OFFSETS.name).sort_by("log_offset").to_pylist():
        if end is not None and between(row["since"], end) > limits["minutes"] * 60:
            waiting.setdefault((row["group_id"], row["producer_id"]), []).append(row)
    for (group_id, producer_id), rows in waiting.items():
        assert end is not None
        first = min(rows, key=lambda row: row["since"])
        seconds = between(first["since"], end)
        members = {row["member_id"] for row in rows if row["member_id"]}
        yield finding(
            CHECK,
            f"{count(len(rows), 'offset')} of producer {producer_id} {'has' if len(rows) == 1 else 'have'} waited"
            f" {duration(seconds)} for the end of its transaction",
            group_id=group_id,
            topic=first["topic"],
            partition=first["partition"],
            member_id=members.pop() if len(members) == 1 else None,
            log_offset=first["log_offset"],
            time=first["since"],
            value=seconds / 60,
        )
