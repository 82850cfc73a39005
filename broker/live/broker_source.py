"""A running broker's groups: what its coordinator holds now, and their history since it follows them.

State, members and committed offsets are read from the coordinator when somebody asks. For the history the batches of
the coordinator's log are read once they are durable, but for those that hold commits alone, which are nearly all:
commits cost nothing. What was before is taken from the coordinator when the broker starts. All of it goes on in slices,
between requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from importlib.metadata import version
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from kohort.broker.live.explainer import Explainer
from kohort.broker.live.group import Place, Progress
from kohort.broker.live.histories import Histories
from kohort.broker.live.log_reader import LogReader
from kohort.broker.live.rows import Deliveries, GroupRow, Lag, PartitionRow
from kohort.broker.live.view import cut
from kohort.broker.live.work import Work
from kohort.broker.why.folders import Folders
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.state import ClassicGroupState
from kohort.coordinator.events import News, Rebalanced
from kohort.coordinator.group import CLASSIC, CONSUMER, SHARE, Group
from kohort.coordinator.shard import Status
from kohort.storage.disk import RealDisk

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.coordinator.consumer.group import ConsumerGroup
    from kohort.coordinator.delivery.share_partition import SharePartition
    from kohort.coordinator.offset_store import ByPartition
    from kohort.coordinator.shard import Shard
    from kohort.coordinator.shard_state import ShardState
    from kohort.coordinator.share.group import ShareGroup

PARTITIONS_IN_STEP: Final = 1_000
MAX_WAITING_BYTES: Final = 64 * 1024 * 1024  # batches that are not read yet; beyond, they are left out
MAX_NAMED: Final = 10  # members for which a rebalance waits
WAITS: Final = (ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.COMPLETING_REBALANCE)


class BrokerSource:
    def __init__(self, broker: Broker, call_soon: Callable[[Callable[[], object]], object]) -> None:
        self._broker = broker
        self._version = version("kohort")
        self.histories = Histories(broker.catalog.name_of)
        self._reader = LogReader(self.histories, with_commits=False)
        self._work = Work(call_soon)
        self._waiting_bytes = 0
        self.explainer: Explainer | None = None
        if isinstance(broker.disk, RealDisk):
            self.explainer = Explainer(lambda: nullcontext(Folders([broker.config.data_folder])))
        self._rates: dict[str, dict[Place, Progress]] = {}  # of groups that somebody looks at
        self.left_out = 0  # batches for which there was no room

    # --- following

    def follow(self) -> None:
        """Begin with what the coordinator holds now; shards that are still loading come later."""
        coordinator = self._broker.coordinator
        coordinator.runtime.notes_news = True
        coordinator.on_written, coordinator.on_news, coordinator.on_loaded = self._written, self._news, self._loaded
        for shard in coordinator.runtime.shards:
            if shard.status is Status.ACTIVE:
                self._loaded(shard)

    def _loaded(self, shard: Shard[ShardState]) -> None:
        if shard.state.groups:
            self._work.add(self._seed_all(shard))

    def _written(self, partition: int, batches: list[bytes]) -> None:
        size = sum(map(len, batches))
        if self._waiting_bytes + size > MAX_WAITING_BYTES:
            self.left_out += len(batches)
            return
        self._waiting_bytes += size
        self._work.add(self._read(partition, batches, size))

    def _read(self, partition: int, batches: list[bytes], size: int) -> Iterator[None]:
        for batch in batches:
            yield from self._reader.read(partition, batch)
            yield
        self._waiting_bytes -= size

    def _news(self, event: News) -> None:
        self._work.add(self._tell(event))

    def _tell(self, event: News) -> Iterator[None]:
        """What the log does not say of a rebalance: the slowest member, and how long it took in steady time."""
        history = self.histories.get(event.group)
        is_classic = isinstance(event, Rebalanced)
        epoch = event.generation if isinstance(event, Rebalanced) else event.epoch
        found = (
            [] if history is None else [each for each in islice(reversed(history.rebalances), 5) if each.epoch == epoch]
        )
        for rebalance in found[:1]:
            assert history is not None
            rebalance.slowest = (
                event.slowest if isinstance(event, Rebalanced) else event.slowest_client or event.slowest
            )
            rebalance.trigger = (
                event.trigger if isinstance(event, Rebalanced) else event.trigger_client or event.trigger
            )
            rebalance.cause, rebalance.duration_ms = event.cause, event.duration_ms
            if event.moved >= 0 and is_classic:
                rebalance.moved = event.moved
            self.histories.changed(history)
        yield

    # --- what was before

    def _seed_all(self, shard: Shard[ShardState]) -> Iterator[None]:
        for group_id in list(shard.state.groups):
            group = shard.state.groups.get(group_id)
            if group is not None and group.member_count and self.histories.get(group_id) is None:
                yield from self._seed(group)
            yield

    def _seed(self, group: Group) -> Iterator[None]:
        now = self.now_ms()
        if isinstance(group, ClassicGroup):
            value = group.to_record(None, group.state_timestamp, False).value
            since = group.state_timestamp if group.state_timestamp > 0 else now
            yield from self._reader.generation(group.group_id, value, since, is_news=False)
        elif group.type == CONSUMER:
            from kohort.coordinator.consumer import records as consumer_records

            yield from self._seed_epochs(cast("ConsumerGroup", group), consumer_records, now)
        elif group.type == SHARE:
            from kohort.coordinator.share import records as share_records

            yield from self._seed_epochs(cast("ShareGroup", group), share_records, now)

    def _seed_epochs(self, group: ConsumerGroup | ShareGroup, records: ModuleType, now: int) -> Iterator[None]:
        """What its log would tell. `records` is the module that makes the records of this type of group."""
        made = [
            records.group_epoch_record(group.group_id, group.epoch, 0),
            records.target_epoch_record(group.group_id, group.assignment_epoch, 0),
        ]
        for record in made:
            self._reader.epoch_record(record.type, record.key, record.value, now, is_news=False)
        for member in list(group.members.values()):
            for record in (
                records.member_record(group.group_id, member),
                records.current_assignment_record(group.group_id, member),
            ):
                self._reader.epoch_record(record.type, record.key, record.value, now, is_news=False)
            yield

    # --- what is now

    def about(self) -> dict[str, Any]:
        listeners = [f"{each.host}:{each.port}" for each in self._broker.advertised]
        loading = sum(shard.status is Status.LOADING for shard in self._broker.coordinator.runtime.shards)
        troubles = [f"{loading} partitions of __consumer_offsets are still being read"] if loading else []
        return {
            "kind": "broker", "where": ", ".join(listeners), "cluster_id": self._broker.cluster_id,
            "version": self._version, "troubles": troubles,
        }  # fmt: skip

    def now_ms(self) -> int:
        return self._broker.clock.now_ms()

    def _shard(self, group_id: str) -> Shard[ShardState]:
        return self._broker.coordinator.runtime.shard_of_rare(group_id)

    def rows(self) -> Iterator[GroupRow | None]:
        for shard in list(self._broker.coordinator.runtime.shards):
            for group in list(shard.state.groups.values()):
                yield from self._row(shard, group)
            yield None

    def row(self, group_id: str) -> Iterator[GroupRow | None]:
        shard = self._shard(group_id)
        group = shard.state.groups.get(group_id)
        if group is not None:
            yield from self._row(shard, group)

    def _row(self, shard: Shard[ShardState], group: Group) -> Iterator[GroupRow | None]:
        lag = Lag()
        newest = -1
        for topic, offsets in self._offsets(shard, group):
            ends = self._ends(topic)
            for number, (index, committed) in enumerate(list(offsets.items())):
                lag.add(committed.offset, ends(index))
                newest = max(newest, committed.commit_timestamp)
                if number % PARTITIONS_IN_STEP == PARTITIONS_IN_STEP - 1:
                    yield None
        if group.type == SHARE:
            for _, share, end in self._shares(group.group_id):
                lag.add(share.window.start, end)
        history = self.histories.get(group.group_id)
        members = group.member_count
        yield GroupRow(
            group.group_id, group.type, group.state_name, members, *lag.sum_and_max,
            newest if newest >= 0 else None,
            0 if history is None else history.in_last_hour(self.now_ms()),
            0 if history is None or not members else len(history.unowned),
        )  # fmt: skip

    def _offsets(self, shard: Shard[ShardState], group: Group) -> list[tuple[str, ByPartition]]:
        return list(shard.state.offsets_of(group.group_id).items())

    def _ends(self, topic: str) -> Callable[[int], int | None]:
        """Where the logs of a topic end."""
        found = self._broker.catalog.get(topic)
        logs = self._broker.logs.logs
        if found is None:
            return lambda _: None
        count = len(found.partitions)

        def end(index: int) -> int | None:
            if index >= count:
                return None
            log = logs.get((topic, index))
            return 0 if log is None else log.log_end_offset

        return end

    def _shares(self, group_id: str) -> Iterator[tuple[Place, SharePartition, int | None]]:
        """Partitions that somebody fetches: how far the group has come, and the end of the log."""
        if "share_partitions" not in self._broker.extra:
            return
        from kohort.broker.share.share_partitions import share_partitions_of

        for led in share_partitions_of(self._broker).of_group(group_id):
            if led.share is not None:
                topic = led.partition.topic.name
                yield (topic, led.key.partition), led.share, self._ends(topic)(led.key.partition)

    def partitions(self, group_id: str) -> Iterator[PartitionRow | None]:
        shard = self._shard(group_id)
        group = shard.state.groups.get(group_id)
        if group is None:
            return
        history = self.histories.get(group_id)
        held: Mapping[Place, Mapping[int, int]] = {} if history is None else history.held
        known = self._rates.get(group_id, {})
        seen: set[Place] = set()
        number = 0
        now = self.now_ms()
        for topic, offsets in self._offsets(shard, group):
            ends = self._ends(topic)
            for index, committed in list(offsets.items()):
                place = (topic, index)
                seen.add(place)
                at = committed.commit_timestamp
                progress = known.get(place)
                if progress is None:
                    progress = known[place] = Progress(committed.offset, at)
                else:
                    progress.committed(committed.offset, at)
                end = ends(index)
                lag = None if end is None else max(0, end - committed.offset)
                owner = next(iter(held.get(place, ())), None)
                yield PartitionRow(topic, index, committed.offset, end, lag, progress.rate_at(now), at, owner)
                number += 1
                if number % PARTITIONS_IN_STEP == 0:
                    yield None
        if group.type == SHARE:
            for place, share, end in self._shares(group_id):
                offset = share.window.start
                seen.add(place)
                lag = None if end is None else max(0, end - offset)
                progress = known.setdefault(place, Progress(offset, now))
                if progress.offset != offset:
                    progress.committed(offset, now)
                rate = progress.rate_at(now)
                owner = next(iter(held.get(place, ())), None)
                yield PartitionRow(*place, offset, end, lag, rate, None, owner, _deliveries(share))
        for number, (place, holders) in enumerate(list(held.items())):
            if place not in seen:
                end = self._ends(place[0])(place[1])
                yield PartitionRow(*place, None, end, None, None, None, next(iter(holders), None))
            if number % PARTITIONS_IN_STEP == 0:
                yield None

    def watched(self, group_id: str, watchers: int) -> None:
        if watchers:
            self._rates.setdefault(group_id, {})
        else:
            self._rates.pop(group_id, None)

    def details(self, group_id: str) -> dict[str, Any]:
        group = self._shard(group_id).state.groups.get(group_id)
        if group is None:
            return {}
        shown: dict[str, Any] = {"state": group.state_name}
        if isinstance(group, ClassicGroup) and group.state in WAITS:
            shown |= {"cause": cut(group.cause), "trigger": cut(group.trigger), "since": group.join_phase_started_wall}
            shown["waits_for"], shown["waits_for_count"] = _waits_for(group)
        elif group.type != CLASSIC and (going_on := getattr(group, "rebalance", None)) is not None:
            shown |= {"cause": cut(going_on.cause), "trigger": cut(going_on.trigger_client or going_on.trigger)}
            shown["since"] = going_on.started_wall
        return shown


def _deliveries(share: SharePartition) -> Deliveries:
    counts = share.counts
    return Deliveries(share.window.in_flight_count, *(getattr(counts, name) for name in Deliveries._fields[1:]))


def _waits_for(group: ClassicGroup) -> tuple[list[str], int]:
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        return [cut(group.leader_id or "")], 1
    missing = (
        member.instance_id or member.member_id for member in group.members.values() if member.awaiting_join is None
    )
    named = [cut(name) for name in islice(missing, MAX_NAMED)]
    return named, len(named) + sum(1 for _ in missing)
