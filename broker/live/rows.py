"""A line of the overview: what there is to say about a group in one line."""

from __future__ import annotations

from typing import NamedTuple


class GroupRow(NamedTuple):
    group: str
    type: str
    state: str
    members: int
    lag: int | None  # None: unknown, as when a topic is gone
    max_lag: int | None  # of one partition
    last_commit_ms: int | None
    rebalances_in_hour: int
    unowned: int  # partitions without an owner that had one before, while the group has members


class Deliveries(NamedTuple):
    """What became of the records of a share partition, since its leader has it in memory."""

    in_flight: int  # records from the start offset on that were delivered
    acquired: int
    accepted: int
    released: int
    rejected: int
    timed_out: int
    archived: int  # given up: delivered too often, or no longer in the log


class PartitionRow(NamedTuple):
    topic: str
    partition: int
    offset: int | None  # committed
    end: int | None  # of the log
    lag: int | None
    rate: float | None  # committed offsets per second
    committed_ms: int | None
    owner: int | None  # a person of the group's history
    deliveries: Deliveries | None = None  # of share groups, at the broker that leads the partition


class Lag:
    """The lag of a group, partition by partition."""

    __slots__ = ("is_known", "most", "total")

    def __init__(self) -> None:
        self.total = self.most = 0
        self.is_known = False

    def add(self, offset: int, end: int | None) -> None:
        if end is None:
            return
        lag = max(0, end - offset)  # a commit beyond the end has no lag
        self.is_known = True
        self.total += lag
        self.most = max(self.most, lag)

    @property
    def sum_and_max(self) -> tuple[int | None, int | None]:
        return (self.total, self.most) if self.is_known else (None, None)
