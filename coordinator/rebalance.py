"""The event of a group of KIP-848 or KIP-932 that has rebalanced: gathered from the cause until all its members have
reached its epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kohort.coordinator.events import Reconciled
from kohort.protocol.record_batch import encode_headers
from kohort.protocol.varint import SMALL_VARINTS, encode_varint

if TYPE_CHECKING:
    from kohort.coordinator.assignors.server_side import TopicId
    from kohort.coordinator.outcome import Headers
    from kohort.coordinator.shard_clock import ShardClock
    from kohort.coordinator.shard_state import ShardState

EMPTY = encode_varint(0)  # the length of an empty header
MAX_TOLD = 1_000  # characters of a cause or a name, which clients choose


class Rebalance:
    """A rebalance in progress. If several causes come before all members are reconciled, the event names the first."""

    __slots__ = (
        "_packed",
        "cause",
        "freed",
        "loaded_wall",
        "moved",
        "started",
        "started_wall",
        "trigger",
        "trigger_client",
    )

    def __init__(self, clock: ShardClock, cause: str, trigger: str, trigger_client: str) -> None:
        self.cause = cause[:MAX_TOLD]
        self.trigger = trigger[:MAX_TOLD]
        self.trigger_client = trigger_client[:MAX_TOLD]
        self.started = clock.now
        self.started_wall = clock.wall
        self.loaded_wall = clock.loaded_wall
        self.moved = 0  # partitions that have another member in the target than before
        self.freed: set[tuple[TopicId, int]] = set()  # partitions in the targets of members that are gone
        self._packed: dict[str, bytes] = {}  # by cause, of which there are few: its headers up to the trigger

    def headers(self, cause: str, trigger: str) -> Headers:
        """For the record of a group epoch. They say why it was bumped: Kafka's records do not."""
        return (
            (b"kohort.coordinator.start.ms", b"%d" % self.loaded_wall),
            (b"kohort.join.start.ms", b"%d" % self.started_wall),
            (b"kohort.cause", cause[:MAX_TOLD].encode()),
            (b"kohort.trigger", trigger[:MAX_TOLD].encode()),
        )

    def packed_headers(self, cause: str, trigger: str) -> bytes:
        """The same as they stand in the record. When many members join at once, only the trigger differs."""
        start = self._packed.get(cause)
        if start is None:
            start = self._packed[cause] = encode_headers(self.headers(cause, ""))[: -len(EMPTY)]
        raw = trigger[:MAX_TOLD].encode()
        return start + (SMALL_VARINTS[len(raw)] if len(raw) < len(SMALL_VARINTS) else encode_varint(len(raw))) + raw


class RebalancingGroup(Protocol):
    group_id: str
    type: str
    rebalance: Rebalance | None


class NamedMember(Protocol):
    @property
    def member_id(self) -> str: ...

    @property
    def instance_id(self) -> str | None: ...

    @property
    def client_id(self) -> str: ...


def client_of(member: NamedMember | None) -> str:
    """The name by which people know a member. Member ids are random, but for members of the classic protocol."""
    return "" if member is None else member.instance_id or member.client_id


def begin_rebalance(shard: ShardState, group: RebalancingGroup, cause: str, trigger: str, client: str) -> Headers:
    """Begin a rebalance, unless one is in progress. Returns the headers for the record of the new group epoch.

    `client`: the name by which people know the member that caused it, whose id is `trigger`.
    """
    if group.rebalance is None:
        group.rebalance = Rebalance(shard.clock, cause, trigger, client)
    return headers_of(shard, group.rebalance, cause, trigger)


def headers_of(shard: ShardState, rebalance: Rebalance, cause: str, trigger: str) -> Headers:
    """Headers for the record of a group epoch, unless they are switched off."""
    return rebalance.headers(cause, trigger) if shard.config.audit_headers else ()


def end_rebalance(
    shard: ShardState, group: RebalancingGroup, epoch: int, member_count: int, last: NamedMember | None
) -> Reconciled | None:
    """The event of the rebalance that ends: all members are reconciled to `epoch`, `last` as the last one.

    `last` is None if nobody is left.
    """
    going_on, group.rebalance = group.rebalance, None
    if going_on is None:
        return None
    return Reconciled(
        group.group_id,
        epoch,
        going_on.cause,
        going_on.trigger,
        going_on.trigger_client,
        "" if last is None else last.member_id[:MAX_TOLD],
        client_of(last)[:MAX_TOLD],
        shard.clock.now - going_on.started,
        member_count,
        going_on.moved,
        group.type,
    )
