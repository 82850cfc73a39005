"""The checks as a whole: settings, what is folded into one, what a real Kafka's log gives, and how Spark runs them."""

from __future__ import annotations

import random
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import kohort.audit.checks
from kohort.audit.checks import ALL, RULES, Settings, parse_settings
from kohort.audit.checks.kit.check import SEVERITIES
from kohort.audit.checks.kit.part import UNNAMED, UNREADABLE
from kohort.audit.checks.kit.words import count, duration
from kohort.audit.checks.kit.world import make_world
from kohort.audit.checks.run import MAX_PER_GROUP
from kohort.audit.decode.folders import find_logs
from kohort.audit.store.check import check_run
from kohort.audit.store.runs import Store
from kohort.audit.tables import AUDIT_RUNS, REBALANCES
from kohort.coordinator.outcome import Record
from kohort.coordinator.partitioner import partition_of
from kohort.protocol.log_records import GROUP_METADATA
from kohort.protocol.messages.log_group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from tests.audit.checks.audited import check_tables, explain, of_check, tables_of
from tests.audit.logs import Group, Logs, topic_id
from tests.audit.new_groups import UNREVOKED, current_assignment, new_epoch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parents[2] / "data"


def test_a_rule_is_named_like_its_file_and_says_what_it_is_about_and_what_to_do() -> None:
    files = {path.stem for path in Path(kohort.audit.checks.__file__).parent.glob("*.py")} - {
        "__init__",
        "run",
        "settings",
    }
    assert files == set(RULES) == set(ALL)
    for name, check in ALL.items():
        assert check.name == name
        assert check.severity in SEVERITIES
        assert check.about.endswith(".")
        assert check.advice.endswith(".")


def test_settings_are_checked() -> None:
    settings = parse_settings(["offset_jump.factor=50", "offset_jump.records=1e6", "stall.minutes=2.5"])
    assert settings.of(ALL["offset_jump"]) == {"factor": 50, "records": 1_000_000, "commits": 10}
    assert settings.in_words(ALL["stall"]) == "minutes=2.5, commits=5"
    for wrong, why in (
        ("stall.minutes", "is not of the form check.threshold=value"),
        ("stal.minutes=1", "there is no check 'stal'"),
        ("stall.hours=1", "stall has no threshold 'hours'; it has minutes, commits"),
        ("stall.minutes=soon", "'soon' is not a number"),
        ("stall.minutes=-1", "'-1' is not a number from 0 on"),
        ("stall.minutes=nan", "'nan' is not a number from 0 on"),
    ):
        with pytest.raises(ValueError, match=why):
            parse_settings([wrong])


def test_numbers_read_as_people_write_them() -> None:
    assert [duration(s) for s in (0.85, 45, 119.9, 750, 7200, 172_800)] == [
        "850 ms", "45 s", "119.9 s", "12.5 min", "2 h", "2 d",
    ]  # fmt: skip
    assert (count(1, "batch", "batches"), count(1200, "commit")) == ("1 batch", "1,200 commits")


def test_how_many_log_partitions_there_are_is_told_by_the_groups() -> None:
    groups = [f"group-{number}" for number in range(20)]
    for partitions in (50, 7, 100):
        placed = [(group_id, partition_of(group_id, partitions)) for group_id in groups]
        assert make_world([], [], placed).log_partition_count == partitions
    moved = [(group_id, partition_of(group_id, 50)) for group_id in groups[1:]] + [(groups[0], 49)]
    assert make_world([], [], moved).log_partition_count == 50


