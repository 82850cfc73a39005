"""Regular work: abort transactions that take too long, forget transactional ids that nobody uses any more."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.coordinator.outcome import Outcome
from kohort.coordinator.transactions.ending import fence
from kohort.coordinator.transactions.headers import Cause
from kohort.coordinator.transactions.state import TransactionsState
from kohort.coordinator.transactions.transaction_state import COMPLETED, EMPTY, ONGOING

PIECE = 100  # transactions that are aborted between two requests
IDS_IN_STEP = 500  # that are looked at between two requests


def abort_late_transactions(state: TransactionsState) -> Iterator[Outcome]:
    """Abort open transactions that take longer than their producers had said, and fence these producers."""
    out = Outcome()
    for number, transaction in enumerate(list(state.open.values()), 1):
        if transaction.state is ONGOING and transaction.deadline < state.clock.now:
            fencing = fence(state, transaction, Cause.TIMEOUT)
            if fencing is not None:  # None: no producer id can be had now; the next round tries again
                out.records += fencing.records
                out.events += fencing.events
        if number % PIECE == 0:
            yield out
            out = Outcome()
    yield out


def expire_transactional_ids(state: TransactionsState) -> Iterator[Outcome]:
    """Tombstones for transactional ids whose last change is long ago, and that have no open transaction."""
    out = Outcome()
    for number, transaction in enumerate(list(state.transactions.values()), 1):
        is_known = state.transactions.get(transaction.transactional_id) is transaction
        is_idle = transaction.state is EMPTY or transaction.state in COMPLETED
        if is_known and is_idle and transaction.updated_ms + state.config.id_expiration_ms <= state.clock.wall:
            out.records.append(transaction.tombstone())
        if number % IDS_IN_STEP == 0:
            yield out
            out = Outcome()
    yield out
