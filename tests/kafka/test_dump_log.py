"""Kafka's own kafka-dump-log reads what Kohort wrote, and Kohort reads what Kafka wrote: line for line the same.

The archives in tests/data hold logs of a real Kafka 4.3.1, with the tool's output as dump.txt beside each. The other
way round, a log with every kind of record goes through storage.partition_log and is given to the tool itself.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.broker.dump import dump
from kohort.printable import printable_json
from kohort.protocol.log_records import (
    GROUP_METADATA,
    OFFSET_COMMIT,
    RECORD_TYPES,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from kohort.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from kohort.protocol.messages.log_group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey, OffsetCommitValue
from kohort.protocol.record_batch import NewRecord, build_batch, build_marker, parse_header, read_records
from kohort.protocol.subscription import pack_assignment, pack_subscription
from kohort.storage.disk import RealDisk
from kohort.storage.log_config import LogConfig
from kohort.storage.partition_log import PartitionLog
from tests.kafka.jars import dump_log
from tests.protocol.random_messages import Kind, kinds, random_values

DATA = Path(__file__).parent.parent / "data"
ARCHIVES = ("consumer_offsets_4.3.1", "consumer_offsets_compacted_4.3.1", "streams_groups_4.3.1")
NOW = 1_790_000_000_000
KINDS = {kind.name: kind for kind in kinds()}
HEADER_VALUES = re.compile(r" headerValues: \[[^]]*\]")
HEADERS = ((b"member", b"consumer-1"), (b"generation", b"7"), (b"cause", None))


def ours(*paths: Path) -> list[str]:
    out = io.StringIO()
    assert dump([str(path) for path in paths], out=out) == 0
    return out.getvalue().splitlines()


@pytest.fixture(scope="module", params=ARCHIVES)
def archive(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive, unpacked."""
    folder = tmp_path_factory.mktemp("archive")
    with tarfile.open(DATA / f"{request.param}.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    return folder / str(request.param)


def test_logs_of_a_real_kafka_read_line_for_line_as_its_own_tool_read_them(archive: Path) -> None:
    folders = sorted(archive.glob("__consumer_offsets-*"))
    assert len(folders) in (47, 6, 3)
    with contextlib.chdir(archive):  # the tool was run there: its output names the files from there
        for folder in folders:
            theirs = printable_json((folder / "dump.txt").read_text())  # it prints control characters as they are
            assert ours(Path(folder.name)) == theirs.splitlines(), folder.name


def test_states_of_share_groups_of_a_real_kafka_read_line_for_line_as_its_own_tool_read_them(tmp_path: Path) -> None:
    with tarfile.open(DATA / "share_groups_4.3.1.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    with contextlib.chdir(tmp_path / "share_groups_4.3.1"):
        folders = sorted(Path().glob("__share_group_state-*"))
        assert len(folders) == 2
        for folder in folders:
            assert ours(folder) == (folder / "dump.txt").read_text().splitlines()


def test_keys_and_values_of_a_real_kafka_are_written_again_to_the_byte(archive: Path) -> None:
    seen = 0
    for path in archive.glob("__consumer_offsets-*/*.log"):
        data = path.read_bytes()
        position = 0
        while position < len(data):
            header = parse_header(data, position)
            for record in read_records(data, position, header=header):
                if not header.is_control:
                    assert record.key is not None
                    record_type, key = decode_key(record.key)
                    assert encode_key(record_type, key) == record.key
                    if record.value is not None:
                        version = int.from_bytes(record.value[:2], "big")
                        value = decode_value(record_type, record.value)
                        assert encode_value(record_type, value, version) == record.value
                        seen += 1
            position += header.size_bytes
    assert seen > 50


# --- what Kohort writes ------------------------------------------------------------------------------------------


def random_records(rng: random.Random) -> Iterator[NewRecord]:
    """Every type of record in every version of its value, and as a tombstone."""
    for record_type, kind in RECORD_TYPES.items():
        key_kind, value_kind = KINDS[f"{kind.name}Key"], KINDS[f"{kind.name}Value"]
        for version in value_kind.versions():
            for _ in range(4):
                key = encode_key(record_type, made(key_kind, 0, rng))
                value = encode_value(record_type, made(value_kind, version, rng), version)
                yield (key, value, HEADERS) if rng.random() < 0.5 else (key, value)
        yield encode_key(record_type, made(key_kind, 0, rng)), None


def made(kind: Kind, version: int, rng: random.Random) -> object:
    return kind.build(random_values(kind, version, rng))


def generation_of_consumers() -> list[NewRecord]:
    """What a coordinator writes when consumers joined: versions of ConsumerProtocol from 0 to 3, and nonsense."""
    members = []
    for version in range(4):
        owned = [TopicPartition("orders", [0, 2])] if version else []
        subscription = ConsumerProtocolSubscription(
            ["orders", "payments"], b"user data", owned, 3 if version > 1 else -1, "rack" if version > 2 else None
        )
        assignment = ConsumerProtocolAssignment([TopicPartition("orders", [version])], None)
        members.append(
            MemberMetadata(f"consumer-{version}", None, "consumer", "/127.0.0.1", 300_000, 45_000,
                           pack_subscription(subscription, version), pack_assignment(assignment, version))
        )  # fmt: skip
    members.append(MemberMetadata("nonsense", "static", "c", "/::1", 1, 2, b"\x00\x00\xff", b""))
    value = GroupMetadataValue("consumer", 7, "range", "consumer-0", NOW, members)
    return [(encode_key(GROUP_METADATA, GroupMetadataKey("orders")), encode_value(GROUP_METADATA, value), HEADERS)]


def commit(offset: int, partition: int = 0) -> NewRecord:
    key = encode_key(OFFSET_COMMIT, OffsetCommitKey("orders", "payments", partition))
    return (
        key,
        encode_value(OFFSET_COMMIT, OffsetCommitValue(offset, -1, "é\x1f\x7f", NOW, topic_id=bytes(range(16)))),
        HEADERS,
    )


def batches(rng: random.Random) -> Iterator[bytes]:
    records = list(random_records(rng))
    rng.shuffle(records)
    now = NOW
    yield build_batch(generation_of_consumers(), timestamp=now, base_sequence=0)
    while records:
        count = rng.randrange(1, 6)
        now += rng.randrange(-50, 1000)
        yield build_batch(records[:count], timestamp=now, base_sequence=0)
        records = records[count:]
    for compression in range(5):
        yield build_batch([commit(n, compression) for n in range(20)], timestamp=now + 1, compression=compression)
    for commits in (True, False):
        yield build_batch([commit(9), commit(10)], timestamp=now + 2, transactional=True, base_sequence=2**31 - 1,
                          producer_id=4000, producer_epoch=2)  # fmt: skip
        yield build_marker(commits, timestamp=now + 3, coordinator_epoch=5, producer_id=4000, producer_epoch=2)
    yield build_batch([(b"\x00\x63future", b"\x00\x00"), (b"\x00\x63future", None)], timestamp=now + 4)
    for n in range(300):
        yield build_batch([commit(n)], timestamp=now + 5 + n, base_sequence=0)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of several segments that Kohort wrote, closed."""
    folder = tmp_path_factory.mktemp("kohort") / "__consumer_offsets-31"
    config = LogConfig(cleanup_policy="compact", segment_bytes=12_000, index_interval_bytes=500)
    log = PartitionLog.open(RealDisk(), str(folder), config)
    for batch in batches(random.Random(31)):
        log.append(batch, now=NOW, leader_epoch=len(log.segments))
    log.flush()
    log.close()
    assert len(log.segments) > 4
    return folder


def files(folder: Path, kind: str) -> str:
    return ",".join(str(path) for path in sorted(folder.glob(f"*.{kind}")))


@pytest.mark.kafka
def test_kafkas_tool_reads_our_log_line_for_line_as_we_do(written: Path) -> None:
    printed, complaints = dump_log("--offsets-decoder", "--deep-iteration", "--files", files(written, "log"))
    gaps = [line.strip() for line in complaints.splitlines() if not line.startswith("Non-consecutive offsets in")]
    assert all(gap.startswith("-1 is followed by") for gap in gaps), gaps  # it expects every file to start at 0
    theirs, lines = printed.splitlines(), ours(written)
    for mine, other in zip(lines, theirs, strict=False):
        # Kafka's tool shows no values of headers, and prints control characters as they are.
        assert HEADER_VALUES.sub("", mine) == printable_json(other)
    assert len(lines) == len(theirs) > 500
    text = "\n".join(lines)
    for record_type in RECORD_TYPES:
        assert f'key: {{"type":"{record_type}",' in text
    assert "isvalid: false" not in text
    assert '"subscription":{"topics":["orders","payments"],"userData":"dXNlciBkYXRh"}' in text
    assert 'headerKeys: [member,generation,cause] headerValues: ["consumer-1", "7", null] key: ' in text


@pytest.mark.kafka
def test_kafkas_tool_finds_our_indexes_sound(written: Path, tmp_path: Path) -> None:
    indexes = files(written, "index") + "," + files(written, "timeindex")
    printed, complaints = dump_log("--index-sanity-check", "--files", indexes)
    assert complaints == ""
    assert printed.count(" passed sanity check.") == len(indexes.split(",")) >= 10
    assert "is empty" not in printed
    wrong = Path(shutil.copytree(written, tmp_path / written.name)) / f"{0:020d}.index"
    wrong.write_bytes(wrong.read_bytes()[:4] + b"\0\0\0\0" + wrong.read_bytes()[8:])  # the tool would notice
    printed, complaints = dump_log("--verify-index-only", "--files", f"{indexes},{wrong}")
    named = [line for line in complaints.splitlines() if line.startswith("Mismatches") or "imestamp" in line]
    assert named == [f"Mismatches in :{wrong}"]


def test_json_holds_what_the_text_holds_and_the_values_of_headers(written: Path) -> None:
    out = io.StringIO()
    assert dump([str(written)], out=out, as_json=True) == 0
    batches = [json.loads(line) for line in out.getvalue().splitlines()]
    records = [record for batch in batches for record in batch["records"]]
    text = ours(written)
    assert [batch["baseOffset"] for batch in batches] == [
        int(line.split()[1]) for line in text if line.startswith("baseOffset")
    ]
    assert [record["offset"] for record in records] == list(range(records[-1]["offset"] + 1))
    assert [
        {"key": "member", "value": "consumer-1"},
        {"key": "generation", "value": "7"},
        {"key": "cause", "value": None},
    ] in [record.get("headers") for record in records]
    shown = {json.dumps(record["key"], separators=(",", ":")) for record in records if "key" in record}
    assert '{"type":"1","data":{"group":"orders","topic":"payments","partition":4}}' in shown
    assert [record["endTxnMarker"] for record in records if "endTxnMarker" in record] == ["COMMIT", "ABORT"]
    assert sum("unknown" in record for record in records) == 2


def test_a_damaged_log_is_shown_as_far_as_it_goes_and_is_not_a_success(written: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(written, tmp_path / written.name))
    first, second = sorted(folder.glob("*.log"))[:2]
    data = bytearray(first.read_bytes())
    data[70] ^= 1
    first.write_bytes(data)
    second.write_bytes(second.read_bytes()[:-1])
    for as_json, torn in ((False, f"invalid bytes at the end of {second.name}"), (True, '"invalidBytes": ')):
        out = io.StringIO()
        assert dump([str(first), str(second)], out=out, as_json=as_json) == 1
        assert torn in out.getvalue()
        assert ('"isValid": false' if as_json else "isvalid: false") in out.getvalue()


def test_other_topics_are_shown_as_text_and_a_data_folder_partition_by_partition(tmp_path: Path) -> None:
    for partition in (0, 10, 9):
        log = PartitionLog.open(RealDisk(), str(tmp_path / f"orders-{partition}"), LogConfig())
        log.append(build_batch([(b"k", b"v\xff"), (None, None)], timestamp=NOW), now=NOW)
        log.close()
    lines = ours(tmp_path)
    assert [line for line in lines if line.startswith("Dumping")] == [
        f"Dumping {tmp_path}/orders-{partition}/{0:020d}.log" for partition in (0, 9, 10)
    ]
    assert lines[3].endswith(" headerKeys: [] key: k payload: v\ufffd")
    assert lines[4].endswith(" keySize: -1 valueSize: -1 sequence: -1 headerKeys: []")


def test_a_path_that_is_not_there_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dump([str(tmp_path / "nowhere")], out=io.StringIO()) == 1
    assert "nowhere: No such file" in capsys.readouterr().err


def test_the_text_shows_the_values_of_headers(written: Path) -> None:
    shown = [line for line in ours(written) if "headerKeys: [m" in line]
    assert shown
    assert all(
        ' headerKeys: [member,generation,cause] headerValues: ["consumer-1", "7", null]' in line for line in shown
    )


def test_what_is_no_log_folder_is_said_so_and_is_not_a_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes-of-mine").mkdir()
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "readme.txt").write_text("hello, this is a text that is longer than the header of a batch is")
    for name in ("", "notes-of-mine", "orders-0"):
        assert dump([str(tmp_path / name)], out=io.StringIO()) == 1
        assert "is not a log folder: it has no segments (.log)" in capsys.readouterr().err
    assert dump([str(tmp_path / "readme.txt")], out=io.StringIO()) == 1
    assert "readme.txt is not a log: " in capsys.readouterr().err


def test_a_data_folder_without_partitions_and_an_empty_segment_are_fine(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\n")
    assert dump([str(tmp_path)], out=io.StringIO()) == 0
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020d}.log").touch()
    assert ours(tmp_path) == [f"Dumping {tmp_path}/orders-0/{0:020d}.log", "Log starting offset: 0"]


def test_a_segment_may_be_a_copy_under_another_name(written: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(min(written.glob("*.log")), tmp_path / "copy.bin"))
    assert sum(line.startswith("baseOffset: ") for line in ours(copy)) > 1
