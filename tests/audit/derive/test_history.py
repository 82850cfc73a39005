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


def test_an_interval_tells_since_when_its_partition_is_to_be_revoked() -> None:
    story = two_members().current("m1", 1, "a0", revoking="a1")
    since = story.log[-1].time_ms
    story.current("m1", 1, "a0", revoking="a1")
    assert [each.revoking_since_ms for each in walk(story.log).intervals] == [None, since]
    assert [each.revoking_since_ms for each in walk(story.current("m1", 2, "a0").log).intervals] == [None, since]
    kept = two_members().current("m1", 1, "a0", revoking="a1").current("m1", 3, "a0 a1")
    assert [each.revoking_since_ms for each in walk(kept.log).intervals] == [None, None]


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


# --- how long a rebalance of a consumer group takes


def test_a_rebalance_of_a_consumer_group_is_over_when_every_member_has_reached_its_target() -> None:
    story = two_members()
    begun = next(record for record in story.log if getattr(record, "cause", None))
    story.current("m2", 2, "", state=2).current("m1", 1, "a0", revoking="a1").current("m1", 2, "a0")
    assert walk(story.log).rebalances[-1].duration_ms is None
    story.current("m2", 2, "a1")
    last = walk(story.log).rebalances[-1]
    assert (last.join_start_ms, last.duration_ms) == (begun.time_ms, story.log[-1].time_ms - begun.time_ms)
    assert walk(story.gone("m2").epoch(3).target(3, {"m1": "a0 a1"}).log).rebalances[-2] == last


def test_a_member_that_leaves_or_is_away_is_not_waited_for() -> None:
    story = two_members().current("m1", 2, "a0").gone("m2", [8])
    assert walk(story.log).rebalances[-1].duration_ms is not None
    story = two_members().current("m1", 2, "a0").current("m2", -2, "")
    assert walk(story.log).rebalances[-1].duration_ms is not None


def test_a_rebalance_that_was_overtaken_has_no_duration() -> None:
    story = two_members().known(member("m3")).epoch(3).target(3, {"m1": "a0", "m2": "a1", "m3": ""})
    story.current("m1", 3, "a0").current("m2", 3, "a1").current("m3", 3, "")
    assert [each.duration_ms is None for each in walk(story.log).rebalances] == [False, True, False]


def test_a_rebalance_begins_with_its_own_epoch_though_the_header_has_the_begin_of_the_one_that_it_overtook() -> None:
    story = two_members().known(member("m3"))
    begun = next(record.time_ms for record in story.log if getattr(record, "cause", None))
    story.epoch(3, cause="joined", join_start_ms=begun).target(3, {"m1": "a0", "m2": "a1", "m3": ""})
    own = next(record.time_ms for record in story.log if getattr(record, "join_start_ms", None))
    assert walk(story.log).rebalances[-1].join_start_ms == own > begun


def test_of_several_epochs_before_a_target_the_first_says_when_and_why_it_began() -> None:
    story = two_members().current("m1", 2, "a0").current("m2", 2, "a1").known(member("m3"))
    story.epoch(3, cause="joined", trigger="m3").gone("m2").epoch(4, cause="left", trigger="m2")
    story.target(4, {"m1": "a0", "m3": "a1"})
    last = walk(story.log).rebalances[-1]
    began = next(record for record in story.log if getattr(record, "trigger", None) == "m3")
    assert (last.generation, last.previous_generation, last.cause, last.trigger) == (4, 2, "joined", "m3")
    assert last.join_start_ms == began.time_ms


# --- subscriptions by regular expression


def test_topics_of_a_regular_expression_are_a_part_of_the_subscription() -> None:
    """Only m1 matches a and d, so m2 must get both partitions of b to balance the new d0."""
    story = Story().known(member("m1", topics="", pattern="x")).known(member("m2", topics="c", pattern="y"))
    story.matches("x", "ab").matches("y", "b").epoch(1).target(
        1, {"m1": "a0 a1 a2 a3 a4 a5 b0 b1", "m2": "c0 c1 c2 c3"}
    )
    story.matches("x", "abd").epoch(2).target(2, {"m1": "a0 a1 a2 a3 a4 a5 d0", "m2": "b0 b1 c0 c1 c2 c3"})
    last = walk(story.log).rebalances[-1]
    assert (last.moved, last.forced_moves, last.avoidable_moves) == (2, 0, 0)


def test_a_topic_that_no_longer_matches_forces_its_partitions_to_move() -> None:
    story = Story().known(member("m1", topics="", pattern="x")).known(member("m2", topics="b")).matches("x", "ab")
    story.epoch(1).target(1, {"m1": "a0 b0", "m2": "b1"}).matches("x", "a").epoch(2)
    last = walk(story.target(2, {"m1": "a0", "m2": "b0 b1"}).log).rebalances[-1]
    assert (last.moved, last.forced_moves) == (1, 1)


# --- from one protocol to the other


