"""Derived tables of one log partition, from real logs; and compared with a slow and simple way to say the same."""

from __future__ import annotations

import random
import tarfile
from pathlib import Path
from statistics import median_low
from typing import Any

import pyarrow as pa
import pytest

from kohort.audit.decode import read_table, schema
from kohort.audit.decode.folders import find_logs
from kohort.audit.derive.partition import MADE, NEEDED, derive_partition
from tests.audit.logs import START, Group, Logs

DATA = Path(__file__).parents[2] / "data"


def derived(path: Path, log_partition: int | None = None) -> dict[str, list[dict[str, Any]]]:
    """Rows of the derived tables of a data folder."""
    folders, problems = find_logs([str(path)])
    assert problems == []
    made: dict[str, list[dict[str, Any]]] = {name: [] for name in MADE}
    for folder in folders:
        if log_partition in (None, folder.log_partition):
            base = {name: pa.Table.from_batches(read_table(folder, name), schema(name)) for name in NEEDED}
            for name, table in derive_partition(folder.log_partition, base).items():
                assert table.schema == schema(name)
                made[name] += table.to_pylist()
    return made


def a_log(tmp_path: Path) -> tuple[Logs, Group]:
    logs = Logs(tmp_path / "data")
    return logs, logs.group("shop")


def test_a_step_stands_beside_the_one_before(tmp_path: Path) -> None:
    logs, shop = a_log(tmp_path)
    for offsets in ({"orders-0": 10}, {"orders-0": 30, "orders-1": 5}, {"orders-0": 20}):
        shop.commit(offsets)
    shop.tombstone("orders-0")
    shop.commit({"orders-0": 25})
    steps = derived(logs.close())["commit_steps"]
    told = [(s["partition"], s["offset"], s["previous_offset"], s["step"], s["high"]) for s in steps]
    assert told == [
        (0, 10, None, None, None), (0, 30, 10, 20, 10), (0, 20, 30, -10, 30), (0, None, 20, None, 30),
        (0, 25, None, None, 30), (1, 5, None, None, None),
    ]  # fmt: skip
    assert (steps[2]["time"] - steps[2]["previous_time"]).total_seconds() == 1
    assert {step["group_type"] for step in steps} == {None}


def test_a_commit_knows_the_owner_and_the_generation_at_its_place_in_the_log(tmp_path: Path) -> None:
    logs, shop = a_log(tmp_path)
    shop.commit({"orders-0": 1})
    shop.generation({"m1": ["orders-0"]})
    shop.commit({"orders-0": 2}, by="m1")
    shop.generation({"m2": ["orders-0"]})
    shop.commit({"orders-0": 3}, by="m1", generation=1)
    shop.empty()
    shop.commit({"orders-0": 4}, by="")
    shop.delete()
    shop.commit({"orders-0": 5})
    names = ("offset", "member_id", "generation", "owner", "group_generation", "group_type")
    assert [tuple(step[name] for name in names) for step in derived(logs.close())["commit_steps"]] == [
        (1, None, None, None, None, None),
        (2, "m1", 1, "m1", 1, "classic"),
        (3, "m1", 1, "m2", 2, "classic"),
        (4, "", -1, None, 3, "classic"),
        (5, None, None, None, None, None),
    ]


def test_of_two_owners_the_one_who_commits_is_named(tmp_path: Path) -> None:
    logs, shop = a_log(tmp_path)
    shop.generation({"m1": ["orders-0"], "m2": ["orders-0"]})
    for offset, by in enumerate(("m1", "m2", "m3")):
        shop.commit({"orders-0": offset}, by=by)
    assert [step["owner"] for step in derived(logs.close())["commit_steps"]] == ["m1", "m2", "m2"]


def test_a_transaction_that_was_aborted_or_is_open_makes_no_step(tmp_path: Path) -> None:
    logs, shop = a_log(tmp_path)
    shop.commit({"orders-0": 1})
    for producer, offset in enumerate((2, 3, 4)):
        shop.commit_in_transaction({"orders-0": offset}, producer_id=producer)
    shop.end_transaction(commit=True, producer_id=0)
    shop.end_transaction(commit=False, producer_id=1)
    made = derived(logs.close())
    assert [(step["offset"], step["previous_offset"]) for step in made["commit_steps"]] == [(1, None), (2, 1)]
    assert made["partition_facts"][0]["commits"] == 2


