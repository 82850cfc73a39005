"""One group's records, walked to intervals of ownership and to rebalances."""

from __future__ import annotations

from kohort.audit.derive.history import Interval, walk
from tests.audit.derive.stories import Story, member


def told(intervals: list[Interval]) -> list[str]:
    """Each in a line: partition owner first-last generation start-end log offset and why it ended."""
    return [
        f"{i.topic}{i.partition} {i.member_id} {i.first_generation}-{i.last_generation}"
        f" {i.start_log_offset}-{i.end_log_offset} {i.ended_by}"
        for i in intervals
    ]


def test_a_partition_is_owned_until_the_record_that_gives_it_to_somebody_else() -> None:
    history = walk(
        Story().generation_of(m1="a0 a1").generation_of(m1="a0 a1").generation_of(m1="a0", m2="a1").log,
    )
    assert told(history.intervals) == ["a0 m1 1-3 0-None None", "a1 m1 1-2 0-2 moved", "a1 m2 3-3 2-None None"]
    moved = history.intervals[1]
    assert (moved.start_ms, moved.end_ms) == (0, 2000)
    assert (moved.client_id, moved.client_host, moved.group_type) == ("client-m1", "/10.0.0.1", "classic")


def test_an_end_says_whether_the_owner_left_or_the_group_was_emptied_or_deleted() -> None:
    story = Story().generation_of(m1="a0", m2="a1").generation_of(m1="a0").generation()
    story.generation_of(m3="a0").classic_tombstone()
    assert told(walk(story.log).intervals) == [
        "a0 m1 1-2 0-2 emptied", "a1 m2 1-1 0-1 left", "a0 m3 4-4 3-4 deleted",
    ]  # fmt: skip


def test_two_owners_of_a_partition_are_both_there() -> None:
    history = walk(Story().generation_of(m1="a0", m2="a0 a1").log)
    assert told(history.intervals) == ["a0 m1 1-1 0-None None", "a0 m2 1-1 0-None None", "a1 m2 1-1 0-None None"]
    assert history.rebalances[0].partition_count == 2


def test_a_static_member_with_a_new_id_in_the_same_generation_is_no_rebalance() -> None:
    story = Story().generation(member("old", "a0", static="s"), member("m2", "a1"))
    story.generation(member("new", "a0", static="s"), member("m2", "a1"), number=1)
    history = walk(story.log)
    assert told(history.intervals) == ["a0 old 1-1 0-1 left", "a1 m2 1-1 0-None None", "a0 new 1-1 1-None None"]
    assert [each.generation for each in history.rebalances] == [1]


def test_a_generation_that_is_there_twice_with_other_owners_is_a_rebalance() -> None:
    story = Story().generation_of(m1="a0", m2="a1")
    story.generation(member("m1", "a1"), member("m2", "a0"), number=1)
    assert [(each.generation, each.moved) for each in walk(story.log).rebalances] == [(1, 0), (1, 2)]


def test_a_rebalance_tells_who_came_who_left_and_how_long_it_took() -> None:
    story = Story().generation_of(m1="a0", m2="a1")
    story.generation(
        member("m1", "a0 a1"), member("m3", ""), protocol="range", leader="m1", state_ms=900, join_start_ms=400,
        cause="member joined", trigger="m3",
    )  # fmt: skip
    first, second = walk(story.log).rebalances
    assert (first.joined, first.left, first.previous_generation) == (["m1", "m2"], [], None)
    assert (first.join_ms, first.sync_ms, first.duration_ms) == (None, None, None)
    assert (second.joined, second.left, second.previous_generation) == (["m3"], ["m2"], 1)
    assert (second.join_ms, second.sync_ms, second.duration_ms) == (500, 100, 600)
    assert (second.cause, second.trigger, second.protocol, second.leader) == ("member joined", "m3", "range", "m1")
    assert (second.max_load, second.min_load, second.idle_members, second.member_count) == (2, 0, 1, 2)
    assert (second.partition_count, second.moved, second.forced_moves, second.timeout_ms) == (2, 1, 1, 60_000)


def test_a_clock_that_was_set_back_leaves_durations_unknown() -> None:
    story = Story().generation(member("m1", "a0"), state_ms=700, join_start_ms=900)
    (only,) = walk(story.log).rebalances
    assert (only.join_ms, only.sync_ms, only.duration_ms) == (None, None, None)


def test_a_cooperative_move_is_counted_once_in_the_generation_that_gives() -> None:
    story = Story().generation_of(m1="a0 a1 a2 a3")
    story.generation_of(m1="a0 a1", m2="").generation_of(m1="a0 a1", m2="a2 a3")
    history = walk(story.log)
    assert [(each.moved, each.forced_moves, each.avoidable_moves) for each in history.rebalances] == [
        (0, 0, 0), (0, 0, 0), (2, 0, 0),
    ]  # fmt: skip
    assert told(history.intervals)[2:] == [
        "a2 m1 1-1 0-1 unassigned", "a3 m1 1-1 0-1 unassigned", "a2 m2 3-3 2-None None", "a3 m2 3-3 2-None None",
    ]  # fmt: skip


