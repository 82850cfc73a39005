"""Consumer groups (KIP-848) of a real Kafka 4.3.1, in all states: the audit says of them what Kafka said.

tests/kafka/make_consumer_groups.py made the archive: its functions tell how each group came into its state.
"""

from __future__ import annotations

import base64
import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kohort.audit.checks.kit.baseline import Answers, GroupAnswer
from kohort.audit.owners.group_history import from_folders
from kohort.protocol.subscription import read_assignment
from tests.audit.checks.audited import Row, check_tables, explain, of_check, tables_of

DATA = Path(__file__).parent.parent / "data"
NAME = "consumer_groups_848_4.3.1"
AWAY = -2
SECOND_MS = 1000
Owners = dict[tuple[str, int], str]


@pytest.fixture(scope="module")
def kafka() -> dict[str, Any]:
    """What Kafka answered before it stopped."""
    told: dict[str, Any] = json.loads((DATA / f"{NAME}.json").read_text())
    return told


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    with tarfile.open(DATA / f"{NAME}.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    return folder / NAME


@pytest.fixture(scope="module")
def tables(archive: Path) -> dict[str, pa.Table]:
    return tables_of(archive)


def owners_by_kafka(kafka: dict[str, Any]) -> dict[str, Owners]:
    """A static member that is away has closed its consumer; Kafka keeps its partitions, and nobody owns them."""
    owners: dict[str, Owners] = {name: {} for name in (*kafka["consumer"], *kafka["classic"])}
    for name, group in kafka["consumer"].items():
        for member in group["members"]:
            for topic in member["assignment"]["topic_partitions"] if member["member_epoch"] != AWAY else ():
                owners[name] |= {(topic["topic_name"], number): member["member_id"] for number in topic["partitions"]}
    for name, group in kafka["classic"].items():
        for member in group["members"]:
            raw = base64.urlsafe_b64decode(member["member_assignment"] + "==")
            for topic in read_assignment(raw).assigned_partitions:
                owners[name] |= {(topic.topic, number): member["member_id"] for number in topic.partitions}
    return owners


def rows_of(tables: dict[str, pa.Table], name: str, group: str) -> list[Row]:
    rows = [row for row in tables[name].to_pylist() if row["group_id"] == group]
    return sorted(rows, key=lambda row: row["start_log_offset"] if "start_log_offset" in row else row["log_offset"])


def test_owners_at_the_end_of_the_log_are_those_that_kafka_described(
    tables: dict[str, pa.Table], kafka: dict[str, Any]
) -> None:
    found: dict[str, Owners] = {name: {} for name in owners_by_kafka(kafka)}
    for row in tables["ownership_intervals"].to_pylist():
        if row["end_log_offset"] is None and row["topic"] in kafka["topics"]:  # Kafka leaves deleted topics out
            assert found[row["group_id"]].setdefault((row["topic"], row["partition"]), row["member_id"])
    assert found == owners_by_kafka(kafka)
    assert sum(map(len, found.values())) > 100


def test_the_time_machine_says_the_same_after_the_last_record(archive: Path, kafka: dict[str, Any]) -> None:
    epochs = {
        (name, member["member_id"]): member["member_epoch"]
        for name, group in kafka["consumer"].items()
        for member in group["members"]
    }
    for name, owners in owners_by_kafka(kafka).items():
        machine, problems = from_folders([str(archive)], name)
        assert problems == []
        told = [one for one in machine.at(4_000_000_000_000) if one.member_id and one.topic in kafka["topics"]]
        assert {(one.topic, one.partition): one.member_id for one in told} == owners
        for one in told:
            if (name, one.member_id) in epochs:
                assert one.generation == epochs[name, one.member_id]


def test_nothing_is_wrong_with_these_groups(tables: dict[str, pa.Table]) -> None:
    findings, results = check_tables(tables)
    print(explain(findings))
    assert findings == []
    assert of_check(results, "two_owners")[0]["status"] == "clean"
    assert of_check(results, "assignment_outside_subscription")[0]["status"] == "clean"


def test_a_broker_that_answers_as_kafka_did_differs_in_nothing(
    tables: dict[str, pa.Table], kafka: dict[str, Any]
) -> None:
    groups = {
        row["group_id"]: GroupAnswer(
            row["group_type"], row["group_state"],
            {(topic["name"], each["partition_index"]): each["committed_offset"]
             for topic in kafka["offsets"][row["group_id"]] for each in topic["partitions"]},
            frozenset(owners_by_kafka(kafka)[row["group_id"]].items()),
        )
        for row in kafka["groups"]
    }  # fmt: skip
    places = {
        (name, number): (0, 10_000) for name, topic in kafka["topics"].items() for number in range(topic["partitions"])
    }
    findings, _ = check_tables(tables, baseline=Answers(groups, places), only=["state_differs_from_broker"])
    assert findings == []
    lost = groups["plain"]._replace(owners=frozenset([(("orders", 0), "somebody else")]))
    findings, _ = check_tables(
        tables, baseline=Answers(groups | {"plain": lost}, places), only=["state_differs_from_broker"]
    )
    assert [row["message"].split(":")[0] for row in findings] == ["10 differences; first the owner of orders-0"]


def test_an_upgrade_goes_on_with_the_owners_of_the_classic_group(tables: dict[str, pa.Table]) -> None:
    intervals = rows_of(tables, "ownership_intervals", "migrating")
    classic = [row for row in intervals if row["group_type"] == "classic" and row["first_generation"] == 2]
    assert {(row["partition"], row["ended_by"]) for row in classic} == {(3, None), (4, None), (5, None)}
    rebalances = rows_of(tables, "rebalances", "migrating")
    assert [(row["generation"], row["group_type"]) for row in rebalances] == [
        (1, "classic"), (2, "classic"), (3, "consumer"),
    ]  # fmt: skip
    assert rebalances[-1]["joined"] == ["new"]
    assert rebalances[-1]["duration_ms"] is None  # the second classic member has not heard of it
    settled = rows_of(tables, "rebalances", "migrating-settled")[-1]
    assert 0 < settled["duration_ms"] < 60 * SECOND_MS


def test_a_downgrade_goes_on_with_the_owners_of_the_consumer_group(tables: dict[str, pa.Table]) -> None:
    rebalances = rows_of(tables, "rebalances", "downgraded")
    assert [(row["generation"], row["group_type"], row["left"]) for row in rebalances] == [
        (2, "consumer", []), (3, "consumer", []), (4, "classic", ["fresh"]),
    ]  # fmt: skip
    static = rows_of(tables, "ownership_intervals", "downgraded-by-a-static-member")
    still = [row for row in static if row["end_log_offset"] is None and row["instance_id"] == "one"]
    assert {(row["partition"], row["group_type"]) for row in still} == {(0, "classic"), (1, "classic"), (2, "classic")}


def test_a_group_that_was_empty_in_between_moved_nothing(tables: dict[str, pa.Table]) -> None:
    rebalances = rows_of(tables, "rebalances", "there-and-back")
    assert [(row["generation"], row["group_type"], row["moved"]) for row in rebalances] == [
        (1, "classic", 0), (2, "consumer", 0), (1, "classic", 0), (2, "consumer", 0),
    ]  # fmt: skip


def test_a_partition_that_is_to_be_revoked_is_owned_until_it_was_given_up(tables: dict[str, pa.Table]) -> None:
    open_ones = [row for row in rows_of(tables, "ownership_intervals", "unrevoked") if row["end_log_offset"] is None]
    assert {(row["partition"], row["member_id"]) for row in open_ones} == {(number, "first") for number in range(6)}


def test_what_the_regular_expressions_match_counts_as_subscribed(tables: dict[str, pa.Table]) -> None:
    """Without the expressions, every partition that moved between members of the group could have stayed."""
    assert sum(row["moved"] for row in rows_of(tables, "rebalances", "regex")) > 0
    assert sum(row["avoidable_moves"] for row in rows_of(tables, "rebalances", "regex")) == 0
