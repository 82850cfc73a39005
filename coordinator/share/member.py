"""A member of a share group, as the records of the log describe it. A member is never changed, only replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kohort.coordinator.assignors.server_side import Target, TopicId
from kohort.protocol.messages.log_share_group_current_member_assignment import (
    ShareGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from kohort.protocol.messages.log_share_group_member_metadata import ShareGroupMemberMetadataValue

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STABLE: Final = 0  # the only state of such a member

Assigned = Mapping[TopicId, tuple[int, ...]]  # the partitions of each topic, sorted
NOTHING: Final[Assigned] = {}


@dataclass(slots=True)  # not frozen: that would make a member cost several times as much
class ShareMember:
    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()  # sorted, each once
    assigned: Assigned = field(default_factory=dict)

    @property
    def instance_id(self) -> None:
        """Members of share groups are never static."""

    # --- changed copies: written out, because dataclasses.replace takes several times as long

    def moved_on(self, epoch: int, previous_epoch: int, assigned: Assigned) -> ShareMember:
        """The same member with another assignment."""
        return ShareMember(
            self.member_id, epoch, previous_epoch, self.rack_id, self.client_id, self.client_host, self.topic_names,
            assigned,
        )  # fmt: skip

    def described(
        self, rack_id: str | None, client_id: str, client_host: str, topic_names: tuple[str, ...]
    ) -> ShareMember:
        """The same member, which says something else about itself."""
        return ShareMember(
            self.member_id, self.epoch, self.previous_epoch, rack_id, client_id, client_host, topic_names, self.assigned
        )

    # --- replay

    def with_metadata(self, value: ShareGroupMemberMetadataValue) -> ShareMember:
        names = sorted_names(value.subscribed_topic_names)
        return self.described(value.rack_id, value.client_id, value.client_host, names)

    def with_assignment(self, value: ShareGroupCurrentMemberAssignmentValue) -> ShareMember:
        return self.moved_on(value.member_epoch, value.previous_member_epoch, _assigned(value.assigned_partitions))

    def without_assignment(self) -> ShareMember:
        return self.moved_on(LEAVE_EPOCH, LEAVE_EPOCH, NOTHING)


def sorted_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


def assignment_of(target: Target) -> Assigned:
    return {topic_id: tuple(sorted(partitions)) for topic_id, partitions in target.items()}


def _assigned(topics: Sequence[TopicPartitions]) -> Assigned:
    return {topic.topic_id: tuple(sorted(topic.partitions)) for topic in topics}
