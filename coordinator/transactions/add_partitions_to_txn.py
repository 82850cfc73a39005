"""AddPartitionsToTxn (24), v0-5: partitions that a producer is going to write to become part of its transaction.

v2 answers PRODUCER_FENCED, which is INVALID_PRODUCER_EPOCH to older clients; v3 is flexible. v4 and v5 are for brokers:
they name several transactions, and may ask only whether partitions are part of one (KIP-890); v5 may answer
TRANSACTION_ABORTABLE. The broker has checked before that the partitions exist.

Produce and TxnOffsetCommit of newer clients add partitions, too. They ask without a request on the wire.
"""

from __future__ import annotations

from collections.abc import Sequence

from kohort.coordinator.api import Answer, Api
from kohort.coordinator.outcome import Call, Outcome, Record
from kohort.coordinator.transactions.ending import set_deadline
from kohort.coordinator.transactions.state import TransactionsState
from kohort.coordinator.transactions.transaction import OLD_CLIENTS, Transaction
from kohort.coordinator.transactions.transaction_state import ONGOING, PREPARED
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kohort.protocol.messages.log_transaction_log import TransactionLogKey, TransactionLogValue
from kohort.protocol.wire import Message

FIRST_VERSION_WITH_PRODUCER_FENCED = 2

# Of a record of __transaction_state, at most: the batch around it, and what a topic takes beside its name.
FIXED_BYTES, TOPIC_BYTES, PARTITION_BYTES = 1_000, 8, 4
MOST_BYTES_OF_CHARACTER = 3  # names of topics are ASCII, transactional ids need not be

TopicPartitions = Sequence[tuple[str, int]]


def find(state: TransactionsState, transactional_id: str, producer_id: int, epoch: int) -> Transaction | ErrorCode:
    """The transactional id, if this producer may go on with it now.

    While markers are being written, everybody has to come again: the ids may change with the end of the transaction.
    """
    transaction = state.transactions.get(transactional_id)
    if transaction is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    return transaction if transaction.epoch == epoch else ErrorCode.PRODUCER_FENCED


def add(
    state: TransactionsState, transactional_id: str, producer_id: int, epoch: int, partitions: TopicPartitions,
    client_version: int,
) -> ErrorCode | Record:  # fmt: skip
    """The record that adds partitions, NONE if all of them are in the transaction, or why they cannot be added."""
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    transaction = find(state, transactional_id, producer_id, epoch)
    if not isinstance(transaction, Transaction):
        return transaction
    if transaction.state is ONGOING:
        if transaction.has(partitions):
            return ErrorCode.NONE
    else:
        set_deadline(transaction, state.clock.now)
    record = transaction.with_partitions(partitions, client_version, state.clock.wall)
    return ErrorCode.UNKNOWN_SERVER_ERROR if _is_too_large(record, state.config.max_record_bytes) else record


def _is_too_large(record: Record, max_bytes: int) -> bool:
    """Whether the log has no room for the partitions of the transaction in one record; rounded up a little."""
    assert isinstance(record.key, TransactionLogKey)
    assert isinstance(record.value, TransactionLogValue)
    size_bytes = FIXED_BYTES + MOST_BYTES_OF_CHARACTER * len(record.key.transactional_id)
    for topic in record.value.transaction_partitions or ():
        size_bytes += TOPIC_BYTES + len(topic.topic) + PARTITION_BYTES * len(topic.partition_ids)
    return size_bytes > max_bytes


def verify(
    state: TransactionsState, transactional_id: str, producer_id: int, epoch: int, partitions: TopicPartitions
) -> ErrorCode | Sequence[ErrorCode]:
    """An error of the transaction, or one for each partition: TRANSACTION_ABORTABLE if it was not added."""
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    transaction = state.transactions.get(transactional_id)
    if transaction is None or transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    if transaction.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return [
        ErrorCode.NONE if transaction.has((partition,)) else ErrorCode.TRANSACTION_ABORTABLE for partition in partitions
    ]


