"""What the audit says about a log that a test has left: which rules, in which words, and what a test may choose."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from kohort.audit.checks import ALL
from kohort.audit.run import in_a_test
from kohort.audit.run.in_a_test import CHECKS, NEEDS_A_BROKER, THRESHOLDS, Checked, NotInstalled, check_log
from kohort.storage.disk import RealDisk
from tests.audit.checks import planted_848
from tests.audit.checks.planted import STORIES, Story
from tests.audit.logs import START, Logs
from tests.audit.new_groups import new_epoch

assert planted_848  # its stories are among STORIES
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
STORM = {"rebalance_storm.rebalances": 6}


def zombie(folder: Path) -> Path:
    """A member commits twice for a partition that was given to another one."""
    logs = Logs(folder)
    group = logs.group("billing")
    group.generation({"m1": ["orders-0", "orders-1"]}, cause="member joined", trigger="m1")
    group.generation({"m1": ["orders-0"], "m2": ["orders-1"]}, cause="member joined", trigger="m2")
    group.commits("orders-1", [5, 6], by="m1", every_ms=500)
    return logs.close()


def checked(data: Path, **options: object) -> Checked:
    return check_log(RealDisk(), str(data), **options)  # type: ignore[arg-type]


# --- which checks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])
def test_a_planted_defect_is_found_if_its_check_is_asked_for(tmp_path: Path, story: Story) -> None:
    logs = Logs(tmp_path)
    group = logs.group("planted")
    where = story.tell(group, True)
    logs.group("later", at=max(group.now, START) + HOUR).commit({"t-0": 1}, by="")  # some need a while to be a defect
    by_default = checked(logs.close(), thresholds=STORM)
    named = checked(tmp_path, checks=[story.check], thresholds=STORM)
    (found,) = named.findings
    assert (found.check, found.severity) == (story.check, where.severity)
    assert where.words in found.message
    assert [one.check for one in by_default.findings] == ([story.check] if story.check in CHECKS else [])
    assert checked(tmp_path, ignore=[story.check], thresholds=STORM).findings == ()


@pytest.mark.parametrize("story", STORIES, ids=[story.name for story in STORIES])
def test_without_the_defect_nothing_is_found(tmp_path: Path, story: Story) -> None:
    logs = Logs(tmp_path)
    story.tell(logs.group("sound"), False)
    assert checked(logs.close()).findings == ()


def test_all_names_and_thresholds_are_known() -> None:
    assert set(CHECKS) <= set(ALL) - {NEEDS_A_BROKER}
    for name in THRESHOLDS:
        check, _, threshold = name.partition(".")
        assert threshold in ALL[check].thresholds


def test_a_group_that_six_rebalances_have_formed_and_dissolved_is_no_storm(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    group = logs.group("billing")
    for members in (["m1"], ["m1", "m2"], ["m1", "m2", "m3"], ["m2", "m3"], ["m3"]):
        group.generation({member: [f"orders-{number}"] for number, member in enumerate(members)})
        group.later(200)
    group.empty()
    assert checked(logs.close()).findings == ()


def test_a_storm_within_seconds_is_found(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    group = logs.group("billing")
    for number in range(16):
        group.generation({"m1": ["orders-0"], f"shaky-{number}": ["orders-1"]})
        group.later(-700)
    (found,) = checked(logs.close()).findings
    assert found.check == "rebalance_storm"
    assert found.message.startswith("16 rebalances in 4.5 s; came and went: ")


# --- what a test tells ----------------------------------------------------------------------------------------------


def test_a_check_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    data = zombie(tmp_path)
    with pytest.raises(ValueError, match=r"there is no check 'zombies'; there are .*commit_by_non_owner"):
        checked(data, checks=["zombies"])
    with pytest.raises(ValueError, match="there is no check 'zombies'"):
        checked(data, ignore=["zombies"])
    with pytest.raises(ValueError, match="asks a broker over the network"):
        checked(data, checks=[NEEDS_A_BROKER])
    with pytest.raises(ValueError, match="offset_rewind has no threshold 'steps'; it has records"):
        checked(data, thresholds={"offset_rewind.steps": 1})


def test_one_name_need_not_be_in_a_list(tmp_path: Path) -> None:
    data = zombie(tmp_path)
    assert len(checked(data, checks="commit_by_non_owner").findings) == 1
    assert checked(data, ignore="commit_by_non_owner").findings == ()


def test_a_test_may_ask_about_one_group_or_about_what_came_later(tmp_path: Path) -> None:
    data = zombie(tmp_path)
    assert checked(data, group="shipping").findings == ()
    assert len(checked(data, group="billing").findings) == 1
    assert len(checked(data, since_ms=START + 2 * SECOND).findings) == 1
    assert checked(data, since_ms=START + MINUTE).findings == ()


def test_a_partition_without_owner_is_found_when_the_broker_says_how_many_there_are_and_what_time_it_is(
    tmp_path: Path,
) -> None:
    logs = Logs(tmp_path)
    group = logs.group("billing")
    group.generation({"m1": ["orders-0"], "m2": ["orders-1"]})
    data = logs.close()
    topics = {("orders", number): (0, 5) for number in range(3)}
    assert checked(data, topics=lambda: topics).findings == ()
    assert checked(data, now_ms=START + MINUTE).findings == ()
    assert "orders-2" not in str(checked(data, topics=lambda: topics, now_ms=START + 5 * SECOND))
    (found,) = checked(data, topics=lambda: topics, now_ms=START + MINUTE).findings
    assert (found.check, found.topic, found.partition) == ("subscribed_partition_without_owner", "orders", 2)
    assert found.message.startswith("1 partition of orders had no owner, for up to 60 s")
    at_once = {"subscribed_partition_without_owner.seconds": 5}
    assert len(checked(data, topics=lambda: topics, now_ms=START + 5 * SECOND, thresholds=at_once).findings) == 1


def test_an_offset_beyond_the_end_of_its_partition_is_found(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.group("billing").commit({"orders-0": 9}, by="")
    data = logs.close()
    assert checked(data).not_evaluable["committed_beyond_end_or_below_start"].startswith("needs a broker")
    assert checked(data, topics=lambda: {("orders", 0): (0, 9)}).findings == ()
    (found,) = checked(data, topics=lambda: {("orders", 0): (0, 5)}).findings
    assert found.message == "offset 9 is committed; orders-0 ends at 5"


def test_the_topics_of_a_new_group_have_names_by_their_folders(tmp_path: Path) -> None:
    """A group that has not committed yet knows only ids; the broker keeps a file with each topic's id."""
    logs = Logs(tmp_path)
    new_epoch(logs.group("billing"), {"m1": ["t-0", "t-1"], "m2": ["t-1"]})
    logs.group("other").commit({"t-0": 1}, by="")
    (found,) = checked(logs.close()).findings
    assert (found.check, found.topic, found.partition) == ("two_owners", "t", 1)


