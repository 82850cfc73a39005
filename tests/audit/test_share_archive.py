"""A log of a real Kafka in which share groups have worked: what its own dump tool shows is what the tables have.

One member of group `workers` reads topic `invoices` (two partitions of 60 records). It accepts records, but for these:
offset 13 of partition 0 is given back each time, until Kafka gives it up; offset 27 is rejected; partition 1 is first
kept for longer than the lock; and its offset 5 is given back once more.
"""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path

import pytest

from kohort.audit import pipeline
from kohort.audit.decode.folders import find_logs
from kohort.audit.owners.group_history import from_folders
from kohort.audit.run.in_process import audit_paths
from kohort.audit.tables import STATE_LOGS
from kohort.protocol.record_json import to_text
from tests.audit.checks.audited import Row, tables_of
from tests.audit.test_kafka_archives import DATA

ARCHIVE = "share_groups_4.3.1"
FIELDS = {
    0: ("snapshotEpoch", "stateEpoch", "leaderEpoch", "startOffset", "complete", "createTimestamp", "writeTimestamp"),
    1: ("snapshotEpoch", "leaderEpoch", "startOffset", "complete"),
}
COLUMNS = {
    "snapshotEpoch": "snapshot_epoch", "stateEpoch": "state_epoch", "leaderEpoch": "leader_epoch",
    "startOffset": "start_offset", "complete": "complete_count", "createTimestamp": "create_time",
    "writeTimestamp": "write_time",
}  # fmt: skip


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    with tarfile.open(DATA / f"{ARCHIVE}.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    return folder / ARCHIVE


def as_dumped(row: Row) -> str:
    """The key and the value of a record as Kafka's tool prints them."""
    data: dict[str, object] = {}
    for field in FIELDS[row["record_type"]]:
        value = row[COLUMNS[field]]
        if field == "complete":
            if value is not None:
                data["deliveryCompleteCount"] = value
        else:
            data[field] = value if isinstance(value, int) else round(value.timestamp() * 1000)
    names = ("firstOffset", "lastOffset", "deliveryState", "deliveryCount")
    data["stateBatches"] = [dict(zip(names, batch.values(), strict=True)) for batch in row["batches"]]
    place = {"groupId": row["group_id"], "topicId": row["topic_id"], "partition": row["partition"]}
    key = {"type": str(row["record_type"]), "data": place}
    return f"{to_text(key)} payload: {to_text({'version': '0', 'data': data})}"


def test_every_record_is_in_the_tables_as_kafkas_tool_shows_it(archive: Path) -> None:
    folders, problems = find_logs([str(archive)])
    assert problems == []
    compared = 0
    for folder in folders:
        if folder.keeps_share_state:
            dumped = re.findall(r"key: (\{.*\} payload: \{.*\})$", (Path(folder.path) / "dump.txt").read_text(), re.M)
            rows = pipeline.decode(folder)["share_states"].to_pylist()
            assert [as_dumped(row) for row in rows] == dumped
            assert {row["cause"] for row in rows} == {None}
            compared += len(rows)
    assert compared == 10


def test_the_members_and_their_partitions_are_known(archive: Path) -> None:
    tables = tables_of(archive)
    members = tables["share_members"].to_pylist()
    assert {row["client_id"] for row in members} == {"m-1"}
    assert [len(row["partitions"]) for row in members] == [0, 2]
    assert {one["topic"] for row in members for one in row["partitions"]} == {"invoices"}
    assert {row["ended_by"] for row in members} == {"assigned", "left"}
    during = round(members[1]["start_time"].timestamp() * 1000) + 15_000
    machine, problems = from_folders([str(archive)], "workers")
    assert problems == []
    owners = machine.at(during)
    assert [(owner.topic, owner.partition, owner.client_id) for owner in owners] == [
        ("invoices", 0, "m-1"), ("invoices", 1, "m-1"),
    ]  # fmt: skip


def test_the_record_that_was_given_up_is_found_and_the_rejected_ones_are_not(archive: Path) -> None:
    found = audit_paths([str(archive)])
    (finding,) = found.findings
    assert (finding["check"], finding["group_id"], finding["topic"], finding["partition"]) == (
        "poison_record", "workers", "invoices", 0,
    )  # fmt: skip
    assert finding["message"] == "offset 13 was given up after 5 deliveries"
    assert finding["log_partition"] in (STATE_LOGS + 38, STATE_LOGS + 39)
    (locks,) = (row for row in found.check_results if row["check"] == "lock_timeouts" and row["group_id"] is None)
    assert locks["status"] == "not evaluable"
    assert "Kafka writes no such header" in locks["reason"]


def test_the_sums_are_what_the_member_did(archive: Path) -> None:
    rows = {row["partition"]: row for row in tables_of(archive)["share_partitions"].to_pylist()}
    assert [(rows[n]["accepted"], rows[n]["archived"]) for n in (0, 1)] == [(58, 2), (59, 1)]
    assert rows[1]["returned"] == 60 + 1, json.dumps(rows[1], default=str)
