"""The four assignors of Kafka's consumer as pure functions: who would get which partitions.

They give what Kafka 4.3.1's Java client gives; only among choices that are equal in moves and in balance the sticky
ones may take another (see sticky.py). Racks are not looked at (see group.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from kohort.audit.assignors.cooperative_sticky import cooperative_sticky_assignor
from kohort.audit.assignors.group import Assignment, Group, Partition
from kohort.audit.assignors.range import range_assignor
from kohort.audit.assignors.roundrobin import roundrobin_assignor
from kohort.audit.assignors.sticky import sticky_assignor

__all__ = ["ASSIGNORS", "Assignment", "Group", "Partition", "assign"]

ASSIGNORS: dict[str, Callable[[Group], Assignment]] = {
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
    return ASSIGNORS[name](Group(subscriptions, partitions, owned or {}, instances or {}))