def test_a_broker_without_groups_has_no_findings(tmp_path: Path) -> None:
    assert checked(tmp_path) == Checked((), {}, 0)
    (tmp_path / "__consumer_offsets-7").mkdir()  # its first file is about to be made
    assert checked(tmp_path).findings == ()


def test_records_of_types_that_are_not_known_are_counted_and_do_not_fail_a_test(tmp_path: Path) -> None:
    """Whatever a later Kafka adds."""
    logs = Logs(tmp_path)
    group = logs.group("modern")
    for record_type in (*range(24, 31), 99):
        group.raw(record_type.to_bytes(2, "big") + b"key", b"\x00\x00value")
    group.commit({"orders-0": 1}, by="")
    found = checked(logs.close())
    (finding,) = found.findings
    assert (finding.check, finding.severity, finding.value) == ("undecodable_record", "info", 8.0)
    assert found.at_least("warning") == ()


# --- what a test gets -----------------------------------------------------------------------------------------------


def test_a_finding_reads_well(tmp_path: Path) -> None:
    found = checked(zombie(tmp_path))
    assert str(found) == (
        "1 finding\n"
        "\n"
        "error: commit_by_non_owner, group billing, orders-1\n"
        "  2 commits by m1 while m2 owned the partition\n"
        "  14:13:22.000Z to 14:13:22.500Z, generation 2, offset 2 of __consumer_offsets-9\n"
        "  A zombie overwrites the owner's progress: see why the coordinator let it, and stop the member that is named."
    )
    assert str(checked(tmp_path, ignore="commit_by_non_owner")) == "no findings"


def test_a_finding_tells_what_was_found_where_and_when(tmp_path: Path) -> None:
    found = checked(zombie(tmp_path))
    (finding,) = found.findings
    assert (finding.group, finding.topic, finding.partition) == ("billing", "orders", 1)
    assert (finding.member, finding.generation, finding.value) == ("m1", 2, 2.0)
    assert finding.time is not None
    assert finding.until is not None
    assert (finding.until - finding.time).total_seconds() == 0.5
    assert found.records == 4
    with pytest.raises(FrozenInstanceError):
        finding.group = "another"  # type: ignore[misc]


def test_a_name_that_would_forge_lines_is_written_out(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.group("a\ncritical: two_owners").commits("orders-0", [2, 1], by="")
    assert "group a\\ncritical: two_owners, orders-0\n" in str(checked(logs.close()))


def test_findings_are_chosen_by_severity(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    group = logs.group("billing")
    group.generation({"m1": ["orders-0"]})
    group.generation({"m1": ["orders-0"]}, number=5)  # a number left out: for information
    group.commits("orders-0", [2, 1], by="m1")
    found = checked(logs.close())
    assert [one.severity for one in found.findings] == ["error", "info"]
    assert [one.check for one in found.at_least("warning")] == ["offset_rewind"]
    assert found.at_least("critical") == ()
    assert found.at_least("info") == found.findings


def test_without_the_packages_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on a machine with `pip install kohort`."""
    there = {"numpy", "pyarrow"}
    monkeypatch.setattr(in_a_test, "find_spec", lambda name: None if name in there else object())
    with pytest.raises(NotInstalled, match=r"numpy and pyarrow, which are not installed: pip install 'kohort\[test"):
        checked(tmp_path)
    there.remove("numpy")
    with pytest.raises(NotInstalled, match="need pyarrow, which is not installed"):
        checked(tmp_path)
