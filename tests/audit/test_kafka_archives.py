"""Logs of a real Kafka: from the tables alone, every line can be written again that Kafka's own dump tool printed.

Only what is not in a table is left out of the comparison: the sizes of keys and values, the (empty) list of header
names, and the format of the batch.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from kohort.audit.decode import read_table
from kohort.audit.decode.folders import LogFolder, find_logs
from kohort.audit.run.in_process import audit_paths
from kohort.audit.tables import BASE_TABLES
from kohort.broker.cli import main
from kohort.printable import printable_json
from kohort.protocol.record_json import to_text

DATA = Path(__file__).parent.parent / "data"
ARCHIVES = (
    "consumer_offsets_4.3.1", "consumer_offsets_compacted_4.3.1", "consumer_groups_848_4.3.1", "streams_groups_4.3.1",
)  # fmt: skip
NOT_IN_TABLES = re.compile(r" (keySize|valueSize|magic): -?\d+| headerKeys: \[\]")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row = dict[str, Any]
Tables = dict[str, list[Row]]


@pytest.fixture(scope="module", params=ARCHIVES)
def archive(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    with tarfile.open(DATA / f"{request.param}.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    return folder / str(request.param)


def tables_of(folder: LogFolder) -> Tables:
    return {
        table.name: [row for batch in read_table(folder, table.name) for row in batch.to_pylist()]
        for table in BASE_TABLES
    }


def test_every_line_of_kafkas_own_tool_can_be_written_from_the_tables(archive: Path) -> None:
    folders, problems = find_logs([str(archive)])
    assert problems == []
    assert len(folders) in (47, 6, 19, 3)
    types = set()
    for folder in folders:
        # Kafka's tool prints control characters as they are.
        dumped = printable_json((Path(folder.path) / "dump.txt").read_text()).splitlines()
        tables = tables_of(folder)
        name = Path(folder.path).name
        assert list(written(name, tables)) == [NOT_IN_TABLES.sub("", line) for line in dumped], folder.path
        types |= {row["record_type"] for name in tables for row in tables[name] if "record_type" in row}
        types |= {row["key_version"] for row in tables["offset_commits"]}
    if archive.name == "consumer_offsets_4.3.1":
        assert types == set(range(1, 17)) - {9}
    if archive.name == "streams_groups_4.3.1":
        assert types == {1, 17, 19, 20, 21, 22, 23}


def test_topic_ids_have_names_wherever_the_log_tells(archive: Path) -> None:
    folders, _ = find_logs([str(archive)])
    named = 0
    for folder in folders:
        tables = tables_of(folder)
        known = {row["topic_id"]: row["topic"] for row in tables["offset_commits"] if row["topic_id"]}
        for row in tables["member_assignments"]:
            for one in [*(row["assigned"] or []), *(row["revoking"] or [])]:
                if one["topic_id"] in known:
                    assert one["topic"] == known[one["topic_id"]]
                    named += row["record_type"] != 2
    assert named > 0 or "compacted" in archive.name or "streams" in archive.name


def test_members_of_streams_groups_have_tasks_and_nobody_is_said_to_own_partitions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tarfile.open(DATA / "streams_groups_4.3.1.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    data = tmp_path / "streams_groups_4.3.1"
    folders, _ = find_logs([str(data)])
    rows = [row for folder in folders for row in tables_of(folder)["member_assignments"]]
    assert {row["group_type"] for row in rows} == {"streams"}
    assert "anna-StreamThread-1-consumer" in {row["client_id"] for row in rows if row["record_type"] == 19}
    current = [row for row in rows if row["record_type"] == 22 and row["group_id"] == "word-count"]
    last = {row["member_id"]: rest_of(row).get("activeTasks", ()) for row in current}
    tasks = [(each["subtopologyId"], number) for one in last.values() for each in one for number in each["partitions"]]
    assert sorted(tasks) == [(subtopology, number) for subtopology in "01" for number in range(4)]
    found = audit_paths([str(data)])
    assert found.findings == []
    assert main(["audit", "owners", str(data), "--group", "word-count", "--at", "0s"]) == 0
    assert "word-count is a streams group: its members have tasks" in capsys.readouterr().out


# --- the tool's lines, from the tables -----------------------------------------------------------------------------


def written(folder: str, tables: Tables) -> Iterator[str]:
    shown = {row["log_offset"]: (row["record_time"], text) for row, text in records(tables)}
    for segment, batches in groupby(tables["log_batches"], key=lambda row: row["segment"]):
        yield f"Dumping {folder}/{segment:020d}.log"
        yield f"Log starting offset: {segment}"
        for batch in batches:
            yield batch_line(batch)
            kind = time_type(batch)
            if batch["marker"]:
                text = f" endTxnMarker: {batch['marker']} coordinatorEpoch: {batch['coordinator_epoch']}"
                yield record_line(batch, batch["log_offset"], kind, batch["max_time"], text)
            for offset in range(batch["log_offset"], batch["last_log_offset"] + 1):
                if offset in shown:
                    yield record_line(batch, offset, kind, *shown.pop(offset))
    assert shown == {}


def batch_line(batch: Row) -> str:
    horizon = batch["delete_horizon"]
    return (
        (
            f"baseOffset: {batch['log_offset']} lastOffset: {batch['last_log_offset']} count: {batch['record_count']} "
            f"baseSequence: {batch['base_sequence']} lastSequence: {sequence(batch, batch['last_log_offset'])} "
            f"producerId: {batch['producer_id']} producerEpoch: {batch['producer_epoch']} "
            f"partitionLeaderEpoch: {batch['leader_epoch']} isTransactional: {batch['transactional']} "
            f"isControl: {batch['marker'] is not None} "
            f"deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{ms(horizon)}]'} "
            f"position: {batch['position']} {time_type(batch)}: {ms(batch['max_time'])} size: {batch['size_bytes']} "
            f"compresscodec: {batch['codec']} crc: {batch['crc']} isvalid: {batch['problem'] is None}"
        )
        .replace("True", "true")
        .replace("False", "false")
    )


def record_line(batch: Row, offset: int, kind: str, time: datetime, text: str) -> str:
    return f"| offset: {offset} {kind}: {ms(time)} sequence: {sequence(batch, offset)}{text}"


def time_type(batch: Row) -> str:
    return {"create": "CreateTime", "append": "LogAppendTime"}[batch["time_type"]]


def sequence(batch: Row, offset: int) -> int:
    first: int = batch["base_sequence"]
    return first + offset - int(batch["log_offset"]) if first >= 0 else -1


def ms(time: datetime | None) -> int:
    return -1 if time is None else (time - EPOCH) // timedelta(milliseconds=1)


def records(tables: Tables) -> Iterator[tuple[Row, str]]:
    for row in tables["offset_commits"]:
        key = {"group": row["group_id"], "topic": row["topic"], "partition": row["partition"]}
        yield row, key_and_value(row["key_version"], key, row, commit_data(row))
    members = {
        offset: list(rows) for offset, rows in groupby(tables["member_assignments"], key=lambda row: row["log_offset"])
    }
    for row in tables["group_generations"]:
        key = {"group" if row["record_type"] == 2 else "groupId": row["group_id"]}
        yield row, key_and_value(row["record_type"], key, row, generation_data(row, members.get(row["log_offset"], [])))
    for row in tables["member_assignments"]:
        if row["record_type"] != 2:
            key = {"groupId": row["group_id"], "memberId": row["member_id"]}
            yield row, key_and_value(row["record_type"], key, row, member_data(row))
    for row in tables["other_records"]:
        assert row["problem"] is None
        yield row, f" key: {row['key']} payload: {'<DELETE>' if row['tombstone'] else row['value']}"


def key_and_value(record_type: int, key: Row, row: Row, data: Row) -> str:
    shown = {"version": str(row["value_version"]), "data": data}
    payload = "<DELETE>" if row["tombstone"] else to_text(shown)
    return f" key: {to_text({'type': str(record_type), 'data': key})} payload: {payload}"


def commit_data(row: Row) -> Row:
    version = row["value_version"] or 0
    return {
        "offset": row["offset"],
        **({"leaderEpoch": row["offset_epoch"]} if version >= 3 else {}),
        "metadata": row["metadata"],
        "commitTimestamp": ms(row["commit_time"]),
        **({"expireTimestamp": ms(row["expire_time"])} if version == 1 else {}),
        **({"topicId": row["topic_id"]} if row["topic_id"] else {}),
    }


def rest_of(row: Row) -> Row:
    return dict(json.loads(row["rest"])) if row["rest"] else {}


def generation_data(row: Row, members: list[Row]) -> Row:
    if row["record_type"] != 2:
        name = "assignmentEpoch" if row["record_type"] in (6, 12, 20) else "epoch"
        return {name: row["generation"], **rest_of(row)}
    assert row["tombstone"] or row["member_count"] == len(members)
    return {
        "protocolType": row["protocol_type"],
        "generation": row["generation"],
        "protocol": row["protocol"],
        "leader": row["leader"],
        "currentStateTimestamp": ms(row["state_time"]),
        "members": [classic_member(member) for member in members],
    }


def classic_member(row: Row) -> Row:
    subscription, assignment = rest_of(row)["subscription"], rest_of(row)["assignment"]
    if isinstance(subscription, dict):
        version = subscription.pop("version")
        owned = {"ownedPartitions": by_topic(row["owned"])} if version else {}
        told = {"topics": row["subscribed_topics"], "userData": subscription.pop("userData")}
        subscription = {**told, **owned, **subscription}
    if isinstance(assignment, dict):
        assignment.pop("version")
        assignment = {"assignedPartitions": by_topic(row["assigned"]), **assignment}
    return {
        "memberId": row["member_id"],
        "groupInstanceId": row["instance_id"],
        "clientId": row["client_id"],
        "clientHost": row["client_host"],
        "rebalanceTimeout": row["rebalance_timeout_ms"],
        "sessionTimeout": row["session_timeout_ms"],
        "subscription": subscription,
        "assignment": assignment,
    }


def by_topic(partitions: list[Row], name: str = "topic", shown_name: str = "topic") -> list[Row]:
    return [
        {shown_name: topic, "partitions": [one["partition"] for one in some]}
        for topic, some in groupby(partitions or (), key=lambda one: one[name])
    ]


def member_data(row: Row) -> Row:
    match row["record_type"]:
        case 5:
            return {
                "instanceId": row["instance_id"],
                "rackId": row["rack_id"],
                "clientId": row["client_id"],
                "clientHost": row["client_host"],
                "subscribedTopicNames": row["subscribed_topics"],
                "subscribedTopicRegex": row["subscribed_regex"] or "",
                "rebalanceTimeoutMs": row["rebalance_timeout_ms"],
                "serverAssignor": row["server_assignor"],
                **rest_of(row),
            }
        case 10:
            return {
                "rackId": row["rack_id"],
                "clientId": row["client_id"],
                "clientHost": row["client_host"],
                "subscribedTopicNames": row["subscribed_topics"],
            }
        case 19:
            return {
                "instanceId": row["instance_id"],
                "rackId": row["rack_id"],
                "clientId": row["client_id"],
                "clientHost": row["client_host"],
                "rebalanceTimeoutMs": row["rebalance_timeout_ms"],
                **rest_of(row),
            }
        case 21:
            return rest_of(row)
        case 22:
            epochs = {"memberEpoch": row["generation"], "previousMemberEpoch": row["previous_generation"]}
            return {**epochs, "state": row["state"], **rest_of(row)}
        case 7 | 13:
            return {"topicPartitions": by_topic(row["assigned"], "topic_id", "topicId")}
        case _:
            return current_assignment(row)


def current_assignment(row: Row) -> Row:
    epochs = rest_of(row).get("assignmentEpochs", {})
    shown = {
        "memberEpoch": row["generation"],
        "previousMemberEpoch": row["previous_generation"],
        "state": row["state"],
        "assignedPartitions": by_topic(row["assigned"], "topic_id", "topicId"),
    }
    if row["record_type"] == 8:
        shown["partitionsPendingRevocation"] = by_topic(row["revoking"], "topic_id", "topicId")
    for name, of_topics in epochs.items():
        for topic, its_epochs in zip(shown[name], of_topics, strict=True):
            topic["assignmentEpochs"] = its_epochs
    return shown
