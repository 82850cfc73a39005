"""Decodes the records of __transaction_state, one by one: there are a few for each transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kohort.audit.decode.rows import RawRecord, Row, header_text
from kohort.audit.decode.schemas import micros
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.record_types import UnknownRecord
from kohort.protocol.transaction_records import TRANSACTION_STATE

STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")  # by their number
CAUSE, CLIENT = b"kohort.cause", b"kohort.client"


class TransactionStates(NamedTuple):
    states: list[Row]  # of transaction_states
    unreadable: list[Row]  # of other_records


def decode(records: Iterable[RawRecord]) -> TransactionStates:
    found = TransactionStates([], [])
    for record in records:
        kind, problem, detail = None, "no key", "a record without a key says nothing about any transactional id"
        if record.key is not None:
            try:
                kind, key = TRANSACTION_STATE.decode_key(record.key)
                if not isinstance(key, UnknownRecord):
                    value = None if record.value is None else TRANSACTION_STATE.decode_value(kind, record.value)
                    found.states.append(_row(record, key.transactional_id, value))
                    continue
                problem, detail = "unknown", f"record type {kind}, which a newer Kafka has introduced"
            except MalformedMessage as wrong:
                problem, detail = "undecodable", str(wrong)
        shown = [None if raw is None else raw.hex() for raw in (record.key, record.value)]
        found.unreadable.append((*_start(record), kind, None, record.value is None, *shown, problem, detail))
    return found


def _start(record: RawRecord) -> Row:
    return record.log_partition, record.log_offset, micros(record.time_ms)


def _row(record: RawRecord, transactional_id: str, value: Any) -> Row:
    start = (*_start(record), transactional_id, value is None)
    told = header_text(record.headers, CAUSE), header_text(record.headers, CLIENT)
    if value is None or record.value is None:
        return (*start, *(None,) * 8, *told, None)
    status = value.transaction_status
    partitions = [
        (topic.topic, partition) for topic in value.transaction_partitions or () for partition in topic.partition_ids
    ]
    return (
        *start, value.producer_id, value.producer_epoch,
        STATES[status] if 0 <= status < len(STATES) else f"Unknown ({status})",
        value.transaction_timeout_ms, micros(value.transaction_start_timestamp_ms),
        micros(value.transaction_last_update_timestamp_ms), partitions, value.client_transaction_version, *told,
        int.from_bytes(record.value[:2], "big"),
    )  # fmt: skip
