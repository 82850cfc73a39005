"""ListTransactions (66), v0-2: see coordinator/transactions/list_transactions.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.coordinator.consumer.regex import InvalidRegularExpression, compile_pattern
from kohort.coordinator.outcome import Parked
from kohort.coordinator.transactions.list_transactions import LIST_TRANSACTIONS
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.coordinator.api import Steps


def list_transactions(
    broker: Broker, request: ListTransactionsRequest, call: Call
) -> ListTransactionsResponse | Steps[ListTransactionsResponse | Parked]:
    if request.transactional_id_pattern:
        try:
            compile_pattern(request.transactional_id_pattern)  # it is remembered
        except InvalidRegularExpression:
            return ListTransactionsResponse(0, ErrorCode.INVALID_REGULAR_EXPRESSION)
    return broker.transactions.submit_everywhere(LIST_TRANSACTIONS, request, call)
