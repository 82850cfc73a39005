"""The topics: names, ids, partitions and settings, in memory and in a small file.

    kohort-catalog.json    {"version": 1, "topics": [{"name", "id", "partitions", "configs"}]}

The file is written whole and atomically with every change, before the change is answered. Records are not in it: they
are in the logs, one folder per partition. A folder that the file does not name was put there by somebody who comes from
Kafka: its topic is taken over, with the id that its partition.metadata names.
"""

from __future__ import annotations

import base64
import json
import logging
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from kohort.broker.topics.topic_config import TopicConfig, topic_config
from kohort.storage.errors import FileDamaged
from kohort.storage.log_config import LogConfig

if TYPE_CHECKING:
    from kohort.broker.config import Config
    from kohort.storage.disk import Disk
    from kohort.storage.log_directory import LogDirectory
    from kohort.storage.partition_log import PartitionLog

logger = logging.getLogger(__name__)

CATALOG_FILE = "kohort-catalog.json"
CONSUMER_OFFSETS = "__consumer_offsets"
INTERNAL_TOPICS = frozenset((CONSUMER_OFFSETS, "__transaction_state", "__share_group_state"))
LEADER_EPOCH = 0


class Partition:
    """One partition. Its log appears on disk with the first record."""

    __slots__ = ("_key", "_logs", "extra", "index", "topic")

    def __init__(self, topic: Topic, index: int, logs: LogDirectory) -> None:
        self.topic = topic
        self.index = index
        self._key = (topic.name, index)
        self._logs = logs
        self.extra: dict[str, Any] = {}  # what other parts keep by partition: producers, waiting fetches

    @property
    def log(self) -> PartitionLog:
        """The partition's log. LogFailed if it could not be opened."""
        return self._logs.logs.get(self._key) or self._logs.log(*self._key, topic_id=self.topic.id)

    @property
    def high_watermark(self) -> int:
        """There is one replica, so every record that is appended is committed."""
        return self.log.log_end_offset

    def __repr__(self) -> str:
        return f"{self.topic.name}-{self.index}"


class Topic:
    __slots__ = ("config", "configs", "id", "name", "partitions")

    def __init__(self, name: str, topic_id: bytes, configs: dict[str, str], config: TopicConfig) -> None:
        self.name = name
        self.id = topic_id
        self.configs = configs  # as text, as clients gave them
        self.config = config  # the same parsed, with defaults for the rest
        self.partitions: list[Partition] = []

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


