"""EndTxn (26), v0-5: commit or abort the transaction of a producer.

v2 answers PRODUCER_FENCED, which is INVALID_PRODUCER_EPOCH to older clients; v3 is flexible; v4 may answer
TRANSACTION_ABORTABLE; v5 gives the producer a new epoch for its next transaction, or a new id if there is no higher
epoch (KIP-890).

The answer leaves when the decision is durable. The markers are written after that.
"""

from __future__ import annotations

from kohort.coordinator.api import Answer, Api
from kohort.coordinator.outcome import Call
from kohort.coordinator.transactions.ending import decide
from kohort.coordinator.transactions.headers import Cause
from kohort.coordinator.transactions.state import TransactionsState
from kohort.coordinator.transactions.transaction import (
    LAST_EPOCH,
    NEW_CLIENTS,
    NO_EPOCH,
    NO_PRODUCER_ID,
    OLD_CLIENTS,
    Transaction,
)
from kohort.coordinator.transactions.transaction_state import (
    COMPLETE_COMMIT,
    COMPLETED,
    EMPTY,
    ONGOING,
    PREPARED,
)
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

FIRST_VERSION_WITH_PRODUCER_FENCED = 2
FIRST_VERSION_WITH_NEW_EPOCHS = 5


def end_txn(state: TransactionsState, request: EndTxnRequest, call: Call) -> Answer[EndTxnResponse]:
    if not request.transactional_id:
        return _refused(ErrorCode.INVALID_REQUEST)
    transaction = state.transactions.get(request.transactional_id)
    if transaction is None:
        return _refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if call.version >= FIRST_VERSION_WITH_NEW_EPOCHS:
        return _end_with_new_epoch(state, transaction, request, call)
    return _end(state, transaction, request, call)


def _end(
    state: TransactionsState, transaction: Transaction, request: EndTxnRequest, call: Call
) -> Answer[EndTxnResponse]:
    if request.producer_id != transaction.producer_id:
        return _refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if request.producer_epoch != transaction.epoch:
        is_known = call.version >= FIRST_VERSION_WITH_PRODUCER_FENCED
        return _refused(ErrorCode.PRODUCER_FENCED if is_known else ErrorCode.INVALID_PRODUCER_EPOCH)
    if transaction.state in PREPARED:
        return _refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.state is ONGOING:
        return _decide(state, transaction, request, call, OLD_CLIENTS)
    if transaction.state in COMPLETED and request.committed == (transaction.state is COMPLETE_COMMIT):
        return EndTxnResponse()  # the client asks again, because it did not get the answer
    return _refused(ErrorCode.INVALID_TXN_STATE)


def _end_with_new_epoch(
    state: TransactionsState, transaction: Transaction, request: EndTxnRequest, call: Call
) -> Answer[EndTxnResponse]:
    if transaction.state in PREPARED:
        return _refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    has_new_id = (
        request.producer_id == transaction.previous_producer_id
        and request.producer_epoch == LAST_EPOCH
        and transaction.epoch == 0
    )
    if request.producer_id != transaction.producer_id and not has_new_id:
        return _refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if request.producer_epoch + 1 == transaction.epoch or has_new_id:
        return _ask_again(transaction, request)
    if request.producer_epoch != transaction.epoch:
        return _refused(ErrorCode.PRODUCER_FENCED)
    if request.committed and transaction.state is not ONGOING:
        return _refused(ErrorCode.INVALID_TXN_STATE)
    return _decide(state, transaction, request, call, NEW_CLIENTS)


def _ask_again(transaction: Transaction, request: EndTxnRequest) -> EndTxnResponse:
    """The epoch is the one before: the client did not get the answer, or something else has happened since.

    If a client of another version has ended the transaction, the epoch did not rise by that: it is the epoch of a newer
    producer, which an older one must not get. Kafka 4.3.1 gives it away.
    """
    if transaction.state in (ONGOING, EMPTY) or transaction.client_version < NEW_CLIENTS:
        return _refused(ErrorCode.PRODUCER_FENCED)
    if request.committed != (transaction.state is COMPLETE_COMMIT):
        return _refused(ErrorCode.INVALID_TXN_STATE)
    return EndTxnResponse(0, 0, transaction.producer_id, transaction.epoch)


def _decide(
    state: TransactionsState, transaction: Transaction, request: EndTxnRequest, call: Call, client_version: int
) -> Answer[EndTxnResponse]:
    decision = decide(state, transaction, commit=request.committed, client_version=client_version, cause=Cause.CLIENT)
    if decision is None:
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    # Versions before 5 do not tell the epoch.
    decision.out.reply(call, EndTxnResponse(0, 0, decision.producer_id, decision.epoch))
    return decision.out


def _refused(error: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(0, error, NO_PRODUCER_ID, NO_EPOCH)


def _unavailable(state: TransactionsState, request: EndTxnRequest, call: Call, error: ErrorCode) -> EndTxnResponse:
    return _refused(error if request.transactional_id else ErrorCode.INVALID_REQUEST)


def _failed(response: EndTxnResponse, version: int, error: ErrorCode) -> EndTxnResponse:
    return _refused(error)


END_TXN = Api(end_txn, _unavailable, _failed)
