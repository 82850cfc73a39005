"""The target of a small group with one topic is computed in a quicker way, and is the one that the usual way gives."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.coordinator.api import all_steps
from kohort.coordinator.assignors.server_side import Target, Targets
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.subscriptions import Subscriptions
from kohort.coordinator.consumer.target import Plan, moved_at_once, moved_partitions
from kohort.coordinator.planning import changed_targets
from kohort.coordinator.rebalance import Rebalance
from kohort.coordinator.shard_clock import ShardClock
from tests.coordinator.support import FakeTopics

counts = st.sampled_from([1, 2, 7, 12, 13, 40, 100, 129, 300])


def targets_before(draw: st.DrawFn, topics: FakeTopics, member_ids: list[str]) -> dict[str, Target]:
    """Random ones: sometimes they have another topic, partitions that do not exist, or one that two members have."""
    orders, payments = topics.topic_id("orders"), topics.topic_id("payments")
    assert orders is not None
    assert payments is not None
    partitions = draw(st.permutations(range(topics.partition_count("orders") + draw(st.sampled_from([0, 0, 0, 3])))))
    found: dict[str, Target] = {}
    for member_id in member_ids:
        size = draw(st.sampled_from([0, 1, 2, 5, 20, 400]))
        some, partitions = partitions[:size], partitions[size:]
        if draw(st.integers(0, 3)):
            found[member_id] = {orders: tuple(some)} if some else {}
    if found and not draw(st.integers(0, 5)):
        found[next(iter(found))] = draw(
            st.sampled_from([{payments: (0,)}, {orders: ()}, {orders: (0,), payments: (1,)}])
        )
    return found


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    topics = FakeTopics(orders=draw(counts), payments=2)
    ids = draw(st.lists(st.sampled_from([f"member-{number}" for number in range(60)]), min_size=1, unique=True))
    names = draw(st.sampled_from([("orders",), ("orders",), ("orders",), ("gone",), ("orders", "payments")]))
    members = {each: ConsumerMember(each, 1, topic_names=names) for each in ids}
    updated = draw(st.sampled_from([None, ids[0], "member-new"]))
    subscriptions = Subscriptions()
    for each in {*ids, *([updated] if updated else [])}:
        subscriptions.change(None, ConsumerMember(each, topic_names=names))
    everyone = len({*ids, *([updated] if updated else [])})
    return Plan(
        3, members, draw(st.sampled_from([2, 64, 128])), targets_before(draw, topics, ids), subscriptions,
        subscriptions.are_equal(everyone), draw(st.sampled_from(["uniform", "uniform", "range"])), topics,
        None if updated is None else ConsumerMember(updated, topic_names=names), None,
        None if updated is None else list(reversed(names)),
    )  # fmt: skip


def in_order(targets: Targets) -> list[tuple[str, list[tuple[bytes, tuple[int, ...]]]]]:
    """With the order of members, topics and partitions: the log shows it."""
    return [
        (member_id, [(topic, tuple(partitions)) for topic, partitions in target.items()])
        for member_id, target in targets.items()
    ]


def fresh(plan: Plan) -> Plan:
    """A plan is computed once: it remembers what it looked up."""
    return replace(plan, _topic_ids={}, _counts={}, _taken={})


@settings(max_examples=1_000, deadline=None)
@given(plans())
def test_a_target_is_the_same_at_once_and_in_steps(plan: Plan) -> None:
    usual, quick = all_steps(fresh(plan).compute()), fresh(plan).compute_at_once()
    assert in_order(quick) == in_order(usual)
    changed = all_steps(changed_targets(plan.targets, usual))
    assert in_order(all_steps(changed_targets(plan.targets, quick))) == in_order(changed)
    rebalance = Rebalance(ShardClock(), "member left", "m0", "")
    rebalance.freed = {(topic, 0) for topic in map(plan.topics.topic_id, ["orders"]) if topic is not None}
    for going_on in (None, rebalance):
        moved = all_steps(moved_partitions(plan.targets, changed, going_on))
        assert moved_at_once(plan.targets, changed, going_on) == moved


def test_the_usual_group_is_computed_in_the_quick_way() -> None:
    topics = FakeTopics(orders=100)
    members = {f"member-{number}": ConsumerMember(f"member-{number}", topic_names=("orders",)) for number in range(50)}
    subscriptions = Subscriptions()
    for member in members.values():
        subscriptions.change(None, member)
    plan = Plan(3, members, 64, {}, subscriptions, True, "uniform", topics)
    found = plan._compute_for_one_topic()
    assert found is not None
    assert in_order(found) == in_order(all_steps(fresh(plan).compute()))
