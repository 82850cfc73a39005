"""What the process knows: settings, identity, logs and topics. Handlers get it as their first argument.

It has no sockets: `server.py` listens and feeds it. Everything here runs on the event loop's thread.
"""

from __future__ import annotations

import base64
import logging
import os
import sys
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from kohort.broker.api_table import ApiTable
from kohort.broker.clock import CLOCK, Clock
from kohort.broker.config import Config, Listener
from kohort.broker.coordinator_host import CoordinatorHost
from kohort.broker.flusher import Flusher
from kohort.broker.steps import OneAtATime
from kohort.broker.topics.catalog import SHARE_GROUP_STATE, TRANSACTION_STATE, Catalog
from kohort.broker.worker import Worker
from kohort.properties import parse_properties
from kohort.storage.disk import Disk
from kohort.storage.log_directory import LogDirectory

if TYPE_CHECKING:
    from kohort.broker.housekeeping import Housekeeping
    from kohort.broker.shard_host import ShardHost
    from kohort.broker.share.persister import Persister
    from kohort.broker.share.state_host import ShareStateHost
    from kohort.broker.transactions.host import TransactionHost

logger = logging.getLogger(__name__)

META_PROPERTIES = "meta.properties"
DYNAMIC_CONFIGS_FILE = "kohort-broker-configs.json"
HOUSEKEEPING_DELAY_S = 1.0


class Cancellable(Protocol):
    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], object]], Cancellable]  # arguments: seconds, and what to call then


