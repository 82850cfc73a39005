"""The four assignors of Kafka's consumer as pure functions: a `GroupSpec` in, the partitions of each member out.

They give the same assignment as Kafka 4.3.1's Java client, with one exception: where several assignments move equally
many partitions and are equally even, the two sticky assignors may choose another one of them (sticky.py says why).
Racks are ignored (group_spec.py says why).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kohort.coordinator.assignors.cooperative_sticky import cooperative_sticky_assignor
from kohort.coordinator.assignors.group_spec import Assignment, GroupSpec, Partition
from kohort.coordinator.assignors.range import range_assignor
from kohort.coordinator.assignors.roundrobin import roundrobin_assignor
from kohort.coordinator.assignors.sticky import sticky_assignor

__all__ = ["ASSIGNORS", "Assignment", "GroupSpec", "Partition", "assign"]

ASSIGNORS: dict[str, Callable[[GroupSpec], Assignment]] = {
    "range": range_assignor,
    "roundrobin": roundrobin_assignor,
    "sticky": sticky_assignor,
    "cooperative-sticky": cooperative_sticky_assignor,
}


def assign(
    name: str,
    subscriptions: Mapping[str, Collection[str]],
    partitions: Mapping[str, int],
    owned: Mapping[str, Collection[Partition]] | None = None,
    instances: Mapping[str, str] | None = None,
) -> Assignment:
    return ASSIGNORS[name](GroupSpec(subscriptions, partitions, owned or {}, instances or {}))
