"""AddOffsetsToTxn (25), v0-4: see coordinator/transactions/add_offsets_to_txn.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.coordinator.outcome import Parked
from kohort.coordinator.transactions.add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from kohort.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call


def add_offsets_to_txn(broker: Broker, request: AddOffsetsToTxnRequest, call: Call) -> AddOffsetsToTxnResponse | Parked:
    return broker.transactions.submit(request.transactional_id, ADD_OFFSETS_TO_TXN, request, call)
