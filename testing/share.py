"""What a test sees of the records that a share group has in flight, and how it lets their locks expire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kohort.broker.share.led_partition import LedPartition
from kohort.broker.share.share_partitions import share_partitions_of
from kohort.coordinator.delivery.states import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE
from kohort.testing.views import Delivery, TopicPartition

if TYPE_CHECKING:
    from kohort.broker.broker import Broker

NAMES = {AVAILABLE: "available", ACQUIRED: "acquired", ACKNOWLEDGED: "acknowledged", ARCHIVED: "archived"}


def deliveries_of(broker: Broker, group_id: str) -> list[Delivery]:
    """Records from the start offset on that were delivered: neighbours in the same state together."""
    return [
        Delivery(
            *place, max(run.first, start), run.last, NAMES[run.state], run.delivery_count,
            run.member_id if run.state == ACQUIRED else None,
        )
        for place, led in _led(broker, group_id)
        if led.share is not None
        for start in [led.share.window.start]
        for run in led.share.window.runs()
        if run.last >= start
    ]  # fmt: skip


def start_offsets_of(broker: Broker, group_id: str) -> dict[TopicPartition, int]:
    """Where the group goes on in each partition: as its members know it, or else as it is kept in the log."""
    found: dict[TopicPartition, int] = {}
    for shard in broker.share_coordinator.runtime.shards if "share_coordinator" in broker.__dict__ else ():
        for key, offset in shard.state.offsets.items():
            if key.group_id == group_id and offset.start_offset >= 0:
                found[_place(broker, key.topic_id, key.partition)] = offset.start_offset
    found |= {place: led.share.window.start for place, led in _led(broker, group_id) if led.share is not None}
    return dict(sorted(found.items()))


def lag_of(broker: Broker, group_id: str) -> dict[TopicPartition, int]:
    """Records from the start offset on that are not finished, of the partitions that members read at the moment."""
    return {
        place: max(0, led.partition.high_watermark - led.share.window.start - led.share.window.complete_count)
        for place, led in _led(broker, group_id)
        if led.share is not None
    }


def expire_locks(broker: Broker, group_id: str, member_id: str | None) -> int:
    """End the locks of a member's records, or of all, as if their time had passed. How many records come back."""
    now = broker.clock.steady_ms()
    expired = 0
    for _, led in _led(broker, group_id):
        if led.share is None:
            continue
        for run in led.share.window.runs():
            if run.state == ACQUIRED and run.transition is None and member_id in (None, run.member_id):
                run.deadline = now
                expired += len(run)
        led.expire_locks(now)
    return expired


def _led(broker: Broker, group_id: str) -> Iterator[tuple[TopicPartition, LedPartition]]:
    led = share_partitions_of(broker).of_group(group_id)
    places = [((each.partition.topic.name, each.key.partition), each) for each in led]
    yield from sorted(places, key=lambda pair: pair[0])


def _place(broker: Broker, topic_id: bytes, partition: int) -> TopicPartition:
    return broker.catalog.name_of(topic_id) or topic_id.hex(), partition
