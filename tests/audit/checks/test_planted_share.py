"""For each check of share groups: a log with the defect, found in its place; the same log without it, silent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from kohort.audit.checks import ALL, Settings
from kohort.audit.checks.kit.baseline import Answers, GroupAnswer
from kohort.audit.run.in_a_test import CHECKS
from kohort.audit.tables import STATE_LOGS
from kohort.coordinator.share_state.headers import Cause
from tests.audit.checks.audited import Row, check_tables, explain, of_check, tables_of
from tests.audit.checks.planted import MINUTE, Story, Where
from tests.audit.checks.planted_share import HEALTHY, STORIES, state_of, working
from tests.audit.checks.test_planted import has
from tests.audit.logs import Group, Logs
from tests.audit.share_groups import STATE_TOPIC, ShareState, joined

SHARE_CHECKS = {"poison_record", "share_stall", "lock_timeouts"}


class Audited(NamedTuple):
    findings: list[Row]
    results: list[Row]
    groups: dict[str, str]  # by story
    stories: dict[str, Where]


def audit(folder: Path, *, bad: bool) -> Audited:
    logs = Logs(folder)
    groups, stories = {}, {}
    for number, story in enumerate(STORIES):
        group = logs.group_in(number, story.name)
        stories[story.name] = story.tell(group, bad)
        groups[story.name] = group.group_id
    findings, results = check_tables(tables_of(logs.close()))
    return Audited(findings, results, groups, stories)


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    return audit(tmp_path_factory.mktemp("planted"), bad=True)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    return audit(tmp_path_factory.mktemp("sound"), bad=False)


@pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])
def test_a_planted_defect_is_found_in_its_place_and_nothing_else_is(audited: Audited, story: Story) -> None:
    about_it = [row for row in audited.findings if row["group_id"] == audited.groups[story.name]]
    print(explain(about_it))
    assert [row["check"] for row in about_it] == [story.check]
    assert has(about_it[0], audited.stories[story.name])
    assert about_it[0]["log_partition"] == STATE_LOGS + STORIES.index(story)
    assert about_it[0]["advice"] == ALL[story.check].advice


def test_nothing_else_is_found_and_every_check_has_its_defect(audited: Audited) -> None:
    assert {row["group_id"] for row in audited.findings} == set(audited.groups.values())
    assert {story.check for story in STORIES} == SHARE_CHECKS <= set(CHECKS)


def test_without_the_defects_all_checks_are_silent(sound: Audited) -> None:
    print(explain(sound.findings))
    assert sound.findings == []
    assert {row["status"] for name in SHARE_CHECKS for row in of_check(sound.results, name, group_id=None)} == {"clean"}


@pytest.mark.parametrize("live", HEALTHY, ids=[live.__name__ for live in HEALTHY])
def test_a_healthy_group_is_left_alone(tmp_path: Path, live: Callable[[Group], None]) -> None:
    logs = Logs(tmp_path)
    live(logs.group_in(3))
    findings, _ = check_tables(tables_of(logs.close()))
    print(explain(findings))
    assert findings == []


def test_a_log_of_kafka_does_not_say_why_and_is_not_evaluable(audited: Audited, tmp_path: Path) -> None:
    silent = audited.groups["kafka_gives_records_up_and_does_not_say_why"]
    rows = [row for row in audited.results if row["group_id"] == silent]
    assert {row["check"] for row in rows} == {"poison_record", "lock_timeouts"}
    assert {row["status"] for row in rows} == {"not evaluable"}
    assert all("the log does not say why states changed 3 times" in row["reason"] for row in rows)
    logs = Logs(tmp_path)
    state = state_of(logs.group("shop"))
    state.snapshot(0, cause=None)
    state.update((0, 9, 2, 1), cause=None)
    _, results = check_tables(tables_of(logs.close()))
    (row,) = of_check(results, "lock_timeouts", group_id=None)
    assert (row["status"], row["reason"][:21]) == ("not evaluable", "for none of 1 groups:")


def test_what_the_broker_has_cut_off_is_not_evaluable_and_never_clean(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    shop = logs.group("shop")
    joined(shop, "m1", ["t-0"])
    state = state_of(shop)
    state.snapshot(0)
    working(state, 0, 5)
    logs.roll(state.log_partition, topic=STATE_TOPIC)
    at = state.snapshot(50, cause=None)
    working(state, 50, 5)
    logs.cut_off(STATE_TOPIC, state.log_partition, at)
    findings, results = check_tables(tables_of(logs.close()))
    assert findings == []
    rows = [row for row in results if row["group_id"] == "shop"]
    assert {row["check"] for row in rows} == SHARE_CHECKS
    assert all(f"the broker has removed what was before log offset {at}" in row["reason"] for row in rows)


def test_members_that_do_nothing_while_records_wait_are_found_with_a_broker_to_ask(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    shop = logs.group("shop")
    joined(shop, "m1", ["t-0"])
    state = state_of(shop)
    state.snapshot(0)
    working(state, 0, 3)
    shop.later(20 * MINUTE)
    joined(shop, "m2", ["t-0"])
    tables = tables_of(logs.close())

    def found(group_state: str, end: int) -> list[Row]:
        answers = Answers({"shop": GroupAnswer("share", group_state, {}, None)}, {("t", 0): (0, end)})
        findings, _ = check_tables(tables, baseline=answers)
        return of_check(findings, "share_stall")

    (only,) = found("Stable", 2_030)
    assert "nothing happened for 20" in only["message"]
    assert "while 2,000 records wait from offset 20 on and the group has members" in only["message"]
    assert (only["topic"], only["partition"], only["log_partition"]) == ("t", 0, STATE_LOGS + state.log_partition)
    assert not found("Stable", 1_020)  # they may have come a moment ago
    assert not found("Empty", 2_030)


def test_thresholds_are_heeded(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    shop = logs.group("shop")
    state = ShareState(shop, "t-0")
    state.snapshot(0)
    for turn in range(4):
        state.returned(0, 0, turn + 1, Cause.LOCK_TIMEOUT, by="m1")
        shop.later(2 * MINUTE)
    tables = tables_of(logs.close())

    def found(check: str, **limits: float) -> list[Row]:
        findings, _ = check_tables(tables, Settings({check: limits}))
        return of_check(findings, check)

    assert found("lock_timeouts", timeouts=4)
    assert not found("lock_timeouts", timeouts=4, minutes=5)
    assert found("share_stall", minutes=6, updates=4)
    assert not found("share_stall", minutes=7, updates=4)
    assert not found("share_stall", minutes=6, updates=5)
    assert found("poison_record", deliveries=4)
    assert not found("poison_record", deliveries=5)
