"""Words for tests of migrations: members of the classic protocol, in classic groups and in consumer groups.

group, (a, b) = a_classic_group("a", "b")
assert group.join("new") == Answer(2, {})              # the upgrade
assert a.heartbeat() is REBALANCE_IN_PROGRESS
assert a.rejoin() == {"orders": [0, 1]}                # JoinGroup and SyncGroup
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.subscription import read_assignment
from tests.coordinator.consumer.words import Group
from tests.coordinator.members import NONE, Member, complete_joins, leader_of
from tests.coordinator.support import FakeTopics, Host
from tests.group_requests import assignment_bytes, full_subscription

Partitions = dict[str, list[int]]


class ClassicMember(Member):
    """A consumer with cooperative rebalancing: its subscription says what it owns."""

    def __init__(
        self, group: Group, name: str, topics: Sequence[str] = ("orders",), version: int = 3, rack: str | None = None,
        assignors: Sequence[str] = ("range",), **how: Any,
    ) -> None:  # fmt: skip
        super().__init__(group.host, group.group_id, name, **how)
        self.topics = topics
        self.assignors = assignors
        self.subscription_version = version
        self.rack = rack
        self.owned: Partitions = {}
        self.say()

    def say(self) -> None:
        """Put what the member owns into its next JoinGroup."""
        said = full_subscription(self.topics, self.owned, self.generation, self.subscription_version, self.rack)
        self.protocols = [(assignor, said) for assignor in self.assignors]

    def rejoin(self) -> Partitions | ErrorCode:
        """JoinGroup and SyncGroup. The member owns what it gets, and has given up the rest."""
        self.say()
        call = self.join()
        if call.error is not NONE:
            return call.error
        return self.take()

    def take(self) -> Partitions | ErrorCode:
        call = self.sync()
        if call.error is not NONE:
            return call.error
        self.owned = partitions_of(call.answer.assignment)
        return self.owned


def partitions_of(assignment: bytes) -> Partitions:
    return {each.topic: list(each.partitions) for each in read_assignment(assignment).assigned_partitions}


def a_classic_group(
    *names: str, partitions: int = 4, host: Host | None = None, static: bool = False, **how: Any
) -> tuple[Group, list[ClassicMember]]:
    """A stable classic group. Its members share the topic `orders` in ranges."""
    settings = how.pop("settings", {})
    group = Group(host or Host(topics=FakeTopics(orders=partitions, payments=2), **settings))
    members = [ClassicMember(group, name, instance_id=name if static else None, **how) for name in names]
    complete_joins(group.host, list(members))
    share(members, partitions)
    assert group.host.state(group.group_id) == "Stable"
    return group, members


def share(members: Sequence[ClassicMember], partitions: int) -> None:
    """The leader assigns ranges, and everyone takes its own."""
    size = partitions // len(members)
    ranges = {
        m.member_id: assignment_bytes({"orders": range(i * size, i * size + size)}) for i, m in enumerate(members)
    }
    leader = leader_of(list(members))
    calls = {member.member_id: member.sync() for member in members if member is not leader}
    calls[leader.member_id] = leader.sync(ranges)
    for member in members:
        member.owned = partitions_of(calls[member.member_id].answer.assignment)


def a_mixed_group(*names: str, partitions: int = 4, **settings: Any) -> tuple[Group, list[ClassicMember]]:
    """A consumer group, stable, with the consumer `new` and these classic members."""
    group, members = a_classic_group(*names, partitions=partitions, settings=settings)
    group.join("new")
    settle(group, members, "new")
    return group, members


def settle(group: Group, classic: Sequence[ClassicMember], *consumers: str) -> None:
    """Until the group is stable. Everyone gives up and takes what it is told."""
    owned: dict[str, Mapping[str, Sequence[int]]] = {}
    for _ in range(10):
        group.host.advance(1_000)
        for name in consumers:
            member = group.object.members[name]
            answer = group.beat(name, member.epoch, owned.get(name, {}))
            assert not isinstance(answer, ErrorCode), answer
            owned[name] = answer.assignment if answer.assignment is not None else owned.get(name, {})
        for each in classic:
            if each.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS:
                each.rejoin()
        if group.state == "Stable":
            return
    raise AssertionError(group.describe())