def test_a_group_that_was_empty_moves_nothing_when_it_fills_again() -> None:
    story = Story().generation_of(m1="a0").generation().generation_of(m2="a0")
    last = walk(story.log).rebalances[-1]
    assert (last.generation, last.previous_generation, last.moved, last.joined) == (3, 2, 0, ["m2"])


def test_a_deleted_group_begins_anew() -> None:
    last = walk(Story().generation_of(m1="a0").classic_tombstone().generation_of(m2="a0").log).rebalances[-1]
    assert (last.previous_generation, last.moved) == (None, 0)


def test_an_assignment_that_cannot_be_read_is_not_counted_as_none() -> None:
    (only,) = walk(Story().generation(member("m1", None), member("m2", "a0")).log).rebalances
    assert (only.member_count, only.partition_count, only.moved, only.max_load, only.idle_members) == (
        2, None, None, None, None,
    )  # fmt: skip


# --- consumer groups


def two_members() -> Story:
    """m1 has both partitions at epoch 1; at epoch 2 a1 shall go to m2."""
    story = Story().known(member("m1"), "uniform").epoch(1).target(1, {"m1": "a0 a1"}).current("m1", 1, "a0 a1")
    return story.known(member("m2"), "uniform").epoch(2, cause="joined").target(2, {"m1": "a0", "m2": "a1"})


def test_a_member_of_a_consumer_group_owns_what_it_has_yet_to_revoke() -> None:
    story = two_members().current("m2", 2, "").current("m1", 1, "a0", revoking="a1")
    revoking = len(story.log) - 1
    story.current("m1", 2, "a0").current("m2", 2, "a1")
    revoked = len(story.log) - 2
    assert revoked == revoking + 1
    assert told(walk(story.log).intervals) == [
        "a0 m1 1-2 4-None None", f"a1 m1 1-1 4-{revoked} moved", f"a1 m2 2-2 {revoked + 1}-None None",
    ]  # fmt: skip


def test_a_rebalance_of_a_consumer_group_is_a_new_target() -> None:
    first, second = walk(two_members().log).rebalances
    assert (first.generation, first.joined, first.moved, first.protocol) == (1, ["m1"], 0, "uniform")
    assert (second.generation, second.previous_generation, second.joined, second.left) == (2, 1, ["m2"], [])
    assert (second.moved, second.forced_moves, second.avoidable_moves, second.cause) == (1, 0, 0, "joined")
    assert (second.max_load, second.min_load, second.group_type) == (1, 1, "consumer")


def test_a_member_that_leaves_a_consumer_group_forces_its_partitions_to_move() -> None:
    story = two_members().current("m1", 2, "a0").current("m2", 2, "a1").gone("m2")
    left = len(story.log) - 3
    story.epoch(3).target(3, {"m1": "a0 a1"}).current("m1", 3, "a0 a1")
    history = walk(story.log)
    assert told(history.intervals)[2:] == [
        f"a1 m2 2-2 {left - 1}-{left} left",
        f"a1 m1 3-3 {len(story.log) - 1}-None None",
    ]
    last = history.rebalances[-1]
    assert (last.moved, last.forced_moves, last.left) == (1, 1, ["m2"])


def test_a_static_member_that_is_away_owns_nothing_and_comes_back_as_the_same() -> None:
    story = Story().known(member("old", static="s")).epoch(1).target(1, {"old": "a0"}).current("old", 1, "a0")
    story.current("old", -2, "a0").gone("old").known(member("new", static="s")).epoch(2).target(2, {"new": "a0"})
    history = walk(story.current("new", 2, "a0").log)
    assert told(history.intervals) == ["a0 old 1-1 4-5 left", f"a0 new 2-2 {len(story.log) - 1}-None None"]
    assert [each.moved for each in history.rebalances] == [0, 0]


def test_a_consumer_group_that_is_deleted_owns_nothing_any_more() -> None:
    story = Story().known(member("m1")).epoch(1).target(1, {"m1": "a0"}).current("m1", 1, "a0").deleted()
    assert told(walk(story.log).intervals) == ["a0 m1 1-1 4-5 deleted"]


def test_a_group_that_changes_its_type_ends_what_it_owned() -> None:
    story = Story().generation_of(m1="a0").known(member("m1")).epoch(2).target(2, {"m1": "a0"}).current("m1", 2, "a0")
    assert told(walk(story.log).intervals) == ["a0 m1 1-1 0-1 deleted", "a0 m1 2-2 5-None None"]
