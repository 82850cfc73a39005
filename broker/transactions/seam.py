"""What others in the broker ask of the transaction coordinator: whether partitions are part of a transaction.

Produce and TxnOffsetCommit ask before they write. Newer clients add a partition by writing to it, older ones have added
it before; then the coordinator only verifies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kohort.protocol.error_codes import ErrorCode


class TransactionCoordinator(Protocol):
    def verify_or_add(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[tuple[str, int]],
        *,
        add: bool,
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Add the partitions to the producer's transaction, or verify that they are in it already. Adding begins a
        transaction if none is open.

        `done` is called on the event loop, maybe before this call returns, when the transaction with the partitions is
        durable. The code is the coordinator's own: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED,
        CONCURRENT_TRANSACTIONS (the transaction before is still being ended: ask again a little later),
        COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, and TRANSACTION_ABORTABLE if it only
        verifies and one of the partitions is not in the transaction. Callers translate it as their API says.
        """
        ...