class Catalog:
    def __init__(self, config: Config, disk: Disk, folder: str) -> None:
        self._config = config
        self._disk = disk
        self._path = f"{folder}/{CATALOG_FILE}"
        self._topics: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._saved: dict[str, Any] = {"version": 1, "topics": []}
        self.version = 0  # grows with each change of names, ids, partitions and settings
        self.on_new_settings: Callable[[], object] = lambda: None  # the coordinator's host wants to know
        self._logs: LogDirectory

    # --- looking up

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._topics.values())

    def __len__(self) -> int:
        return len(self._topics)

    def get(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    # What the coordinator asks for (coordinator.shard_state.Topics).

    def topic_id(self, name: str) -> bytes | None:
        topic = self._topics.get(name)
        return None if topic is None else topic.id

    def name_of(self, topic_id: bytes) -> str | None:
        topic = self._by_id.get(topic_id)
        return None if topic is None else topic.name

    def partition_count(self, name: str) -> int:
        topic = self._topics.get(name)
        return 0 if topic is None else len(topic.partitions)

    def partition(self, name: str, index: int) -> Partition | None:
        topic = self._topics.get(name)
        return topic.partitions[index] if topic is not None and 0 <= index < len(topic.partitions) else None

    def log_config(self, name: str) -> LogConfig:
        """Settings for the logs of a topic; asked while the data folder opens."""
        topic = self._topics.get(name)
        if topic is not None:
            return topic.config.log
        return topic_config(self._config, self._internal_configs(name)).log

    # --- start

    def read(self) -> None:
        """Read topics and their settings from the file, before the data folder is opened.

        FileDamaged if the content is not what `_save` writes.
        """
        try:
            saved = self._disk.read_file(self._path)
        except FileNotFoundError:
            return
        try:
            self._saved = json.loads(saved)
            for row in self._saved["topics"]:
                topic_id = base64.urlsafe_b64decode(row["id"] + "==")
                int(row["partitions"])
                self._enter(Topic(row["name"], topic_id, row["configs"], topic_config(self._config, row["configs"])))
        except (ValueError, LookupError, TypeError, AttributeError) as problem:
            raise FileDamaged(
                f"{self._path} is damaged: {problem}. It holds the topics' names, ids and settings. Put back a copy of "
                "it, or remove it: topics with records are then found by their folders, and have default settings"
            ) from problem

    def attach(self, logs: LogDirectory) -> None:
        """Give the topics their partitions, after the data folder was opened. Unknown folders become topics."""
        self._logs = logs
        for row in self._saved["topics"]:
            self._fill(self._topics[row["name"]], row["partitions"])
        found: dict[str, int] = {}
        for name, index in [*logs.logs, *logs.failed]:
            if name not in self._topics:
                found[name] = max(found.get(name, 0), index + 1)
        for name, count in sorted(found.items()):
            self._take_over(name, count)
        if found:
            self._save()

    def _take_over(self, name: str, count: int) -> None:
        if name == CONSUMER_OFFSETS:
            count = max(count, self._config.offsets_topic_num_partitions)
        ids = (log.topic_id for (topic, _), log in self._logs.logs.items() if topic == name)
        topic_id = next((each for each in ids if each is not None), None) or new_topic_id()
        configs = self._internal_configs(name)
        self._fill(self._enter(Topic(name, topic_id, configs, topic_config(self._config, configs))), count)
        logger.info("took over topic %s with %d partitions from the data folder", name, count)

    # --- changes

    def create(self, name: str, partition_count: int, configs: dict[str, str]) -> Topic:
        topic = self._enter(Topic(name, new_topic_id(), configs, topic_config(self._config, configs)))
        self._fill(topic, partition_count)
        self._save_or(lambda: self._leave([topic]))
        return topic

    def ensure_consumer_offsets(self) -> Topic:
        return self._topics.get(CONSUMER_OFFSETS) or self.create(
            CONSUMER_OFFSETS, self._config.offsets_topic_num_partitions, self._internal_configs(CONSUMER_OFFSETS)
        )

    def add_partitions(self, topic: Topic, partition_count: int) -> None:
        before = list(topic.partitions)
        self._fill(topic, partition_count)
        self._save_or(lambda: setattr(topic, "partitions", before))

    def set_configs(self, topic: Topic, configs: dict[str, str]) -> None:
        before = topic.configs
        topic.configs = configs
        self._save_or(lambda: setattr(topic, "configs", before))
        self._configure(topic)
        self._tell_settings()

    def defaults_changed(self) -> None:
        """The broker's settings changed: topics inherit some of them."""
        for topic in self._topics.values():
            self._configure(topic)
        self._tell_settings()

    def _tell_settings(self) -> None:
        self.version += 1
        self.on_new_settings()

    def delete(self, topics: Iterable[Topic]) -> None:
        before = list(self._topics.values())
        doomed = list(topics)
        self._leave(doomed)
        self._save_or(lambda: self._enter_again(before))
        self._logs.delete([(topic.name, partition.index) for topic in doomed for partition in topic.partitions])

    # --- inside

    def _configure(self, topic: Topic) -> None:
        topic.config = topic_config(self._config, topic.configs)
        for partition in topic.partitions:
            if (topic.name, partition.index) in self._logs.logs:
                partition.log.reconfigure(topic.config.log)

    def _enter(self, topic: Topic) -> Topic:
        self._topics[topic.name] = self._by_id[topic.id] = topic
        self.version += 1
        return topic

    def _leave(self, topics: Iterable[Topic]) -> None:
        for topic in topics:
            del self._topics[topic.name], self._by_id[topic.id]
        self.version += 1

    def _enter_again(self, topics: Iterable[Topic]) -> None:
        """These are the topics, in this order."""
        self._topics.clear()
        for topic in topics:
            self._enter(topic)

    def _fill(self, topic: Topic, partition_count: int) -> None:
        self.version += 1
        topic.partitions += [Partition(topic, i, self._logs) for i in range(len(topic.partitions), partition_count)]

    def _internal_configs(self, name: str) -> dict[str, str]:
        if name != CONSUMER_OFFSETS:
            return {}
        return {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self._config.offsets_topic_segment_bytes),
        }

    def _save_or(self, undo: Callable[[], object]) -> None:
        """Save the topics. If the disk refuses, take the change back: the client is told that it has failed."""
        try:
            self._save()
        except OSError:
            undo()
            self.version += 1
            raise

    def _save(self) -> None:
        rows = [
            {
                "name": topic.name,
                "id": base64.urlsafe_b64encode(topic.id).decode().rstrip("="),
                "partitions": len(topic.partitions),
                "configs": topic.configs,
            }
            for topic in self._topics.values()
        ]
        self._saved = {"version": 1, "topics": rows}
        self._disk.write_file(self._path, json.dumps(self._saved, indent=1).encode())


def new_topic_id() -> bytes:
    """Random, and never one that starts with a dash in base64: command line tools would take it for an option."""
    while True:
        made = secrets.token_bytes(16)
        if base64.urlsafe_b64encode(made)[:1] != b"-" and any(made):
            return made
