"""Records of consumer groups are packed by hand while a group rebalances: with the bytes of the generated codec."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.records import current_assignment_record, packed_target, target_record
from kohort.protocol.consumer_group_record import assignment_value, pack_name, target_value
from kohort.protocol.log_records import encode_key, encode_value
from kohort.protocol.record_batch import NO_HEADERS, encode_fields

numbers = st.integers(0, 2**31 - 1)
# Lengths around those at which a topic with its partitions has no format of its own any more.
counts = st.sampled_from([0, 1, 2, 5, 30, 31, 32, 33, 34, 63, 64, 127, 128, 300])


@st.composite
def topics(draw: st.DrawFn) -> dict[bytes, dict[int, int]]:
    """Partitions of some topics, with the epochs since when they are assigned."""
    found = {}
    for topic_id in draw(st.lists(st.binary(min_size=16, max_size=16), unique=True, max_size=4)):
        count, first, since = draw(counts), draw(st.integers(0, 2**30)), draw(numbers)
        found[topic_id] = {first + number: since for number in range(count)}
    return found


@settings(max_examples=300, deadline=None)
@given(numbers, numbers, st.integers(0, 2), topics(), topics())
def test_an_assignment_has_the_same_bytes(
    epoch: int, previous: int, state: int, assigned: dict[bytes, dict[int, int]], pending: dict[bytes, dict[int, int]]
) -> None:
    member = ConsumerMember("m", epoch, previous, state, assigned=assigned, pending_revocation=pending)
    kind, _, value, _, version = current_assignment_record("g", member)
    assert assignment_value(epoch, previous, state, assigned, pending) == encode_value(kind, value, version)


@settings(max_examples=300, deadline=None)
@given(topics())
def test_a_target_has_the_same_bytes(assigned: dict[bytes, dict[int, int]]) -> None:
    target = {topic_id: tuple(owned) for topic_id, owned in assigned.items()}
    kind, key, value, _, version = target_record("g", "m", target)
    assert target_value(target) == encode_value(kind, value, version)
    fields = encode_fields(encode_key(kind, key), encode_value(kind, value, version), NO_HEADERS)
    assert packed_target(pack_name("g"), "m", target) == fields
