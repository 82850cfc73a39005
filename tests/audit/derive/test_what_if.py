"""What the assignors would have done, against the assignors themselves and small stories."""

from __future__ import annotations

from random import Random

from kohort.audit.derive.history import walk
from kohort.audit.derive.records import CLASSIC_GENERATION, GroupRecord, Member
from kohort.audit.derive.what_if import WhatIf, what_if_rows
from kohort.coordinator.assignors import ASSIGNORS, GroupSpec, Partition
from kohort.coordinator.assignors.cooperative_sticky import settled
from tests.audit.derive.stories import Story, member
from tests.coordinator.assignors.random_groups import random_group


def rows_of(story: Story, generation: int) -> dict[str, WhatIf]:
    return {row.assignor: row for row in what_if_rows(story.log) if row.generation == generation}


def moved(story: Story, generation: int) -> dict[str, int]:
    return {assignor: row.moved for assignor, row in rows_of(story, generation).items()}


def test_a_member_that_joins_costs_range_more_than_sticky() -> None:
    story = Story().generation_of(m1="a0 a1 a2", m3="a3 a4 a5").generation_of(m1="a0 a1", m2="a2 a3", m3="a4 a5")
    assert moved(story, 2) == {"range": 2, "roundrobin": 4, "sticky": 2, "cooperative-sticky": 2}
    rows = rows_of(story, 2)
    assert {(row.max_load, row.min_load) for row in rows.values()} == {(2, 2)}
    assert {name: row.interrupted for name, row in rows.items()} == {
        "range": 6, "roundrobin": 6, "sticky": 6, "cooperative-sticky": 2,
    }  # fmt: skip


def test_the_first_generation_moves_nothing_and_shows_the_balance() -> None:
    story = Story().generation(member("m1", "a0 b0", topics="ab"), member("m2", "", topics="ab"))
    rows = rows_of(story, 1)
    assert {name: (row.moved, row.max_load, row.min_load) for name, row in rows.items()} == {
        "range": (0, 2, 0), "roundrobin": (0, 1, 1), "sticky": (0, 1, 1), "cooperative-sticky": (0, 1, 1),
    }  # fmt: skip


def test_a_partition_that_cannot_be_is_not_dealt_with_all_before_it() -> None:
    story = Story().generation_of(m1="a0 a9000000").generation_of(m1="a0", m2="a1")
    assert {row.generation for row in what_if_rows(story.log)} == {2}


def test_the_groups_own_assignor_is_marked_and_its_moves_are_those_of_the_log() -> None:
    story = Story()
    story.generation(member("m1", "a0 a1 a2"), member("m2", "a3 a4"), protocol="range")
    story.generation(member("m1", "a0 a1 a2"), member("m3", "a3 a4"), protocol="range")
    story.generation(member("m0", "a0 a1"), member("m1", "a2 a3"), member("m3", "a4"), protocol="range")
    own = {row.generation: row for row in what_if_rows(story.log) if row.actual}
    assert {row.assignor for row in own.values()} == {"range"}
    assert {row.generation: own[row.generation].moved for row in walk(story.log).rebalances} == {
        rebalance.generation: rebalance.moved for rebalance in walk(story.log).rebalances
    }


def test_an_owner_that_left_counts_as_moved_but_is_not_interrupted() -> None:
    story = Story().generation_of(m1="a0 a1", m2="a2 a3").generation_of(m1="a0 a1 a2 a3")
    assert {(row.moved, row.interrupted) for row in rows_of(story, 2).values()} == {(2, 2), (2, 0)}
    assert rows_of(story, 2)["cooperative-sticky"].interrupted == 0


def test_both_halves_of_a_cooperative_rebalance_are_judged_as_one() -> None:
    story = Story()
    story.generation(member("m1", "a0 a1 a2 a3"), protocol="cooperative-sticky")
    story.generation(member("m1", "a0 a1"), member("m2", ""), protocol="cooperative-sticky")
    story.generation(member("m1", "a0 a1"), member("m2", "a2 a3"), protocol="cooperative-sticky")
    assert moved(story, 2) == {}
    assert moved(story, 3) == {"range": 2, "roundrobin": 2, "sticky": 2, "cooperative-sticky": 2}


