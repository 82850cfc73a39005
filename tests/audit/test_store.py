"""The tables of an audit on disk: they grow, remember what compaction has removed, and survive a run that is killed."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from audit.decode.folders import find_logs
from audit.derive import derive
from audit.store import Run, Store
from audit.store_files import StoreBusy
from audit.store_tasks import pack
from tests.audit.logs import Group, Logs
from tests.audit.new_groups import new_epoch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")


def audit(spark: SparkSession, store: Store, logs: Logs, run_id: str, *, is_finished: bool = True) -> Run:
    """What an audit does with a store; the log may be written to again after it."""
    folders, problems = find_logs([str(logs.close())])
    assert problems == []
    started = datetime.now(UTC)
    run = store.begin(run_id)
    read = run.ingest(spark, folders)
    run.derive(spark)
    if is_finished:
        about = {"run_id": run_id, "started": started, "finished": datetime.now(UTC)}
        run.finish([about | row._asdict() for row in read])
    else:
        with pytest.raises(StoreBusy, match="another audit is writing there"):
            store.begin("another")
        run.release()  # as the end of its process does
    logs.reopen()
    return run


def rows(spark: SparkSession, store: Store | Run, table: str, columns: str) -> list[tuple[Any, ...]]:
    frame = store.table(spark, table)
    return sorted(tuple(row) for row in frame.select(*columns.split()).collect())


def a_group(logs: Logs) -> Group:
    shop = logs.group("shop")
    shop.generation({"m1": ["orders-0", "orders-1"]})
    shop.commit({"orders-0": 10, "orders-1": 20}, by="m1")
    return shop


def test_history_survives_compaction(spark: SparkSession, tmp_path: Path) -> None:
    logs, store = Logs(tmp_path / "data"), Store(str(tmp_path / "out"))
    shop = a_group(logs)
    shop.generation({"m1": ["orders-0"], "m2": ["orders-1"]})
    shop.commit({"orders-0": 11, "orders-1": 21})
    audit(spark, store, logs, "monday")
    logs.roll(shop.log_partition)
    logs.compact(shop.log_partition)
    shop.generation({"m2": ["orders-0", "orders-1"]})
    shop.commit({"orders-0": 12, "orders-1": 22}, by="m2")
    audit(spark, store, logs, "tuesday")

    offsets = rows(spark, store, "offset_commits", "log_offset partition offset member_id")
    assert [row[2] for row in offsets] == [10, 20, 11, 21, 12, 22]
    assert offsets[0] == (1, 0, 10, "m1")
    assert len({row[0] for row in offsets}) == 6, "every record once"
    intervals = rows(
        spark, store, "ownership_intervals", "partition first_generation last_generation member_id ended_by"
    )
    assert intervals == [
        (0, 1, 2, "m1", "left"),
        (0, 3, 3, "m2", None),
        (1, 1, 1, "m1", "moved"),
        (1, 2, 3, "m2", None),
    ]
    assert [row[0] for row in rows(spark, store, "rebalances", "generation")] == [1, 2, 3]
    assert store.next_offsets() == {shop.log_partition: 9}
    assert [row[1:] for row in rows(spark, store, "audit_runs", "run_id from_log_offset end_log_offset records")] == [
        (0, 6, 6), (6, 9, 3),
    ]  # fmt: skip

    fresh = Store(str(tmp_path / "fresh"))
    audit(spark, fresh, logs, "wednesday")
    assert [row[2] for row in rows(spark, fresh, "offset_commits", "log_offset partition offset")] == [11, 21, 12, 22]


def test_a_transaction_that_ends_later_is_judged_then(spark: SparkSession, tmp_path: Path) -> None:
    logs, store = Logs(tmp_path / "data"), Store(str(tmp_path / "out"))
    shop = a_group(logs)
    shop.commit_in_transaction({"orders-0": 30}, producer_id=1)
    shop.commit_in_transaction({"orders-0": 40}, producer_id=2)
    shop.commit_in_transaction({"orders-0": 50}, producer_id=3)
    other = logs.group_in((shop.log_partition + 1) % 50)
    other.commit_in_transaction({"orders-0": 60}, producer_id=1)
    audit(spark, store, logs, "monday")
    state = "offset transaction"
    known = [(10, "none"), (20, "none")]
    assert rows(spark, store, "offset_commits", state) == [*known, *((o, "open") for o in (30, 40, 50, 60))]
    assert rows(spark, store, "commit_steps", "offset") == [(10,), (20,)]

    shop.end_transaction(commit=True, producer_id=1)
    shop.end_transaction(commit=False, producer_id=2)
    shop.commit_in_transaction({"orders-1": 31}, producer_id=1)
    audit(spark, store, logs, "tuesday")
    judged = [*known, (30, "committed"), (31, "open"), (40, "aborted"), (50, "open"), (60, "open")]
    assert rows(spark, store, "offset_commits", state) == judged
    assert rows(spark, store, "commit_steps", "offset previous_offset") == [(10, None), (20, None), (30, 10)]

    other.end_transaction(commit=True, producer_id=1)
    shop.end_transaction(commit=True, producer_id=3)
    shop.end_transaction(commit=True, producer_id=1)
    audit(spark, store, logs, "wednesday")
    judged = [*known, (30, "committed"), (31, "committed"), (40, "aborted"), (50, "committed"), (60, "committed")]
    assert rows(spark, store, "offset_commits", state) == judged
    assert rows(spark, store, "partition_facts", "partition last_offset") == [(0, 50), (0, 60), (1, 31)]


def test_a_run_that_is_killed_leaves_what_was_there(spark: SparkSession, tmp_path: Path) -> None:
    logs, store = Logs(tmp_path / "data"), Store(str(tmp_path / "out"))
    shop = a_group(logs)
    assert store.next_offsets() == {}
    assert store.table(spark, "rebalances").count() == 0
    audit(spark, store, logs, "monday")
    shop.commit({"orders-0": 11})
    killed = audit(spark, store, logs, "tuesday", is_finished=False)

    assert [row[0] for row in rows(spark, killed, "offset_commits", "offset")] == [10, 11, 20]
    assert [row[0] for row in rows(spark, store, "offset_commits", "offset")] == [10, 20]
    assert [row[0] for row in rows(spark, store, "commit_steps", "offset")] == [10, 20]
    assert store.next_offsets() == {shop.log_partition: 3}

    shop.commit({"orders-0": 12})
    audit(spark, store, logs, "wednesday")
    assert [row[0] for row in rows(spark, store, "offset_commits", "offset")] == [10, 11, 12, 20]
    assert [row[0] for row in rows(spark, store, "commit_steps", "offset")] == [10, 11, 12, 20]
    assert store.files.runs_of("offset_commits") == ["monday", "wednesday"], "what was killed is gone"
    assert store.files.runs_of("commit_steps") == ["wednesday"], "derived tables are those of the last run"


def test_a_log_that_ends_before_what_was_read_is_not_the_same_log(spark: SparkSession, tmp_path: Path) -> None:
    store = Store(str(tmp_path / "out"))
    longer, shorter = Logs(tmp_path / "longer"), Logs(tmp_path / "shorter")
    a_group(longer).commit({"orders-0": 11})
    shop = a_group(shorter)
    audit(spark, store, longer, "monday")
    folders, _ = find_logs([str(shorter.close())])
    (read,) = store.begin("tuesday").ingest(spark, folders)
    assert (read.log_partition, read.end_log_offset, read.records) == (shop.log_partition, None, 0)
    assert read.problem == "ends at log offset 3, but 4 was read before: is it another broker's?"
    with pytest.raises(ValueError, match="is there twice"):
        store.begin("wednesday").ingest(spark, folders * 2)


def test_any_frames_of_the_base_tables_can_be_derived_from(spark: SparkSession, tmp_path: Path) -> None:
    logs, store = Logs(tmp_path / "data"), Store(str(tmp_path / "out"))
    a_group(logs).commit({"orders-0": 5}, by="m2")
    new_epoch(logs.group("new"), {"n1": ["orders-3"]})  # has the topic's id only, and lies in another log partition
    run = audit(spark, store, logs, "monday")
    names = ("offset_commits", "group_generations", "member_assignments")
    made = derive(spark, {name: run.table(spark, name) for name in names})
    for name, frame in made.items():
        assert sorted(frame.collect()) == sorted(run.table(spark, name).collect()), name
    steps = (
        made["commit_steps"]
        .where("step < 0")
        .select("offset", "step", "high", "member_id", "owner", "group_generation")
    )
    assert steps.collect() == [(5, -5, 10, "m2", "m1", 1)]
    assert made["ownership_intervals"].where("member_id = 'n1'").select("topic", "partition").collect() == [
        ("orders", 3)
    ]


def test_packs_are_of_about_the_same_size() -> None:
    assert pack([("a", 1), ("b", 9), ("c", 3), ("d", 3)], 2) == [["b"], ["c", "d", "a"]]
    assert pack([("a", 1)], 4) == [["a"]]
    assert pack([], 4) == []