class Broker:
    def __init__(
        self,
        config: Config,
        disk: Disk,
        clock: Clock = CLOCK,
        apis: ApiTable | None = None,
        *,
        owns_process: bool = True,
    ) -> None:
        """`owns_process`: False inside a user's test. What holds for the whole process is then left as it is."""
        self.config = config
        self.disk = disk
        self.clock = clock
        self.owns_process = owns_process
        self.apis = ApiTable() if apis is None else apis
        # Name: lowest and highest level; the highest is in force.
        self.features = {"group.version": (0, 1), "share.version": (0, 1), "transaction.version": (0, 2)}
        self.cluster_id = ""
        self.advertised: list[Listener] = []  # by the index of the listener that a client came through
        self.catalog = Catalog(config, disk, config.data_folder)
        self.had_data = False  # at the start: somebody else may have written it
        self.had_transactions = False  # at the start: a log may have open ones that memory does not know yet
        self.logs: LogDirectory
        self.extra: dict[str, Any] = {}  # what handlers keep between requests: fetch sessions, producer ids
        self.inflating = OneAtATime()  # long batches of records
        self.flusher: Flusher
        self._topic_saver: Worker  # saves changes of topics
        self._topic_files: Worker  # removes the files of deleted topics, and writes the file of topics anew
        self.coordinator: CoordinatorHost
        self.housekeeping: Housekeeping | None = None
        self.call_later: CallLater  # the event loop's, in real seconds; set by the server
        # The same in seconds of `clock`: for deadlines of groups, and for what is done at intervals.
        self.call_later_by_clock: CallLater
        self.call_soon: Callable[[Callable[[], object]], Cancellable]  # at the end of this turn of the event loop

    def open(self, now: int) -> None:
        """Lock the data folder and read what is in it."""
        folder = self.config.data_folder
        self._make_folders(folder)
        self.logs = LogDirectory.open(
            self.disk, folder, self.catalog.log_config, once_locked=lambda: self._read_settings(folder), now=now
        )
        try:
            self.catalog.attach(self.logs)
            self.had_data = bool(self.logs.logs)
            self.had_transactions = self.catalog.get(TRANSACTION_STATE) is not None
            self.cluster_id = self._identify(folder)
        except BaseException:
            self.logs.abandon()
            raise
        for (topic, partition), why in self.logs.failed.items():
            logger.error("partition %s-%d is offline: %s", topic, partition, why)

    def _read_settings(self, folder: str) -> None:
        self._restore_dynamic_configs(folder)
        self.catalog.read()

    def start_work(self, post: Callable[[Callable[[], object]], object]) -> None:
        """Start what goes on beside requests; `post` lets another thread call something on the event loop."""
        self.flusher = Flusher(self.disk, post, call_soon=self.call_soon, clock_ms=self.clock.now_ms)
        self._topic_saver = Worker("kohort-topics", post)
        self.catalog.save_in_thread = self._topic_saver.run
        self._topic_files = Worker("kohort-topic-files", post)
        self.catalog.in_thread = self._topic_files.run
        self.coordinator = self.make_coordinator()
        self.coordinator.start()
        if self.catalog.get(SHARE_GROUP_STATE) is not None:
            _ = self.share_coordinator  # it begins to load
        if self.catalog.get(TRANSACTION_STATE) is not None:
            _ = self.transactions
        # Not at once: what it imports would delay the first answer.
        self._later = self.call_later_by_clock(HOUSEKEEPING_DELAY_S, lambda: self._start_housekeeping(post))

    def make_coordinator(self) -> CoordinatorHost:
        return CoordinatorHost(self, self.clock)

    @cached_property
    def share_coordinator(self) -> ShareStateHost:
        """Made when it is first needed: most brokers have no share groups."""
        from kohort.broker.share.state_host import ShareStateHost

        made = ShareStateHost(self, self.clock)
        made.start()
        return made

    @cached_property
    def share_state(self) -> Persister:
        return self.share_coordinator

    @cached_property
    def transactions(self) -> TransactionHost:
        """The transaction coordinator, made when it is first needed: most brokers have no transactions."""
        from kohort.broker.transactions.host import TransactionHost

        made = TransactionHost(self, self.clock)
        made.start()
        return made

    def ensure_internal(self, name: str) -> None:
        """Create the topic of a coordinator, if it is not there. OSError: it cannot be created."""
        if self.catalog.get(name) is None:
            self.catalog.ensure_internal(name)
            for coordinator in self.coordinators():
                if coordinator.log.topic == name:
                    coordinator.topic_created()

    def coordinators(self) -> list[ShardHost[Any]]:
        """Those that are in use."""
        made = (self.__dict__.get(name) for name in ("coordinator", "share_coordinator", "transactions"))
        return [each for each in made if each is not None]

    def _start_housekeeping(self, post: Callable[[Callable[[], object]], object]) -> None:
        try:
            from kohort.broker.housekeeping import Housekeeping
        except (ImportError, OSError) as problem:  # too many open files, for instance
            logger.error("housekeeping could not start, and is tried again: %s", problem)
            self._later = self.call_later_by_clock(HOUSEKEEPING_DELAY_S, lambda: self._start_housekeeping(post))
            return
        self.housekeeping = Housekeeping(self, post, self.clock.now_ms)
        self.housekeeping.start()

    def close(self, now: int) -> None:
        """Sync everything and leave the mark of a clean stop."""
        self._later.cancel()
        self._topic_saver.stop()
        self.catalog.finish()  # first: it may change records of the coordinator and files, which are written below
        for coordinator in self.coordinators():
            coordinator.stop()
        if self.housekeeping is not None:
            self.housekeeping.stop()
        self.flusher.stop()
        self._topic_files.stop()
        self.catalog.close()
        if "kohort.broker.topics.producer_snapshots" in sys.modules:
            from kohort.broker.topics.producer_snapshots import save_all_snapshots

            save_all_snapshots(self)
        self.logs.close(now)

    def abandon(self) -> None:
        """Let go of everything without writing anything more, as if the process had been killed."""
        self._later.cancel()
        self._topic_saver.stop()
        if self.housekeeping is not None:
            self.housekeeping.stop()
        self.flusher.abandon()
        self._topic_files.stop()
        self.catalog.close()
        self.logs.abandon()

    def _restore_dynamic_configs(self, folder: str) -> None:
        """Put settings into force that were changed while an earlier run served."""
        try:
            saved = self.disk.read_file(f"{folder}/{DYNAMIC_CONFIGS_FILE}")
        except FileNotFoundError:
            return  # the usual case: the module is not even imported
        from kohort.broker.topics.dynamic_configs import dynamic_configs

        dynamic_configs(self).restore(saved)

    def _make_folders(self, folder: str) -> None:
        """Make the folder, and those above it. A loss of power must not take them back, with all that is in them."""
        above = os.path.dirname(folder)
        try:
            is_new = self.disk.make_folder(folder)
        except FileNotFoundError:
            self._make_folders(above)
            is_new = self.disk.make_folder(folder)
        if is_new:
            self.disk.sync_folder(above)

    def _identify(self, folder: str) -> str:
        """The cluster id, from Kafka's meta.properties or new."""
        path = f"{folder}/{META_PROPERTIES}"
        try:
            known = parse_properties(self.disk.read_file(path).decode())
        except FileNotFoundError:
            known = {}
        if "cluster.id" in known:
            return known["cluster.id"]
        made = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=").replace("-", "A")
        text = f"#\ncluster.id={made}\nversion=1\nnode.id={self.config.node_id}\n"
        self.disk.write_file(path, text.encode())
        return made
