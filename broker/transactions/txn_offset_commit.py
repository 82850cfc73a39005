"""TxnOffsetCommit (28): the transaction coordinator is asked first, then the group coordinator decides.

What the group coordinator decides, and what each version has, stands in coordinator/offsets/txn_offset_commit.py.
Clients of v5 begin or extend the transaction by this request; older ones have sent AddOffsetsToTxn before, and the
transaction coordinator only verifies that. If the transaction has offsets in this partition already, it need not be
asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.broker.steps import Pause, WaitingSteps
from kohort.broker.topics.catalog import CONSUMER_OFFSETS
from kohort.coordinator.offsets.txn_offset_commit import (
    TXN_OFFSET_COMMIT,
    VerifiedCommit,
    for_version,
    look_up,
    respond,
)
from kohort.coordinator.outcome import Parked
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call

FIRST_VERSION_WITH_ABORTABLE = 4
FIRST_VERSION_THAT_ADDS = 5


def txn_offset_commit(
    broker: Broker, request: TxnOffsetCommitRequest, call: Call
) -> WaitingSteps[TxnOffsetCommitResponse | Parked]:
    found = yield from look_up(broker.catalog, request)
    if not found.asked:
        return (yield from respond(found, 0))
    if not request.group_id:
        return (yield from respond(found, ErrorCode.INVALID_GROUP_ID))
    shard = broker.coordinator.runtime.shard_of(request.group_id)
    pending = shard.state.offsets.pending
    last_marker = pending.last_marker(request.producer_id)
    if not pending.is_open(request.producer_id, request.producer_epoch):
        error = yield from _verify_or_add(broker, request, shard.partition, call.version)
        if error:
            return (yield from respond(found, error))
    verified = VerifiedCommit(request, found, last_marker)
    if call.is_long:
        return (yield from broker.coordinator.submit_in_steps(request.group_id, TXN_OFFSET_COMMIT, verified, call))
    call.now, call.steady_ms = broker.clock.now_ms(), broker.clock.steady_ms()
    return broker.coordinator.submit(request.group_id, TXN_OFFSET_COMMIT, verified, call)


def _verify_or_add(
    broker: Broker, request: TxnOffsetCommitRequest, partition: int, version: int
) -> WaitingSteps[ErrorCode]:
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    answer: list[ErrorCode] = []
    waits = Pause()

    def done(error: ErrorCode) -> None:
        answer.append(error)
        waits.end()

    broker.transactions.verify_or_add(
        request.transactional_id, request.producer_id, request.producer_epoch, [(CONSUMER_OFFSETS, partition)],
        add=version >= FIRST_VERSION_THAT_ADDS, done=done,
    )  # fmt: skip
    if not answer:
        yield waits
    return _code_of(answer[0], version)


def _code_of(error: ErrorCode, version: int) -> ErrorCode:
    """The transaction coordinator's error, as clients of this version know it."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_VERSION_WITH_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return for_version(error, version)
