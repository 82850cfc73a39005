"""Many nightly runs into one store become few, and nothing that an audit finds changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kohort.audit.owners.group_history import from_store
from kohort.audit.result import Request, Result
from kohort.audit.run.audit import run_audit
from kohort.audit.run.progress import Progress
from kohort.audit.store import merge
from kohort.audit.store.files import StoreFiles
from kohort.audit.tables import BASE
from tests.audit.logs import START, Logs

NIGHTS = 9
DAY_MS = 86_400_000


def nights(folder: Path) -> Result:
    """An audit every night: commits, a rewind, a transaction that ends the night after, compaction."""
    logs = Logs(folder / "data")
    result = None
    for night in range(NIGHTS):
        at = START + night * DAY_MS
        shop = logs.group("shop", at=at)
        shop.generation({f"m{night}": ["orders-0"]}, number=night + 1)
        shop.commits("orders-0", [night * 100, night * 100 + 50, night * 100 + 20])
        bank = logs.group("bank", at=at)
        if night % 2:
            bank.end_transaction(commit=True, producer_id=night - 1)
        else:
            bank.commit_in_transaction({"money-0": night}, producer_id=night)
        logs.roll(shop.log_partition)
        if night == NIGHTS // 2:
            logs.compact(shop.log_partition)
        logs.close()
        result = run_audit(None, Request((str(folder / "data"),), str(folder / "out")), Progress())
        logs = Logs(folder / "data")
    logs.close()
    assert result is not None
    return result


def told(result: Result) -> list[str]:
    leave = ("run_id", "time", "until")
    return sorted(str({k: v for k, v in row.items() if k not in leave}) for row in result.findings)


def base_rows(out: Path) -> dict[str, list[str]]:
    files = StoreFiles(str(out))
    runs = files.finished_runs()
    numbers = sorted(files.sizes((BASE[0], run_id) for run_id in runs))
    return {
        table: [str(row) for number in numbers for row in files.read_rows(table, runs, number).to_pylist()]
        for table in BASE
    }


def test_merged_runs_say_what_the_single_ones_have_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    single = nights(tmp_path / "single")
    monkeypatch.setattr(merge, "MERGE_AT", 3)
    merged = nights(tmp_path / "merged")
    assert told(merged) == told(single) != []
    assert [row["status"] for row in merged.check_results] == [row["status"] for row in single.check_results]
    assert base_rows(tmp_path / "merged" / "out") == base_rows(tmp_path / "single" / "out")
    runs = {place: StoreFiles(str(tmp_path / place / "out")).finished_runs() for place in ("single", "merged")}
    assert len(runs["single"]) == NIGHTS
    assert len(runs["merged"]) <= 4
    files = {place: len(list((tmp_path / place / "out").rglob("*.parquet"))) for place in runs}
    assert files["merged"] < files["single"]
    machines = [from_store(str(tmp_path / place / "out"), "shop") for place in runs]
    for night in range(NIGHTS):
        at_ms = START + night * DAY_MS + 10_000
        assert machines[0].at(at_ms) == machines[1].at(at_ms) != []


def test_a_merge_that_is_killed_has_happened_or_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nights(tmp_path)
    files = StoreFiles(str(tmp_path / "out"))
    before, runs = base_rows(tmp_path / "out"), files.finished_runs()
    monkeypatch.setattr(merge, "MERGE_AT", 3)

    class Killed(Exception):
        pass

    def die(*_: object) -> None:
        raise Killed

    for moment, count in (("write_run", len(runs)), ("remove_replaced", 2)):
        with monkeypatch.context() as patched:
            patched.setattr(StoreFiles, moment, die)
            with pytest.raises(Killed):
                merge.merge_small_runs(files, runs[:-1])
        assert len(files.finished_runs()) == count
        assert base_rows(tmp_path / "out") == before
    request = Request((str(tmp_path / "data"),), str(tmp_path / "out"))
    assert run_audit(None, request, Progress()).records == 0
    assert base_rows(tmp_path / "out") == before
    assert len(list((tmp_path / "out" / "audit_runs").iterdir())) == 3, "replaced ones are removed"


def test_large_runs_are_left_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nights(tmp_path)
    files = StoreFiles(str(tmp_path / "out"))
    monkeypatch.setattr(merge, "MERGE_AT", 3)
    monkeypatch.setattr(merge, "LARGE_BYTES", 1)
    assert merge.merge_small_runs(files, files.finished_runs()) is None
