"""The group coordinator inside the broker: its settings, its retention of offsets, its news."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Any

from kohort.broker.clock import CLOCK, Clock
from kohort.broker.consumer_settings import (
    parse_assignors,
    parse_migration_policy,
    parse_protocols,
    settings_of_all,
    settings_of_group,
)
from kohort.broker.rebalances import Rebalances
from kohort.broker.shard_host import ShardHost
from kohort.broker.shard_log import LocalShardLog, ShardLog
from kohort.broker.share_settings import share_settings_of_all, share_settings_of_group
from kohort.broker.topics.catalog import CONSUMER_OFFSETS
from kohort.coordinator.api import Api
from kohort.coordinator.config import GroupConfig
from kohort.coordinator.events import Event, InitializeStates, News, Rebalanced, Reconciled
from kohort.coordinator.group_runtime import GroupRuntime
from kohort.coordinator.offsets.write_marker import WRITE_MARKER, MarkerWritten, WriteMarker
from kohort.coordinator.outcome import Parked
from kohort.coordinator.shard import Shard, Status, Write
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.txn_marker import TxnMarker
from kohort.protocol.wire import Message

if TYPE_CHECKING:
    from kohort.broker.broker import Broker


class MarkerCall:
    """A marker that is being written, as a request of the broker itself."""

    version = 0
    client_id = client_host = ""

    def __init__(self, clock: Clock, done: Callable[[ErrorCode], None]) -> None:
        self.now, self.steady_ms = clock.now_ms(), clock.steady_ms()
        self.api: Api[Any, Any, Any]
        self._done = done

    def reply(self, response: Message) -> None:
        assert isinstance(response, MarkerWritten)
        self._done(response.error_code)


class CoordinatorHost(ShardHost[ShardState]):
    runtime: GroupRuntime

    def __init__(self, broker: Broker, clock: Clock = CLOCK, log: ShardLog | None = None) -> None:
        config = broker.config
        if log is None:
            sync = config.kohort_offsets_sync_before_reply
            log = LocalShardLog(broker, clock, CONSUMER_OFFSETS, sync_before_reply=sync)
        settings = GroupConfig(
            min_session_timeout_ms=config.group_min_session_timeout_ms,
            max_session_timeout_ms=config.group_max_session_timeout_ms,
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            max_size=config.group_max_size,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            retention_check_interval_ms=config.offsets_retention_check_interval_ms,
            audit_headers=config.kohort_audit_headers,
            max_message_bytes=log.max_batch_bytes,
            rack=config.broker_rack or "",
            consumer=settings_of_all(config),
            consumer_enabled="consumer" in parse_protocols(config.group_coordinator_rebalance_protocols),
            consumer_max_size=config.group_consumer_max_size,
            consumer_assignors=tuple(parse_assignors(config.group_consumer_assignors)),
            consumer_migration_policy=parse_migration_policy(config.group_consumer_migration_policy),
            consumer_regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
            share=share_settings_of_all(config),
            share_max_size=config.group_share_max_size,
            share_initialize_retry_interval_ms=config.group_share_initialize_retry_interval_ms,
        )
        super().__init__(broker, clock, log, GroupRuntime(settings, broker.catalog, Random(), log.partition_count))
        broker.catalog.on_group_configs = self._take_group_configs
        self._take_group_configs(broker.catalog.group_configs)
        self.rebalances = Rebalances()
        # For who follows the groups (broker/live/broker_source.py). Writes of commits alone are not told.
        self.on_written: Callable[[int, list[bytes]], object] | None = None
        self.on_news: Callable[[News], object] | None = None
        self.on_loaded: Callable[[Shard[ShardState]], object] | None = None

    def start(self) -> None:
        super().start()
        self._check_retention_later()

    def _take_new_settings(self) -> None:
        super()._take_new_settings()
        runtime, config = self.runtime, self._broker.config
        consumer, share = settings_of_all(config), share_settings_of_all(config)
        if consumer != runtime.consumer.of_broker or share != runtime.share.of_broker:
            runtime.consumer.change_broker(consumer)
            runtime.share.change_broker(share)
            self._take_group_configs(self._broker.catalog.group_configs)  # groups inherit what they do not set

    def _take_group_configs(self, group_ids: Iterable[str]) -> None:
        """The settings of these groups were read or changed."""
        known = self._broker.catalog.group_configs
        for group_id in group_ids:
            configs = known.get(group_id)
            own = None if configs is None else settings_of_group(self._broker.config, configs)
            self.runtime.consumer.change_group(group_id, own)
            shared = None if configs is None else share_settings_of_group(self._broker.config, configs)
            self.runtime.share.change_group(group_id, shared)

    def loaded(self, shard: Shard[ShardState]) -> None:
        topic = self._broker.catalog.get(CONSUMER_OFFSETS)
        if topic is not None and (self._broker.had_transactions or shard.state.offsets.pending.producers):
            from kohort.broker.topics.coordinator_batches import restore  # most brokers have no transactions

            restore(topic.partitions[shard.partition], shard.state.offsets.pending)
        if self.on_loaded is not None:
            self.on_loaded(shard)

    def write_marker(self, partition: int, marker: TxnMarker, done: Callable[[ErrorCode], None]) -> None:
        """End the producer's transaction in this partition of the log. `done` is called when the marker is durable, or
        with an error; maybe before this returns.
        """
        if not 0 <= partition < len(self.runtime.shards):
            done(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return
        call = MarkerCall(self._clock, done)
        answer = self.runtime.ask(self.runtime.shards[partition], WRITE_MARKER, WriteMarker(marker), call)
        if not isinstance(answer, Parked):
            done(answer.error_code)
        self._after()

    def tell(self, event: Event) -> None:
        if isinstance(event, InitializeStates):
            self._initialize(event)
        else:
            assert isinstance(event, Rebalanced | Reconciled), event
            self.rebalances.tell(event)
            if self.on_news is not None:
                self.on_news(event)

    def wrote(self, write: Write[ShardState]) -> None:
        if self.on_written is not None:
            self.on_written(write.partition, write.batches)

    def _initialize(self, event: InitializeStates) -> None:
        from kohort.broker.share.coordinators import initialize  # only brokers with share groups pay for it

        initialize(self._broker, event)

    def _check_retention_later(self) -> None:
        delay_s = self.runtime.config.retention_check_interval_ms / 1000
        self._broker.call_later_by_clock(delay_s, self._check_retention)

    def _check_retention(self) -> None:
        self._check_retention_later()
        for shard in self.runtime.shards:
            if shard.status is Status.ACTIVE:
                shard.state.offsets.pending.expire(self._clock.now_ms() - self._broker.config.producer_id_expiration_ms)
                if shard.state.groups and not shard.jobs:
                    self.runtime.expire_offsets(shard)
        self._after()
