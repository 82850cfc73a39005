"""Transactions that nobody ends: they hold back the last stable offset of their partitions.

Consumers with isolation.level=read_committed see nothing behind the beginning of such a transaction. A coordinator
aborts a transaction that takes longer than its timeout, and writes the markers of a decided one at once; so one that is
much older than that hangs.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from kohort.audit.checks.kit.check import ERROR, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import between, count, duration
from kohort.audit.tables import OFFSETS_TOPIC, TRANSACTION_STATES

CHECK = Check(
    "hanging_transaction",
    ERROR,
    "Transactions that should have ended long ago: open ones behind their timeout, and decided ones whose markers are"
    " not all written.",
    "Readers of committed records get nothing behind the beginning of the transaction: let its coordinator run, or end"
    " the transaction in each partition (kohort transactions abort, or kafka-transactions.sh find-hanging and abort).",
    {"minutes": 5},
)

ONGOING = "Ongoing"
PREPARED = ("PrepareCommit", "PrepareAbort")
PARTITIONS_NAMED = 3


def find(part: Part, limits: Limits) -> Iterator[Row]:
    end = part.world.end_time
    states = part.table(TRANSACTION_STATES.name)
    if end is None or not len(states):
        return
    last = {row["transactional_id"]: row for row in states.sort_by("log_offset").to_pylist()}
    for row in last.values():
        if not row["tombstone"] and (late_s := _late(row, end)) > limits["minutes"] * 60:
            yield _finding(row, late_s)


def _late(row: Row, end: datetime) -> float:
    """For how many seconds the transaction should have been over; 0: it should not."""
    if row["state"] in PREPARED:
        return between(row["record_time"], end)
    if row["state"] != ONGOING or row["start_time"] is None:
        return 0
    return between(row["start_time"], end) - (row["timeout_ms"] or 0) / 1000


def _finding(row: Row, late_s: float) -> Row:
    places = [(each["topic"], each["partition"]) for each in row["partitions"] or ()]
    shown = sorted(places, key=lambda place: place[0] == OFFSETS_TOPIC)  # those of users first
    named = ", ".join(f"{topic}-{partition}" for topic, partition in shown[:PARTITIONS_NAMED])
    more = f" and {len(places) - PARTITIONS_NAMED} more" if len(places) > PARTITIONS_NAMED else ""
    who = f" of {row['client_id']}" if row["client_id"] else ""
    what = (
        f"is open, and was to end {duration(late_s)} ago (timeout {duration((row['timeout_ms'] or 0) / 1000)})"
        if row["state"] == ONGOING
        else f"has been in {row['state']} for {duration(late_s)}"
    )
    holds = f"; it holds back {named}{more}" if places else ""
    return finding(
        CHECK,
        f"transaction {row['transactional_id']!r}{who} (producer {row['producer_id']}, epoch {row['producer_epoch']},"
        f" {count(len(places), 'partition')}) {what}{holds}",
        topic=shown[0][0] if shown else None,
        partition=shown[0][1] if shown else None,
        log_offset=row["log_offset"],
        time=row["start_time"] or row["record_time"],
        value=late_s / 60,
    )
