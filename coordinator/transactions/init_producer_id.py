"""InitProducerId (22), v0-5, for a transactional id: its producer id and the next epoch.

v2 is flexible; v3 lets a producer go on with the id and epoch that it has, after an error (KIP-360); v4 may answer
PRODUCER_FENCED, which is INVALID_PRODUCER_EPOCH to older clients; v5 may answer TRANSACTION_ABORTABLE (KIP-890).

Whoever calls this takes the transactional id over: producers that have an older epoch are fenced. An open transaction
is aborted first, and the caller has to come again. A producer that names its last epoch but one did not hear of the new
one, and gets the same answer once more. When the epochs of a producer id are used up, a new producer id is given.
"""

from __future__ import annotations

from kohort.coordinator.api import Answer, Api
from kohort.coordinator.outcome import Call, Headers, Outcome
from kohort.coordinator.transactions.ending import fence
from kohort.coordinator.transactions.headers import Cause, client_headers
from kohort.coordinator.transactions.state import TransactionsState
from kohort.coordinator.transactions.transaction import LAST_EPOCH, NO_EPOCH, NO_PRODUCER_ID, Transaction
from kohort.coordinator.transactions.transaction_state import ONGOING, PREPARED
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

FIRST_VERSION_WITH_PRODUCER_FENCED = 4


def init_producer_id(
    state: TransactionsState, request: InitProducerIdRequest, call: Call
) -> Answer[InitProducerIdResponse]:
    if error := _check(state, request):
        return _refused(error)
    assert request.transactional_id is not None
    transaction = state.transactions.get(request.transactional_id)
    if transaction is None:
        producer_id = state.around.take_producer_id()
        if producer_id is None:
            return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        transaction = Transaction(request.transactional_id, producer_id)
    if transaction.state in PREPARED:
        return _refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if not _may_claim(transaction, request):
        return _fenced(call)
    if transaction.state is ONGOING:
        out = fence(state, transaction, Cause.FENCED)
        if out is None:
            return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        out.reply(call, _refused(ErrorCode.CONCURRENT_TRANSACTIONS))
        return out
    return _begin(state, transaction, request, call)


def _check(state: TransactionsState, request: InitProducerIdRequest) -> ErrorCode:
    """Errors of the request itself, which do not depend on the state of the transactional id."""
    if not request.transactional_id or (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if not 0 < request.transaction_timeout_ms <= state.config.max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def _may_claim(transaction: Transaction, request: InitProducerIdRequest) -> bool:
    """Whether the id that the producer has, if it has one, is the one that belongs to its transactional id.

    It may also be the one before, if its epochs were used up: the producer did not hear of its new id.
    """
    return (
        request.producer_id in (NO_PRODUCER_ID, transaction.producer_id)
        or transaction.epoch == NO_EPOCH
        or (request.producer_id == transaction.previous_producer_id and request.producer_epoch >= LAST_EPOCH)
    )


def _begin(
    state: TransactionsState, transaction: Transaction, request: InitProducerIdRequest, call: Call
) -> Answer[InitProducerIdResponse]:
    given, stored = request.producer_epoch, transaction.epoch
    producer_id, epoch = transaction.producer_id, stored + 1
    if given in (NO_EPOCH, stored):
        if transaction.is_out_of_epochs:
            taken = state.around.take_producer_id()
            if taken is None:
                return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            producer_id, epoch = taken, 0
    elif given == transaction.last_epoch:  # the producer did not get the answer
        epoch = stored
    elif stored != NO_EPOCH:
        return _fenced(call)
    transaction.last_epoch = given
    headers: Headers = client_headers(call.client_id) if state.config.audit_headers else ()
    now, timeout_ms = state.clock.wall, request.transaction_timeout_ms
    record = transaction.initialized(producer_id, epoch, timeout_ms, now, headers)
    return Outcome([record], [(call, InitProducerIdResponse(0, 0, producer_id, epoch))])


def _fenced(call: Call) -> InitProducerIdResponse:
    is_known = call.version >= FIRST_VERSION_WITH_PRODUCER_FENCED
    return _refused(ErrorCode.PRODUCER_FENCED if is_known else ErrorCode.INVALID_PRODUCER_EPOCH)


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(0, error, NO_PRODUCER_ID, NO_EPOCH)


def _unavailable(
    state: TransactionsState, request: InitProducerIdRequest, call: Call, error: ErrorCode
) -> InitProducerIdResponse:
    return _refused(_check(state, request) or error)


def _failed(response: InitProducerIdResponse, version: int, error: ErrorCode) -> InitProducerIdResponse:
    return _refused(error)


INIT_PRODUCER_ID = Api(init_producer_id, _unavailable, _failed)