def test_a_static_member_with_a_new_id_is_the_same_owner() -> None:
    story = Story()
    story.generation(member("m1", "a0", static="x"), member("m2", "a1", static="y"))
    story.generation(member("m9", "a0", static="x"), member("m2", "a1", static="y"))
    assert set(moved(story, 2).values()) == {0}
    again = Story().generation(member("m1", "a0", static="x")).generation(member("m9", "a0", static="x"), number=1)
    assert len(list(what_if_rows(again.log))) == 4, "the same generation told again is no rebalance"


def test_after_everybody_has_left_nothing_has_an_owner_to_move_from() -> None:
    story = Story().generation_of(m1="a0 a1").generation().generation_of(m2="a0", m3="a1")
    assert set(moved(story, 3).values()) == {0}


def test_there_is_no_what_if_where_the_log_does_not_say_who_wanted_what() -> None:
    unknown = Story().generation_of(m1="a0").generation(member("m1", "a0", topics=None))
    assert moved(unknown, 2) == {}
    unreadable = Story().generation_of(m1="a0").generation(member("m1", None))
    assert moved(unreadable, 2) == {}


def test_consumer_groups_have_no_what_if() -> None:
    assert list(what_if_rows(Story().epoch(1).known(member("m1")).target(1, {"m1": "a0"}).log)) == []


def test_what_if_gives_what_the_assignors_give() -> None:
    """The shortcuts for range, roundrobin and equal subscriptions against the assignors, on 400 made-up groups."""
    random = Random(6)
    for _ in range(400):
        group = random_group(random)
        before = _last_generation(group, random)
        for row in what_if_rows([before, _generation(group)]):
            if row.generation == 2:
                assert row == _expected(row, group, before), group


def _last_generation(group: GroupSpec, random: Random) -> GroupRecord:
    """What members owned, and perhaps one that has left since."""
    claimed: dict[Partition, str] = {}
    for name, partitions in group.owned.items():
        claimed.update(dict.fromkeys(partitions, name))
    left = random.choice(["gone", *group.subscriptions])
    members = []
    for name, topics in group.subscriptions.items():
        had = [partition for partition, owner in claimed.items() if owner == name]
        who = ("gone", None) if name == left else (name, group.instances.get(name))
        members.append(Member(*who, topics=frozenset(topics), assigned=had))
    return GroupRecord(CLASSIC_GENERATION, 0, 0, generation=1, members=members)


def _generation(group: GroupSpec) -> GroupRecord:
    assigned = ASSIGNORS["range"](group)
    members = [
        Member(name, group.instances.get(name), topics=frozenset(topics), assigned=assigned[name])
        for name, topics in group.subscriptions.items()
    ]
    return GroupRecord(CLASSIC_GENERATION, 1, 1000, generation=2, protocol="range", members=members)


def _expected(row: WhatIf, group: GroupSpec, before: GroupRecord) -> WhatIf:
    existing = set(group.all_partitions())
    had = {each.member_id: [p for p in each.assigned or () if p in existing] for each in before.members}
    owned = {name: places for name, places in had.items() if name in group.subscriptions}
    told = GroupSpec(group.subscriptions, group.partitions, owned, group.instances)
    after = settled(told) if row.assignor == "cooperative-sticky" else ASSIGNORS[row.assignor](told)
    now = {place: name for name, places in after.items() for place in places}
    changed = [(name, place) for name, places in had.items() for place in places if now[place] != name]
    cooperative = row.assignor == "cooperative-sticky"
    interrupted = sum(name in owned for name, _ in changed) if cooperative else sum(map(len, owned.values()))
    loads = [len(places) for places in after.values()]
    return WhatIf(2, 1, row.assignor, len(changed), interrupted, max(loads), min(loads), row.assignor == "range")


def test_after_a_downgrade_the_owners_are_those_of_the_consumer_group() -> None:
    story = Story().known(member("m1")).known(member("m2")).epoch(4).target(4, {"m1": "a0", "m2": "a1"}).at_once()
    story.gone("m1").gone("m2").no_target().deleted().generation(member("m2", "a1"), number=4).later()
    story.generation(member("m2", "a0 a1"), number=5, protocol="range")
    assert rows_of(story, 4) == {}
    assert moved(story, 5) == dict.fromkeys(ASSIGNORS, 1)
    assert walk(story.log).rebalances[-1].moved == 1
