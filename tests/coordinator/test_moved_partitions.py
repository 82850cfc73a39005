"""What is told of partitions that moved, when a classic group has rebalanced."""

from __future__ import annotations

import pytest

from kohort.coordinator.classic import events
from kohort.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, TopicPartition
from kohort.protocol.subscription import pack_assignment
from tests.coordinator.members import Member, joined, protocols
from tests.coordinator.support import Host
from tests.group_requests import subscription


def moved(host: Host, members: list[Member], *shares: list[int] | None) -> int:
    """All join again, and the leader gives each of them its share of the topic."""
    for member in members:
        member.join()
    for member in members:
        member.learn()
    topics = [[TopicPartition("orders", share)] if share else [] for share in shares]
    packed = [pack_assignment(ConsumerProtocolAssignment(each, None)) for each in topics]
    leader = next(member for member in members if member.is_leader)
    leader.sync(dict(zip([member.member_id for member in members], packed, strict=True)))
    told: int = host.events[-1].moved
    return told


def test_a_partition_that_is_revoked_first_and_given_later_has_moved_when_it_is_given() -> None:
    host = Host()
    members = joined(host, "a", "b")
    assert moved(host, members, [0, 1, 2, 3], []) == 0
    assert moved(host, members, [0, 1], []) == 0, "a cooperative group revokes first"
    assert moved(host, members, [0, 1], [2]) == 1
    assert moved(host, members, [0, 1], [2, 3]) == 1, "the last owner is remembered over several generations"
    assert moved(host, members, [0, 1], [2, 3]) == 0


def test_a_partition_that_its_last_owner_gets_back_has_not_moved() -> None:
    host = Host()
    members = joined(host, "a", "b")
    moved(host, members, [0, 1], [])
    moved(host, members, [0], [])
    assert moved(host, members, [0, 1], []) == 0


def test_what_is_nobodys_when_the_group_becomes_empty_is_forgotten() -> None:
    host = Host()
    members = joined(host, "a", "b")
    moved(host, members, [0, 1], [])
    moved(host, members, [0], [])
    for member in members:
        member.leave()
    newcomers = joined(host, "c")
    assert moved(host, newcomers, [0]) == 0
    assert moved(host, newcomers, [0, 1]) == 0


def test_a_static_member_that_comes_back_with_another_member_id_is_the_same_owner() -> None:
    host = Host()
    old = Member(host, name="one", instance_id="one")
    other = Member(host, name="other")
    old.join()
    other.join()
    host.advance(6_000)
    members = [old.learn(), other.learn()]
    assert moved(host, members, [0, 1], [2]) == 0
    new = Member(
        host, name="one", instance_id="one", protocols=protocols("range", metadata=subscription("orders", "payments"))
    )
    other.join()
    assert moved(host, [new, other], [0, 1], [2]) == 0
    assert new.member_id != old.member_id


def test_very_many_partitions_without_an_owner_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAX_WITHOUT_OWNER", 3)
    host = Host()
    members = joined(host, "a", "b")
    moved(host, members, [0, 1, 2, 3], [])
    assert moved(host, members, [], []) == 0
    assert moved(host, members, [], [0]) == -1, "it is not known who had it"
    assert moved(host, members, [0], []) == 1