def test_a_clock_that_was_set_back_makes_no_storm_of_a_few_rebalances(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    group = logs.group("shop")
    for number in range(8):
        group.generation({f"m{number}": ["t-0"]})
        group.later(-3_600_000 if number == 3 else 240_000)
    findings, _ = check_tables(tables_of(logs.close()))
    assert of_check(findings, "rebalance_storm") == []


def restart_one_by_one(group: Group, seats: int, turns: int) -> None:
    """Each member leaves, and comes back with another id, before the next one leaves."""
    names = [f"m{seat}-0" for seat in range(seats)]
    group.generation({name: [f"t-{seat}"] for seat, name in enumerate(names)})
    for turn in range(1, turns + 1):
        for seat in range(seats):
            group.generation({name: [f"t-{other}"] for other, name in enumerate(names) if other != seat})
            names[seat] = f"m{seat}-{turn}"
            group.generation({name: [f"t-{other}"] for other, name in enumerate(names)})


def test_a_restart_of_all_members_is_no_storm_unless_they_go_on_to_restart(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    for turns in (1, 4):
        restart_one_by_one(logs.group(f"restarted-{turns}"), 7, turns)
    findings, _ = check_tables(tables_of(logs.close()))
    (storm,) = of_check(findings, "rebalance_storm")
    assert (storm["group_id"], storm["value"]) == ("restarted-4", 57.0)


def test_members_that_restart_together_again_and_again_are_a_storm(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    group = logs.group("shop")
    for turn in range(4):
        group.generation({"m1": ["t-0"], "m2": ["t-1"]})
        group.generation({"m1": ["t-0"], "m2": ["t-1"], **{f"c{seat}-{turn}": [f"t-{seat}"] for seat in range(2, 8)}})
    findings, _ = check_tables(tables_of(logs.close()))
    (storm,) = of_check(findings, "rebalance_storm")
    assert storm["group_id"] == "shop"


@pytest.mark.parametrize("both", [False, True])
def test_owners_of_a_topic_and_of_one_that_took_its_name_are_no_two_owners(tmp_path: Path, both: bool) -> None:
    logs = Logs(tmp_path)
    group = logs.group("shop")
    new_epoch(group, {"m1": ["t-0"], "m2": []})
    group.commit({"t-0": 1}, by="m1")
    current_assignment(group, "m1", [], revoking=["t-0"], state=UNREVOKED)
    current_assignment(group, "m2", ["recreated-0"])  # the log gets to know its name from the commit
    group.commit({"t-0": 1}, by="m2", ids={"t": topic_id("recreated")})
    if both:
        current_assignment(group, "m1", ["recreated-0"])
    findings, _ = check_tables(tables_of(logs.close()))
    assert len(of_check(findings, "two_owners")) == both


def test_a_defect_in_many_partitions_is_told_of_the_worst(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    group = logs.group("shop")
    partitions = range(30)
    for offset in (1000, 0):
        group.commit({f"t-{number}": offset + number if offset else 0 for number in partitions}, by="")
    findings, results = check_tables(tables_of(logs.close()))
    told = of_check(findings, "offset_rewind")
    assert [row["partition"] for row in told] == list(range(29, 29 - MAX_PER_GROUP, -1))
    assert told[-1]["message"].endswith("; and 10 more like it in this group")
    assert of_check(results, "offset_rewind")[0]["findings"] == MAX_PER_GROUP


def test_history_that_an_earlier_audit_has_read_is_evaluable_after_compaction(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    group = logs.group("shop")
    for number in range(5):
        group.commit({"t-0": number}, by="")
    tables = tables_of(logs.close())
    runs = tables[AUDIT_RUNS.name].to_pylist()
    for start, cleaned_to, status in ((0, 0, "clean"), (0, 3, "not evaluable"), (3, 3, "clean"), (0, None, "clean")):
        first = [run | {"from_log_offset": start, "cleaned_to": cleaned_to} for run in runs]
        tables[AUDIT_RUNS.name] = tables[AUDIT_RUNS.name].from_pylist(first, tables[AUDIT_RUNS.name].schema)
        _, results = check_tables(tables)
        assert of_check(results, "offset_rewind")[0]["status"] == status
        gaps = of_check(results, "offset_overlap_or_gap")[0]
        assert gaps["status"] == ("not evaluable" if cleaned_to is None else "clean")


def test_owners_that_nobody_can_name_are_not_missed(tmp_path: Path) -> None:
    """Topics by id alone, and members that speak another protocol: who owns what is not evaluable, and no defect."""
    logs = Logs(tmp_path)
    by_id = logs.group("only ids")
    new_epoch(by_id, {"m1": ["t-0"]})
    by_id.commit_in_transaction({"t-0": 5})  # such commits have no topic id
    by_id.end_transaction(commit=True)
    connect = logs.group("another protocol")
    worker = MemberMetadata("w1", None, "connect-1", "/127.0.0.1", 60_000, 10_000, b"\x00\x01{}", b"\x00\x01{}")
    value = GroupMetadataValue("connect", 1, "sessioned", "w1", connect.now, [worker])
    connect.append(Record(GROUP_METADATA, GroupMetadataKey(connect.group_id), value))
    connect.commit({"u-0": 5}, by="w1", generation=1)  # of another topic: commits tell ids and names to all groups
    findings, results = check_tables(tables_of(logs.close()))
    assert findings == []
    told = [row for row in of_check(results, "commit_without_owner") if row["group_id"]]
    assert {(row["group_id"], row["reason"]) for row in told} == {
        ("only ids", UNNAMED),
        ("another protocol", UNREADABLE),
    }


def test_the_order_of_commits_in_a_table_does_not_matter(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    group = logs.group("shop")
    group.generation({"m1": ["t-0", "t-1"]})
    for number in range(40):
        group.commit({"t-0": 70, "t-1": 100 * number}, by="m1")
        group.later(59_000)
    tables = tables_of(logs.close())
    expected = check_tables(tables)
    assert [row["check"] for row in expected[0]] == ["stall"]
    order = random.Random(7).sample(range(len(tables["commit_steps"])), len(tables["commit_steps"]))
    assert check_tables(tables | {"commit_steps": tables["commit_steps"].take(order)}) == expected


def test_an_empty_log_is_clean(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.group("shop").delete()
    findings, results = check_tables(tables_of(logs.close()))
    assert findings == []
    assert {row["status"] for row in results if not ALL[row["check"]].needs} == {"clean"}


@pytest.mark.parametrize("archive", ["consumer_offsets_4.3.1", "consumer_offsets_compacted_4.3.1"])
def test_the_log_of_a_real_kafka_gives_only_what_can_be_explained(archive: str, tmp_path: Path) -> None:
    with tarfile.open(DATA / f"{archive}.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    findings, results = check_tables(tables_of(tmp_path / archive))
    print(explain(findings))
    if archive == "consumer_offsets_4.3.1":
        # Range gave the first of two members the larger half of one topic and the only partition of the other.
        assert [(row["check"], row["group_id"]) for row in findings] == [("imbalance", "classic-static")]
    else:
        assert findings == []
        assert any("compaction has removed" in (row["reason"] or "") for row in of_check(results, "two_owners"))
    committers = of_check(results, "commit_by_non_owner")[0]
    assert committers["status"] == "not evaluable"
    assert "Kafka writes no such header" in committers["reason"]
    # Epochs of consumer groups say when a rebalance began; generations of classic groups do not.
    unclear = [row for row in of_check(results, "rebalance_longer_than_timeout") if row["status"] == "not evaluable"]
    assert all("Kafka writes no such header" in row["reason"] for row in unclear if row["group_id"])
    assert "classic-static" in {row["group_id"] for row in unclear} or "compacted" in archive
    assert "modern-live" not in {row["group_id"] for row in unclear}
    for name in ("committed_beyond_end_or_below_start", "state_differs_from_broker"):
        assert of_check(results, name)[0]["reason"] == "needs a broker to compare with: --baseline"


def test_spark_finds_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """From a store, distributed."""
    logs = Logs(tmp_path / "data")
    for name in ("one", "two", "three"):
        group = logs.group(name)
        group.generation({"m1": ["t-0"], "m2": ["t-0"]})
        group.commit({"t-0": 500}, by="m1")
        group.commit({"t-0": 100, "u-0": 1}, by="stranger")
    logs.close()
    settings = Settings({"offset_rewind": {"records": 100}})
    tables = tables_of(logs.path)
    expected = check_tables(tables, settings)
    assert len(expected[0]) == 12

    folders, _ = find_logs([str(logs.path)])
    store = Store(str(tmp_path / "out"))
    run = store.begin("first")
    run.ingest(spark, folders)
    run.work_out(spark)
    runs = ["first"], tables[AUDIT_RUNS.name]
    assert check_run(spark, store.files, *runs, settings=settings) == expected
    narrow, _ = check_run(spark, store.files, *runs, settings=settings, group="two")
    assert narrow == [row for row in expected[0] if row["group_id"] == "two"]
    some, results = check_tables(tables, settings, only=["offset_rewind", "stall"])
    assert some == of_check(expected[0], "offset_rewind")
    assert results == of_check(expected[1], "offset_rewind") + of_check(expected[1], "stall")


def test_a_group_whose_log_names_no_assignor_is_out_of_balance_without_one(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "data")
    group = logs.group("billing")
    new_epoch(group, {"m1": ["t-0", "t-1", "t-2", "t-3"], "m2": ["t-4"]})
    group.later(3_600_000)
    new_epoch(group, {"m1": ["t-0", "t-1", "t-2"], "m2": ["t-3", "t-4"]}, joined=())
    tables = tables_of(logs.close())
    rebalances = tables[REBALANCES.name]
    column = rebalances.schema.get_field_index("protocol")
    tables[REBALANCES.name] = rebalances.set_column(
        column, rebalances.schema.field(column), pa.nulls(len(rebalances), rebalances.schema.field(column).type)
    )
    findings, _ = check_tables(tables)
    (found,) = of_check(findings, "imbalance")
    assert found["message"].endswith("had 4 of 5 partitions and another 1, for 60 min")