def test_facts_about_a_partition(tmp_path: Path) -> None:
    logs, shop = a_log(tmp_path)
    shop.generation({"m1": ["orders-0", "orders-1", "orders-2"]})
    shop.commits("orders-0", (10, 20, 5, 12, 40, 30), by="m1", every_ms=2000)
    shop.commit({"orders-1": 7})
    shop.tombstone("orders-1")
    shop.generation({"m1": ["orders-0"], "m2": ["orders-2"]})
    first, second, third = derived(logs.close())["partition_facts"]
    assert {name: first[name] for name in first if not name.endswith("time") and name != "topic_id"} == {
        "group_id": "shop", "topic": "orders", "partition": 0, "log_partition": shop.log_partition, "commits": 6,
        "tombstones": 0, "first_offset": 10, "last_offset": 30, "max_offset": 40, "rewinds": 2, "largest_rewind": 15,
        "unregained": True, "median_step": 10, "median_interval_ms": 2000, "owner": "m1",
        "owner_since": first["owner_since"],
    }  # fmt: skip
    assert first["owner_since"].timestamp() * 1000 == START
    assert (first["last_time"] - first["first_time"]).total_seconds() == 10
    assert (second["last_offset"], second["tombstones"], second["commits"], second["owner"]) == (None, 1, 1, None)
    assert (third["partition"], third["commits"], third["first_time"], third["owner"]) == (2, 0, None, "m2")


def test_many_random_commits_are_what_a_loop_makes_of_them(tmp_path: Path) -> None:
    rng = random.Random(9)
    logs, shop = a_log(tmp_path)
    other = logs.group("shop", log_partition=shop.log_partition)
    other.group_id = "other"
    expected: dict[tuple[str, int], list[Any]] = {}
    owners: dict[str, dict[str, str]] = {"shop": {}, "other": {}}
    for _ in range(400):
        group = rng.choice((shop, other))
        partition = f"orders-{rng.randrange(4)}"
        if rng.random() < 0.1:
            given = {one: rng.choice(("m1", "m2")) for one in (f"orders-{n}" for n in range(4)) if rng.random() < 0.7}
            group.generation({m: [one for one in given if given[one] == m] for m in ("m1", "m2")})
            owners[group.group_id] = given
            continue
        offset = None if rng.random() < 0.1 else rng.randrange(1000)
        at = group.tombstone(partition) if offset is None else group.commit({partition: offset})
        history = expected.setdefault((group.group_id, int(partition[-1])), [])
        before = history[-1] if history else None
        high = max((one[1] for one in history if one[1] is not None), default=None)
        history.append((at, offset, before and before[1], high, owners[group.group_id].get(partition)))
    made = derived(logs.close())
    found: dict[tuple[str, int], list[Any]] = {}
    for step in made["commit_steps"]:
        row = tuple(step[name] for name in ("log_offset", "offset", "previous_offset", "high", "owner"))
        found.setdefault((step["group_id"], step["partition"]), []).append(row)
    assert found == expected
    for fact in made["partition_facts"]:
        history = expected[fact["group_id"], fact["partition"]]
        steps = [now - before for _, now, before, _, _ in history if now is not None and before is not None]
        assert fact["rewinds"] == sum(step < 0 for step in steps)
        assert fact["median_step"] == median_low([step for step in steps if step > 0])
        assert fact["tombstones"] == sum(one[1] is None for one in history)
        assert fact["last_offset"] == history[-1][1]


def test_an_empty_log_partition_has_empty_tables() -> None:
    made = derive_partition(3, {name: schema(name).empty_table() for name in NEEDED})
    assert {name: len(table) for name, table in made.items()} == dict.fromkeys(MADE, 0)


@pytest.mark.parametrize("name", ["consumer_offsets_4.3.1", "consumer_offsets_compacted_4.3.1"])
def test_logs_of_a_real_kafka_are_walked_without_a_stumble(name: str, tmp_path: Path) -> None:
    with tarfile.open(DATA / f"{name}.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    made = derived(tmp_path / name)
    assert made["commit_steps"]
    if "compacted" not in name:
        intervals = {(row["group_id"], row["ended_by"]) for row in made["ownership_intervals"]}
        assert ("modern-static-left", "left") in intervals
        assert {row["group_type"] for row in made["rebalances"]} == {"classic", "consumer"}
