"""EndTxn (26), v0-5: see coordinator/transactions/end_txn.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.coordinator.outcome import Parked
from kohort.coordinator.transactions.end_txn import END_TXN
from kohort.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call


def end_txn(broker: Broker, request: EndTxnRequest, call: Call) -> EndTxnResponse | Parked:
    return broker.transactions.submit(request.transactional_id, END_TXN, request, call)
