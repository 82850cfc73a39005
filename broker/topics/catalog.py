"""The topics: names, ids, partitions and settings, in memory and in a file (`catalog_file.py`).

A change is saved before it is in force, and before it is answered; if the disk refuses, nothing has changed. Records
are not in the file: they are in the logs, one folder per partition. A folder that the file does not name was put there
by somebody who comes from Kafka, or the file was lost: its topic is taken over, with the id that its partition.metadata
names. A folder of a topic that was deleted is left over from a crash, and is removed.
"""

from __future__ import annotations

import base64
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING, Any

from kohort.broker.consumer_settings import settings_of_group
from kohort.broker.steps import Pause, WaitingSteps
from kohort.broker.topics.catalog_file import CatalogFile, Deleted, GroupConfigs, Rewrite, Saved
from kohort.broker.topics.erasures import Erasures
from kohort.broker.topics.topic_config import TopicConfig, default_topic_config, with_own
from kohort.broker.topics.topic_names import collision_key
from kohort.storage.log_config import LogConfig

if TYPE_CHECKING:
    from kohort.broker.config import Config
    from kohort.broker.worker import Work
    from kohort.storage.disk import Disk
    from kohort.storage.log_directory import LogDirectory
    from kohort.storage.partition_log import PartitionLog

logger = logging.getLogger(__name__)

CONSUMER_OFFSETS = "__consumer_offsets"
SHARE_GROUP_STATE = "__share_group_state"
TRANSACTION_STATE = "__transaction_state"
INTERNAL_TOPICS = frozenset((CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE))
LEADER_EPOCH = 0
# Of all topics together. Metadata tells every client about all of them. Kafka's makers advise 4,000 per broker.
MAX_PARTITIONS = 100_000


class Partition:
    """One partition. Its log appears on disk with the first record."""

    __slots__ = ("_logs", "extra", "index", "key", "topic")

    def __init__(self, topic: Topic, index: int, logs: LogDirectory) -> None:
        self.topic = topic
        self.index = index
        self.key = (topic.name, index)
        self._logs = logs
        self.extra: dict[str, Any] = {}  # what other parts keep by partition: producers, waiting fetches

    @property
    def log(self) -> PartitionLog:
        """The partition's log. LogFailed if it could not be opened."""
        return self._logs.logs.get(self.key) or self._logs.log(*self.key, topic_id=self.topic.id)

    @property
    def high_watermark(self) -> int:
        """There is one replica, so every record that is appended is committed."""
        return self.log.log_end_offset

    def __repr__(self) -> str:
        return f"{self.topic.name}-{self.index}"


class Topic:
    __slots__ = ("_parse", "config", "configs", "id", "is_internal", "name", "partitions")

    # The settings parsed, with defaults for those that the topic does not have itself: see `__getattr__`.
    config: TopicConfig

    def __init__(
        self, name: str, topic_id: bytes, configs: dict[str, str], parse: Callable[[dict[str, str]], TopicConfig]
    ) -> None:
        self.name = name
        self.id = topic_id
        self.is_internal = name in INTERNAL_TOPICS
        self.configs = configs  # as text, as clients gave them
        self.partitions: list[Partition] = []
        self._parse = parse

    def __getattr__(self, name: str) -> TopicConfig:
        """Python asks here for an attribute without a value. A property would cost every Produce a call."""
        if name != "config":
            raise AttributeError(name)
        self.config = self._parse(self.configs)
        return self.config

    def configs_changed(self) -> None:
        """The settings or the defaults have changed. They are parsed when needed, because topics may be many."""
        with suppress(AttributeError):
            del self.config


class Change(Pause):
    """A change of topics: what to save, and how to put it into force after that. Other changes wait for its end."""

    __slots__ = ("apply", "is_saved", "problem", "rows")

    def __init__(self, rows: Sequence[Saved | Deleted | GroupConfigs], apply: Callable[[], None]) -> None:
        super().__init__()
        self.rows = rows
        self.apply = apply
        self.is_saved = Event()
        self.problem: Exception | None = None

    def save(self, file: CatalogFile) -> None:
        """Any thread may do this."""
        try:
            file.append(self.rows)
        except Exception as problem:  # whoever waits for the change raises it
            self.problem = problem
        finally:
            self.is_saved.set()


