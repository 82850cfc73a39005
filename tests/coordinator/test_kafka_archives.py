"""Logs that a real Kafka 4.3.1 wrote become the groups and offsets that it answered just before it stopped."""

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.coordinator.outcome import CommitRecords, LogEntry, MarkerRecord, TransactionalCommit
from kohort.coordinator.record_codec import NO_HEADERS, PackedCommit, batches
from kohort.protocol.log_records import decode_key, decode_value
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey
from kohort.protocol.messages.txn_offset_commit import TxnOffsetCommitRequestPartition
from kohort.protocol.record_batch import BatchHeader, parse_header, parse_marker, read_records
from kohort.protocol.subscription import read_assignment
from kohort.protocol.txn_marker import TxnMarker
from kohort.protocol.wire import NO_UUID
from tests.coordinator.members import Member, fetched, send_fetch
from tests.coordinator.support import FakeTopics, Host

DATA = Path(__file__).parent.parent / "data"
ARCHIVES = ["consumer_offsets_4.3.1", "consumer_offsets_compacted_4.3.1"]


def load(archive: str, folder: Path) -> tuple[Host, dict[str, Any], Path]:
    with tarfile.open(DATA / f"{archive}.tar.gz") as tar:
        tar.extractall(folder, filter="data")
    root = folder / archive
    host = Host(topics=FakeTopics(orders=12, payments=12), load=False)
    for shard in host.runtime.shards:
        for segment in sorted((root / f"__consumer_offsets-{shard.partition}").glob("*.log")):
            host.disk.batches.setdefault(shard.partition, []).extend(batches_of(segment.read_bytes()))
    host.load()
    return host, json.loads((root / "state" / "state.json").read_text()), root


def batches_of(log: bytes) -> Iterator[bytes]:
    position = 0
    while position < len(log):
        size = parse_header(log, position).size_bytes
        yield log[position : position + size]
        position += size


@pytest.mark.parametrize("archive", ARCHIVES)
def test_classic_groups_are_listed_as_kafka_listed_them(archive: str, tmp_path: Path) -> None:
    host, state, _ = load(archive, tmp_path)
    theirs = {
        group["group"]: (group["protocol_type"], group["state"])
        for group in state["groups"]
        if group["type"] == "classic"
    }
    others = {group["group"] for group in state["groups"]} - set(theirs)
    ours = {each.group_id: (each.protocol_type, each.group_state) for each in host.list_groups()}
    assert {group: shown for group, shown in ours.items() if group not in others} == theirs


@pytest.mark.parametrize("archive", ARCHIVES)
def test_all_offsets_are_those_that_kafka_answered(archive: str, tmp_path: Path) -> None:
    host, state, _ = load(archive, tmp_path)
    for group_id, theirs in state["offsets"].items():
        ours = fetched(send_fetch(host, group_id))
        assert {
            place: (each.committed_offset, each.committed_leader_epoch, each.metadata) for place, each in ours.items()
        } == {
            (row["topic"], row["partition"]): (row["offset"], row["leader_epoch"], row["metadata"]) for row in theirs
        }, group_id


MEMBER = re.compile(r"^(\S+)\s+(\S+-[0-9a-f-]{36})\s+(?:(\S+)\s+)?(/\S+)\s+(\S+)\s+(\d+)\s+-\s+(\S+)\s", re.MULTILINE)


@pytest.mark.parametrize("archive", ARCHIVES)
def test_members_and_assignments_are_those_that_kafkas_tool_showed(archive: str, tmp_path: Path) -> None:
    host, state, root = load(archive, tmp_path)
    classic = {group["group"] for group in state["groups"] if group["type"] == "classic"}
    rows = [row for row in MEMBER.findall((root / "state" / "describe_members.txt").read_text()) if row[0] in classic]
    assert rows
    for group_id, member_id, instance_id, client_host, client_id, count, assigned in rows:
        shown = next(each for each in host.describe(group_id).members if each.member_id == member_id)
        assert (shown.group_instance_id, shown.client_host, shown.client_id) == (
            instance_id or None,
            client_host,
            client_id,
        )
        topics = sorted(read_assignment(shown.member_assignment).assigned_partitions, key=lambda topic: topic.topic)
        text = ";".join(f"{topic.topic}:{','.join(map(str, topic.partitions))}" for topic in topics)
        assert (text, sum(len(topic.partitions) for topic in topics)) == (assigned, int(count))


def test_members_of_kafka_carry_on_with_us(tmp_path: Path) -> None:
    host, _, _ = load(ARCHIVES[0], tmp_path)
    for group_id in ("classic-static", "classic-coop"):
        group = host.classic(group_id)
        for member_id, known in list(group.members.items()):
            member = Member(host, group_id, instance_id=known.instance_id)
            member.member_id, member.generation = member_id, group.generation
            assert member.heartbeat() == 0
            assert member.commit({("orders", 1): 77}) == 0


def test_an_open_transaction_of_the_archive_is_unstable(tmp_path: Path) -> None:
    host, _, _ = load(ARCHIVES[0], tmp_path)
    answers = [
        each
        for group in ("txn-group", "txn-modern")
        for each in fetched(send_fetch(host, group, [("orders", n) for n in range(12)], require_stable=True)).values()
    ]
    assert [each.error_code for each in answers if each.error_code] == [88, 88]


def test_commits_and_markers_of_transactions_have_the_bytes_that_kafka_wrote(tmp_path: Path) -> None:
    _, _, root = load("consumer_offsets_4.3.1", tmp_path)
    seen = {"commits": 0, "markers": 0}
    for log in sorted(root.glob("__consumer_offsets-*/*.log")):
        for batch in batches_of(log.read_bytes()):
            header = parse_header(batch)
            if header.is_control:
                entry: LogEntry = _marker(header, batch)
                seen["markers"] += 1
            elif header.is_transactional:
                entry = _commit(header, batch)
                seen["commits"] += 1
            else:
                continue
            assert batches([entry], header.base_offset, header.base_timestamp) == [batch]
    assert seen == {"commits": 11, "markers": 9}


def _marker(header: BatchHeader, batch: bytes) -> MarkerRecord:
    (record,) = read_records(batch)
    marker = parse_marker(record.key, record.value)
    assert marker is not None
    epochs = header.producer_epoch, marker.coordinator_epoch
    return MarkerRecord(TxnMarker(header.producer_id, epochs[0], marker.commit, epochs[1], 2))


def _commit(header: BatchHeader, batch: bytes) -> TransactionalCommit:
    """As the handler packs it."""
    packed = PackedCommit()
    parts = []
    for record in read_records(batch):
        assert record.key is not None
        assert record.value is not None
        kind, key = decode_key(record.key)
        value: Any = decode_value(kind, record.value)
        assert isinstance(key, OffsetCommitKey)
        row = TxnOffsetCommitRequestPartition(key.partition, value.offset, value.leader_epoch, value.metadata)
        part = CommitRecords(key.group, key.topic, NO_UUID, [row], False, value.commit_timestamp, NO_HEADERS)
        packed.add(part)
        parts.append(part)
    return TransactionalCommit(header.producer_id, header.producer_epoch, parts, packed.joined(), packed.count)
