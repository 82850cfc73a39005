"""What a test holds: a broker in this process, on a thread and an event loop of its own."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kohort.broker.config import Config, parse_listeners
from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.record_batch import build_batch
from kohort.storage.disk import RealDisk
from kohort.storage.memory_disk import MemoryDisk
from kohort.testing.chaos import EVERY, EXPECTED, Chaos
from kohort.testing.clock import Clock
from kohort.testing.disk_faults import FullDisk, SlowDisk
from kohort.testing.faults import (
    GROUP_APIS,
    CloseAfter,
    CloseBefore,
    Delay,
    Drop,
    Fail,
    Fault,
    Filter,
    LoseAnswer,
    Throttle,
)
from kohort.testing.group import Group
from kohort.testing.host import Host
from kohort.testing.names import api_key, error_code, error_name
from kohort.testing.off_loop import off_loop
from kohort.testing.settings import MEMORY, Settings, config_of
from kohort.testing.topic import Headers, Topic, encoded_headers
from kohort.testing.transaction import Transaction, known_transactions
from kohort.testing.views import Commit, Request
from kohort.testing.watch import OWN_CLIENT

if TYPE_CHECKING:
    from kohort.audit.run.in_a_test import Checked

MAX_FETCH_WAIT_MS = 20
NEWEST_PRODUCE_WITH_NAMES = 12  # later versions name topics by their ids


class Refused(Exception):
    """The broker refused what the test asked for. The text names Kafka's error."""