class Catalog:
    def __init__(self, config: Config, disk: Disk, folder: str) -> None:
        self._config = config
        self._file = CatalogFile(disk, folder)
        self._has_file = False
        self._topics: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._by_collision_key: dict[str, dict[str, None]] = {}  # only names that can collide: with "." or "_"
        self._defaults: TopicConfig | None = None  # None: they have to be looked up again
        self.all_partitions = 0  # how many partitions all topics have together
        self.version = 0  # grows with each change of names, ids, partitions and settings
        self.group_configs: dict[str, dict[str, str]] = {}  # of groups that have settings of their own
        # The hosts of coordinators want to know of new settings: of topics and the broker, and of these groups.
        self.on_new_settings: list[Callable[[], object]] = []
        self.on_group_configs: Callable[[Iterable[str]], object] = lambda group_ids: None  # noqa: ARG005
        self.created_version = 0  # the version when a topic was last created
        # The broker sets these when it has threads: for what may take long, and for what a client waits for.
        self.in_thread: Callable[[Work, Work], object] = _at_once
        self.save_in_thread: Callable[[Work, Work], object] = _at_once
        self._saving: Change | None = None
        self._erasures: Erasures | None = None
        self._logs: LogDirectory

    # --- looking up

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._topics.values())

    def __len__(self) -> int:
        return len(self._topics)

    def names(self) -> Iterable[str]:
        return self._topics.keys()

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

    def colliding(self, name: str) -> str | None:
        """A topic whose name differs from this one in "." and "_" alone."""
        return next(iter(self._by_collision_key.get(collision_key(name), ())), None)

    def log_config(self, name: str) -> LogConfig:
        """Settings for the logs of a topic; asked while the data folder opens."""
        topic = self._topics.get(name)
        return self._parsed(self._internal_configs(name)).log if topic is None else topic.config.log

    # --- start

    def read(self) -> None:
        """Read topics and their settings, when the data folder is locked, and before its logs are opened.

        FileDamaged if the content of the file is not what was written there.
        """
        self._has_file = self._file.read()
        for row in self._file.topics.values():
            try:
                self._parsed(row.configs)
            except (ValueError, TypeError) as problem:
                raise self._file.damaged(problem) from problem
            self._enter(Topic(row.name, row.id, row.configs, self._parsed))
        for saved in self._file.groups.values():
            try:
                settings_of_group(self._config, saved.configs)
            except (ValueError, TypeError) as problem:
                raise self._file.damaged(problem) from problem
            self.group_configs[saved.group_id] = saved.configs

    def attach(self, logs: LogDirectory) -> None:
        """Give the topics their partitions, after the data folder was opened. Unknown folders become topics.

        StorageError if the folders of __consumer_offsets do not tell how many partitions it had.
        """
        self._logs = logs
        for row in self._file.topics.values():
            self._fill(self._topics[row.name], row.partitions)
        self._finish_deletions()
        found: dict[str, set[int]] = {}
        for name, index in [*logs.logs, *logs.failed]:
            if name not in self._topics:
                found.setdefault(name, set()).add(index)
        if found and not self._has_file:
            logger.warning(
                "%s is missing: topics are found by their folders, and have default settings; a topic without records "
                "is not found. If the data folder comes from Apache Kafka, this is as it should be",
                self._file.path,
            )
        self._file.begin([_row(self._take_over(name, indexes)) for name, indexes in sorted(found.items())])

    def _finish_deletions(self) -> None:
        """Remove the folders of topics that were deleted just before the broker crashed or its disk failed."""
        deleted = self._file.deleted
        names = {topic.name for topic in deleted.values()}
        left_over = [key for key in self._logs.failed if key[0] in names and key[0] not in self._topics]
        for key, log in self._logs.logs.items():
            if key[0] in names and (log.topic_id in deleted or key[0] not in self._topics):
                left_over.append(key)
        if left_over:
            logger.warning("%d folders of deleted topics were left over; they are removed now", len(left_over))
            self._logs.delete(left_over)
        stuck = {name for name, _ in self._logs.failed}
        self._file.forget([topic.id for topic in deleted.values() if topic.name not in stuck])

    def _take_over(self, name: str, indexes: set[int]) -> Topic:
        count = max(indexes) + 1
        if name in INTERNAL_TOPICS:
            from kohort.broker.topics.offsets_partitions import count_partitions

            count = count_partitions(self._logs, name, indexes, self.internal_partition_count(name))
        ids = (log.topic_id for (topic, _), log in self._logs.logs.items() if topic == name)
        topic_id = next((each for each in ids if each is not None), None) or new_topic_id()
        topic = self._enter(self._made(name, topic_id, count, self._internal_configs(name)))
        logger.info("took over topic %s with %d partitions from the data folder", name, count)
        return topic

    # --- changes

    def plan(self, name: str, partition_count: int, configs: dict[str, str]) -> Topic:
        """A topic for `creation_of`. It does not exist before that change is made."""
        return self._made(name, new_topic_id(), partition_count, configs)

    def creation_of(self, topics: Sequence[Topic]) -> Change:
        def apply() -> None:
            for topic in topics:
                self._enter(topic)

        return Change([_row(topic) for topic in topics], apply)

    def growth_of(self, counts: Sequence[tuple[Topic, int]]) -> Change:
        """Let each topic have so many partitions."""

        def apply() -> None:
            for topic, count in counts:
                self._fill(topic, count)

        return Change([Saved(topic.name, topic.id, count, topic.configs) for topic, count in counts], apply)

    def alteration_of(self, new_configs: Sequence[tuple[Topic, dict[str, str]]]) -> Change:
        """Replace the settings of each topic by these, which were checked before."""

        def apply() -> None:
            for topic, configs in new_configs:
                topic.configs = configs
                topic.configs_changed()
                for partition in topic.partitions:
                    if (log := self._logs.logs.get(partition.key)) is not None:
                        log.reconfigure(topic.config.log)
            self._tell_settings()

        return Change([Saved(t.name, t.id, len(t.partitions), configs) for t, configs in new_configs], apply)

    def alteration_of_group(self, group_id: str, configs: dict[str, str]) -> Change:
        """Replace the settings that a group has itself by these, which were checked before."""

        def apply() -> None:
            if configs:
                self.group_configs[group_id] = configs
            else:
                self.group_configs.pop(group_id, None)
            self.on_group_configs([group_id])

        return Change([GroupConfigs(group_id, configs)], apply)

    def deletion_of(self, topics: Sequence[Topic]) -> Change:
        """Delete the topics and rename their folders. A partition whose folder cannot be renamed is offline until the
        next start, also if a new topic gets the same name.
        """

        def apply() -> None:
            for topic in topics:
                self._leave(topic)
            folders = self._logs.put_away([partition.key for topic in topics for partition in topic.partitions])
            failed = self._logs.failed
            done = [topic for topic in topics if not failed or not any(each.key in failed for each in topic.partitions)]
            if self._erasures is None:
                self._erasures = Erasures(self._logs, self.in_thread, self._file.forget)
            self._erasures.add([topic.id for topic in done], folders)

        return Change([Deleted(topic.name, topic.id) for topic in topics], apply)

    def make(self, change: Change) -> None:
        """Save a change and put it into force. OSError: nothing has changed. Blocks; `making` does not."""
        self._finish_saving()
        self._saving = change
        change.save(self._file)
        self._finish_saving()
        if change.problem is not None:
            raise change.problem

    def making(self, change: Change) -> WaitingSteps[None]:
        """The same while a thread waits for the disk. The caller has waited for `unchanging` just before."""
        assert self._saving is None
        if not change.rows:
            return
        self._saving = change
        self.save_in_thread(lambda: change.save(self._file), lambda: self._finish_saving(change))
        if not change.is_over:
            yield change
        if change.problem is not None:
            raise change.problem

    def unchanging(self) -> WaitingSteps[None]:
        """Wait until no change is being saved: then look at what there is, and make the next change without a pause."""
        while self._saving is not None:
            yield self._saving

    def _finish_saving(self, expected: Change | None = None) -> None:
        """Put the change that is being saved into force, when the disk has it.

        `expected`: the change that a thread has saved. It may be in force already, if `make` was called meanwhile.
        """
        change = self._saving
        if change is None or (expected is not None and expected is not change):
            return
        change.is_saved.wait()
        self._saving = None
        try:
            if change.problem is None:
                self._file.take(change.rows)
                change.apply()
                if self._file.has_grown_much:
                    rewrite = self._file.begin_rewrite()
                    self.in_thread(rewrite.run, lambda: self._end_rewrite(rewrite))
        finally:  # also after an exception: somebody waits for the change
            change.end()

    def _end_rewrite(self, rewrite: Rewrite) -> None:
        self.save_in_thread(lambda: self._file.end_rewrite(rewrite), lambda: None)

    def create(self, name: str, partition_count: int, configs: dict[str, str]) -> Topic:
        topic = self.plan(name, partition_count, configs)
        self.make(self.creation_of([topic]))
        return topic

    def ensure_internal(self, name: str) -> Topic:
        """The internal topic of a coordinator, which exists from its first use on."""
        return self._topics.get(name) or self.create(
            name, self.internal_partition_count(name), self._internal_configs(name)
        )

    def internal_partition_count(self, name: str) -> int:
        """How many partitions the topic of a coordinator has, or will have."""
        if (topic := self._topics.get(name)) is not None:
            return len(topic.partitions)
        if name == SHARE_GROUP_STATE:
            return self._config.share_coordinator_state_topic_num_partitions
        if name == TRANSACTION_STATE:
            return self._config.transaction_state_log_num_partitions
        return self._config.offsets_topic_num_partitions

    def defaults_changed(self) -> None:
        """The broker's settings changed: topics inherit some of them."""
        self._defaults = None
        for topic in self._topics.values():
            topic.configs_changed()
        for (name, _), log in self._logs.logs.items():
            if (found := self._topics.get(name)) is not None:
                log.reconfigure(found.config.log)
        self._tell_settings()

    def _tell_settings(self) -> None:
        self.version += 1
        for take in self.on_new_settings:
            take()

    def finish(self) -> None:
        """Put a change into force that its thread has saved, before the thread was stopped."""
        self._finish_saving()

    def close(self) -> None:
        """After the threads were stopped."""
        self._file.close()

    # --- inside

    def _made(self, name: str, topic_id: bytes, partition_count: int, configs: dict[str, str]) -> Topic:
        topic = Topic(name, topic_id, configs, self._parsed)
        topic.partitions = [Partition(topic, index, self._logs) for index in range(partition_count)]
        return topic

    def _parsed(self, configs: dict[str, str]) -> TopicConfig:
        if self._defaults is None:
            self._defaults = default_topic_config(self._config)
        return with_own(self._defaults, configs) if configs else self._defaults

    def _enter(self, topic: Topic) -> Topic:
        self._topics[topic.name] = self._by_id[topic.id] = topic
        if (key := collision_key(topic.name)) != topic.name or "_" in key:
            self._by_collision_key.setdefault(key, {})[topic.name] = None
        self.all_partitions += len(topic.partitions)
        self.version += 1
        self.created_version = self.version
        return topic

    def _leave(self, topic: Topic) -> None:
        del self._topics[topic.name], self._by_id[topic.id]
        key = collision_key(topic.name)
        if (alike := self._by_collision_key.get(key)) is not None:
            alike.pop(topic.name, None)
            if not alike:
                del self._by_collision_key[key]
        self.all_partitions -= len(topic.partitions)
        self.version += 1

    def _fill(self, topic: Topic, partition_count: int) -> None:
        added = [Partition(topic, index, self._logs) for index in range(len(topic.partitions), partition_count)]
        topic.partitions += added
        self.all_partitions += len(added)
        self.version += 1

    def _internal_configs(self, name: str) -> dict[str, str]:
        if name == SHARE_GROUP_STATE:
            return {
                "cleanup.policy": "delete",  # not compacted: updates of a state have the same key, and all count
                "compression.type": "producer",
                "min.insync.replicas": str(self._config.share_coordinator_state_topic_min_isr),
                "retention.ms": "-1",
                "segment.bytes": str(self._config.share_coordinator_state_topic_segment_bytes),
            }
        if name == TRANSACTION_STATE:
            return {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(self._config.transaction_state_log_min_isr),
                "segment.bytes": str(self._config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            }
        if name != CONSUMER_OFFSETS:
            return {}
        return {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self._config.offsets_topic_segment_bytes),
        }


def _row(topic: Topic) -> Saved:
    return Saved(topic.name, topic.id, len(topic.partitions), topic.configs)


def _at_once(work: Work, done: Work) -> None:
    work()
    done()


def new_topic_id() -> bytes:
    """Random, and never one that starts with a dash in base64: command line tools would take it for an option."""
    while True:
        made = os.urandom(16)
        if base64.urlsafe_b64encode(made)[:1] != b"-" and any(made):
            return made
