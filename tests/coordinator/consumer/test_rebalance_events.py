"""What is told of a consumer group's rebalance, when all its members have reconciled."""

from __future__ import annotations

from kohort.coordinator.events import Reconciled
from tests.coordinator.consumer.words import Answer, Group, a_group, next_target


def told(group: Group) -> list[Reconciled]:
    events, group.host.events = group.host.events, []
    return events


def test_the_first_member_of_a_group_is_reconciled_at_once() -> None:
    group = a_group()
    group.join("m1")
    assert told(group) == [Reconciled("billing", 2, "member joined", "m1", "client", "m1", "client", 0, 1, 0)]


def test_a_rebalance_lasts_until_its_last_member_has_reconciled() -> None:
    group = a_group()
    group.join("m1")
    next_target(group)
    told(group)
    group.join("m2")
    group.host.advance(3_000)
    group.beat("m1", 2)
    group.host.advance(1_000)
    group.beat("m1", 2, {"orders": [0, 1]})
    assert told(group) == []
    group.host.advance(500)
    assert group.beat("m2", 3) == Answer(3, {"orders": [2]})
    assert told(group) == [Reconciled("billing", 3, "member joined", "m2", "client", "m2", "client", 4_500, 2, 1)]
    group.beat("m1", 3)
    assert told(group) == []


def test_causes_that_come_together_are_one_rebalance_and_the_first_is_told() -> None:
    group = a_group()
    group.join("m1")
    told(group)
    group.join("m2")
    group.host.topics.grow("orders", 4)
    group.join("m3")
    next_target(group)
    group.beat("m1", 2)
    group.beat("m1", 2, {"orders": [0, 1]})
    assert told(group) == []
    for _ in range(2):
        for member_id in ("m1", "m2", "m3"):
            group.beat(member_id, group.object.members[member_id].epoch)
    (event,) = told(group)
    assert (event.cause, event.trigger, event.members) == ("member joined", "m2", 3)
    assert event.epoch == group.object.epoch


def test_topics_and_subscriptions_are_causes_too() -> None:
    group = a_group()
    group.join("m1")
    next_target(group)
    told(group)
    group.host.topics.grow("orders", 4)
    group.beat("m1", 2)
    next_target(group)
    group.beat("m1", 3, subscribed_topic_names=["orders", "payments"])
    assert [(each.epoch, each.cause, each.trigger, each.moved) for each in told(group)] == [
        (3, "topics changed", "m1", 0), (4, "subscription changed", "m1", 0)
    ]  # fmt: skip


def test_when_nobody_is_left_nobody_was_the_slowest() -> None:
    group = a_group()
    group.join("m1")
    group.host.advance(1_000)
    told(group)
    group.leave("m1")
    assert told(group) == [Reconciled("billing", 3, "member left", "m1", "client", "", "", 0, 0, 0)]


def test_static_members_are_named_by_their_instance_ids() -> None:
    group = a_group()
    group.join("m1", instance_id="billing-1")
    group.join("m2")
    next_target(group)
    group.beat("m2", 2)
    group.beat("m1", 2)
    group.beat("m1", 2, {"orders": [0, 1]})
    group.beat("m2", 3)
    told(group)
    group.leave("m1", instance_id="billing-1")
    next_target(group)
    group.beat("m2", 3)
    (event,) = told(group)
    assert (event.trigger, event.trigger_client) == ("m1", "billing-1")
    assert (event.slowest, event.slowest_client) == ("m2", "client")


def test_partitions_of_a_member_that_is_gone_have_moved() -> None:
    group = a_group()
    group.join("m1")
    group.host.advance(30_000)
    group.join("m2")
    group.beat("m1", 2)
    group.beat("m1", 2, {"orders": [0, 1]})
    group.beat("m2", 3)
    told(group)
    group.host.advance(44_000)
    group.beat("m2", 3)
    group.host.advance(1_000)
    assert group.beat("m2", 3) == Answer(4, {"orders": [0, 1, 2]})
    (event,) = told(group)
    assert (event.cause, event.trigger, event.members, event.moved) == ("session expired", "m1", 1, 2)


def test_the_event_is_told_when_its_records_are_durable() -> None:
    group = a_group()
    group.host.disk.is_slow = True
    group.send("m1", 0, {}, rebalance_timeout_ms=1, subscribed_topic_names=["orders"])
    assert told(group) == []
    group.host.disk_catches_up()
    assert len(told(group)) == 1


def test_members_are_counted_by_their_state() -> None:
    group = a_group()
    group.join("m1")
    next_target(group)
    group.join("m2")
    group.beat("m1", 2)
    assert group.object.member_states() == {"unrevoked partitions": 1, "unreleased partitions": 1}
    group.beat("m1", 2, {"orders": [0, 1]})
    group.beat("m2", 3)
    assert group.object.member_states() == {"stable": 2}
    group.leave("m1")
    group.leave("m2")
    assert group.object.member_states() == {}
