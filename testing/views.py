"""What a test sees: plain values, which do not change when the broker goes on."""

from __future__ import annotations

from dataclasses import dataclass

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group, classic or of KIP-848."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None  # of a static member
    assignment: tuple[TopicPartition, ...]  # the partitions that it has
    epoch: int | None = None  # of a member of KIP-848 or of a share group; a classic one has that of its group
    target: tuple[TopicPartition, ...] | None = None  # what such a member shall have
    is_waiting: bool = False  # its JoinGroup or SyncGroup is parked


@dataclass(frozen=True, slots=True)
class Delivery:
    """Neighbouring records that were delivered to a share group, and are in the same state."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    state: str  # available (delivered before, and waiting for the next time), acquired, acknowledged, archived
    deliveries: int  # how often they were delivered
    member_id: str | None  # who has acquired them

    @property
    def topic_partition(self) -> TopicPartition:
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class Rebalance:
    """A rebalance that has ended."""

    group: str
    generation: int  # of a classic group, or the epoch of a KIP-848 group
    cause: str
    trigger: str  # who caused it
    slowest: str  # who came last
    duration_ms: int
    members: int
    moved: int  # partitions that got another owner; -1: not known
    time_ms: int
    trigger_client: str = ""  # KIP-848, share groups: its instance id, or else its client id; member ids are random
    slowest_client: str = ""

    @property
    def who(self) -> str:
        """The trigger, as people know it."""
        return f"{self.trigger_client}, {self.trigger}" if self.trigger_client else self.trigger


@dataclass(frozen=True, slots=True)
class Commit:
    """An offset that was committed and is durable."""

    group: str
    topic: str
    partition: int
    offset: int
    metadata: str
    member_id: str  # "": the sender was no member
    generation: int  # or the member's epoch, in a KIP-848 group; -1: the sender was no member
    client_id: str
    time_ms: int

    @property
    def topic_partition(self) -> TopicPartition:
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class Request:
    """A request that came, and how it was answered."""

    number: int  # in the order in which requests came
    api: str
    version: int
    client_id: str
    host: str
    port: int
    group: str | None
    member_id: str | None
    topics: tuple[str, ...]
    time_ms: int
    errors: tuple[str, ...] | None  # of the answer; (): none; None: not answered so far
    duration_ms: float | None  # until the answer left
    fault: str | None  # what a fault did to it


@dataclass(frozen=True, slots=True)
class Record:
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int
