"""Bugs that are planted into transactions: see planted_bugs.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from kohort.broker.topics import fetch, producer_snapshots, txn_markers
from kohort.broker.topics.producer_state import Producers
from kohort.broker.transactions import host
from kohort.broker.transactions.marker_sender import MarkerSender
from kohort.coordinator import offset_store
from kohort.coordinator.offsets import txn_offset_commit
from kohort.coordinator.outcome import Outcome
from kohort.coordinator.pending_offsets import PendingOffsets
from kohort.coordinator.runtime import Runtime
from kohort.coordinator.transactions import add_partitions_to_txn, end_txn, ending, init_producer_id
from kohort.coordinator.transactions import transaction as changes
from kohort.coordinator.transactions.headers import Cause
from kohort.coordinator.transactions.transaction import OLD_CLIENTS, Transaction
from kohort.coordinator.transactions.transaction_shard import TransactionShard
from kohort.coordinator.transactions.transaction_state import (
    ALLOWED_FROM,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
)
from kohort.protocol.error_codes import ErrorCode
from kohort.storage.partition_log import PartitionLog
from kohort.storage.txn_index import AbortedLookup
from tests.simulation.planted_bugs import planted
from tests.simulation.replacing import replaced

# --- decisions and markers


@planted("transactions")
def a_marker_is_sent_before_the_decision_is_durable() -> AbstractContextManager[None]:
    whole = Runtime.apply

    def apply(runtime: Any, shard: Any, out: Outcome) -> None:
        runtime.events += out.events
        out.events = []
        whole(runtime, shard, out)

    return replaced((Runtime, "apply", apply))


@planted("transactions")
def markers_skip_a_partition() -> AbstractContextManager[None]:
    whole = MarkerSender.send

    def send(sender: Any, marker: Any, partitions: Any, is_stale: Any, all_written: Any) -> None:
        some = {topic: sorted(indexes)[:2] for topic, indexes in partitions.items()}
        whole(sender, marker, {topic: frozenset(indexes) for topic, indexes in some.items()}, is_stale, all_written)

    return replaced((MarkerSender, "send", send))


@planted("transactions")
def markers_are_not_sent_again_after_a_load() -> AbstractContextManager[None]:
    def on_loaded(shard: Any, out: Outcome) -> Iterator[None]:
        for transaction in shard.state.transactions.values():
            if transaction.state is ONGOING:
                ending.set_deadline(transaction, shard.state.clock.now)
        yield

    return replaced((TransactionShard, "on_loaded", on_loaded))


@planted("transactions")
def a_transaction_ends_before_its_markers_are_written() -> AbstractContextManager[None]:
    whole = MarkerSender.send

    def send(sender: Any, marker: Any, partitions: Any, is_stale: Any, all_written: Any) -> None:
        whole(sender, marker, partitions, is_stale, lambda: None)
        all_written()

    return replaced((MarkerSender, "send", send))


@planted("transactions")
def markers_count_before_they_are_durable() -> AbstractContextManager[None]:
    def synced(done: Any, problem: Any) -> None:
        """Too late: it was said before."""

    whole = txn_markers._write

    def write(broker: Any, partition: Any, marker: Any, done: Any) -> None:
        written: list[ErrorCode] = []
        whole(broker, partition, marker, written.append)
        done(written[0] if written else ErrorCode.NONE)

    return replaced((txn_markers, "_write", write), (txn_markers, "_synced", synced))


@planted("transactions")
def a_timeout_aborts_a_decided_commit() -> AbstractContextManager[None]:
    def abort_late(state: Any) -> Iterator[Outcome]:
        for transaction in list(state.transactions.values()):
            is_late = transaction.deadline < state.clock.now
            if is_late and transaction.state in (ONGOING, PREPARE_COMMIT):
                decision = ending.fence(state, transaction, Cause.TIMEOUT)
                if decision is not None:
                    yield decision

    allowed = {**ALLOWED_FROM, PREPARE_ABORT: ALLOWED_FROM[PREPARE_ABORT] | {PREPARE_COMMIT}}
    return replaced((host, "abort_late_transactions", abort_late), (changes, "ALLOWED_FROM", allowed))


@planted("transactions")
def nobody_aborts_late_transactions() -> AbstractContextManager[None]:
    return replaced((host, "abort_late_transactions", lambda state: iter(())))


# --- fencing


@planted("transactions")
def the_epoch_stays_when_a_transaction_ends() -> AbstractContextManager[None]:
    whole = ending.decide

    def decide(state: Any, transaction: Any, **rest: Any) -> Any:
        return whole(state, transaction, **{**rest, "client_version": OLD_CLIENTS})

    return replaced((end_txn, "decide", decide))


@planted("transactions")
def a_fenced_producer_may_add_partitions() -> AbstractContextManager[None]:
    whole = add_partitions_to_txn.find

    def find(state: Any, transactional_id: str, producer_id: int, epoch: int) -> Any:
        known = state.transactions.get(transactional_id)
        newer = known is not None and known.producer_id == producer_id and epoch < known.epoch
        return whole(state, transactional_id, producer_id, known.epoch if newer else epoch)

    return replaced((add_partitions_to_txn, "find", find))


@planted("transactions")
def a_producer_begins_while_its_transaction_is_open() -> AbstractContextManager[None]:
    def fence(state: Any, transaction: Transaction, cause: Any) -> Outcome:
        """The answer tells the producer to come again. It is heard as if that had been done."""
        out = ending.fence(state, transaction, cause)
        assert out is not None
        out.records.clear()
        out.events.clear()
        transaction.state = EMPTY
        return out

    return replaced((init_producer_id, "fence", fence))


@planted("transactions")
def a_partition_takes_fenced_producers() -> AbstractContextManager[None]:
    whole = Producers.check

    def check(producers: Any, header: Any, verification: Any = None) -> Any:
        known = whole(producers, header, verification)
        is_fenced = getattr(known, "code", None) in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE)
        return None if is_fenced else known

    return replaced((Producers, "check", check))


# --- partitions


@planted("transactions")
def the_stable_offset_is_too_high() -> AbstractContextManager[None]:
    def last_stable_offset(broker: Any, partition: Any) -> int:
        return int(partition.log.log_end_offset)

    return replaced((fetch, "last_stable_offset", last_stable_offset))


@planted("transactions")
def snapshots_forget_open_transactions() -> AbstractContextManager[None]:
    whole = Producers.restore

    def restore(producers: Any, producer_id: int, producer: Any, transaction_start: int) -> None:
        whole(producers, producer_id, producer, -1)

    return replaced((Producers, "restore", restore))


@planted("transactions")
def an_aborted_transaction_is_not_noted() -> AbstractContextManager[None]:
    return replaced((PartitionLog, "find_aborted", lambda *rest: AbortedLookup([], 0, 0)))


@planted("transactions")
def replayed_markers_end_nothing() -> AbstractContextManager[None]:
    return replaced((producer_snapshots, "parse_marker", lambda key, value: None))


@planted("transactions")
def a_partition_is_written_to_before_it_is_added() -> AbstractContextManager[None]:
    whole = host.TransactionHost.verify_or_add

    def verify_or_add(self: Any, *asked: Any, add: bool, done: Any) -> None:
        answers: list[ErrorCode] = []
        whole(self, *asked, add=add, done=answers.append)
        done(answers[0] if answers else ErrorCode.NONE)

    return replaced((host.TransactionHost, "verify_or_add", verify_or_add))


# --- offsets


@planted("transactions")
def pending_offsets_are_lost_by_a_load() -> AbstractContextManager[None]:
    whole = offset_store.OffsetStore.replay

    def replay(store: Any, key: Any, value: Any, log_offset: int, producer_id: int = -1) -> None:
        if producer_id < 0:
            whole(store, key, value, log_offset, producer_id)

    return replaced((offset_store.OffsetStore, "replay", replay))


@planted("transactions")
def aborted_offsets_are_committed() -> AbstractContextManager[None]:
    whole = offset_store.OffsetStore.end_transaction

    def end(store: Any, marker: Any, log_offset: int, now: int) -> Any:
        return whole(store, marker._replace(commit=True), log_offset, now)

    return replaced((offset_store.OffsetStore, "end_transaction", end))


@planted("transactions")
def offsets_are_taken_after_their_marker() -> AbstractContextManager[None]:
    """The coordinator has said yes, then the transaction was ended, then the offsets are appended."""
    whole = txn_offset_commit.VerifiedCommit

    def commit(request: Any, found: Any, last_marker: int) -> Any:
        made = whole(request, found, last_marker)
        made.last_marker = AnyMarker()
        return made

    from kohort.broker.transactions import txn_offset_commit as asking

    return replaced((asking, "VerifiedCommit", commit), (PendingOffsets, "check_epoch", lambda *rest: None))


class AnyMarker(int):
    def __ne__(self, other: object) -> bool:
        return False
