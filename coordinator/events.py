"""What the host should tell about groups and transactions, in its log and its counters; and what it should do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple


class Rebalanced(NamedTuple):
    """A classic group has a new generation, and everybody in it has an assignment."""

    group: str
    generation: int
    cause: str
    trigger: str  # who caused it
    slowest: str  # the member that rejoined last; empty if all members are gone
    duration_ms: int  # from the cause to the assignment
    members: int
    moved: int  # partitions whose last owner was another one; -1 if that cannot be read, or takes too long


class Reconciled(NamedTuple):
    """A consumer or share group is stable again: all its members have reached its epoch, or nobody is left."""

    group: str
    epoch: int
    cause: str  # the first one, if several came together
    trigger: str  # who caused it
    trigger_client: str  # its instance id, or else its client id: member ids of KIP-848 are random
    slowest: str  # the member that reached the epoch last; empty if all members are gone
    slowest_client: str
    duration_ms: int  # from the cause until all members had reached the epoch
    members: int
    moved: int  # partitions that got another owner; in share groups, that were given to one more member
    type: str = "consumer"


class InitializeStates(NamedTuple):
    """A share group wants states for these partitions. The host asks the share coordinator, and tells its answer."""

    group: str
    state_epoch: int
    partitions: Sequence[tuple[bytes, int, int]]  # id of the topic, partition, start offset


class SendMarkers(NamedTuple):
    """A transaction is decided. The host writes its markers, and tells the coordinator when all of them are durable."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    transaction_version: int
    partitions: Mapping[str, AbstractSet[int]]  # by topic
    transaction: object  # the host hands it back, so that the coordinator knows which transaction it was


class TransactionEnded(NamedTuple):
    """All markers of a transaction are written."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    result: str  # commit or abort
    cause: str  # see coordinator/transactions/headers.py
    partitions: int
    duration_ms: int  # from its first partition to its last marker


News = Rebalanced | Reconciled
Event = News | InitializeStates | SendMarkers | TransactionEnded
