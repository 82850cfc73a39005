"""The tables of an audit on disk: they grow, remember what compaction has removed, and survive a run that is killed."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem

from kohort.audit.decode.folders import find_logs
from kohort.audit.decode.schemas import schema
from kohort.audit.spark.packing import pack
from kohort.audit.store.check import check_run
from kohort.audit.store.lock import Lease, StoreBusy
from kohort.audit.store.runs import DERIVED, Run, Store
from kohort.audit.tables import BASE, STATE_LOGS
from kohort.coordinator.share_state.headers import Cause
from tests.audit.logs import Group, Logs
from tests.audit.share_groups import STATE_TOPIC, ShareState, joined

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")


def audit(
    spark: SparkSession, store: Store, logs: Logs, run_id: str, *, is_finished: bool = True, is_closed: bool = False
) -> Run:
    """What an audit does with a store; the log may be written to again after it, unless it was closed before."""
    folders, problems = find_logs([str(logs.path if is_closed else logs.close())])
    assert problems == []
    started = datetime.now(UTC)
    run = store.begin(run_id)
    read = run.ingest(spark, folders)
    run.work_out(spark)
    if is_finished:
        about = {"run_id": run_id, "started": started, "finished": datetime.now(UTC)}
        run.finish([about | row._asdict() for row in read])
    else:
        with pytest.raises(StoreBusy, match="another audit is writing there"):
            store.begin("another")
        run.release()  # as the end of its process does
    if not is_closed:
        logs.reopen()
    return run


def checked(spark: SparkSession, store: Store, check: str) -> list[dict[str, Any]]:
    """What a check finds in the tables."""
    runs = store.files.read_runs().to_pylist()
    about = pa.Table.from_pylist([row | {"cleaned_to": 0} for row in runs], schema("audit_runs"))
    findings, _ = check_run(spark, store.files, store.files.finished_runs(), about)
    return [row for row in findings if row["check"] == check]


def rows(store: Store, table: str, columns: str, run: Run | None = None) -> list[tuple[Any, ...]]:
    """As finished runs have left it, or as `run` sees it."""
    files = store.files
    runs = files.finished_runs() if run is None else run.runs
    parts = [files.read(path, columns=columns.split()) for path in files.files_of(table, runs)]
    found = pa.concat_tables(parts).to_pylist() if parts else []
    return sorted((tuple(row.values()) for row in found), key=lambda row: [(value is None, value) for value in row])


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

    offsets = rows(store, "offset_commits", "log_offset partition offset member_id")
    assert [row[2] for row in offsets] == [10, 20, 11, 21, 12, 22]
    assert offsets[0] == (1, 0, 10, "m1")
    assert len({row[0] for row in offsets}) == 6, "every record once"
    intervals = rows(store, "ownership_intervals", "partition first_generation last_generation member_id ended_by")
    assert intervals == [
        (0, 1, 2, "m1", "left"),
        (0, 3, 3, "m2", None),
        (1, 1, 1, "m1", "moved"),
        (1, 2, 3, "m2", None),
    ]
    assert [row[0] for row in rows(store, "rebalances", "generation")] == [1, 2, 3]
    assert store.files.next_offsets() == {shop.log_partition: 9}
    runs = store.files.read_runs().sort_by("run_id").select(["from_log_offset", "end_log_offset", "records"])
    assert [tuple(row.values()) for row in runs.to_pylist()] == [(0, 6, 6), (6, 9, 3)]

    fresh = Store(str(tmp_path / "fresh"))
    audit(spark, fresh, logs, "wednesday")
    assert [row[2] for row in rows(fresh, "offset_commits", "log_offset partition offset")] == [11, 21, 12, 22]


def test_states_of_share_groups_survive_what_the_broker_cuts_off(spark: SparkSession, tmp_path: Path) -> None:
    logs, store = Logs(tmp_path / "data"), Store(str(tmp_path / "out"))
    state = ShareState(logs.group("shop"), "t-0", log_partition=7)
    state.snapshot(0)
    state.accept(0, 9)
    audit(spark, store, logs, "monday")
    logs.roll(7, topic=STATE_TOPIC)
    at = state.snapshot(10, cause=None)
    state.at(10).archive(10, 11, 5, Cause.RELEASE)
    logs.cut_off(STATE_TOPIC, 7, at)
    joined(state.its, "m1", ["t-0"])  # now the log says how the topic is called
    audit(spark, store, logs, "tuesday")
    assert [row[0] for row in rows(store, "share_states", "log_offset")] == [0, 1, 2, 3]
    assert rows(store, "share_partitions", "topic accepted archived first_start start_offset") == [("t", 10, 2, 0, 10)]
    (found,) = checked(spark, store, "poison_record")
    assert (found["topic"], found["log_offset"], found["log_partition"]) == ("t", 3, STATE_LOGS + 7)


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
    assert rows(store, "offset_commits", state) == [*known, *((o, "open") for o in (30, 40, 50, 60))]
    assert rows(store, "commit_steps", "offset") == [(10,), (20,)]

    shop.end_transaction(commit=True, producer_id=1)
    shop.end_transaction(commit=False, producer_id=2)
    shop.commit_in_transaction({"orders-1": 31}, producer_id=1)
    audit(spark, store, logs, "tuesday")
    judged = [*known, (30, "committed"), (31, "open"), (40, "aborted"), (50, "open"), (60, "open")]
    assert rows(store, "offset_commits", state) == judged
    assert rows(store, "commit_steps", "offset previous_offset") == [(10, None), (20, None), (30, 10)]

    other.end_transaction(commit=True, producer_id=1)
    shop.end_transaction(commit=True, producer_id=3)
    shop.end_transaction(commit=True, producer_id=1)
    audit(spark, store, logs, "wednesday")
    judged = [*known, (30, "committed"), (31, "committed"), (40, "aborted"), (50, "committed"), (60, "committed")]
    assert rows(store, "offset_commits", state) == judged
    assert rows(store, "partition_facts", "partition last_offset") == [(0, 50), (0, 60), (1, 31)]


def test_a_torn_tail_counts_as_long_as_it_is_there(spark: SparkSession, tmp_path: Path) -> None:
    """In a copy of a running broker's files it is normal: the next copy has the whole batch there."""
    logs, store = Logs(tmp_path / "data"), Store(str(tmp_path / "out"))
    shop = a_group(logs)
    (segment,) = logs.segments(shop.log_partition)
    before = segment.read_bytes()
    shop.commit({"orders-0": 11})
    logs.close()
    whole = segment.read_bytes()
    torn, damaged = whole[:-20], whole[:-1] + bytes([whole[-1] ^ 0x55])
    for number, copy in enumerate((torn, torn, damaged)):
        segment.write_bytes(copy)
        audit(spark, store, logs, f"night-{number}", is_closed=True)
        problems = [row for row in rows(store, "log_batches", "problem size_bytes") if row[0]]
        assert problems == [("torn" if copy is torn else "crc", len(copy) - len(before))], "once"
        assert [row["value"] for row in checked(spark, store, "torn_tail")] == [len(copy) - len(before)] * (
            copy is torn
        )
    segment.write_bytes(whole)
    logs.reopen()
    shop.commit({"orders-0": 12})
    audit(spark, store, logs, "night-3")
    assert {row[0] for row in rows(store, "log_batches", "problem")} == {None}
    for check in ("torn_tail", "undecodable_record", "crc_mismatch", "offset_overlap_or_gap"):
        assert not checked(spark, store, check), check
    logs.close()
    logs.flip_a_byte(shop.log_partition, log_offset=0)
    fresh = Store(str(tmp_path / "fresh"))
    for night in ("one", "two"):
        audit(spark, fresh, logs, night, is_closed=True)
        assert [row[0] for row in rows(fresh, "log_batches", "problem") if row[0]] == ["crc"], "inside the log it stays"


