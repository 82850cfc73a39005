"""The examples in the documentation of Kafka's RangeAssignor, RoundRobinAssignor and StickyAssignor."""

from __future__ import annotations

from kohort.coordinator.assignors import Assignment, Partition, assign

TWO_TOPICS = {"t0": 3, "t1": 3}
UNEVEN_TOPICS = {"t0": 1, "t1": 2, "t2": 3}
UNEVEN_WISHES = {"C0": ["t0"], "C1": ["t0", "t1"], "C2": ["t0", "t1", "t2"]}
FOUR_TOPICS = {"t0": 2, "t1": 2, "t2": 2, "t3": 2}


def partitions(words: str) -> list[Partition]:
    return [(topic, int(number)) for topic, number in (word.split("p") for word in words.split())]


def sets(assignment: Assignment) -> dict[str, set[Partition]]:
    return {member: set(owned) for member, owned in assignment.items()}


def everybody(members: str, topics: dict[str, int]) -> dict[str, list[str]]:
    return {member: list(topics) for member in members.split()}


def test_range_gives_the_first_members_one_more_of_each_topic() -> None:
    assigned = assign("range", everybody("C0 C1", TWO_TOPICS), TWO_TOPICS)
    assert assigned == {"C0": partitions("t0p0 t0p1 t1p0 t1p1"), "C1": partitions("t0p2 t1p2")}


def test_range_changes_hands_when_a_bounce_turns_the_order_of_the_member_ids() -> None:
    assigned = assign("range", everybody("C3 C2", TWO_TOPICS), TWO_TOPICS)
    assert assigned == {"C3": partitions("t0p2 t1p2"), "C2": partitions("t0p0 t0p1 t1p0 t1p1")}


def test_range_goes_by_the_instance_ids_of_static_members() -> None:
    before = assign("range", everybody("C0 C1", TWO_TOPICS), TWO_TOPICS, {}, {"C0": "I0", "C1": "I1"})
    after = assign("range", everybody("C3 C2", TWO_TOPICS), TWO_TOPICS, {}, {"C3": "I0", "C2": "I1"})
    assert (after["C3"], after["C2"]) == (before["C0"], before["C1"])


def test_roundrobin_deals_in_turn() -> None:
    assigned = assign("roundrobin", everybody("C0 C1", TWO_TOPICS), TWO_TOPICS)
    assert assigned == {"C0": partitions("t0p0 t0p2 t1p1"), "C1": partitions("t0p1 t1p0 t1p2")}


def test_roundrobin_passes_over_who_does_not_want_the_topic() -> None:
    assigned = assign("roundrobin", UNEVEN_WISHES, UNEVEN_TOPICS)
    assert assigned == {"C0": partitions("t0p0"), "C1": partitions("t1p0"), "C2": partitions("t1p1 t2p0 t2p1 t2p2")}


def test_roundrobin_is_shuffled_by_new_member_ids_but_not_by_those_of_static_members() -> None:
    first = {"C0": partitions("t0p0 t1p0"), "C1": partitions("t0p1 t1p1"), "C2": partitions("t0p2 t1p2")}
    assert assign("roundrobin", everybody("C0 C1 C2", TWO_TOPICS), TWO_TOPICS) == first
    bounced = assign("roundrobin", everybody("C5 C3 C4", TWO_TOPICS), TWO_TOPICS)
    assert (bounced["C3"], bounced["C4"], bounced["C5"]) == (first["C0"], first["C1"], first["C2"])
    instances = {"C5": "I0", "C3": "I1", "C4": "I2"}
    static = assign("roundrobin", everybody("C5 C3 C4", TWO_TOPICS), TWO_TOPICS, {}, instances)
    assert (static["C5"], static["C3"], static["C4"]) == (first["C0"], first["C1"], first["C2"])


def test_sticky_keeps_all_that_can_be_kept_when_a_member_goes() -> None:
    """Example 1 of StickyAssignor."""
    first = assign("sticky", everybody("C0 C1 C2", FOUR_TOPICS), FOUR_TOPICS)
    assert first == assign("roundrobin", everybody("C0 C1 C2", FOUR_TOPICS), FOUR_TOPICS)
    assert first == {
        "C0": partitions("t0p0 t1p1 t3p0"),
        "C1": partitions("t0p1 t2p0 t3p1"),
        "C2": partitions("t1p0 t2p1"),
    }
    dealt_anew = assign("roundrobin", everybody("C0 C2", FOUR_TOPICS), FOUR_TOPICS)
    assert dealt_anew == {"C0": partitions("t0p0 t1p0 t2p0 t3p0"), "C2": partitions("t0p1 t1p1 t2p1 t3p1")}
    after = assign("sticky", everybody("C0 C2", FOUR_TOPICS), FOUR_TOPICS, first)
    assert all(set(first[member]) < set(after[member]) for member in after), "all previous assignments are preserved"
    # The page, written for an older version, gives t2p0 to C0 and t0p1 to C2. test_java_assignors.py asks 4.3.1 itself.
    assert after == {"C0": partitions("t0p0 t3p0 t1p1 t0p1"), "C2": partitions("t1p0 t2p1 t2p0 t3p1")}


def test_sticky_is_more_even_than_roundrobin_where_wishes_differ() -> None:
    """Example 2 of StickyAssignor."""
    first = assign("sticky", UNEVEN_WISHES, UNEVEN_TOPICS)
    assert first == {"C0": partitions("t0p0"), "C1": partitions("t1p0 t1p1"), "C2": partitions("t2p0 t2p1 t2p2")}
    without_c0 = {member: topics for member, topics in UNEVEN_WISHES.items() if member != "C0"}
    assert sets(assign("roundrobin", without_c0, UNEVEN_TOPICS)) == {
        "C1": set(partitions("t0p0 t1p1")),
        "C2": set(partitions("t1p0 t2p0 t2p1 t2p2")),
    }
    assert sets(assign("sticky", without_c0, UNEVEN_TOPICS, first)) == {
        "C1": set(partitions("t1p0 t1p1 t0p0")),
        "C2": set(partitions("t2p0 t2p1 t2p2")),
    }


def test_cooperative_sticky_withholds_what_another_member_still_owns() -> None:
    topics = {"t0": 4}
    owned = {"C0": partitions("t0p0 t0p1 t0p2 t0p3")}
    first = assign("cooperative-sticky", everybody("C0 C1", topics), topics, owned)
    assert first == {"C0": partitions("t0p0 t0p1"), "C1": []}
    second = assign("cooperative-sticky", everybody("C0 C1", topics), topics, first)
    assert second == {"C0": partitions("t0p0 t0p1"), "C1": partitions("t0p2 t0p3")}


def test_a_topic_that_does_not_exist_and_a_group_without_members_are_no_trouble() -> None:
    for name in ("range", "roundrobin", "sticky", "cooperative-sticky"):
        assert assign(name, {"C0": ["gone", "t0"]}, {"t0": 1}) == {"C0": [("t0", 0)]}
        assert assign(name, {}, {"t0": 1}) == {}
        assert assign(name, {"C0": ["gone"], "C1": []}, {}) == {"C0": [], "C1": []}
