"""For each check: a log with the defect, found with the right severity and place; the same log without it, silent."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from kohort.audit.checks import ALL, Settings
from tests.audit.checks import damage, planted_848
from tests.audit.checks.audited import Row, check_tables, explain, of_check, tables_of
from tests.audit.checks.planted import HEALTHY_LOG_PARTITIONS, STORIES, Story, Where
from tests.audit.logs import Logs

assert planted_848  # its stories are among STORIES
WITH_A_BROKER = {"committed_beyond_end_or_below_start", "state_differs_from_broker"}  # in test_baseline.py
OF_TRANSACTIONS = {"hanging_transaction", "pending_offsets", "commit_by_fenced_producer"}  # in their own file
OF_SHARE_GROUPS = {"poison_record", "share_stall", "lock_timeouts"}  # in test_planted_share.py
DAMAGE = {
    "crc_mismatch": "crc_mismatch",
    "offset_gap": "offset_overlap_or_gap",
    "offset_overlap": "offset_overlap_or_gap",
    "torn_tail": "torn_tail",
    "garbage_at_the_end": "torn_tail",
    "garbage": "undecodable_record",
    "group_in_wrong_partition": "group_in_wrong_partition",
    "hot_log_partition": "hot_log_partition",
}


class Audited(NamedTuple):
    findings: list[Row]
    results: list[Row]
    groups: dict[str, str]  # by story
    stories: dict[str, Where]
    damage: dict[str, Where]


def audit(folder: Path, *, bad: bool) -> Audited:
    """All stories in one data folder, each in a log partition of its own, audited once."""
    logs = Logs(folder)
    groups, stories = {}, {}
    assert len(STORIES) <= HEALTHY_LOG_PARTITIONS
    for number, story in enumerate(STORIES):
        group = logs.group_in(number, story.name)
        stories[story.name] = story.tell(group, bad)
        groups[story.name] = group.group_id
    damage.fill(logs, bad)
    logs.close()
    done = damage.damage(logs) if bad else {}
    findings, results = check_tables(tables_of(logs.path))
    return Audited(findings, results, groups, stories, done)


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    return audit(tmp_path_factory.mktemp("planted"), bad=True)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """The same without the defects."""
    return audit(tmp_path_factory.mktemp("sound"), bad=False)


def has(found: Row, where: Where) -> bool:
    said = {name: found[name] for name in where.columns}
    return found["severity"] == where.severity and where.words in found["message"] and said == where.columns


@pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])
def test_a_planted_defect_is_found_in_its_place_and_nothing_else_is(audited: Audited, story: Story) -> None:
    about_it = [row for row in audited.findings if row["log_partition"] == STORIES.index(story)]
    print(explain(about_it))
    assert [row["check"] for row in about_it] == [story.check]
    assert has(about_it[0], audited.stories[story.name])
    assert about_it[0]["advice"] == ALL[story.check].advice
    assert about_it[0]["group_id"] in (audited.groups[story.name], None)
    assert about_it[0]["group_id"] or story.check == "undecodable_record"  # there the key may not say


def test_without_the_defects_all_checks_are_silent(sound: Audited) -> None:
    print(explain(sound.findings))
    assert sound.findings == []
    assert {row["status"] for row in sound.results} == {"clean", "not evaluable"}
    clean = {row["check"] for row in sound.results if row["status"] == "clean"}
    assert clean == set(ALL) - WITH_A_BROKER - {"subscribed_partition_without_owner"}  # which nobody can be sure of


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_to_the_files_is_found_in_its_place(audited: Audited, kind: str) -> None:
    where = audited.damage[kind]
    found = of_check(audited.findings, DAMAGE[kind], log_partition=where.columns["log_partition"])
    print(explain(audited.findings[:20]))
    assert len(found) == 1
    assert has(found[0], where)


def test_nothing_is_said_of_log_partitions_without_damage(audited: Audited) -> None:
    """Nor of compaction, which leaves gaps on purpose."""
    for untouched in (damage.SOUND, damage.COMPACTED):
        assert [row for row in audited.findings if row["log_partition"] == untouched] == []


def test_every_check_has_its_defect(audited: Audited) -> None:
    planted = {story.check for story in STORIES} | set(DAMAGE.values())
    assert planted == set(ALL) - WITH_A_BROKER - OF_SHARE_GROUPS - OF_TRANSACTIONS
    assert {row["check"] for row in audited.results if row["status"] == "found"} == planted


def test_what_compaction_has_removed_is_not_evaluable_and_never_clean(audited: Audited) -> None:
    compacted = {row["check"] for row in audited.results if (row["group_id"] or "").startswith("compacted-")}
    history = {name for name, check in ALL.items() if "history" in check.needs}
    assert history <= compacted
    rows = [row for row in audited.results if (row["group_id"] or "").startswith("compacted-")]
    assert {row["status"] for row in rows} == {"not evaluable"}
    assert any("compaction has removed records from before log offset 40" in row["reason"] for row in rows)


def test_thresholds_are_heeded_and_told(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    group = logs.group("shop")
    group.generation({"m1": ["t-0"]})
    for offset in (10, 8, 12):
        group.commit({"t-0": offset}, by="m1")
    tables = tables_of(logs.close())
    for records, count in ((2, 1), (3, 0)):
        findings, results = check_tables(tables, Settings({"offset_rewind": {"records": records}}))
        assert len(of_check(findings, "offset_rewind")) == count
        assert of_check(results, "offset_rewind")[0]["threshold"] == f"records={records}"
