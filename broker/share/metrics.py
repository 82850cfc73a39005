"""Metrics of delivery: what became of records, by group and partition.

A share partition is counted while it is in memory, that is while a member of the group has a session.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kohort.broker.metrics import PER_STEP, gauge, metric
from kohort.broker.share.sessions import sessions_of
from kohort.broker.share.share_partitions import share_partitions_of
from kohort.coordinator.delivery.states import Counts

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.share.led_partition import LedPartition


def delivery_lines(broker: Broker) -> Iterator[str]:
    yield from gauge(
        "kohort_share_sessions", "members of share groups that fetch here", [("", len(sessions_of(broker)))]
    )
    rows: list[tuple[str, object]] = []
    in_flight: list[tuple[str, object]] = []
    for number, led in enumerate(share_partitions_of(broker)):
        if led.share is not None:
            labels = _labels(led)
            rows += [(f'{labels},event="{name}"', getattr(led.share.counts, name)) for name in Counts.__slots__]
            in_flight.append((labels, led.share.window.in_flight_count))
        if number % PER_STEP == 0:
            yield ""
    yield from metric("kohort_share_records_total", "counter", "what became of delivered records", rows)
    yield from gauge("kohort_share_records_in_flight", "records from the start offset on that were acquired", in_flight)


def _labels(led: LedPartition) -> str:
    group = led.key.group_id.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'group="{group}",topic="{led.partition.topic.name}",partition="{led.key.partition}"'
