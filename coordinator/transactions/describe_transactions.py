"""DescribeTransactions (65), v0: how far transactional ids have come (KIP-664)."""

from __future__ import annotations

from kohort.coordinator.api import Api, Several, Steps, all_steps
from kohort.coordinator.outcome import Call
from kohort.coordinator.transactions.state import TransactionsState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

PARTITIONS_IN_STEP = 5_000
PARTITION_BYTES = 36  # of memory for the number of a partition


def describe_transactions(
    state: TransactionsState, request: DescribeTransactionsRequest, call: Call
) -> DescribeTransactionsResponse:
    rows = [all_steps(row(state, request, each, call, None)) for each in request.transactional_ids]
    return DescribeTransactionsResponse(0, rows)


def row(
    state: TransactionsState, request: DescribeTransactionsRequest, transactional_id: str, call: Call,
    error: ErrorCode | None,
) -> Steps[TransactionState]:  # fmt: skip
    if not transactional_id:
        return TransactionState(ErrorCode.INVALID_REQUEST, transactional_id)
    if error is not None:
        return TransactionState(error, transactional_id)
    transaction = state.transactions.get(transactional_id)
    if transaction is None:
        return TransactionState(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    described = TransactionState(
        0, transactional_id, transaction.state.value, transaction.timeout_ms, transaction.started_ms,
        transaction.producer_id, transaction.epoch,
    )  # fmt: skip
    topics, count = [], 0
    for topic, partitions in transaction.partitions.items():  # a change puts another object there
        topics.append(TopicData(topic, sorted(partitions)))
        count += len(partitions)
        if count > PARTITIONS_IN_STEP:
            count = 0
            yield
    described.topics = topics
    return described


def row_bytes(described: TransactionState) -> int:
    return len(described.transactional_id) + PARTITION_BYTES * sum(len(each.partitions) for each in described.topics)


def _unavailable(
    state: TransactionsState, request: DescribeTransactionsRequest, call: Call, error: ErrorCode
) -> DescribeTransactionsResponse:
    rows = [all_steps(row(state, request, each, call, error)) for each in request.transactional_ids]
    return DescribeTransactionsResponse(0, rows)


def _failed(response: DescribeTransactionsResponse, version: int, error: ErrorCode) -> DescribeTransactionsResponse:
    rows = [TransactionState(error, each.transactional_id) for each in response.transaction_states]
    return DescribeTransactionsResponse(0, rows)


DESCRIBE_TRANSACTIONS = Several(
    api=Api(describe_transactions, _unavailable, _failed),
    entries=lambda request: request.transactional_ids,
    key=str,
    part=lambda request, transactional_ids: DescribeTransactionsRequest(transactional_ids),
    rows=lambda response: response.transaction_states,
    whole=lambda rows: DescribeTransactionsResponse(0, rows),
    row=row,
    row_bytes=row_bytes,
)
