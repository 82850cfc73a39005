"""__share_group_state of a real Kafka 4.3.1: loaded, found in its place, and written again to the byte."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

from kohort.coordinator.share_state.keys import SharePartitionKey, coordinator_key
from kohort.protocol.record_batch import parse_header, read_records
from kohort.protocol.share_state_records import SHARE_GROUP_STATE, SHARE_SNAPSHOT
from tests.coordinator.share_state.support import ShareHost

ARCHIVE = "share_groups_4.3.1"
DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="module")
def batches(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[bytes]]:
    """By partition."""
    folder = tmp_path_factory.mktemp("archive")
    with tarfile.open(DATA / f"{ARCHIVE}.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    found: dict[int, list[bytes]] = {}
    for path in (folder / ARCHIVE).glob("__share_group_state-*/*.log"):
        data, position = path.read_bytes(), 0
        while position < len(data):
            size = parse_header(data, position).size_bytes
            found.setdefault(int(path.parent.name.rpartition("-")[2]), []).append(data[position : position + size])
            position += size
    return found


def records(batches: list[bytes]) -> list[tuple[int, Any, Any]]:
    found = []
    for batch in batches:
        for record in read_records(batch):
            assert record.key is not None
            kind, key = SHARE_GROUP_STATE.decode_key(record.key)
            value = None if record.value is None else SHARE_GROUP_STATE.decode_value(kind, record.value)
            found.append((kind, key, value))
    return found


def test_share_partitions_of_a_real_kafka_are_where_we_look_for_them(batches: dict[int, list[bytes]]) -> None:
    host = ShareHost()
    for partition, log in batches.items():
        for _, key, _ in records(log):
            place = SharePartitionKey(key.group_id, key.topic_id, key.partition)
            assert host.runtime.shard_of(coordinator_key(place)).partition == partition


def test_states_of_a_real_kafka_are_those_of_each_offset_by_itself(batches: dict[int, list[bytes]]) -> None:
    host = ShareHost()
    host.batches = batches
    host.crash()
    for partition, log in batches.items():
        naive: dict[int, tuple[int, int]] = {}
        start = -1
        for kind, _, value in records(log):  # each log of this archive is about one share partition
            if kind == SHARE_SNAPSHOT:
                naive.clear()
            start = value.start_offset if value.start_offset >= 0 else start
            for batch in value.state_batches:
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    state = batch.delivery_count, batch.delivery_state
                    naive[offset] = max(naive.get(offset, state), state)
            naive = {offset: state for offset, state in naive.items() if offset >= start}
        (known,) = host.runtime.shards[partition].state.offsets.values()
        last = records(log)[-1][2]
        assert (known.start_offset, known.delivery_complete_count) == (start, last.delivery_complete_count)
        assert known.state_epoch == 2
        assert [
            (offset, (batch.delivery_count, batch.delivery_state))
            for batch in known.batches
            for offset in range(batch.first_offset, batch.last_offset + 1)
        ] == sorted(naive.items())


def test_records_of_a_real_kafka_are_written_again_to_the_byte(batches: dict[int, list[bytes]]) -> None:
    seen = 0
    for log in batches.values():
        for batch in log:
            for record in read_records(batch):
                assert record.key is not None
                assert record.value is not None
                kind, key = SHARE_GROUP_STATE.decode_key(record.key)
                assert SHARE_GROUP_STATE.encode_key(kind, key) == record.key
                value = SHARE_GROUP_STATE.decode_value(kind, record.value)
                assert SHARE_GROUP_STATE.encode_value(kind, value) == record.value
                seen += 1
    assert seen > 8
