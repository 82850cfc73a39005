"""Reading, deriving and checking a folder in one pass gives what the steps over the store give."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kohort.audit.checks import Settings
from kohort.audit.decode.folders import find_logs
from kohort.audit.decode.partition_count import guess_partition_count
from kohort.audit.decode.schemas import schema
from kohort.audit.derive.partition import MADE
from kohort.audit.run.one_pass import one_pass
from kohort.audit.store.check import check_run
from kohort.audit.store.runs import Store
from kohort.audit.tables import AUDIT_RUNS
from tests.audit.logs import START, Logs
from tests.audit.new_groups import new_epoch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE_MS = 60_000


def tables(store: Store, name: str) -> list[list[dict[str, Any]]]:
    """File by file."""
    return [store.files.read(path).to_pylist() for path in store.files.files_of(name, ["first"])]


def troubled_log(folder: Path) -> Path:
    """Some groups with something wrong, one beside the other in time."""
    logs = Logs(folder)
    for name in ("shop", "till", "desk", "yard"):
        group = logs.group(name)
        for number in range(8):
            group.generation({f"m{number}": ["orders-0", "orders-1"], "still": ["orders-2"]}, cause="member joined")
            group.commits("orders-0", [10, 20, 30, 5], by=f"m{number}")
            group.commit({"orders-2": 7}, by=f"m{number}")
    return logs.close()


def test_one_pass_finds_what_the_steps_over_the_store_find(spark: SparkSession, tmp_path: Path) -> None:
    folders, _ = find_logs([str(troubled_log(tmp_path / "data"))])
    store = Store(str(tmp_path / "out"))
    run = store.begin("first")
    count = guess_partition_count(folders)
    read, judged = one_pass(spark, store.files, "first", folders, Settings(), log_partition_count=count)
    assert judged is not None
    runs = [
        {"run_id": "first", "log_partition": one.log_partition, "from_log_offset": 0,
         "end_log_offset": one.end_log_offset, "cleaned_to": 0, "records": one.records}
        for one in read
    ]  # fmt: skip
    about = pa.Table.from_pylist(runs, schema(AUDIT_RUNS.name))
    derived = {name: tables(store, name) for name in MADE}
    assert all(derived.values())
    run.work_out(spark)
    assert {name: tables(store, name) for name in MADE} == derived
    assert check_run(spark, store.files, ["first"], about) == judged
    assert {row["check"] for row in judged[0]} >= {"offset_rewind", "rebalance_storm"}
    run.release()


def test_a_log_that_ends_earlier_in_its_last_folder_or_lacks_names_is_left_to_the_steps(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs = Logs(tmp_path / "late")
    late = logs.group("shop", at=START + 60 * MINUTE_MS)
    late.generation({"m1": ["orders-0"]})
    early = logs.group("shop2", log_partition=late.log_partition)
    for _ in range(200):  # more than what is looked at to tell the time
        early.commit({"orders-0": 1})
    nameless = Logs(tmp_path / "nameless")
    new_epoch(nameless.group("new"), {"m1": ["orders-0"]})
    for number, data in enumerate((logs.close(), nameless.close())):
        store = Store(str(tmp_path / f"out-{number}"))
        run = store.begin("first")
        folders, _ = find_logs([str(data)])
        _, judged = one_pass(spark, store.files, "first", folders, Settings(), log_partition_count=50)
        assert judged is None
        run.release()