def test_the_tables_can_be_cut_at_a_moment_without_a_trace(spark: SparkSession, tmp_path: Path) -> None:
    logs, store = Logs(tmp_path / "data"), Store(str(tmp_path / "out"))
    shop = a_group(logs)
    shop.commit_in_transaction({"orders-0": 30}, producer_id=1)
    audit(spark, store, logs, "monday")
    until = datetime.fromtimestamp((shop.now + 500) / 1000, UTC)
    shop.end_transaction(commit=True, producer_id=1)
    shop.generation({"m2": ["orders-0", "orders-1"]})
    folders, _ = find_logs([str(logs.close())])
    run = store.begin("tuesday")
    run.ingest(spark, folders)
    run.work_out(spark)
    cut = run.cut(spark, until)
    offsets = [
        row["offset"]
        for path in store.files.files_of("commit_steps", [cut])
        for row in store.files.read(path).to_pylist()
    ]
    assert sorted(offsets) == [10, 20, 30]
    assert [store.files.read(path)["generation"].to_pylist() for path in store.files.files_of("rebalances", [cut])] == [
        [1]
    ]
    assert rows(store, "rebalances", "generation", run) == [(1,), (2,)]
    run.release()
    assert [table for table in (*BASE, *DERIVED) if cut in store.files.runs_of(table)] == []