def upgraded(*, target: str = "a0 a1") -> Story:
    """m1 and m2 of a classic group in generation 1; then m3 of the new protocol joins."""
    story = Story().generation_of(m1="a0 a1", m2="a2 a3").at_once().classic_tombstone()
    story.known(member("m1")).known(member("m2")).epoch(1).target(1, {"m1": target, "m2": "a2 a3"})
    story.current("m1", 1, target).current("m2", 1, "a2 a3").known(member("m3")).epoch(2)
    return story.target(2, {"m1": "a0", "m2": "a2 a3", "m3": "a1"}).current("m3", 2, "", state=2).later()


def test_an_upgrade_keeps_the_owners_and_is_no_rebalance_of_its_own() -> None:
    story = upgraded()
    history = walk(story.log)
    assert told(history.intervals) == [f"a{n} {m} 1-1 0-None None" for n, m in enumerate(["m1", "m1", "m2", "m2"])]
    assert [(each.generation, each.group_type) for each in history.rebalances] == [(1, "classic"), (2, "consumer")]
    last = history.rebalances[-1]
    assert (last.previous_generation, last.joined, last.left, last.moved) == (1, ["m3"], [], 1)
    story.current("m1", 1, "a0", revoking="a1").current("m1", 2, "a0").current("m3", 2, "a1")
    end = len(story.log)
    assert told(walk(story.log).intervals)[1:] == [
        f"a1 m1 1-1 0-{end - 2} moved", "a2 m2 1-1 0-None None", "a3 m2 1-1 0-None None",
        f"a1 m3 2-2 {end - 1}-None None",
    ]  # fmt: skip


def test_an_owner_that_the_conversion_does_not_name_has_left() -> None:
    story = Story().generation_of(m1="a0", m2="a1").at_once().classic_tombstone().known(member("m1")).epoch(1)
    story.target(1, {"m1": "a0"}).current("m1", 1, "a0")
    history = walk(story.epoch(2).target(2, {"m1": "a0 a1"}).log)
    assert [each.rsplit(" ", 1)[1] for each in told(history.intervals)] == ["None", "left"]
    assert [(each.generation, each.left) for each in history.rebalances] == [(1, []), (2, ["m2"])]


def test_an_upgrade_without_its_tombstone_is_one_too() -> None:
    story = upgraded()
    story.log = [record for record in story.log if not record.tombstone]
    assert [each.end_log_offset for each in walk(story.log).intervals] == [None] * 4


def downgraded() -> Story:
    """m1 is of the new protocol, m2 a classic member; m1 leaves, and the group is classic again."""
    story = Story().known(member("m1")).known(member("m2")).epoch(4).target(4, {"m1": "a0", "m2": "a1"})
    story.current("m1", 4, "a0").current("m2", 4, "a1").at_once().gone("m1", [8]).gone("m2", [8])
    story.gone("m1", [7]).gone("m2", [7]).no_target().gone("m1", [5]).gone("m2", [5]).matches("x", None).deleted()
    return story.generation(member("m2", "a1"), number=4, leader="m2", protocol="range").later()


def test_a_downgrade_ends_only_what_the_last_new_member_owned() -> None:
    story = downgraded()
    converted = len(story.log) - 1
    story.generation(member("m2", "a0 a1"), number=5)
    history = walk(story.log)
    assert told(history.intervals) == [
        f"a0 m1 4-4 6-{converted} left", "a1 m2 4-5 7-None None", f"a0 m2 5-5 {converted + 1}-None None",
    ]  # fmt: skip
    told_of = [(each.generation, each.group_type, each.joined, each.left) for each in history.rebalances]
    assert told_of == [
        (4, "consumer", ["m1", "m2"], []), (5, "classic", [], ["m1"]),
    ]  # fmt: skip
    assert (history.rebalances[-1].moved, history.rebalances[-1].forced_moves) == (1, 1)


def test_a_member_that_left_just_before_a_downgrade_has_left() -> None:
    story = Story().known(member("m1")).epoch(1).target(1, {"m1": "a0"}).current("m1", 1, "a0").gone("m1").epoch(2)
    story.at_once().no_target().deleted().generation(number=0).later().generation_of(m2="a0")
    assert [each.ended_by for each in walk(story.log).intervals] == ["left", None]
    assert [each.moved for each in walk(story.log).rebalances] == [0, 0]


def test_an_empty_group_of_the_other_type_begins_anew() -> None:
    story = Story().generation_of(m1="a0").generation().at_once().classic_tombstone().known(member("m2")).epoch(2)
    history = walk(story.target(2, {"m2": "a0"}).current("m2", 2, "a0").log)
    assert [each.ended_by for each in history.intervals] == ["emptied", None]
    assert [(each.generation, each.previous_generation, each.moved) for each in history.rebalances] == [
        (1, None, 0), (2, None, 0),
    ]  # fmt: skip


def test_a_deleted_group_of_the_other_type_is_not_mistaken_for_a_conversion() -> None:
    story = Story().generation_of(m1="a0").classic_tombstone().known(member("m1")).epoch(1).target(1, {"m1": "a0"})
    assert told(walk(story.current("m1", 1, "a0").log).intervals) == ["a0 m1 1-1 0-1 deleted", "a0 m1 1-1 6-None None"]
