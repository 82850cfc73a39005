"""What differs from broker to broker in stories of transactions: producer ids, and the times of markers.

Ids are replaced by numbers in the order in which the broker gave them out, also in the bytes of fetched batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kohort.protocol.messages.end_txn import EndTxnResponse
from kohort.protocol.messages.init_producer_id import InitProducerIdResponse
from kohort.protocol.record_batch import BATCH_HEADER_BYTES, CONTROL, LOG_OVERHEAD_BYTES, parse_header
from kohort.protocol.wire import LazyArray, Message
from tests.parity.batches import changed
from tests.parity.peer import Exchange

FIRST_NAME = 7_000_001


def name_producers(exchanges: Sequence[Exchange]) -> None:
    names: dict[int, int] = {}
    for exchange in exchanges:
        if isinstance(exchange.answer, (InitProducerIdResponse, EndTxnResponse)):
            producer_id = exchange.answer.producer_id
            if producer_id >= 0 and producer_id not in names:
                names[producer_id] = FIRST_NAME + len(names)
    for exchange in exchanges:
        if isinstance(exchange.answer, Message):
            _rename(exchange.answer, names)
        else:
            for each in exchange.answer if isinstance(exchange.answer, list) else [exchange.answer]:
                _rename_fields(each, names)


def _rename_fields(noted: Any, names: Mapping[int, int]) -> None:
    if isinstance(noted, dict):
        for field in ("producer_id", "previous_producer_id", "next_producer_id"):
            if field in noted:
                noted[field] = names.get(noted[field], noted[field])


def _rename(message: Message, names: Mapping[int, int]) -> None:
    for slot in message.__slots__:
        value = getattr(message, slot)
        if slot == "producer_id":
            setattr(message, slot, names.get(value, value))
        elif slot == "records" and value:
            setattr(message, slot, _renamed_batches(bytes(value), names))
        elif isinstance(value, (list, tuple, LazyArray)):
            values = list(value)
            setattr(message, slot, values)
            for each in values:
                if isinstance(each, Message):
                    _rename(each, names)
        elif isinstance(value, Message):
            _rename(value, names)


def _renamed_batches(data: bytes, names: Mapping[int, int]) -> bytes:
    """Ids named; times of markers, which are the broker's, are zero. Of a batch that is cut off, offset and length."""
    position, batches = 0, []
    while len(data) - position >= BATCH_HEADER_BYTES:
        header = parse_header(data, position)
        one = data[position : position + header.size_bytes]
        if len(one) < header.size_bytes:
            break
        one = changed(one, producer_id=names.get(header.producer_id, header.producer_id))
        batches.append(changed(one, base_timestamp=0, max_timestamp=0) if header.is_control else one)
        position += header.size_bytes
    rest = data[position:]
    return b"".join(batches) + rest[:LOG_OVERHEAD_BYTES] + bytes(len(rest[LOG_OVERHEAD_BYTES:]))


def without_leader_epoch(fields: dict[str, Any]) -> dict[str, Any]:
    """Without what depends on how often the leader was started, and on the clock."""
    left_out = {"partition_leader_epoch", "crc", "batch_length"}
    if fields["attributes"] & CONTROL:
        left_out |= {"base_timestamp", "max_timestamp", "records"}
        fields["type"] = fields["records"][0]["key"]
    return {name: value for name, value in fields.items() if name not in left_out}