def test_a_run_that_is_killed_leaves_what_was_there(spark: SparkSession, tmp_path: Path) -> None:
    logs, store = Logs(tmp_path / "data"), Store(str(tmp_path / "out"))
    shop = a_group(logs)
    assert store.files.next_offsets() == {}
    assert rows(store, "rebalances", "generation") == []
    audit(spark, store, logs, "monday")
    shop.commit({"orders-0": 11})
    killed = audit(spark, store, logs, "tuesday", is_finished=False)

    assert [row[0] for row in rows(store, "offset_commits", "offset", killed)] == [10, 11, 20]
    assert [row[0] for row in rows(store, "offset_commits", "offset")] == [10, 20]
    assert [row[0] for row in rows(store, "commit_steps", "offset")] == [10, 20]
    assert store.files.next_offsets() == {shop.log_partition: 3}

    shop.commit({"orders-0": 12})
    audit(spark, store, logs, "wednesday")
    assert [row[0] for row in rows(store, "offset_commits", "offset")] == [10, 11, 12, 20]
    assert [row[0] for row in rows(store, "commit_steps", "offset")] == [10, 11, 12, 20]
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


def test_a_store_is_locked_however_its_folder_is_named(tmp_path: Path) -> None:
    first = Store(str(tmp_path / "out")).begin("monday")
    with pytest.raises(StoreBusy):
        Store((tmp_path / "out").as_uri()).begin("tuesday")
    first.release()
    Store((tmp_path / "out").as_uri()).begin("tuesday").release()


def test_packs_are_of_about_the_same_size() -> None:
    assert pack([("a", 1), ("b", 9), ("c", 3), ("d", 3)], 2) == [["b"], ["c", "d", "a"]]
    assert pack([("a", 1)], 4) == [["a"]]
    assert pack([], 4) == []


def leases(folder: Path, **times: float) -> Lease:
    """A lease in a file system that is taken for an object store."""
    return Lease(LocalFileSystem(), str(folder), **times)


def test_a_lease_keeps_others_out_until_it_is_given_back(tmp_path: Path) -> None:
    first = leases(tmp_path)
    with pytest.raises(StoreBusy, match="another audit is writing there"):
        leases(tmp_path)
    first.check()
    first.release()
    leases(tmp_path).release()
    assert list((tmp_path / ".leases").iterdir()) == []


def test_of_many_audits_that_begin_at_once_at_most_one_goes_on(tmp_path: Path) -> None:
    for number in range(20):
        start = threading.Barrier(6)

        def begin(folder: Path, start: threading.Barrier = start) -> Lease | None:
            start.wait()
            try:
                return leases(folder)
            except StoreBusy:
                return None

        with ThreadPoolExecutor(6) as pool:
            held = [one for one in pool.map(begin, [tmp_path / f"{number}"] * 6) if one is not None]
        assert len(held) <= 1
        for one in held:
            one.release()


def test_the_lease_of_a_killed_audit_ends_by_itself(tmp_path: Path) -> None:
    killed = leases(tmp_path, renew_s=1e6)
    (left,) = (tmp_path / ".leases").iterdir()
    with pytest.raises(StoreBusy):
        leases(tmp_path)
    os.utime(left, (1, 1))
    next_one = leases(tmp_path)
    with pytest.raises(StoreBusy, match="another one may have begun"):
        killed.check()
    killed.release()
    next_one.check()
    next_one.release()


def test_a_lease_is_renewed_while_the_audit_goes_on(tmp_path: Path) -> None:
    lease = leases(tmp_path, renew_s=0.01)
    (file,) = (tmp_path / ".leases").iterdir()
    os.utime(file, (1, 1))
    deadline = time.monotonic() + 60
    while file.stat().st_mtime < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    lease.check()
    lease.release()
