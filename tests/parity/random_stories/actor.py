"""A member as it sees itself, and what it learns from answers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kohort.protocol.messages.join_group import JoinGroupResponse
from kohort.protocol.messages.sync_group import SyncGroupResponse
from kohort.protocol.subscription import read_assignment
from tests.parity.random_stories.world import Line


@dataclass(eq=False)
class Actor:
    """A member, or somebody who believes to be one. It believes what Kafka answers."""

    line: Line
    is_classic: bool
    id: str = ""
    instance: str | None = None
    epoch: int = 0  # or generation
    epoch_before: int = 0
    topics: list[str] = field(default_factory=list)
    owned: dict[str, list[int]] = field(default_factory=dict)
    protocol: str | None = None
    followers: list[str] = field(default_factory=list)  # member ids, if this member leads
    has_synced: bool = False
    must_join: bool = False  # a rebalance is in progress

    @property
    def is_idle(self) -> bool:
        return self.line.asked is None

    def ways_to_name(self) -> list[tuple[str, str | None]]:
        return [(self.id, self.instance), (self.id, None), ("", self.instance)]

    def learn(self, answer: Any, topics: Collection[str]) -> None:
        """`topics`: those that exist, or did."""
        error = getattr(answer, "error_code", 0)
        if isinstance(answer, ConsumerGroupHeartbeatResponse):
            self._learn_epoch(answer)
        elif isinstance(answer, JoinGroupResponse):
            if error == ErrorCode.MEMBER_ID_REQUIRED:
                self.id, self.epoch = answer.member_id, 0
            elif not error:
                self.epoch_before, self.epoch, self.id = self.epoch, answer.generation_id, answer.member_id
                self.protocol, self.has_synced, self.must_join = answer.protocol_name, False, False
                self.followers = [each.member_id for each in answer.members]
        elif isinstance(answer, SyncGroupResponse) and not error:
            self.has_synced = True
            self.owned = {t: p for t, p in _partitions_of(bytes(answer.assignment)).items() if t in topics}
        self.must_join |= error == ErrorCode.REBALANCE_IN_PROGRESS
        if self.is_classic and error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.epoch, self.owned = 0, {}
            if error == ErrorCode.UNKNOWN_MEMBER_ID:
                self.id = ""

    def _learn_epoch(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        if answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self.epoch_before, self.epoch, self.owned = self.epoch, 0, {}
        elif not answer.error_code and answer.member_epoch > 0:
            if answer.member_epoch != self.epoch:
                self.epoch_before = self.epoch
            self.id, self.epoch = answer.member_id or "", answer.member_epoch
            if answer.assignment is not None:
                self.owned = {str(row.topic_id): list(row.partitions) for row in answer.assignment.topic_partitions}


def _partitions_of(assignment: bytes) -> dict[str, list[int]]:
    try:
        rows = read_assignment(assignment).assigned_partitions
    except MalformedMessage:
        return {}
    return {row.topic: list(row.partitions) for row in rows}


def name_of(actor: Actor | None) -> str:
    return "somebody" if actor is None else actor.instance or actor.id or "a newcomer"