# --- asked inside the broker


class AddOrVerify(Message):
    """A question about one transaction: a part of a newer request, or asked by Produce or TxnOffsetCommit."""

    __slots__ = ("client_version", "epoch", "is_added", "partitions", "producer_id", "transactional_id")

    def __init__(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: TopicPartitions, *, is_added: bool,
        client_version: int,
    ) -> None:  # fmt: skip
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.epoch = epoch
        self.partitions = partitions
        self.is_added = is_added  # True: add the partitions; False: only verify that they were added
        self.client_version = client_version


class Added(Message):
    """The answer. `errors` has one for each partition; empty: `error` holds for all of them."""

    __slots__ = ("error", "errors")

    def __init__(self, error: ErrorCode, errors: Sequence[ErrorCode] = ()) -> None:
        self.error = error
        self.errors = errors


ALL_ADDED = Added(ErrorCode.NONE)


def _add_or_verify(state: TransactionsState, asked: AddOrVerify, call: Call) -> Answer[Added]:
    if not asked.is_added:
        found = verify(state, asked.transactional_id, asked.producer_id, asked.epoch, asked.partitions)
        if isinstance(found, ErrorCode):
            return Added(found)
        return Added(max(found, default=ErrorCode.NONE), found)
    result = add(
        state, asked.transactional_id, asked.producer_id, asked.epoch, asked.partitions, asked.client_version
    )  # fmt: skip
    if isinstance(result, ErrorCode):
        return Added(result) if result else ALL_ADDED
    return Outcome([result], [(call, ALL_ADDED)])


ADD_OR_VERIFY: Api[TransactionsState, AddOrVerify, Added] = Api(
    _add_or_verify,
    unavailable=lambda state, asked, call, error: Added(error),
    failed=lambda response, version, error: Added(error),
)


# --- asked by clients, v0-3


def add_partitions_to_txn(
    state: TransactionsState, request: AddPartitionsToTxnRequest, call: Call
) -> Answer[AddPartitionsToTxnResponse]:
    partitions = [(topic.name, partition) for topic in request.v3_and_below_topics for partition in topic.partitions]
    result = add(
        state, request.v3_and_below_transactional_id, request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch, partitions, OLD_CLIENTS,
    )  # fmt: skip
    if isinstance(result, ErrorCode):
        return _all(request, for_version(result, call.version))
    return Outcome([result], [(call, _all(request, ErrorCode.NONE))])


def for_version(error: ErrorCode, version: int) -> ErrorCode:
    """The error as clients of this version know it: AddPartitionsToTxn and AddOffsetsToTxn."""
    is_new = error is ErrorCode.PRODUCER_FENCED and version < FIRST_VERSION_WITH_PRODUCER_FENCED
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_new else error


def _all(request: AddPartitionsToTxnRequest, error: ErrorCode) -> AddPartitionsToTxnResponse:
    """An answer with the same error for all partitions."""
    return AddPartitionsToTxnResponse(0, 0, (), [
        AddPartitionsToTxnTopicResult(
            topic.name, [AddPartitionsToTxnPartitionResult(partition, error) for partition in topic.partitions]
        )
        for topic in request.v3_and_below_topics
    ])  # fmt: skip


def _unavailable(
    state: TransactionsState, request: AddPartitionsToTxnRequest, call: Call, error: ErrorCode
) -> AddPartitionsToTxnResponse:
    return _all(request, error if request.v3_and_below_transactional_id else ErrorCode.INVALID_REQUEST)


def _failed(response: AddPartitionsToTxnResponse, version: int, error: ErrorCode) -> AddPartitionsToTxnResponse:
    for topic in response.results_by_topic_v3_and_below:
        for partition in topic.results_by_partition:
            partition.partition_error_code = error
    return response


ADD_PARTITIONS_TO_TXN = Api(add_partitions_to_txn, _unavailable, _failed)
