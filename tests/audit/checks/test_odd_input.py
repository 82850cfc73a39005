"""Whatever stands in a log, it is judged: what a client or a damaged disk has put there must not stop the audit."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kohort.audit.checks import ALL, Settings
from kohort.audit.checks.run import MAX_PER_GROUP
from kohort.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, TopicPartition
from kohort.protocol.record_batch import NewRecord, build_batch
from kohort.protocol.subscription import pack_assignment
from tests.audit.checks.audited import check_tables, of_check, tables_of
from tests.audit.decode import random_logs
from tests.audit.logs import START, Logs


@pytest.mark.parametrize("seed", range(20))
def test_random_logs_are_judged(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With negative partitions, partitions that are assigned twice, and records without a time or beyond all times."""
    rng = random.Random(seed)

    def at_any_time(records: list[NewRecord], *, timestamp: int, **how: int) -> bytes:
        return build_batch(records, timestamp=rng.choice((timestamp, timestamp, -1, 2**61)), **how)  # type: ignore[arg-type]

    monkeypatch.setattr(random_logs, "build_batch", at_any_time)
    random_logs.write_segments(tmp_path / "__consumer_offsets-3", random_logs.random_log(rng, 60), {30})
    _, results = check_tables(tables_of(tmp_path))
    assert {row["status"] for row in results} <= {"clean", "found", "not evaluable"}


def test_a_partition_that_an_assignor_gave_twice_has_one_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twice = pack_assignment(ConsumerProtocolAssignment([TopicPartition("orders", [0, 0, -1])]), 1)
    monkeypatch.setattr("tests.audit.logs.pack_assignment", lambda *_: twice)
    logs = Logs(tmp_path)
    shop = logs.group("shop", at=START)
    shop.generation({"m1": ["orders-0"]})
    shop.commits("orders-0", [10, 5], by="m1")
    logs.close()
    tables = tables_of(tmp_path)
    owned = [(row["topic"], row["partition"], row["member_id"]) for row in tables["ownership_intervals"].to_pylist()]
    assert owned == [("orders", 0, "m1"), ("orders", -1, "m1")]
    findings, _ = check_tables(tables)
    assert [row["partition"] for row in of_check(findings, "offset_rewind")] == [0]


def test_what_was_over_before_a_time_does_not_stand_in_the_way_of_what_came_after(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    shop = logs.group("shop", at=START)
    for number in range(MAX_PER_GROUP + 5):
        shop.commits(f"orders-{number}", [1000, 5])
    late = shop.later(3_600_000).commits("late-0", [2, 1])[1]
    logs.close()
    since = datetime.fromtimestamp((shop.now - 1_800_000) / 1000, UTC)
    findings, results = check_tables(tables_of(tmp_path), since=since)
    assert [row["log_offset"] for row in of_check(findings, "offset_rewind")] == [late]
    assert of_check(results, "offset_rewind")[0]["findings"] == 1


def test_every_threshold_can_be_none_at_all_and_makes_a_difference(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    shop = logs.group("shop", at=START)
    for number in range(3):
        shop.generation({f"m{number}": ["orders-0"]}, instances={f"m{number}": "static"})
        shop.commit({"orders-1": 1}, by=f"m{number}")
    logs.close()
    tables = tables_of(tmp_path)
    nothing = Settings({name: dict.fromkeys(check.thresholds, 0) for name, check in ALL.items()})
    assert of_check(check_tables(tables, nothing)[0], "rebalance_storm")
    assert of_check(check_tables(tables)[0], "commit_without_owner")
    more = Settings({"commit_without_owner": {"commits": 4}})
    assert of_check(check_tables(tables, more)[0], "commit_without_owner") == []
