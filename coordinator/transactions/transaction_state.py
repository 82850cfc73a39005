"""The states of a transactional id, and from where each may be entered.

Kafka has two more, which are never in its log: Dead, and PrepareEpochFence, which is a part of PrepareAbort here.
"""

from __future__ import annotations

from enum import Enum


class TransactionState(Enum):
    EMPTY = "Empty"  # the producer has its id and epoch; it has not begun anything
    ONGOING = "Ongoing"  # partitions were added
    PREPARE_COMMIT = "PrepareCommit"  # decided; markers are being written
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"  # all markers are written; the next transaction may begin
    COMPLETE_ABORT = "CompleteAbort"


EMPTY = TransactionState.EMPTY
ONGOING = TransactionState.ONGOING
PREPARE_COMMIT = TransactionState.PREPARE_COMMIT
PREPARE_ABORT = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT = TransactionState.COMPLETE_ABORT

STATE_OF_ID = tuple(TransactionState)  # as the records number them
ID_OF_STATE = {state: number for number, state in enumerate(STATE_OF_ID)}

PREPARED = frozenset((PREPARE_COMMIT, PREPARE_ABORT))
COMPLETED = frozenset((COMPLETE_COMMIT, COMPLETE_ABORT))

ALLOWED_FROM: dict[TransactionState, frozenset[TransactionState]] = {
    EMPTY: frozenset((EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)),  # InitProducerId
    ONGOING: frozenset((ONGOING, EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)),  # partitions are added
    PREPARE_COMMIT: frozenset((ONGOING,)),
    # Clients of transaction version 2 may abort when they do not know whether a transaction has begun.
    PREPARE_ABORT: frozenset((ONGOING, EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)),
    COMPLETE_COMMIT: frozenset((PREPARE_COMMIT,)),
    COMPLETE_ABORT: frozenset((PREPARE_ABORT,)),
}
