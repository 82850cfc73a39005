"""DescribeTransactions (65), v0: see coordinator/transactions/describe_transactions.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.coordinator.outcome import Parked
from kohort.coordinator.transactions.describe_transactions import DESCRIBE_TRANSACTIONS
from kohort.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.coordinator.api import Steps


def describe_transactions(
    broker: Broker, request: DescribeTransactionsRequest, call: Call
) -> Steps[DescribeTransactionsResponse | Parked]:
    return broker.transactions.submit_several(DESCRIBE_TRANSACTIONS, request, call)
