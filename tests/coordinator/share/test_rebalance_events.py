"""What the host tells of share groups: one event for each change, when all members have reached the new epoch."""

from __future__ import annotations

from kohort.coordinator.events import Reconciled
from tests.coordinator.share.words import Group, a_group, next_target, with_members


def told(group: Group) -> list[Reconciled]:
    """The events since the last time."""
    found = [event for event in group.host.events if isinstance(event, Reconciled)]
    group.host.events = [event for event in group.host.events if not isinstance(event, Reconciled)]
    return found


def event(epoch: int, cause: str, trigger: str, slowest: str, ms: int, members: int, moved: int) -> Reconciled:
    last = "client" if slowest else ""
    return Reconciled("work", epoch, cause, trigger, "client", slowest, last, ms, members, moved, "share")


def test_a_join_is_over_at_once_and_so_is_the_assignment_of_initialized_partitions() -> None:
    group = a_group()
    group.join("m1")
    assert told(group) == [event(2, "member joined", "m1", "m1", 0, 1, 0)]
    group.initialize()
    group.beat("m1", 2)
    assert told(group) == []
    next_target(group)
    group.beat("m1", 2)
    assert told(group) == [event(3, "partitions initialized", "m1", "m1", 1_000, 1, 3)]


def test_the_first_cause_is_told_when_the_last_member_knows_its_new_epoch() -> None:
    group = with_members("m1", partitions=2)
    told(group)
    group.join("m2")
    group.host.topics.grow("orders", 3)
    group.host.advance(500)
    group.beat("m2", 4)
    assert told(group) == []
    group.host.advance(500)
    group.beat("m1", 3)
    group.beat("m2", 4)
    assert told(group) == [event(5, "member joined", "m2", "m2", 1_000, 2, 1)]


def test_other_causes() -> None:
    group = with_members("m1", "m2")
    group.host.advance(1_000)
    told(group)
    epoch = group.object.epoch
    group.beat("m1", epoch, subscribed_topic_names=["orders", "payments"])
    group.beat("m2", epoch)
    group.host.topics.grow("payments", 5)
    group.host.advance(1_000)
    group.beat("m2", epoch + 1)
    group.beat("m1", epoch + 1)
    group.leave("m2")
    group.host.advance(1_000)
    group.beat("m1", epoch + 2)
    group.host.advance(45_000)
    assert [each.cause for each in told(group)] == [
        "subscription changed", "topics changed", "member left", "session expired",
    ]  # fmt: skip


def test_when_nobody_is_left_that_is_told_at_once() -> None:
    group = with_members("m1")
    told(group)
    group.leave("m1")
    assert told(group) == [event(4, "member left", "m1", "", 0, 0, 0)]


def test_the_record_of_the_epoch_says_why() -> None:
    group = with_members("m1")
    headers = [dict(record.headers) for record in group.host.log_of("work") if record.headers]
    assert [each[b"kohort.cause"] for each in headers] == [b"member joined", b"partitions initialized"]
    assert [each[b"kohort.trigger"] for each in headers] == [b"m1", b"m1"]
    assert not any(record.headers for record in with_members("m1", audit_headers=False).host.log_of("work"))
