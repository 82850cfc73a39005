"""The transaction coordinator inside the broker: its log, its settings, its regular work, its markers and its news."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kohort.broker.clock import CLOCK, Clock
from kohort.broker.own_call import OwnCall
from kohort.broker.shard_host import ShardHost
from kohort.broker.shard_log import LocalShardLog, ShardLog
from kohort.broker.topics.catalog import CONSUMER_OFFSETS, LEADER_EPOCH, TRANSACTION_STATE
from kohort.broker.topics.producer_ids import take_producer_id
from kohort.broker.transactions.marker_sender import MarkerSender
from kohort.broker.transactions.news import TransactionNews
from kohort.coordinator.events import Event, SendMarkers, TransactionEnded
from kohort.coordinator.outcome import InPieces, Outcome, Parked
from kohort.coordinator.partitioner import partition_of
from kohort.coordinator.runtime import Runtime
from kohort.coordinator.shard import Shard, Status
from kohort.coordinator.transactions.add_partitions_to_txn import ADD_OR_VERIFY, Added, AddOrVerify
from kohort.coordinator.transactions.ending import COMPLETE, Written
from kohort.coordinator.transactions.state import TransactionConfig, TransactionsState
from kohort.coordinator.transactions.transaction import NEW_CLIENTS
from kohort.coordinator.transactions.transaction_shard import TransactionShard
from kohort.coordinator.transactions.upkeep import abort_late_transactions, expire_transactional_ids
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.txn_marker import TxnMarker
from kohort.storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kohort.broker.broker import Broker


class TransactionHost(ShardHost[TransactionsState]):
    """The `TransactionCoordinator` of seam.py."""

    def __init__(self, broker: Broker, clock: Clock = CLOCK, log: ShardLog | None = None) -> None:
        config = broker.config
        if log is None:
            sync = config.kohort_offsets_sync_before_reply
            log = TransactionLog(broker, clock, TRANSACTION_STATE, sync_before_reply=sync)
        settings = TransactionConfig(
            max_timeout_ms=config.transaction_max_timeout_ms,
            id_expiration_ms=config.transactional_id_expiration_ms,
            audit_headers=config.kohort_audit_headers,
            max_record_bytes=log.max_batch_bytes,
        )
        around = Around(broker)

        def new_shard(partition: int) -> TransactionShard:
            return TransactionShard(TransactionsState(partition, settings, around))

        super().__init__(broker, clock, log, Runtime(new_shard, log.partition_count, log.max_batch_bytes))
        self._markers = MarkerSender(broker)
        self.news = TransactionNews()

    def start(self) -> None:
        super().start()
        self._abort_late_later()
        self._expire_later()

    def topic_created(self) -> None:
        """Nothing was coordinated before the topic was there."""
        self._begin_anew()
        self._after()

    # --- asked by Produce and TxnOffsetCommit: see seam.py

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
        asked = AddOrVerify(
            transactional_id, producer_id, producer_epoch, partitions, is_added=add, client_version=NEW_CLIENTS
        )
        self.ask(asked, lambda added: done(added.error))

    def ask(self, asked: AddOrVerify, answered: Callable[[Added], object]) -> None:
        """As `verify_or_add`, with an answer for each partition."""
        answer = self.submit(asked.transactional_id, ADD_OR_VERIFY, asked, OwnCall(self._clock, answered))
        if not isinstance(answer, Parked):
            answered(answer)

    # --- markers

    def tell(self, event: Event) -> None:
        if isinstance(event, SendMarkers):
            self._send_markers(event)
        else:
            assert isinstance(event, TransactionEnded), event
            self.news.tell(event)

    def _send_markers(self, event: SendMarkers) -> None:
        """Write the markers of a transaction that is decided, and say when all of them are durable."""
        shard = self.runtime.shard_of_rare(event.transactional_id)
        marker = TxnMarker(
            event.producer_id, event.producer_epoch, event.commit, self._epoch(shard.partition),
            event.transaction_version,
        )  # fmt: skip
        self._markers.send(marker, event.partitions, lambda: self._is_stale(shard), partial(self._all_written, event))

    def _is_stale(self, shard: Shard[TransactionsState]) -> bool:
        """Whether others will send these markers: the log is loaded anew, now or at the next start of the broker."""
        return shard.is_abandoned or self.is_stopped

    def _epoch(self, partition: int) -> int:
        """The coordinator's epoch, for markers: higher than 0 if a Kafka with several leaders has written the log."""
        place = self._broker.catalog.partition(TRANSACTION_STATE, partition)
        try:
            return LEADER_EPOCH if place is None else max(LEADER_EPOCH, place.log.leader_epochs.latest)
        except (StorageError, OSError):
            return LEADER_EPOCH  # the log cannot be read: the marker is tried again later, or is refused for this epoch

    def _all_written(self, event: SendMarkers) -> None:
        written = Written(event.transactional_id, event.transaction)
        self.submit(event.transactional_id, COMPLETE, written, OwnCall(self._clock, _ignore))

    # --- regular work

    def _abort_late_later(self) -> None:
        delay_s = self._broker.config.transaction_abort_timed_out_transaction_cleanup_interval_ms / 1000
        self._broker.call_later_by_clock(delay_s, self._abort_late)

    def _abort_late(self) -> None:
        self._abort_late_later()
        self._begin(abort_late_transactions, lambda state: bool(state.open))

    def _expire_later(self) -> None:
        delay_s = self._broker.config.transaction_remove_expired_transaction_cleanup_interval_ms / 1000
        self._broker.call_later_by_clock(delay_s, self._expire_ids)

    def _expire_ids(self) -> None:
        self._expire_later()
        self._begin(expire_transactional_ids, lambda state: bool(state.transactions))

    def _begin(
        self, work: Callable[[TransactionsState], Iterator[Outcome]], is_due: Callable[[TransactionsState], bool]
    ) -> None:
        for shard in self.runtime.shards:
            if shard.status is Status.ACTIVE and is_due(shard.state) and not shard.jobs:
                self.runtime.begin_later(shard, InPieces(work(shard.state)))
        self._after()


class TransactionLog(LocalShardLog):
    """Nobody coordinates transactions before __transaction_state exists: the first FindCoordinator creates it."""

    def owner(self, partition: int) -> int | None:
        return None if self._broker.catalog.get(self.topic) is None else super().owner(partition)


class Around:
    """The `Surroundings` of coordinator/transactions/state.py."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def take_producer_id(self) -> int | None:
        return take_producer_id(self._broker, self._broker.clock.now_ms())

    def offsets_partition(self, group_id: str) -> int:
        return partition_of(group_id, self._broker.catalog.internal_partition_count(CONSUMER_OFFSETS))


def _ignore(response: object) -> None:
    """If the end could not be written, the shard is loaded again, and has the markers sent again."""
