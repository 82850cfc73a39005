"""What is known of one transactional id, and the record of each change.

Each record has the complete state of the id. `replay` is the only writer of what the log says. A few attributes are
not in the log; they start anew when the log is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable

from kohort.coordinator.outcome import Headers, Record
from kohort.coordinator.shard_clock import NEVER
from kohort.coordinator.transactions.headers import CAUSE_HEADERS, Cause
from kohort.coordinator.transactions.transaction_state import (
    ALLOWED_FROM,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ID_OF_STATE,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    STATE_OF_ID,
    TransactionState,
)
from kohort.protocol.messages.log_transaction_log import TransactionLogKey, TransactionLogValue, TransactionPartitions
from kohort.protocol.transaction_records import TRANSACTION_LOG

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_TIME = -1
LAST_EPOCH = 32_766  # the highest that a producer gets; its last marker may have 32,767, and then it gets another id
NO_TIMEOUT_MS = 2**31 - 1  # of transactions that take part in a two-phase commit
OLD_CLIENTS, NEW_CLIENTS = 0, 2  # transaction versions, as records and markers name them

Partitions = dict[str, set[int]]


class Transaction:
    __slots__ = (
        "cause", "client_version", "deadline", "epoch", "last_epoch", "next_producer_id", "partitions",
        "previous_producer_id", "producer_id", "started_ms", "state", "timeout_ms", "transactional_id", "updated_ms",
    )  # fmt: skip

    def __init__(self, transactional_id: str, producer_id: int = NO_PRODUCER_ID) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.previous_producer_id = NO_PRODUCER_ID  # the producer id before the last record; nearly always the same one
        self.next_producer_id = (
            NO_PRODUCER_ID  # the id from the end of this transaction on, if the epochs of this one are used up
        )
        self.epoch = NO_EPOCH
        self.timeout_ms = 0
        self.state = EMPTY
        self.partitions: Partitions = {}
        self.updated_ms = NO_TIME
        self.started_ms = NO_TIME
        self.client_version = OLD_CLIENTS  # the transaction version of the client that made the last change
        # Not in the log:
        self.last_epoch = (
            NO_EPOCH  # the epoch before: a producer that still has it did not get the answer with the new one (KIP-360)
        )
        self.deadline = NEVER  # of the open transaction, in shard time
        self.cause = Cause.RESUMED  # why it was decided

    # --- replay

    def replay(self, value: TransactionLogValue) -> None:
        self.producer_id = value.producer_id
        self.previous_producer_id = value.previous_producer_id
        self.next_producer_id = value.next_producer_id
        self.epoch = value.producer_epoch
        self.timeout_ms = value.transaction_timeout_ms
        self.state = STATE_OF_ID[value.transaction_status]
        self.partitions = {each.topic: set(each.partition_ids) for each in value.transaction_partitions or ()}
        self.updated_ms = value.transaction_last_update_timestamp_ms
        self.started_ms = value.transaction_start_timestamp_ms
        self.client_version = value.client_transaction_version

    # --- questions

    @property
    def is_out_of_epochs(self) -> bool:
        return self.epoch >= LAST_EPOCH

    def has(self, partitions: Iterable[tuple[str, int]]) -> bool:
        known = self.partitions
        return all(topic in known and partition in known[topic] for topic, partition in partitions)

    # --- changes

    def initialized(self, producer_id: int, epoch: int, timeout_ms: int, now: int, headers: Headers = ()) -> Record:
        """The producer begins anew: with a higher epoch, or with another id."""
        value = TransactionLogValue(
            producer_id, self.producer_id, NO_PRODUCER_ID, epoch, timeout_ms, ID_OF_STATE[EMPTY], None,
            now, NO_TIME, self.client_version,
        )  # fmt: skip
        return self._record(EMPTY, value, headers)

    def with_partitions(self, added: Iterable[tuple[str, int]], client_version: int, now: int) -> Record:
        """Partitions are added. This begins a transaction, unless one is open."""
        started_ms = self.started_ms if self.state is ONGOING else now
        partitions = {topic: set(ids) for topic, ids in self.partitions.items()}
        for topic, partition in added:
            partitions.setdefault(topic, set()).add(partition)
        value = TransactionLogValue(
            self.producer_id, self.producer_id, NO_PRODUCER_ID, self.epoch, self.timeout_ms,
            ID_OF_STATE[ONGOING], _rows(partitions), now, started_ms, client_version,
        )  # fmt: skip
        return self._record(ONGOING, value)

    def decided(
        self, *, commit: bool, client_version: int, epoch: int, next_producer_id: int, now: int, cause: Cause,
        audit_headers: bool,
    ) -> Record:  # fmt: skip
        """The transaction will be committed or aborted. An abort may come before any partition was added."""
        target = PREPARE_COMMIT if commit else PREPARE_ABORT
        started_ms = self.started_ms if self.state is ONGOING else now
        value = TransactionLogValue(
            self.producer_id, self.producer_id, next_producer_id, epoch, self.timeout_ms,
            ID_OF_STATE[target], _rows(self.partitions), now, started_ms, client_version,
        )  # fmt: skip
        return self._record(target, value, CAUSE_HEADERS[cause] if audit_headers else ())

    def completed(self, now: int) -> Record:
        """All markers are written. A producer that has used up its epochs goes on with its next id."""
        target = COMPLETE_COMMIT if self.state is PREPARE_COMMIT else COMPLETE_ABORT
        producer_id, epoch = self.producer_id, self.epoch
        if self.next_producer_id != NO_PRODUCER_ID and self.client_version >= NEW_CLIENTS:
            producer_id, epoch = self.next_producer_id, 0
        value = TransactionLogValue(
            producer_id, self.producer_id, NO_PRODUCER_ID, epoch, self.timeout_ms, ID_OF_STATE[target], (),
            now, self.started_ms, self.client_version,
        )  # fmt: skip
        return self._record(target, value)

    def tombstone(self) -> Record:
        """Nobody has used the transactional id for long."""
        return Record(TRANSACTION_LOG, TransactionLogKey(self.transactional_id), None)

    def _record(self, target: TransactionState, value: TransactionLogValue, headers: Headers = ()) -> Record:
        assert self.state in ALLOWED_FROM[target], (self.transactional_id, self.state, target)
        return Record(TRANSACTION_LOG, TransactionLogKey(self.transactional_id), value, headers)


def _rows(partitions: Partitions) -> list[TransactionPartitions]:
    return [TransactionPartitions(topic, sorted(ids)) for topic, ids in partitions.items()]
