"""The story of consumer groups, from a broker's log: owners, causes, epochs, and nothing wrong with them."""

from __future__ import annotations

import random
from itertools import groupby

import pyarrow as pa
import pytest

from kohort.audit.owners.group_history import from_folders
from tests.audit.checks.audited import Row, check_tables, explain, tables_of
from tests.audit.consumer_story import CLICKS, ORDERS, PARCELS, PARTITIONS, Told

MOMENTS = 200


@pytest.fixture(scope="module")
def told(consumer_story: Told) -> Told:
    return consumer_story


@pytest.fixture(scope="module")
def tables(told: Told) -> dict[str, pa.Table]:
    return tables_of(told.data)


def rebalances(tables: dict[str, pa.Table], group: str) -> list[Row]:
    rows = [row for row in tables["rebalances"].to_pylist() if row["group_id"] == group]
    return sorted(rows, key=lambda row: row["log_offset"])


@pytest.mark.parametrize("group", [ORDERS, CLICKS, PARCELS])
def test_owners_at_random_moments_are_those_that_the_members_logged(told: Told, group: str) -> None:
    machine, problems = from_folders([str(told.data)], group)
    assert problems == []
    crew = told.crews[group]
    rng = random.Random(848)
    first, last = int(crew.events[0].time * 1000), int(crew.events[-1].time * 1000)
    for _ in range(MOMENTS):
        at_ms = rng.randrange(first, last + 1)
        owners = {(each.topic, each.partition): each.member_id for each in machine.at(at_ms) if each.member_id}
        assert crew.believed_at((at_ms + 1) / 1000).items() <= owners.items(), at_ms
    for settled in crew.settled:
        shown = machine.at(int((settled.start + settled.end) * 500))  # in the middle
        assert {(each.topic, each.partition): each.member_id for each in shown} == settled.owners
        assert {(each.topic, each.partition): each.offset for each in shown} == settled.offsets


@pytest.mark.parametrize("group", [ORDERS, CLICKS, PARCELS])
def test_each_rebalance_has_the_cause_that_the_broker_logged(
    told: Told, tables: dict[str, pa.Table], group: str
) -> None:
    """The broker logs a rebalance when it is over; of several that come together, the first cause."""
    rows = rebalances(tables, group)
    assert told.causes[group].keys() <= {row["generation"] for row in rows}
    written = [row for row in tables["group_generations"].to_pylist() if row["group_id"] == group and row["cause"]]
    done = 0
    for generation, cause in told.causes[group].items():
        assert cause in {row["cause"] for row in written if done <= row["generation"] <= generation}
        done = generation
    assert {row["cause"] for row in rows} <= {row["cause"] for row in written}
    assert all(row["trigger"] for row in rows)
    numbers = [row["generation"] for row in rows]
    assert numbers == sorted(set(numbers)), "epochs only rise"


def test_a_topic_that_matches_later_is_shared_out_when_the_log_says_so(tables: dict[str, pa.Table]) -> None:
    rows = rebalances(tables, CLICKS)
    grown = next(row for row in rows if row["partition_count"] == 2 * PARTITIONS)
    assert grown["cause"] == "regular expression matches other topics"
    assert {row["partition_count"] for row in rows} == {PARTITIONS, 2 * PARTITIONS}
    assert sum(row["avoidable_moves"] for row in rows) == 0


def test_partitions_that_move_are_revoked_first_and_others_are_never_interrupted(tables: dict[str, pa.Table]) -> None:
    intervals = [row for row in tables["ownership_intervals"].to_pylist() if row["group_id"] == ORDERS]
    moved = [row for row in intervals if row["ended_by"] == "moved"]
    assert moved
    told = [row for row in moved if row["revoking_since"] is not None]  # null: given up before it was asked for
    assert all(row["start_time"] <= row["revoking_since"] <= row["end_time"] for row in told)
    assert sum(row["moved"] for row in rebalances(tables, ORDERS)) >= len(moved)


def test_nothing_is_wrong_with_the_story(tables: dict[str, pa.Table]) -> None:
    """But for the haste: a rolling restart of three members in two seconds, and back, looks like a storm. And the first
    generation has no record if a member joins before it was assigned, which is told for information.
    """
    findings, results = check_tables(tables)
    print(explain(findings))
    assert {(row["check"], row["severity"], row["group_id"]) for row in findings} <= {
        ("rebalance_storm", "error", PARCELS),
        ("generation_gap_or_decrease", "info", PARCELS),
    }
    of_new_groups = {row["check"]: row["status"] for row in results if row["group_id"] is None}
    for check in ("two_owners", "commit_by_non_owner", "rebalance_longer_than_timeout"):
        assert of_new_groups[check] == "clean", check


def test_a_rolling_restart_to_the_other_protocol_and_back_is_the_history_of_one_group(
    tables: dict[str, pa.Table],
) -> None:
    rows = rebalances(tables, PARCELS)
    kinds = [row["group_type"] for row in rows]
    assert [kind for kind, _ in groupby(kinds)] == ["classic", "consumer", "classic"]
    assert rows[kinds.index("consumer")]["cause"] == "upgrade to consumer group"
    ends = {row["ended_by"] for row in tables["ownership_intervals"].to_pylist() if row["group_id"] == PARCELS}
    assert "deleted" not in ends
    assert ends <= {None, "moved", "unassigned", "left"}