class Broker:
    """A broker for one test, or for several.

        with Broker(settings={"num.partitions": 6}) as kafka: ...
        async with Broker() as kafka: ...

    Args:
        settings: Kafka's, by Kafka's names; TEST_DEFAULTS in settings.py are those that differ from Kafka's.
        data: a folder to keep the data in. None: the data is in memory, and gone when the broker is stopped.
        max_fetch_wait_ms: a Fetch that finds nothing waits no longer, whatever the client asks for. Clients fetch some
            partitions first, wait up to 500 ms for records there, and only then fetch the others.
    """

    def __init__(
        self,
        settings: Settings | Config | None = None,
        *,
        data: str | os.PathLike[str] | None = None,
        max_fetch_wait_ms: int = MAX_FETCH_WAIT_MS,
    ) -> None:
        folder = MEMORY if data is None else os.fspath(data)
        config = settings if isinstance(settings, Config) else config_of(settings or {}, folder)
        self._host = Host(config, RealDisk(), max_fetch_wait_ms)
        if config.data_folder == MEMORY:
            self._host.disk.inner = MemoryDisk(now=self._host.time.now_ms)
        self.clock = Clock(self._host)
        self._had_chaos = False

    # --- life

    def start(self) -> Self:
        """Returns when clients can connect."""
        self._host.start()
        self._keep_port()
        return self

    def stop(self) -> None:
        """Stop in good order. Calling it again does nothing."""
        self._host.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await off_loop(self.start)

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await off_loop(self.stop)

    def restart(self) -> None:
        """Stop in good order, and start again at the same address with the same data. Clients have to reconnect."""
        self._host.restart()

    def crash(self) -> None:
        """Stop as if the machine had lost its power, and start again. What was not synced is gone.

        With `data` in a folder it is as if the process had been killed: the operating system keeps what was written.
        """
        self._host.crash(self._lose_what_was_not_synced)

    def _lose_what_was_not_synced(self) -> None:
        disk = self._host.disk
        if isinstance(disk.inner, MemoryDisk):
            disk.inner = disk.inner.after_crash()

    def _keep_port(self) -> None:
        """A restart listens where clients look for the broker."""
        config = self._host.config
        ports = [port for _, port in self._host.server.addresses]
        listeners = parse_listeners(config.listeners)
        config.listeners = ",".join(
            f"{each.name}://{f'[{each.host}]' if ':' in each.host else each.host}:{port}"
            for each, port in zip(listeners, ports, strict=True)
        )

    @property
    def bootstrap_servers(self) -> str:
        """For the client's setting of this name."""
        host = self._host
        told = host.run(lambda: host.broker.advertised[0])
        return f"[{told.host}]:{told.port}" if ":" in told.host else f"{told.host}:{told.port}"

    # --- looking

    def group(self, group_id: str) -> Group:
        return Group(self._host, group_id)

    @property
    def groups(self) -> list[Group]:
        """All groups that there are."""
        runtime = self._host.run(
            lambda: [name for shard in self._host.broker.coordinator.runtime.shards for name in shard.state.groups]
        )
        return [Group(self._host, name) for name in sorted(runtime)]

    def topic(self, name: str) -> Topic:
        return Topic(self._host, name)

    def transaction(self, transactional_id: str) -> Transaction:
        return Transaction(self._host, transactional_id)

    @property
    def transactions(self) -> list[Transaction]:
        """All transactional ids that producers have used."""
        known = self._host.run(lambda: sorted(known_transactions(self._host.broker)))
        return [Transaction(self._host, name) for name in known]

    def commits(self, group: str | None = None) -> list[Commit]:
        """Offsets that were committed by clients, the oldest first; of one group, or of all."""
        return self._host.run(lambda: [each for each in self._host.watch.commits if group in (None, each.group)])

    def requests(
        self, api: str | None = None, *, client_id: str | None = None, group: str | None = None
    ) -> list[Request]:
        """Requests of clients, the oldest first. `api` is Kafka's name: JoinGroup, OffsetCommit, ..."""
        if api is not None:
            api_key(api)
        return self._host.run(
            lambda: [
                each.view()
                for each in self._host.watch.requests
                if api in (None, each.api) and client_id in (None, each.client_id) and group in (None, each.group)
            ]
        )

    # --- judging

    def check(
        self,
        *,
        checks: Collection[str] | None = None,
        ignore: Collection[str] = (),
        thresholds: Mapping[str, float] | None = None,
        group: str | None = None,
        fail_on: str = "warning",
    ) -> Checked:
        """Run the audit's rules over what the test has left so far. CheckFailed, an AssertionError, tells the findings.

        Needs `pip install 'kohort[testing]'`.

        Args:
            checks: names of checks, of those in docs/audit.md. None: those that make sense in a test.
            ignore: names of checks that are left out. After `chaos` so is rebalance_storm.
            thresholds: such as {"rebalance_storm.rebalances": 6}.
            group: look at this group only.
            fail_on: critical, error, warning or info. Findings that are less severe are only returned.
        """
        from kohort.testing.check import check

        folder = self._host.config.data_folder
        left_out = [*([ignore] if isinstance(ignore, str) else ignore), *(EXPECTED if self._had_chaos else ())]
        return check(
            self._host, folder, checks=checks, ignore=left_out, thresholds=thresholds, group=group, fail_on=fail_on
        )

    def story(self) -> str:
        """What has happened so far: groups, rebalances, and requests that failed or that a fault has met."""
        from kohort.testing.story import story

        return self._host.run(lambda: story(self._host)) if self._host.is_running else "the broker is stopped"

    def wait_for_request(
        self, api: str, *, error: str | None = None, client_id: str | None = None, group: str | None = None,
        times: int = 1, timeout: float = 10.0,
    ) -> Request:  # fmt: skip
        """Wait until so many such requests were answered, with this error if one is given. Returns the last."""
        api_key(api)
        wanted = None if error is None else error_code(error).name

        def found() -> list[Request]:
            return [
                each.view()
                for each in self._host.watch.requests
                if each.api == api and each.errors is not None and (wanted is None or wanted in each.errors)
                and client_id in (None, each.client_id) and group in (None, each.group)
            ]  # fmt: skip

        if not self._host.wait_for(lambda: len(found()) >= times, timeout):
            count = len(self._host.run(found))
            raise TimeoutError(f"{count} requests {api} were answered{f' {wanted}' * bool(wanted)} in {timeout:g} s")
        return self._host.run(found)[times - 1]

    # --- faults (see faults.py)

    def fail(
        self, api: str | Iterable[str], *, error: str, times: int | None = None, group: str | None = None,
        client_id: str | None = None, topic: str | None = None,
    ) -> Fault:  # fmt: skip
        """Answer with this error, by Kafka's name, instead of handling the request."""
        return Fail(self._host, Filter(api, group, client_id, topic, times), error_code(error)).begin()

    def delay(
        self, api: str | Iterable[str] | None = None, *, seconds: float, times: int | None = None,
        group: str | None = None, client_id: str | None = None, topic: str | None = None,
    ) -> Fault:  # fmt: skip
        """Handle the request so many real seconds later."""
        return Delay(self._host, Filter(api, group, client_id, topic, times), seconds).begin()

    def drop(
        self, api: str | Iterable[str] | None = None, *, times: int | None = None, group: str | None = None,
        client_id: str | None = None, topic: str | None = None,
    ) -> Fault:  # fmt: skip
        """Neither handle nor answer the request. Its connection stays open, and is silent."""
        return Drop(self._host, Filter(api, group, client_id, topic, times)).begin()

    def lose_answer(
        self, api: str | Iterable[str] | None = None, *, times: int | None = None, group: str | None = None,
        client_id: str | None = None, topic: str | None = None, close: bool = True,
    ) -> Fault:  # fmt: skip
        """Handle the request, and lose its answer. The connection is closed; or, with `close=False`, it is silent."""
        return LoseAnswer(self._host, Filter(api, group, client_id, topic, times), close=close).begin()

    def close_before(
        self, api: str | Iterable[str] | None = None, *, times: int | None = None, group: str | None = None,
        client_id: str | None = None, topic: str | None = None,
    ) -> Fault:  # fmt: skip
        """Close the connection instead of handling the request."""
        return CloseBefore(self._host, Filter(api, group, client_id, topic, times)).begin()

    def close_after(
        self, api: str | Iterable[str] | None = None, *, times: int | None = None, group: str | None = None,
        client_id: str | None = None, topic: str | None = None,
    ) -> Fault:  # fmt: skip
        """Close the connection when the answer is sent."""
        return CloseAfter(self._host, Filter(api, group, client_id, topic, times)).begin()

    def throttle(
        self, api: str | Iterable[str] | None = None, *, milliseconds: int, times: int | None = None,
        group: str | None = None, client_id: str | None = None, topic: str | None = None,
    ) -> Fault:  # fmt: skip
        """Tell the client to wait that long before its next request, as a broker with quotas does."""
        return Throttle(self._host, Filter(api, group, client_id, topic, times), milliseconds).begin()

    def stop_answering(
        self, api: str | Iterable[str] | None = None, *, times: int | None = None, group: str | None = None,
        client_id: str | None = None, topic: str | None = None,
    ) -> Fault:  # fmt: skip
        """Be silent, to all or to some, until the fault is stopped. Then silent connections are closed."""
        return self.drop(api, times=times, group=group, client_id=client_id, topic=topic)

    def refuse_produce(
        self, *, error: str = "NOT_LEADER_OR_FOLLOWER", times: int | None = None, client_id: str | None = None,
        topic: str | None = None,
    ) -> Fault:  # fmt: skip
        return self.fail("Produce", error=error, times=times, client_id=client_id, topic=topic)

    def coordinator_loading(
        self, api: str | Iterable[str] = GROUP_APIS, *, times: int | None = None, group: str | None = None,
        client_id: str | None = None, topic: str | None = None,
    ) -> Fault:  # fmt: skip
        """The coordinator is loading its groups: requests about groups get COORDINATOR_LOAD_IN_PROGRESS."""
        error = "COORDINATOR_LOAD_IN_PROGRESS"
        return self.fail(api, error=error, times=times, group=group, client_id=client_id, topic=topic)

    def not_coordinator(
        self, api: str | Iterable[str] = GROUP_APIS, *, times: int | None = None, group: str | None = None,
        client_id: str | None = None, topic: str | None = None,
    ) -> Fault:  # fmt: skip
        """The group has moved to another coordinator: requests about it get NOT_COORDINATOR."""
        return self.fail(api, error="NOT_COORDINATOR", times=times, group=group, client_id=client_id, topic=topic)

    def slow_disk(
        self, *, seconds: float, times: int | None = None, group: str | None = None, topic: str | None = None
    ) -> Fault:
        """Each sync takes that long, at least: of all files, or of those of a topic, or of a group's log."""
        return SlowDisk(self._host, seconds, group, topic, times).begin()

    def full_disk(self, *, times: int | None = None, group: str | None = None, topic: str | None = None) -> Fault:
        """Nothing can be written: to any file, or to those of a topic, or to a group's log."""
        return FullDisk(self._host, group, topic, times).begin()

    def chaos(
        self, seed: int, *, every: int = EVERY, kinds: Iterable[str] | None = None, group: str | None = None,
        client_id: str | None = None, topic: str | None = None,
    ) -> Chaos:  # fmt: skip
        """Random lawful trouble: delays, disconnects, expired sessions, rebalances, restarts. See chaos.py.

        Args:
            seed: the same requests meet the same trouble with the same seed.
            every: one trouble for so many requests, on average.
            kinds: those of chaos.KINDS that may happen. None: all.
        """
        self._had_chaos = True
        return Chaos(self._host, Filter(None, group, client_id, topic, None), seed, every, kinds).begin()

    # --- topics and records

    def create_topic(self, name: str, partitions: int = 1, config: Settings | None = None) -> Topic:
        """Create a topic. `config` are settings of the topic, by Kafka's names."""
        configs = [CreatableTopicConfig(key, str(value)) for key, value in (config or {}).items()]
        request = CreateTopicsRequest([CreatableTopic(name, partitions, 1, [], configs)], 30_000, False)
        with self._client() as client:
            answer = client.send(ApiKey.CREATE_TOPICS, request).topics[0]
        if answer.error_code:
            raise Refused(f"topic {name!r}: {error_name(answer.error_code)}: {answer.error_message or ''}")
        return self.topic(name)

    def produce(
        self,
        topic: str,
        *values: bytes | None,
        key: bytes | None = None,
        partition: int = 0,
        headers: Headers | None = None,
    ) -> int:
        """Append records with these values to a partition. Returns the offset of the first. Creates a missing topic."""
        if not values:
            raise ValueError("produce needs at least one value")
        batch = build_batch(
            [(key, value, encoded_headers(headers)) for value in values], timestamp=self._host.time.now_ms()
        )
        if self._host.run(lambda: self._host.broker.catalog.get(topic)) is None:
            self.create_topic(topic, max(partition + 1, self._host.config.num_partitions))
        data = [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch)])]
        with self._client() as client:
            answer = client.send(ApiKey.PRODUCE, ProduceRequest(None, -1, 30_000, data), NEWEST_PRODUCE_WITH_NAMES)
        row = answer.responses[0].partition_responses[0]
        if row.error_code:
            raise Refused(f"{topic}-{partition}: {error_name(row.error_code)}: {row.error_message or ''}")
        offset: int = row.base_offset
        return offset

    def produce_all(self, topic: str, values: Iterable[bytes | None], *, partition: int = 0) -> int:
        return self.produce(topic, *values, partition=partition)

    @contextmanager
    def _client(self) -> Iterator[Client]:
        with self._host.stays_up(), Client(self.bootstrap_servers, client_id=OWN_CLIENT) as client:
            yield client
