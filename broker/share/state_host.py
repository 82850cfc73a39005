"""The share coordinator inside the broker: its log, its settings, its regular work. It is also the `Persister`.

The leader of a partition is in this process, so it asks the share coordinator directly. What it wants written is
durable before it is told so, as are commits of groups.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kohort.broker.clock import CLOCK, Clock
from kohort.broker.own_call import OwnCall
from kohort.broker.shard_host import ShardHost
from kohort.broker.shard_log import LocalShardLog, ShardLog
from kohort.broker.share.persister import Done, SharePartitionState, ShareStateSummary
from kohort.broker.topics.catalog import SHARE_GROUP_STATE
from kohort.coordinator.delivery.states import StateBatch
from kohort.coordinator.outcome import Headers, InPieces, Parked
from kohort.coordinator.runtime import Runtime
from kohort.coordinator.shard import Shard, Status
from kohort.coordinator.share_state.delete_share_group_state import DELETE
from kohort.coordinator.share_state.initialize_share_group_state import INITIALIZE, InitializeAsked
from kohort.coordinator.share_state.keys import SharePartitionKey, coordinator_key, known_coordinator_key
from kohort.coordinator.share_state.partition_api import Asked, PartitionApi, Row
from kohort.coordinator.share_state.read_share_group_state import READ, ReadAsked
from kohort.coordinator.share_state.read_share_group_state_summary import READ_SUMMARY
from kohort.coordinator.share_state.share_shard import ShareShard
from kohort.coordinator.share_state.state import ShareCoordinatorConfig, ShareState
from kohort.coordinator.share_state.upkeep import (
    REDUNDANT_OFFSET,
    AskRedundantOffset,
    RedundantOffset,
    snapshot_cold_partitions,
)
from kohort.coordinator.share_state.write_share_group_state import WRITE, WriteAsked
from kohort.protocol.wire import Message
from kohort.storage.errors import StorageError

if TYPE_CHECKING:
    from kohort.broker.broker import Broker

logger = logging.getLogger(__name__)

A = TypeVar("A", bound=Asked)


class ShareStateHost(ShardHost[ShareState]):
    def __init__(self, broker: Broker, clock: Clock = CLOCK, log: ShardLog | None = None) -> None:
        config = broker.config
        if log is None:
            sync = config.kohort_offsets_sync_before_reply
            log = LocalShardLog(broker, clock, SHARE_GROUP_STATE, sync_before_reply=sync)
        settings = ShareCoordinatorConfig(
            updates_per_snapshot=config.share_coordinator_snapshot_update_records_per_snapshot,
            cold_snapshot_interval_ms=config.share_coordinator_cold_partition_snapshot_interval_ms,
            audit_headers=config.kohort_audit_headers,
        )

        def new_shard(partition: int) -> ShareShard:
            return ShareShard(ShareState(partition, settings, broker.catalog))

        super().__init__(broker, clock, log, Runtime(new_shard, log.partition_count, log.max_batch_bytes))

    def start(self) -> None:
        super().start()
        self._trim_later()
        self._snapshot_later()

    def ask(self, api: PartitionApi[A], asked: A, answered: Callable[[Row], object], *, is_rare: bool = False) -> None:
        """Ask about one share partition. `answered` is called on the event loop, maybe before this returns.

        `is_rare`: it is one of many of a request, and not worth being remembered.
        """
        runtime, key = self.runtime, asked.key
        shard = runtime.shard_of_rare(coordinator_key(key)) if is_rare else runtime.shard_of(known_coordinator_key(key))
        row = runtime.ask(shard, api, asked, OwnCall(self._clock, answered))
        if not isinstance(row, Parked):
            answered(row)
        self._after()

    # --- the leader of a partition and the group coordinator ask; see broker/share/persister.py

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int, done: Done) -> None:
        self.ask(INITIALIZE, InitializeAsked(key, state_epoch, start_offset), partial(_tell_error, done))

    def read(self, key: SharePartitionKey, leader_epoch: int, done: Callable[[SharePartitionState], None]) -> None:
        def answered(row: Row) -> None:
            done(SharePartitionState(row.error, row.message, row.state_epoch, row.start_offset, row.batches))

        self.ask(READ, ReadAsked(key, leader_epoch), answered)

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        headers: Headers,
        done: Done,
    ) -> None:
        asked = WriteAsked(
            key, state_epoch, leader_epoch, start_offset, delivery_complete_count, batches, headers
        )  # fmt: skip
        self.ask(WRITE, asked, partial(_tell_error, done))

    def delete(self, key: SharePartitionKey, done: Done) -> None:
        self.ask(DELETE, Asked(key), partial(_tell_error, done))

    def read_summary(
        self, key: SharePartitionKey, leader_epoch: int, done: Callable[[ShareStateSummary], None]
    ) -> None:
        def answered(row: Row) -> None:
            done(
                ShareStateSummary(
                    row.error,
                    row.message,
                    row.state_epoch,
                    row.leader_epoch,
                    row.start_offset,
                    row.delivery_complete_count,
                )
            )

        self.ask(READ_SUMMARY, ReadAsked(key, leader_epoch), answered)

    # --- regular work

    def _snapshot_later(self) -> None:
        delay_s = self._broker.config.share_coordinator_cold_partition_snapshot_interval_ms / 1000
        self._broker.call_later_by_clock(delay_s, self._snapshot)

    def _snapshot(self) -> None:
        """Write snapshots of share partitions that are not written to, so that the log can be trimmed behind them."""
        self._snapshot_later()
        for shard in self._idle_shards():
            self.runtime.begin_later(shard, InPieces(snapshot_cold_partitions(shard.state)))
        self._after()

    def _idle_shards(self) -> list[Shard[ShareState]]:
        shards = self.runtime.shards
        return [shard for shard in shards if shard.status is Status.ACTIVE and shard.next_offset and not shard.jobs]

    def _trim_later(self) -> None:
        delay_s = self._broker.config.share_coordinator_state_topic_prune_interval_ms / 1000
        self._broker.call_later_by_clock(delay_s, self._trim)

    def _trim(self) -> None:
        """Cut off the beginning of each log that nobody needs. Retention removes its files later."""
        self._trim_later()
        for shard in self._idle_shards():
            trim = partial(self._trim_log, shard)
            call = OwnCall(self._clock, trim)
            answer = self.runtime.ask(shard, REDUNDANT_OFFSET, AskRedundantOffset(), call)
            if not isinstance(answer, Parked):
                trim(answer)
        self._after()

    def _trim_log(self, shard: Shard[ShareState], redundant: Message) -> None:
        assert isinstance(redundant, RedundantOffset)
        place = self._broker.catalog.partition(SHARE_GROUP_STATE, shard.partition)
        if place is None or shard.is_abandoned:
            return
        try:
            if redundant.offset > place.log.log_start_offset:
                place.log.advance_log_start(redundant.offset)
        except StorageError as problem:
            logger.error("%s could not be trimmed: %s", place, problem)


def _tell_error(done: Done, row: Row) -> None:
    done(row.error, row.message)
