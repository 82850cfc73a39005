"""A client of a whole cluster: finds brokers, leaders and coordinators, and keeps a connection to each that it needs.

It knows the cluster from the first bootstrap address that answers. A connection that was lost is made anew the next
time that its broker is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic
from types import TracebackType
from typing import Any, NamedTuple

from kohort.client.answers import once_ready
from kohort.client.client import SETUP_TIMEOUT_S, Client
from kohort.client.errors import AccessDenied, ClientError, ConnectionLost
from kohort.client.settings import ClientSettings, parse_addresses
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kohort.protocol.wire import NO_UUID

OLDEST_FIND_OF_SEVERAL = 4  # the version of FindCoordinator that takes several keys
FIND_ONE_VERSION = 2
GROUP, TRANSACTION, SHARE_PARTITION = 0, 1, 2  # what a coordinator is looked for
WORDS = {GROUP: "group", TRANSACTION: "transactional id", SHARE_PARTITION: "share partition"}
KEYS_AT_ONCE = 500
NO_LEADER = -1

TopicPartition = tuple[str, int]


class BrokerAddress(NamedTuple):
    node_id: int
    address: str


class Leader(NamedTuple):
    node_id: int
    epoch: int  # -1: the broker is too old to tell


class Cluster:
    def __init__(self, bootstrap: str | None = None, settings: ClientSettings | None = None) -> None:
        """`bootstrap` is HOST:PORT,HOST:PORT; else it is in the settings. Connects to one of them."""
        self.settings = settings or ClientSettings()
        try:
            self._bootstrap = self.settings.bootstrap if bootstrap is None else parse_addresses(bootstrap)
        except ValueError as problem:
            raise ClientError(str(problem)) from None
        self.addresses: dict[int, str] = {}  # of the brokers, as the last answer about metadata has them
        self._clients: dict[str, Client] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self._controller_id = NO_LEADER
        self._metadata_of = self._first_connection()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    # --- connections

    def _first_connection(self) -> str:
        """The first bootstrap address that answers. All of them together get the time of one."""
        problems: list[ClientError] = []
        until = monotonic() + SETUP_TIMEOUT_S
        for number, address in enumerate(self._bootstrap):
            share = max((until - monotonic()) / (len(self._bootstrap) - number), 0.5)
            try:
                client = self._clients[address] = Client(address, settings=self.settings, setup_timeout_s=share)
                client.newest_version(ApiKey.METADATA)
                return address
            except AccessDenied:  # the same credentials will be refused elsewhere
                self.close()
                raise
            except ClientError as problem:
                self._drop(address)
                problems.append(problem)
        raise type(problems[0])("; ".join(str(problem) for problem in problems))

    def any(self) -> Client:
        """A broker that answers, whichever it is."""
        for address in dict.fromkeys((self._metadata_of, *self.addresses.values(), *self._bootstrap)):
            try:
                client = self.at(address)
            except AccessDenied:
                raise
            except ClientError:
                continue
            self._metadata_of = address
            return client
        self._metadata_of = self._first_connection()
        return self._clients[self._metadata_of]

    def at(self, address: str) -> Client:
        client = self._clients.get(address)
        if client is None or client.is_lost:
            self._drop(address)
            client = self._clients[address] = Client(address, settings=self.settings)
        return client

    def broker(self, node_id: int) -> Client:
        if node_id not in self.addresses:
            self.metadata(())
        if node_id not in self.addresses:
            raise ConnectionLost(f"broker {node_id} is not there at the moment")
        return self.at(self.addresses[node_id])

    def _drop(self, address: str) -> None:
        if (client := self._clients.pop(address, None)) is not None:
            client.close()

    # --- who is who

    def metadata(self, topics: Iterable[str] | None) -> MetadataResponse:
        """The brokers, and these topics; None: all topics. No topic is created by being asked for."""
        asked = None if topics is None else [MetadataRequestTopic(NO_UUID, name) for name in topics]
        answer: MetadataResponse = self.send(ApiKey.METADATA, MetadataRequest(asked, False))
        self.addresses = {each.node_id: _address(each.host, each.port) for each in answer.brokers}
        self._controller_id = answer.controller_id
        return answer

    def send(self, api_key: ApiKey, request: Any, version: int | None = None) -> Any:
        """A question that any broker can answer. If the connection is lost meanwhile, another broker is asked."""
        try:
            return self.any().send(api_key, request, version)
        except ConnectionLost:
            if len(self.addresses) < 2:
                raise
            return self.any().send(api_key, request, version)

    def brokers(self) -> list[BrokerAddress]:
        self.metadata(())
        return [BrokerAddress(node_id, address) for node_id, address in sorted(self.addresses.items())]

    def each_broker(self) -> list[Client]:
        return [self.at(broker.address) for broker in self.brokers()]

    def controller(self) -> Client:
        """The broker that takes changes of topics. With KRaft any broker passes them on."""
        self.metadata(())
        known = self._controller_id in self.addresses
        return self.broker(self._controller_id) if known else self.any()

    def leaders(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, Leader]:
        """Partitions without a leader, or that do not exist, are left out."""
        wanted = set(places)
        answer = self.metadata(sorted({topic for topic, _ in wanted}))
        return {
            (topic.name or "", p.partition_index): Leader(p.leader_id, p.leader_epoch)
            for topic in answer.topics
            if not topic.error_code
            for p in topic.partitions
            if (topic.name, p.partition_index) in wanted and p.leader_id in self.addresses
        }

    # --- coordinators

    def coordinator(self, group_id: str) -> Client:
        """The broker that coordinates the group. A new Kafka first has to create its offsets topic."""
        (node_id,) = self.coordinators([group_id])
        return self.broker(node_id)

    def coordinators(self, keys: Iterable[str], key_type: int = GROUP) -> dict[int, list[str]]:
        """Broker -> what it coordinates: groups, or transactional ids, or the state of share partitions."""
        wanted = list(keys)
        unknown = [key for key in wanted if (key_type, key) not in self._coordinators]
        for start in range(0, len(unknown), KEYS_AT_ONCE):
            self._find_coordinators(key_type, unknown[start : start + KEYS_AT_ONCE])
        found: dict[int, list[str]] = {}
        for key in wanted:
            found.setdefault(self._coordinators[key_type, key], []).append(key)
        return found

    def forget_coordinator(self, key: str, key_type: int = GROUP) -> None:
        """The group has another coordinator than the one that was told."""
        self._coordinators.pop((key_type, key), None)

    def _find_coordinators(self, key_type: int, keys: list[str]) -> None:
        version = self.any().newest_version(ApiKey.FIND_COORDINATOR)
        if version >= OLDEST_FIND_OF_SEVERAL:
            request = FindCoordinatorRequest("", key_type, keys)
            told = once_ready(
                lambda: self.send(ApiKey.FIND_COORDINATOR, request, version).coordinators,
                f"{WORDS[key_type]} {keys[0]}",
            )
        else:
            told = [self._find_coordinator(key_type, key, min(version, FIND_ONE_VERSION)) for key in keys]
        for each in told:
            self.addresses.setdefault(each.node_id, _address(each.host, each.port))
            self._coordinators[key_type, each.key] = each.node_id

    def _find_coordinator(self, key_type: int, key: str, version: int) -> Coordinator:
        request = FindCoordinatorRequest(key, key_type)
        (found,) = once_ready(
            lambda: [self.send(ApiKey.FIND_COORDINATOR, request, version)], f"{WORDS[key_type]} {key}"
        )
        return Coordinator(key, found.node_id, found.host, found.port)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
