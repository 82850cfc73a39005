"""What the host should tell about groups: one line in its log for each, and a few counters."""

from __future__ import annotations

from typing import NamedTuple


class Rebalanced(NamedTuple):
    group: str
    generation: int
    cause: str
    trigger: str  # who caused it
    slowest: str  # who rejoined last; nobody if they are all gone
    duration_ms: int  # from the cause to the assignment
    members: int
    moved: (
        int  # partitions that have another owner than before; -1 if the assignments cannot be read, or are very large
    )


Event = Rebalanced
