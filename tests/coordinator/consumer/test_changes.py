"""What a request changes is written and replayed as a whole: the same bytes and group as record by record."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.coordinator.consumer.changes import Changes
from kohort.coordinator.consumer.group import ConsumerGroup
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.outcome import AtomicRecords, LogEntry, StepRecords
from kohort.coordinator.rebalance import Rebalance
from kohort.coordinator.record_codec import batches
from kohort.coordinator.shard_clock import ShardClock
from tests.coordinator.consumer.words import a_group, next_target

LIMIT = 1_000_000
MEMBER_IDS = ("m1", "m2", "consumer-\u00e9", "x" * 300)
TOPIC_IDS = tuple(bytes([number]) * 16 for number in (1, 2, 3))

epochs = st.integers(0, 5)
names = st.lists(st.sampled_from(["orders", "payments", "\u20ac"]), unique=True).map(lambda found: tuple(sorted(found)))
numbers = st.sampled_from([(), (0,), (3, 1), tuple(range(31)), tuple(range(32)), tuple(range(33)), tuple(range(200))])
targets = st.dictionaries(st.sampled_from(TOPIC_IDS), numbers)
owned = st.dictionaries(
    st.sampled_from(TOPIC_IDS), st.builds(lambda found, epoch: dict.fromkeys(found, epoch), numbers, epochs)
)
texts = st.sampled_from(["", "client", "\u00fc" * 100])
maybe = st.none() | texts
descriptions = st.tuples(maybe, maybe, st.integers(-1, 9), texts, texts, names, maybe, st.sampled_from([None, "range"]))


@st.composite
def several_changes(draw: st.DrawFn) -> list[dict[str, Any]]:
    """What requests change one after the other, as arguments for `changes_of`."""
    return draw(
        st.lists(
            st.fixed_dictionaries({
                "member_id": st.sampled_from(MEMBER_IDS),
                "described": st.none() | descriptions,
                "epoch": st.none() | st.tuples(epochs, st.sampled_from([0, 5, -(2**63), 2**63 - 1]), st.booleans()),
                "targets": st.none() | st.dictionaries(st.sampled_from(MEMBER_IDS), targets),
                "moved": st.none() | st.tuples(epochs, st.integers(-1, 5), st.integers(0, 3), owned, owned),
            }),
            max_size=6,
        )
    )  # fmt: skip


def changes_of(group: ConsumerGroup, rebalance: Rebalance, what: dict[str, Any]) -> Changes:
    member = group.members.get(what["member_id"]) or ConsumerMember(what["member_id"])
    changes = Changes(group, [])
    if what["described"] is not None:
        changes.described = member = member.described(*what["described"])
    if what["epoch"] is not None:
        changes.epoch, changes.metadata_hash, has_headers = what["epoch"]
        changes.why = (rebalance, "member joined", what["member_id"]) if has_headers else None
    if what["targets"] is not None:
        changes.targets, changes.target_epoch, changes.wall_ms = what["targets"], 3, 1_700_000_000_000
    if what["moved"] is not None:
        changes.moved = member.moved_on(*what["moved"])
    return changes


def state_of(group: ConsumerGroup) -> dict[str, Any]:
    """All that the group knows, with the order of what it goes through."""
    found: dict[str, Any] = {name: getattr(group, name) for name in ConsumerGroup.__slots__}
    wanted = found.pop("subscriptions")
    found["topics"] = {name: getattr(wanted, name) for name in wanted.__slots__}
    orders = [(name, list(value)) for name, value in found.items() if isinstance(value, dict)]
    return {**found, "orders": orders}


@settings(max_examples=300, deadline=None)
@given(several_changes())
def test_changes_are_the_same_as_a_whole_and_record_by_record(stories: list[dict[str, Any]]) -> None:
    quick, slow = ConsumerGroup("billing"), ConsumerGroup("billing")
    rebalance = Rebalance(ShardClock(), "topics changed", "m0", "")
    for story in stories:
        whole, single = changes_of(quick, rebalance, story), changes_of(slow, rebalance, story)
        entries, records = whole.entries(None, 0, LIMIT), single.records()
        assert entries is not None
        assert [type(entry) for entry in entries] == [StepRecords] * bool(records)
        assert batches(entries, 7, 99) == batches([AtomicRecords(records)], 7, 99)
        if records:
            whole.replay()
        for record in records:
            slow.replay(record.key, record.value)
        assert state_of(quick) == state_of(slow)


def the_entry(changes: Changes) -> LogEntry:
    entries = changes.entries(None, 0, LIMIT)
    assert entries is not None
    (entry,) = entries
    return entry


def test_a_step_stays_in_one_batch_and_begins_a_new_one_if_need_be() -> None:
    group = ConsumerGroup("billing")
    changes = Changes(group, [])
    changes.described = ConsumerMember("m1").described(None, None, 60_000, "c", "/10.0.0.7", ("orders",), "", None)
    changes.epoch, changes.metadata_hash = 2, 5
    step = the_entry(changes)
    other: list[LogEntry] = [AtomicRecords(changes.records())]
    both = batches([step, step], 0, 99)
    assert both == batches([*other, *other], 0, 99)
    (alone,) = batches([step], 0, 99)
    limit = len(alone) + 10
    assert batches([step, step], 0, 99, limit) == batches([*other, *other], 0, 99, limit)
    assert len(batches([step, step], 0, 99, limit)) == 2


def test_changes_that_may_be_too_large_for_a_batch_are_written_one_by_one() -> None:
    changes = Changes(ConsumerGroup("billing"), [])
    changes.targets = {member_id: {TOPIC_IDS[0]: tuple(range(100))} for member_id in MEMBER_IDS}
    assert isinstance(the_entry(changes), StepRecords)
    entries = changes.entries(None, 0, 1_000)
    assert entries == changes.records()
    assert changes.entries(None, 0, 400) is None


def test_what_is_unusual_is_written_record_by_record() -> None:
    unusual = Changes(ConsumerGroup("billing"), [])
    unusual.unused_regex = "order.*"
    entry = the_entry(unusual)
    assert isinstance(entry, AtomicRecords)
    assert len(entry.records) == 1


def test_a_group_whose_changes_were_replayed_as_a_whole_is_the_one_that_its_log_says() -> None:
    group = a_group(partitions=7)
    for number in range(5):
        group.join(f"m{number}")
    next_target(group)
    for _ in range(4):
        for number in range(5):
            member = group.object.members[f"m{number}"]
            owned = {"orders": [each for has in member.assigned.values() for each in has]}
            group.beat(member.member_id, member.epoch, owned)
    live = state_of(group.object)
    group.host.crash()
    loaded = state_of(group.object)
    soft = {"_reconciled", "sessions", "rebalance", "topics_version", "orders"}
    assert {name: value for name, value in live.items() if name not in soft} == {
        name: value for name, value in loaded.items() if name not in soft
    }
