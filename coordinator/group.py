"""What every group is, whatever protocol its members speak: what a shard, offsets and administrators ask of it.

A group object is in its shard's `groups` from the record that creates it to the one that ends it. When the object
leaves that dict, `abandon` is called. Deadlines and fast paths may still refer to the object; they must be able to see
that it is no longer the group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kohort.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kohort.coordinator.outcome import Outcome, Record
    from kohort.coordinator.shard_state import ShardState
    from kohort.protocol.messages.offset_commit import OffsetCommitRequest
    from kohort.protocol.messages.offset_fetch import OffsetFetchRequestGroup

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"  # Kafka's names of the types

# What a client may do with a group, as the APIs that describe groups say it.
NOT_ASKED = -2147483648
READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 3, 6, 8, 10, 11  # Kafka's codes of operations
ALL_OPERATIONS = 1 << READ | 1 << DELETE | 1 << DESCRIBE | 1 << DESCRIBE_CONFIGS | 1 << ALTER_CONFIGS


class Committer(NamedTuple):
    """Who commits, as the request says."""

    member_id: str
    generation_or_epoch: int
    instance_id: str | None

    @property
    def is_anonymous(self) -> bool:
        return self.generation_or_epoch < 0 and not self.member_id and self.instance_id is None


class Pulse(Protocol):
    """The fast path of a member that is heard from again and again, each time with the same bytes."""

    def beats(self, steady_ms: int) -> bool:
        """Start the member's session anew and return True. False: nothing was done, the normal handler must decide."""
        ...


class Group(ABC):
    __slots__ = ("group_id",)

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    # --- what it is

    @property
    @abstractmethod
    def type(self) -> str:
        """Kafka's name of its kind."""

    @property
    @abstractmethod
    def state_name(self) -> str:
        """As ListGroups shows it."""

    @property
    @abstractmethod
    def protocol_type(self) -> str | None:
        """As ListGroups shows it; None: nobody ever joined."""

    @property
    @abstractmethod
    def member_count(self) -> int: ...

    # --- what is allowed now: an error code, or None

    @abstractmethod
    def check_commit(self, shard: ShardState, request: OffsetCommitRequest, version: int) -> ErrorCode | None:
        """An error if the sender may not commit now. In a classic group a commit is a sign of life of its member."""

    @abstractmethod
    def check_txn_commit(self, sender: Committer) -> ErrorCode | None:
        """The same for a commit in a transaction, which is no sign of life. Its sender need not say which member it is,
        since the transaction tells old producers from new ones.
        """

    def check_commit_to(self, sender: Committer, topic_id: bytes, partition: int) -> ErrorCode | None:
        """An error if the sender, who may commit, may not commit this partition."""
        return None

    def check_fetch(self, request: OffsetFetchRequestGroup) -> ErrorCode | None:
        """An error if the sender is not the member that it claims to be."""
        return None

    @abstractmethod
    def check_delete(self) -> ErrorCode | None: ...

    @abstractmethod
    def check_offset_delete(self) -> ErrorCode | None: ...

    @property
    @abstractmethod
    def can_be_replaced(self) -> bool:
        """Whether a JoinGroup may replace this group by a classic group of the same id."""

    # --- what its offsets depend on

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member consumes the topic. True as well if that cannot be known."""

    @abstractmethod
    def may_expire(self, topic: str) -> bool:
        """Whether offsets of this topic may expire now."""

    @property
    @abstractmethod
    def offsets_unused_since(self) -> int | None:
        """Wall time from which the retention of all its offsets counts. None: from each commit."""

    @property
    @abstractmethod
    def ends_without_offsets(self) -> bool:
        """Whether the group is deleted when it has no offsets left."""

    # --- its life

    @abstractmethod
    def tombstones(self) -> list[Record]:
        """The records that delete the group; its offsets have tombstones of their own."""

    @abstractmethod
    def on_loaded(self, shard: ShardState, out: Outcome) -> Iterable[None]:
        """The log of the shard has been replayed: begin what waits for members. There is a step for each of them."""

    @abstractmethod
    def abandon(self, error: ErrorCode, out: Outcome) -> None:
        """This object is no longer the group. Every parked request is answered with `error`."""

    def topics_deleted(self, shard: ShardState, topic_ids: Container[bytes]) -> Record | None:
        """The record that makes the group forget what it knows of these topics, beside offsets. None: nothing."""
        return None

    def pulse(
        self, shard: ShardState, member_id: str, instance_id: str | None, generation_or_epoch: int
    ) -> Pulse | None:
        """The fast path for the heartbeats of this member. None: the normal handler must answer them for now."""
        return None

    def commit_pulse(
        self, shard: ShardState, member_id: str, instance_id: str | None, generation_or_epoch: int
    ) -> Pulse | None:
        """The fast path for the commits of this member. None: the normal handler must answer them for now."""
        return self.pulse(shard, member_id, instance_id, generation_or_epoch)
