"""How much moved, and how much of it had to."""

from __future__ import annotations

import itertools
import random

from kohort.audit.derive.records import Member, Place
from kohort.history.moves import count_moves
from tests.audit.derive.stories import member, places


def owners(**held: str) -> dict[Place, str]:
    return {place: name for name, text in held.items() for place in places(text)}


def counted(before: dict[Place, str], *members: Member) -> tuple[int, int, int]:
    moves = count_moves(before, members)
    return moves.moved, moves.forced, moves.avoidable


def test_partitions_of_one_who_left_have_to_move() -> None:
    before = owners(m1="a0 a1", m2="a2 a3")
    assert counted(before, member("m1", "a0 a1 a2 a3")) == (2, 2, 0)


def test_partitions_of_a_topic_that_the_owner_no_longer_wants_have_to_move() -> None:
    before = owners(m1="a0 b0", m2="a1 b1")
    assert counted(before, member("m1", "a0"), member("m2", "a1 b0 b1", topics="ab")) == (1, 1, 0)


def test_a_newcomer_needs_its_share_and_no_more() -> None:
    before = owners(m1="a0 a1 a2", m2="a3 a4 a5")
    sticky = [member("m1", "a0 a1"), member("m2", "a3 a4"), member("m3", "a2 a5")]
    ranges = [member("m1", "a0 a1"), member("m2", "a2 a3"), member("m3", "a4 a5")]
    assert counted(before, *sticky) == (2, 0, 0)
    assert counted(before, *ranges) == (3, 0, 1)


def test_who_has_one_more_than_the_others_may_stay_the_same() -> None:
    before = owners(m1="a0 a1", m2="a2")
    assert counted(before, member("m1", "a0"), member("m2", "a1 a2")) == (1, 0, 1)


def test_balance_that_was_reached_is_not_avoidable() -> None:
    before = owners(m1="a0 a1 a2 a3", m2="")
    assert counted(before, member("m1", "a0 a1"), member("m2", "a2 a3")) == (2, 0, 0)


def test_members_with_different_topics_are_judged_topic_by_topic() -> None:
    before = owners(m1="a0 a1", m2="b0 b1")
    swapped = [member("m1", "b0 b1", topics="ab"), member("m2", "a0 a1", topics="abc")]
    assert counted(before, *swapped) == (4, 0, 0)  # each got exactly as many of each topic: there was no other way
    shuffled = [member("m1", "a2 a1", topics="ab"), member("m2", "b0 b1 a0", topics="abc")]
    assert counted(owners(m1="a0 a1 a3", m2="b0 b1 a2"), *shuffled) == (2, 0, 2)


def test_a_static_member_with_a_new_id_is_the_same_owner() -> None:
    old, new = member("old", "a0", static="s"), member("new", "a0", static="s")
    assert counted(count_moves({}, [old]).owners, new) == (0, 0, 0)


def test_of_two_owners_one_who_stays_is_enough() -> None:
    assert counted(owners(m1="a0"), member("m1", "a0"), member("m2", "a0")) == (0, 0, 0)
    assert counted(owners(m3="a0"), member("m1", "a0"), member("m2", "a0")) == (1, 1, 0)


def test_needed_moves_are_the_least_that_any_assignment_with_these_loads_makes() -> None:
    rng = random.Random(7)
    for _ in range(60):
        count = rng.randint(2, 6)
        before = {("a", n): f"m{rng.randint(0, 2)}" for n in range(count) if rng.random() < 0.8}
        now = [rng.randint(0, 2) for _ in range(count)]
        members = [member(f"m{i}", " ".join(f"a{n}" for n in range(count) if now[n] == i)) for i in range(3)]
        moves = count_moves(before, members)
        loads = sorted(now.count(i) for i in range(3))
        least = min(
            sum(1 for n in range(count) if before.get(("a", n), f"m{owner[n]}") != f"m{owner[n]}")
            for owner in itertools.product(range(3), repeat=count)
            if sorted(owner.count(i) for i in range(3)) == loads
        )
        assert moves.avoidable == moves.moved - least, (before, now)
