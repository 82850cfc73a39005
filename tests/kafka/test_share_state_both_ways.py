"""States of share groups that a Kafka 4.3.1 has written, and Kohort goes on with; and the other way round."""

from __future__ import annotations

import io
import re
import shutil
from pathlib import Path

import pytest

from kohort.broker.dump import dump
from kohort.client.client import Client
from kohort.coordinator.share_state.keys import SharePartitionKey
from kohort.printable import printable_json
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.clients.kohort import KohortProcess
from tests.kafka.jars import dump_log
from tests.kafka.server import KafkaServer
from tests.kafka.share_states import ShareStates

NONE = ErrorCode.NONE
PARTITIONS = 3
GROUPS = ("workers", "group:with:colons", "gruppe-ü")
TOPICS = ("__share_group_state-*", "work-*")
HEADER_VALUES = re.compile(r" headerValues: \[[^]]*\]")


def keys_of(address: str) -> list[SharePartitionKey]:
    """Share partitions of a topic, which is created if need be."""
    with Client(address) as client:
        client.send(
            ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic("work", PARTITIONS, 1, (), ())], 30_000), 5
        )
        while True:
            (topic,) = client.send(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(name="work")]), 12).topics
            if not topic.error_code:
                break
    return [SharePartitionKey(group, topic.topic_id, number) for group in GROUPS for number in range(PARTITIONS)]


def work(states: ShareStates, keys: list[SharePartitionKey], rounds: int, first_leader: int) -> None:
    """Something of everything that leaves records, and more updates than one snapshot has."""
    for number, key in enumerate(keys):
        state_epoch = states.summary(key)[1] + number % 2
        if states.read(key, -1)[0] or number % 2:
            assert states.initialize(key, state_epoch, (-1, 5)[number % 2]) is NONE
        assert states.read(key, first_leader + number)[0] == 0
        for turn in range(rounds if number == 0 else 5):
            base = 10 * turn
            batches = [(base + 3, base + 5, 2, 1), (base + 6, base + 9, 0, 2), (base, base + 2, 4, 5)]
            start = -1 if turn % 3 else base
            assert states.write(key, state_epoch, first_leader + number, start, 6, *batches) is NONE
    assert states.delete(keys[-1]) is NONE


def shown(states: ShareStates, keys: list[SharePartitionKey]) -> list[object]:
    for key in keys:
        states.wait_for_coordinator(key)
    return [(states.summary(key), states.read(key, -1)) for key in keys]


def take(source: Path, target: Path) -> None:
    """The records alone: whoever takes them builds the indexes anew."""
    for pattern in TOPICS:
        for folder in source.glob(pattern):
            own = target / folder.name
            own.mkdir(parents=True, exist_ok=True)
            for file in own.glob("[0-9]*"):
                file.unlink()
            for name in [*folder.glob("*.log"), folder / "partition.metadata"]:
                shutil.copy(name, own)


@pytest.mark.kafka
def test_kafka_and_kohort_go_on_where_the_other_stopped(tmp_path: Path) -> None:
    with KafkaServer(tmp_path / "kafka") as kafka:
        with ShareStates(kafka.address) as states:
            keys = keys_of(kafka.address)
            for key in keys:
                states.wait_for_coordinator(key)
            work(states, keys, rounds=510, first_leader=3)
            by_kafka = shown(states, keys)
        kafka.stop()

        data = tmp_path / "kohort" / "data"
        take(kafka.data, data)
        settings = {"log_dirs": str(data)}
        with KohortProcess(tmp_path / "kohort", **settings) as kohort, ShareStates(kohort.address) as states:
            assert keys_of(kohort.address) == keys
            assert shown(states, keys) == by_kafka
            assert states.write(keys[1], 1, 3, -1, 0, (0, 1, 2, 1)) is ErrorCode.FENCED_LEADER_EPOCH
            work(states, keys, rounds=505, first_leader=20)
            by_kohort = shown(states, keys)
        assert by_kohort != by_kafka

        take(data, kafka.data)
        (kafka.data / ".kafka_cleanshutdown").unlink()
        kafka.start_again()
        with ShareStates(kafka.address) as states:
            assert shown(states, keys) == by_kohort
            assert states.write(keys[1], 9, 3, -1, 0, (0, 1, 2, 1)) is ErrorCode.FENCED_LEADER_EPOCH
    kafkas_tool_reads_what_we_read(data)


def kafkas_tool_reads_what_we_read(data: Path) -> None:
    """Line for line; it shows no values of headers."""
    folders = sorted(data.glob("__share_group_state-*"))
    files = [str(file) for folder in folders for file in sorted(folder.glob("*.log"))]
    assert len(files) > 5
    printed, complaints = dump_log("--share-group-state-decoder", "--deep-iteration", "--files", ",".join(files))
    assert complaints == ""
    out = io.StringIO()
    assert dump(files, out=out) == 0
    ours = [HEADER_VALUES.sub("", line) for line in out.getvalue().splitlines()]
    assert ours == [printable_json(line) for line in printed.splitlines()]
    assert "headerKeys: [kohort.cause]" in out.getvalue()
    assert "payload: <DELETE>" in out.getvalue()
