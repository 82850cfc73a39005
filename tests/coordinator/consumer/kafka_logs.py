"""Logs of consumer groups that a real Kafka 4.3.1 wrote, and the topics that it had."""

from __future__ import annotations

import json
import tarfile
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.coordinator.support import FakeTopics, Host
from tests.coordinator.test_kafka_archives import DATA, batches_of

GROUPS_848 = "consumer_groups_848_4.3.1"
OFFSETS = "consumer_offsets_4.3.1"
TOPICS_OF_OFFSETS = {  # the archive itself tells no names of topics
    "orders": {"id": "CaTxKZGISzi3dyCk2fZ26g", "partitions": 3},
    "payments": {"id": "kZnmXrGQS52DXmNTvGILsQ", "partitions": 1},
}


def topic_id(text: str) -> bytes:
    return urlsafe_b64decode(text + "==")


class KafkasTopics(FakeTopics):
    def __init__(self, topics: dict[str, dict[str, Any]]) -> None:
        super().__init__(**{name: topic["partitions"] for name, topic in topics.items()})
        self._ids = {name: topic_id(topic["id"]) for name, topic in topics.items()}


def what_kafka_said() -> Any:
    return json.loads((DATA / f"{GROUPS_848}.json").read_text())


def topics_of(archive: str) -> KafkasTopics:
    return KafkasTopics(what_kafka_said()["topics"] if archive == GROUPS_848 else TOPICS_OF_OFFSETS)


def batches(archive: str, folder: Path) -> Iterator[tuple[int, bytes]]:
    """(partition, batch), in the order of the log."""
    with tarfile.open(DATA / f"{archive}.tar.gz") as tar:
        tar.extractall(folder, filter="data")
    for partition in range(50):
        for segment in sorted((folder / archive / f"__consumer_offsets-{partition}").glob("*.log")):
            for batch in batches_of(segment.read_bytes()):
                yield partition, batch


def loaded(archive: str, folder: Path) -> Host:
    host = Host(topics=topics_of(archive), load=False)
    for partition, batch in batches(archive, folder):
        host.disk.batches.setdefault(partition, []).append(batch)
    host.load()
    return host
