"""Records of the log become the history of groups: owners over time, rebalances, commits; and it is bounded."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.broker.live import group, histories
from kohort.broker.live.histories import Histories
from kohort.broker.live.view import group_view
from kohort.protocol.log_records import GROUP_METADATA
from kohort.protocol.record_batch import build_batch
from tests.live.story import Story


def owners(story: Story) -> dict[int, str]:
    """Partition: who has it now."""
    names = {person.index: name for name, person in story.history.people.items()}
    return {place[1]: names[person] for place, person, _ in story.history.owned()}


def past(story: Story) -> list[tuple[int, str, int, int]]:
    """Partition, who had it, from when to when, as milliseconds of the story."""
    names = {person.index: name for name, person in story.history.people.items()}
    return sorted((each.place[1], names[each.person], each.start_ms, each.end_ms) for each in story.history.past)


def test_a_generation_says_who_owns_what_from_now_on() -> None:
    story = Story().classic({"a": [0, 1]}).later(500).classic({"a": [0], "b": [1]})
    assert owners(story) == {0: "a", 1: "b"}
    assert past(story) == [(1, "a", 1_000_000, 1_000_500)]
    assert [(each.epoch, each.moved, each.joined) for each in story.history.rebalances] == [
        (1, 0, ["a"]),
        (2, 1, ["b"]),
    ]


def test_a_partition_that_is_handed_on_by_way_of_nobody_has_moved_once_and_had_no_owner_meanwhile() -> None:
    story = Story().classic({"a": [0, 1]}).later(100).classic({"a": [0], "b": []})
    assert (story.history.rebalances[-1].moved, story.history.rebalances[-1].unowned) == (0, 1)
    assert story.history.unowned_ms_at(story.now + 40) == 40
    story.later(250).classic({"a": [0], "b": [1]})
    assert story.history.rebalances[-1].moved == 1
    assert story.history.unowned_ms_at(story.now + 1_000) == 250


def test_a_static_member_that_comes_back_with_another_id_is_the_same_person() -> None:
    story = Story().classic({"a-1": [0]}, instances={"a-1": "static"}).later(9)
    story.classic({"a-2": [0]}, instances={"a-2": "static"})
    assert owners(story) == {0: "static"}
    assert past(story) == []
    assert len(story.history.present) == 1


def test_what_kohort_says_about_a_rebalance_is_kept_and_what_kafka_does_not_say_is_inferred() -> None:
    story = Story().classic({"a": [0]}, told=("member joined", "a")).later(1).classic({"b": [0]})
    told, inferred = group_view_of(story)["rebalances"][::-1]
    assert (told["cause"], told["trigger"], told["duration_ms"]) == ("member joined", "a", 300)
    assert "inferred" not in told["explanation"]
    assert inferred["cause"] == ""
    assert "inferred" in inferred["explanation"]
    assert story.history.by_cause == {"member joined": 1, "unknown": 1}


def test_the_empty_record_of_a_group_that_was_just_created_is_no_rebalance() -> None:
    story = Story().classic({})
    assert list(story.history.rebalances) == []
    assert story.classic({"a": [0]}).classic({}).history.state == "Empty"
    assert [each.left for each in story.history.rebalances] == [[], ["a"]]


def test_a_rebalance_of_an_epoch_is_over_when_all_members_have_reached_it() -> None:
    story = Story().epoch(1).member("a").target(1).has("a", 1, [0, 1]).later(1_000)
    assert [each.is_over for each in story.history.rebalances] == [True]
    story.member("b").epoch(2).target(2).has("a", 1, [0], revoking=[1]).has("b", 2, [], waits=True)
    assert story.history.state == "Reconciling"
    assert owners(story) == {0: "a", 1: "a"}, "a partition that is to be given up still has its owner"
    story.later(700).has("a", 2, [0])
    story.later(300).has("b", 2, [1])
    assert story.history.unfinished is None
    assert (story.history.state, owners(story)) == ("Stable", {0: "a", 1: "b"})
    last = story.history.rebalances[-1]
    assert (last.is_over, last.epoch, last.duration_ms, last.moved, last.members) == (True, 2, 1_000, 1, 2)


def test_a_member_that_leaves_a_group_of_epochs_gives_everything_back() -> None:
    story = Story().epoch(1).member("a").member("b").target(1).has("a", 1, [0]).has("b", 1, [1]).later(50)
    story.epoch(2, "session expired").member("b", is_gone=True)
    assert owners(story) == {0: "a"}
    assert story.history.rebalances[-1].left == ["client of b"]
    story.target(2).later(10).has("a", 2, [0, 1])
    assert story.history.unfinished is None
    assert story.history.by_cause == {"member joined": 1, "session expired": 1}


def test_a_group_that_changes_its_protocol_begins_anew_and_keeps_what_it_did() -> None:
    story = Story().classic({"a": [0]}).later(5).epoch(9).member("a").target(9).has("a", 9, [0])
    assert (story.history.type, story.history.epoch, owners(story)) == ("consumer", 9, {0: "a"})
    assert past(story) == [(0, "a", 1_000_000, 1_000_005)]
    assert len(story.history.rebalances) == 2


def test_commits_say_how_far_and_how_fast_a_group_goes() -> None:
    story = Story()
    for number in range(30):
        story.commit(0, number * 500).later(1_000)
    story.commit(1, 7, with_id=False)
    progress = story.history.commits["t", 0]
    assert progress.offset == 14_500
    assert progress.rate_at(story.now) == pytest.approx(500, rel=0.01)
    assert (progress.rate_at(story.now + 3_600_000) or 0) < 5, "it stands still"
    assert story.history.commits["t", 1].rate_at(story.now) is None, "a single commit has no speed yet"
    assert story.history.commits["t", 1].offset == 7
    assert story.history.last_commit_ms == story.now


def test_a_group_that_was_deleted_is_gone_unless_there_is_something_to_tell() -> None:
    told = Story("told").classic({"a": [0]}).classic({}).delete()
    assert told.history.state == "Empty"
    silent = Story("silent").classic({}).delete()
    assert silent.histories.get("silent") is None


def test_records_that_nobody_can_read_are_stepped_over() -> None:
    story = Story().classic({"a": [0]})
    for key, value in ((b"\0\2\0\x09g", b"x"), (b"\0\x63", b""), (b"\0\1\0", b"\0"), (b"", b""), (b"\0\3\0\1g", b"\0")):
        for _ in story.reader.read(0, bytes(build_batch([(key, value)], timestamp=story.now))):
            pass
    cut_off = (bytes([0, GROUP_METADATA, 0, 1]) + b"g", b"\0\3junk")
    for _ in story.reader.read(0, bytes(build_batch([cut_off], timestamp=story.now))):
        pass
    assert owners(story.classic({"b": [0]})) == {0: "b"}


def test_the_oldest_goes_first_when_there_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(histories, "MAX_PAST_OF_GROUP", 10)
    monkeypatch.setattr(histories, "MAX_PAST", 25)
    monkeypatch.setattr(histories, "MAX_PLACES", 20)
    kept = Histories()
    stories = [Story(f"g{number}", kept) for number in range(4)]
    for turn in range(40):
        for story in stories[: 1 if turn < 10 else 4]:
            story.later(1).classic({"ab"[turn % 2]: [0]})
    assert all(len(story.history.past) <= 10 for story in stories)
    assert kept.past == sum(len(each.past) for each in kept.groups.values()) <= 25
    assert all(story.history.past[-1].end_ms == story.now for story in stories[1:2])
    stories[3].classic({"a": list(range(30))})
    assert not stories[3].history.is_kept
    assert kept.places == 3
    assert stories[0].history.rebalance_count == 40
    monkeypatch.setattr(histories, "MAX_GROUPS", 4)
    Story("one more", kept).classic({"a": [0]})
    assert len(kept.groups) == 4
    assert kept.places == sum(len(each.held) for each in kept.groups.values())


def test_people_who_are_gone_and_in_no_strip_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "MAX_PEOPLE", 5)
    story = Story()
    for number in range(50):
        story.later(1).classic({f"m{number}": []})
    assert len(story.history.people) < 10
    assert len({person.index for person in story.history.people.values()}) == len(story.history.people)


def group_view_of(story: Story) -> dict[str, Any]:
    return {key: value for part in group_view(story.history, story.now) for key, value in part.items()}


def test_the_view_has_a_bar_for_everything_that_somebody_had() -> None:
    story = Story().classic({"a": [0, 1]}).later(10).classic({"a": [0], "b": [1]}).later(10)
    view = group_view_of(story)
    assert view["rows"] == [["t", 0], ["t", 1]]
    assert sorted(view["bars"], key=lambda bar: bar[:2]) == [
        (0, 1_000_000, None, 0), (1, 1_000_000, 1_000_010, 0), (1, 1_000_010, None, 1),
    ]  # fmt: skip
    assert {index: person["id"] for index, person in view["people"].items()} == {"0": "a", "1": "b"}
