"""What every group is, whatever protocol its members speak: what a shard, offsets and administrators ask of it.

A group object is in its shard's `groups` from the record that creates it to the one that ends it. When the object
leaves that dict, `abandon` is called. Deadlines and fast paths may still refer to the object; they must be able to see
that it is no longer the group.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

from kohort.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kohort.coordinator.outcome import Outcome, Record
    from kohort.coordinator.shard_state import ShardState
    from kohort.protocol.messages.offset_commit import OffsetCommitRequest

CLASSIC, CONSUMER, SHARE, STREAMS = "classic", "consumer", "share", "streams"  # Kafka's names of the types


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
    def check_commit(self, shard: ShardState, request: OffsetCommitRequest) -> ErrorCode | None:
        """An error if the sender may not commit now. If it may, the commit counts as a sign of life of the member."""

    @abstractmethod
    def check_delete(self) -> ErrorCode | None: ...

    @abstractmethod
    def check_offset_delete(self) -> ErrorCode | None: ...

    @property
    @abstractmethod
    def can_be_replaced(self) -> bool:
        """Whether a classic group of the same name may take its place when somebody joins with JoinGroup."""

    # --- what its offsets depend on

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member consumes the topic, or may do so as far as we know."""

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
    def on_loaded(self, shard: ShardState, out: Outcome) -> None:
        """The log of its shard has been replayed: members are served from now on."""

    @abstractmethod
    def abandon(self, error: ErrorCode, out: Outcome) -> None:
        """This object is the group no longer. Everyone who waits for an answer of it gets `error`."""

    def pulse(
        self, shard: ShardState, member_id: str, instance_id: str | None, generation_or_epoch: int
    ) -> Pulse | None:
        """The fast path for the heartbeats of this member. None: the normal handler must answer them for now."""
        return None
