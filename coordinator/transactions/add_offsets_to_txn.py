"""AddOffsetsToTxn (25), v0-4: a producer is going to commit offsets of a group within its transaction.

The partition of __consumer_offsets that has the group becomes part of the transaction. v2 answers PRODUCER_FENCED,
which is INVALID_PRODUCER_EPOCH to older clients; v3 is flexible; v4 may answer TRANSACTION_ABORTABLE (KIP-890). Newer
clients do not ask: TxnOffsetCommit adds the partition.
"""

from __future__ import annotations

from kohort.coordinator.api import Answer, Api
from kohort.coordinator.outcome import Call, Outcome
from kohort.coordinator.transactions.add_partitions_to_txn import add, for_version
from kohort.coordinator.transactions.state import TransactionsState
from kohort.coordinator.transactions.transaction import OLD_CLIENTS
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.log_records import CONSUMER_OFFSETS
from kohort.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


def add_offsets_to_txn(
    state: TransactionsState, request: AddOffsetsToTxnRequest, call: Call
) -> Answer[AddOffsetsToTxnResponse]:
    partition = CONSUMER_OFFSETS.topic, state.around.offsets_partition(request.group_id)
    result = add(
        state, request.transactional_id, request.producer_id, request.producer_epoch, [partition], OLD_CLIENTS
    )  # fmt: skip
    if isinstance(result, ErrorCode):
        return AddOffsetsToTxnResponse(0, for_version(result, call.version))
    return Outcome([result], [(call, AddOffsetsToTxnResponse(0, 0))])


def _unavailable(
    state: TransactionsState, request: AddOffsetsToTxnRequest, call: Call, error: ErrorCode
) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(0, error if request.transactional_id else ErrorCode.INVALID_REQUEST)


def _failed(response: AddOffsetsToTxnResponse, version: int, error: ErrorCode) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(0, error)


ADD_OFFSETS_TO_TXN = Api(add_offsets_to_txn, _unavailable, _failed)
