"""What `follow` remembers is enough to judge what comes, and no more."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from kohort.audit.decode.folders import find_logs
from kohort.audit.decode.schemas import schema
from kohort.audit.derive.partition import derive_partition
from kohort.audit.follow.recent import Recent
from kohort.audit.tables import AUDIT_RUNS
from kohort.coordinator.share_state.headers import Cause
from tests.audit.checks.audited import check_tables
from tests.audit.logs import START, Logs
from tests.audit.new_groups import new_epoch
from tests.audit.share_groups import ShareState

HOUR_MS = 3_600_000


def horizon(ms: int) -> pa.Scalar:
    return pa.scalar(datetime.fromtimestamp(ms / 1000, UTC), pa.timestamp("us", "UTC"))


def test_what_stood_before_the_window_is_kept_and_the_rest_forgotten(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    shop = logs.group("shop")
    for number in range(5):
        shop.generation({"m1": ["orders-0"], f"m{number + 2}": ["orders-1"]})
        shop.commits("orders-0", [100 * number + 10, 100 * number + 20], by="m1")
    new = logs.group_in(shop.log_partition, "new")
    for _ in range(3):
        new_epoch(new, {"n1": ["sales-0"]})
    shop.later(2 * HOUR_MS).commit({"orders-0": 5}, by="m1")
    (folder,), _ = find_logs([str(logs.close())])
    recent = Recent(folder, None)
    recent.read(folder)
    recent.forget(horizon(START + HOUR_MS))
    tables = recent.tables
    assert tables["offset_commits"]["offset"].to_pylist() == [420, 5]
    classic = [row for row in tables["group_generations"].to_pylist() if row["group_type"] == "classic"]
    assert [row["generation"] for row in classic] == [5]
    members = [
        (row["group_id"], row["record_type"], row["member_id"]) for row in tables["member_assignments"].to_pylist()
    ]
    assert sorted(members) == [
        (new.group_id, 5, "n1"), (new.group_id, 7, "n1"), (new.group_id, 8, "n1"),
        ("shop", 2, "m1"), ("shop", 2, "m6"),
    ]  # fmt: skip
    assert tables["log_batches"].num_rows == 1
    everything = tables | derive_partition(folder.log_partition, tables)
    runs = {AUDIT_RUNS.name: pa.Table.from_pylist([dict(recent.run_row())], schema(AUDIT_RUNS.name))}
    findings, _ = check_tables(everything | runs, only=["offset_rewind", "commit_by_non_owner", "commit_without_owner"])
    assert [(one["check"], one["value"]) for one in findings] == [("offset_rewind", 415)]


def test_the_last_state_of_a_share_group_is_kept(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    state = ShareState(logs.group("shop"), "orders-0", log_partition=7)
    state.snapshot(0)
    state.accept(0, 9)
    state.returned(10, 10, 3, Cause.LOCK_TIMEOUT)
    state.its.later(2 * HOUR_MS)
    state.at(10).archive(10, 10, 5, Cause.LOCK_TIMEOUT)
    (folder,), _ = find_logs([str(logs.close())])
    recent = Recent(folder, None)
    recent.read(folder)
    recent.forget(horizon(START + HOUR_MS))
    assert recent.tables["share_states"]["log_offset"].to_pylist() == [0, 2, 3]
    everything = recent.tables | derive_partition(folder.log_partition, recent.tables)
    runs = {AUDIT_RUNS.name: pa.Table.from_pylist([dict(recent.run_row())], schema(AUDIT_RUNS.name))}
    findings, _ = check_tables(everything | runs)
    assert [(one["check"], one["log_offset"]) for one in findings] == [("poison_record", 3)]


def test_reading_on_adds_what_is_new(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    shop = logs.group("shop")
    shop.commits("orders-0", [1, 2], by="")
    (folder,), _ = find_logs([str(logs.close())])
    recent = Recent(folder, None)
    recent.read(folder)
    logs.reopen()
    shop.commits("orders-0", [3, 4], by="")
    (grown,), _ = find_logs([str(logs.close())])
    recent.read(grown)
    recent.read(grown)
    recent.read(folder)  # as it was before
    assert recent.tables["offset_commits"]["offset"].to_pylist() == [1, 2, 3, 4]
    assert recent.tables["offset_commits"]["offset"].num_chunks == 1


def test_commits_of_a_transaction_are_seen_when_it_has_ended(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    shop = logs.group("shop")
    shop.commit({"orders-0": 1})
    shop.commit_in_transaction({"orders-0": 2}, producer_id=1)
    shop.commit_in_transaction({"orders-0": 3}, producer_id=2)
    shop.commit_in_transaction({"orders-0": 4}, producer_id=3)
    (folder,), _ = find_logs([str(logs.path)])
    recent = Recent(folder, None)
    recent.read(folder)
    assert recent.tables["offset_commits"]["offset"].to_pylist() == [1]
    shop.end_transaction(commit=True, producer_id=1)
    shop.end_transaction(commit=False, producer_id=2)
    recent.forget(horizon(START + HOUR_MS))  # how old it is does not matter while it is open
    recent.read(find_logs([str(logs.path)])[0][0])
    assert recent.tables["offset_commits"]["offset"].to_pylist() == [1, 2]
    shop.end_transaction(commit=True, producer_id=3)
    recent.read(find_logs([str(logs.close())])[0][0])
    recent.forget(horizon(START + HOUR_MS))
    assert recent.tables["offset_commits"]["offset"].to_pylist() == [4]
