"""A member of a consumer group, as the records of the log describe it. A member is never changed, only replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kohort.coordinator.assignors.server_side import TopicId
from kohort.protocol.messages.log_consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kohort.protocol.messages.log_consumer_group_member_metadata import ConsumerGroupMemberMetadataValue

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2  # a static member leaves, and means to come back

# States. A log may hold a number that only a newer Kafka knows.
STABLE: Final = 0  # the member has what its target says, as of its epoch
UNREVOKED: Final = 1  # it has to give up partitions before it can go on
UNRELEASED: Final = 2  # it waits for partitions that others have not given up yet
STATE_NAMES: Final = {STABLE: "stable", UNREVOKED: "unrevoked partitions", UNRELEASED: "unreleased partitions"}

Partitions = Mapping[TopicId, Mapping[int, int]]  # partition: the epoch in which the member got it
NOTHING: Final[Partitions] = {}


class ClassicMetadata(NamedTuple):
    """What a member that speaks the classic protocol said when it joined."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(slots=True)  # not frozen: that would make a member cost several times as much
class ConsumerMember:
    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    state: int = STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()  # sorted, each once
    topic_regex: str | None = ""
    server_assignor: str | None = None
    assigned: Partitions = field(default_factory=dict)
    pending_revocation: Partitions = field(default_factory=dict)
    classic: ClassicMetadata | None = None  # None: the member speaks KIP-848
    packed_names: bytes = field(default=b"", compare=False, repr=False)  # group and member as in keys; or not known

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state == STABLE and self.epoch == assignment_epoch

    def is_where(self, other: ConsumerMember) -> bool:
        """Whether it has the same assignment. `other` is the same member, described in the same way."""
        return self is other or (
            self.epoch == other.epoch
            and self.previous_epoch == other.previous_epoch
            and self.state == other.state
            and self.assigned == other.assigned
            and self.pending_revocation == other.pending_revocation
        )

    def owned_since(self, topic_id: TopicId, partition: int) -> int | None:
        """The epoch in which the member got the partition; None if it is not the member's."""
        since = self.assigned.get(topic_id, {}).get(partition)
        return self.pending_revocation.get(topic_id, {}).get(partition) if since is None else since

    # --- changed copies: written out, because dataclasses.replace takes several times as long

    def moved_on(
        self, epoch: int, previous_epoch: int, state: int, assigned: Partitions, pending_revocation: Partitions
    ) -> ConsumerMember:
        """The same member with another assignment."""
        return ConsumerMember(
            self.member_id, epoch, previous_epoch, state, self.instance_id, self.rack_id, self.rebalance_timeout_ms,
            self.client_id, self.client_host, self.topic_names, self.topic_regex, self.server_assignor, assigned,
            pending_revocation, self.classic, self.packed_names,
        )  # fmt: skip

    def described(
        self, instance_id: str | None, rack_id: str | None, rebalance_timeout_ms: int, client_id: str, client_host: str,
        topic_names: tuple[str, ...], topic_regex: str | None, server_assignor: str | None,
        classic: ClassicMetadata | None = None,
    ) -> ConsumerMember:  # fmt: skip
        """The same member, which says something else about itself."""
        return ConsumerMember(
            self.member_id, self.epoch, self.previous_epoch, self.state, instance_id, rack_id, rebalance_timeout_ms,
            client_id, client_host, topic_names, topic_regex, server_assignor, self.assigned, self.pending_revocation,
            classic,
        )  # fmt: skip

    # --- replay

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> ConsumerMember:
        classic = value.classic_member_metadata
        return self.described(
            value.instance_id,
            value.rack_id,
            value.rebalance_timeout_ms,
            value.client_id,
            value.client_host,
            sorted_names(value.subscribed_topic_names),
            value.subscribed_topic_regex,
            value.server_assignor,
            None
            if classic is None
            else ClassicMetadata(
                classic.session_timeout_ms, tuple((each.name, each.metadata) for each in classic.supported_protocols)
            ),
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        return self.moved_on(
            value.member_epoch,
            value.previous_member_epoch,
            value.state,
            _partitions(value.assigned_partitions, value.member_epoch),
            _partitions(value.partitions_pending_revocation, value.member_epoch),
        )

    def without_assignment(self) -> ConsumerMember:
        return self.moved_on(LEAVE_EPOCH, LEAVE_EPOCH, self.state, NOTHING, NOTHING)


def sorted_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


def _partitions(topics: Sequence[TopicPartitions], member_epoch: int) -> Partitions:
    """Records of a Kafka before 4.3 do not say since when: then it is since the member's epoch."""
    since = max(member_epoch, 0)
    found: dict[TopicId, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [since] * len(topic.partitions)
        found[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return found
