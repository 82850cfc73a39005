"""From the decision to the end of a transaction, and how a producer is fenced.

The decision is a record. When that is durable, the host is told to write the markers (SendMarkers), and sends the
request `Written` when all of them are durable. This writes the record of the end, and the next transaction may begin.
"""

from __future__ import annotations

from typing import NamedTuple

from kohort.coordinator.api import Answer, Api
from kohort.coordinator.events import SendMarkers, TransactionEnded
from kohort.coordinator.outcome import Call, Outcome
from kohort.coordinator.shard_clock import NEVER
from kohort.coordinator.transactions.headers import Cause
from kohort.coordinator.transactions.state import TransactionsState
from kohort.coordinator.transactions.transaction import (
    NEW_CLIENTS,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    Transaction,
)
from kohort.coordinator.transactions.transaction_state import PREPARE_COMMIT, PREPARED
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.wire import Message


class Decision(NamedTuple):
    out: Outcome
    producer_id: int  # of the producer's next transaction
    epoch: int


def decide(
    state: TransactionsState, transaction: Transaction, *, commit: bool, client_version: int, cause: Cause
) -> Decision | None:
    """Commit or abort. New clients get a higher epoch by that, or another id if there is no higher epoch.

    None: the producer needs another id, and none can be had at the moment. Nothing has changed.
    """
    epoch, next_producer_id = transaction.epoch, NO_PRODUCER_ID
    if client_version >= NEW_CLIENTS:
        if transaction.is_out_of_epochs:
            taken = state.around.take_producer_id()
            if taken is None:
                return None
            next_producer_id = taken
        epoch += 1
        transaction.last_epoch = transaction.epoch
    transaction.cause = cause
    record = transaction.decided(
        commit=commit, client_version=client_version, epoch=epoch, next_producer_id=next_producer_id,
        now=state.clock.wall, cause=cause, audit_headers=state.config.audit_headers,
    )  # fmt: skip
    out = Outcome([record])
    out.events.append(SendMarkers(
        transaction.transactional_id, transaction.producer_id, epoch, commit, client_version,
        transaction.partitions, transaction,
    ))  # fmt: skip
    if next_producer_id != NO_PRODUCER_ID:
        return Decision(out, next_producer_id, 0)
    return Decision(out, transaction.producer_id, epoch)


def fence(state: TransactionsState, transaction: Transaction, cause: Cause) -> Outcome | None:
    """Abort an open transaction so that its producer cannot go on with it: the epoch rises, also for old clients."""
    decision = decide(state, transaction, commit=False, client_version=NEW_CLIENTS, cause=cause)
    return None if decision is None else decision.out


def markers_of(transaction: Transaction) -> SendMarkers:
    """The markers of a transaction that was decided before the log was loaded."""
    return SendMarkers(
        transaction.transactional_id, transaction.producer_id, transaction.epoch,
        transaction.state is PREPARE_COMMIT, transaction.client_version, transaction.partitions, transaction,
    )  # fmt: skip


def set_deadline(transaction: Transaction, now: int, age_ms: int = 0) -> None:
    """From when on the open transaction takes too long, in shard time.

    Its age is negative if the wall clock was set back since it began. Then its time begins now.
    """
    never = transaction.timeout_ms == NO_TIMEOUT_MS
    transaction.deadline = NEVER if never else now + transaction.timeout_ms - max(0, age_ms)


# --- all markers are written


class Written(Message):
    """All markers of a transaction are durable."""

    __slots__ = ("transaction", "transactional_id")

    def __init__(self, transactional_id: str, transaction: object) -> None:
        self.transactional_id = transactional_id
        self.transaction = transaction  # as SendMarkers named it


class Completed(Message):
    __slots__ = ("error",)

    def __init__(self, error: ErrorCode = ErrorCode.NONE) -> None:
        self.error = error


COMPLETED = Completed()


def complete(state: TransactionsState, request: Written, call: Call) -> Answer[Completed]:
    """End the transaction. If the log was loaded anew meanwhile, nothing is done: the markers are sent again."""
    transaction = state.transactions.get(request.transactional_id)
    if transaction is None or transaction is not request.transaction or transaction.state not in PREPARED:
        return COMPLETED
    commit, now = transaction.state is PREPARE_COMMIT, state.clock.wall
    out = Outcome([transaction.completed(now)], [(call, COMPLETED)])
    out.events.append(TransactionEnded(
        transaction.transactional_id, transaction.producer_id, transaction.epoch, "commit" if commit else "abort",
        transaction.cause.value, sum(map(len, transaction.partitions.values())),
        max(0, now - transaction.started_ms),
    ))  # fmt: skip
    return out


COMPLETE: Api[TransactionsState, Written, Completed] = Api(
    complete,
    unavailable=lambda state, request, call, error: Completed(error),
    failed=lambda response, version, error: Completed(error),
)
