"""Brokers that can be stopped, killed and started again on the same data and port: `kohort serve`, or a real Kafka."""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kohort.protocol.subscription import read_assignment
from tests.clients.kohort import KohortProcess
from tests.clients.ports import free_ports
from tests.kafka.server import KafkaServer

REBALANCED = re.compile(
    r"rebalanced group=(\S+) (?:generation|epoch)=(\d+) cause=(['\"])(.*?)\3 trigger=(['\"])(.*?)\5 "
)
NOT_READY = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
COMPLAINT = re.compile(r"^.*(?: ERROR |Traceback).*$", re.MULTILINE)


class Rebalance(NamedTuple):
    """One line of the broker's log."""

    group: str
    generation: int
    cause: str
    trigger: str


class Described(NamedTuple):
    state: str
    owned: dict[str, frozenset[tuple[str, int]]]  # member id: (topic, partition)
    epoch: int | None = None  # of a group of KIP-848; DescribeGroups does not tell a generation


class AnyBroker:
    """What members and tests ask of a broker; how it is stopped and started is for the classes below."""

    address: str
    _client: Client | None = None

    def restart(self) -> None:
        raise NotImplementedError

    def kill(self) -> None:
        """SIGKILL, as a crash; `start_again` follows."""
        raise NotImplementedError

    def start_again(self) -> None:
        raise NotImplementedError

    # --- questions

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = Client(self.address, timeout_s=60)
        return self._client

    def _forget_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def rebalances(self, group: str) -> list[Rebalance]:
        """Every rebalance of the group in the broker's log, also those before a restart."""
        raise NotImplementedError

    def describe(self, group: str) -> Described:
        (answer,) = self.client.send(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest([group], False), 5).groups
        if answer.group_state == "Dead":  # so it seems to be, if it is a group of KIP-848
            return self._describe_server_side(group)
        owned = {}
        for member in answer.members:
            topics = read_assignment(member.member_assignment).assigned_partitions if member.member_assignment else []
            owned[member.member_id] = frozenset((t.topic, p) for t in topics for p in t.partitions)
        return Described(answer.group_state, owned)

    def _describe_server_side(self, group: str) -> Described:
        request = ConsumerGroupDescribeRequest([group], False)
        (answer,) = self.client.send(ApiKey.CONSUMER_GROUP_DESCRIBE, request, 1).groups
        owned = {
            member.member_id: frozenset(
                (topic.topic_name, partition)
                for topic in member.assignment.topic_partitions
                for partition in topic.partitions
            )
            for member in answer.members
        }
        return Described(answer.group_state, owned, answer.group_epoch)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """All committed offsets of the group; the broker answers when writes in progress are done."""
        asked = OffsetFetchRequestGroup(group, None, -1, None)
        request = OffsetFetchRequest(groups=[asked], require_stable=True)
        (answer,) = self.client.send(ApiKey.OFFSET_FETCH, request, 8).groups
        while answer.error_code in NOT_READY:
            (answer,) = self.client.send(ApiKey.OFFSET_FETCH, request, 8).groups
        assert answer.error_code == 0, answer
        return {(t.name, p.partition_index): p.committed_offset for t in answer.topics for p in t.partitions}


class GroupBroker(AnyBroker):
    """A `kohort serve` process."""

    def __init__(self, folder: Path, **overrides: str) -> None:
        self._folder = folder
        self._overrides = overrides
        (port,) = free_ports(1)
        self.address = f"127.0.0.1:{port}"
        self.process = self._start()

    def _start(self) -> KohortProcess:
        return KohortProcess(self._folder, listeners=f"PLAINTEXT://{self.address}", **self._overrides)

    def restart(self) -> None:
        self._forget_client()
        assert self.process.stop() == 0, self.process.log_tail()
        self.process = self._start()

    def kill(self) -> None:
        self._forget_client()
        self.process.process.kill()
        self.process.process.wait()
        assert self.process.process.stdout is not None
        self.process.process.stdout.close()

    def start_again(self) -> None:
        self.process = self._start()

    def rebalances(self, group: str) -> list[Rebalance]:
        found = REBALANCED.findall(self.process.log.read_text(encoding="utf-8", errors="replace"))
        all_of_them = [Rebalance(name, int(generation), cause, by) for name, generation, _, cause, _, by in found]
        return [each for each in all_of_them if each.group == group]

    def __enter__(self) -> GroupBroker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._forget_client()
        self.process.__exit__(kind, problem, trace)
        if kind is None:
            complaints = COMPLAINT.findall(self.process.log.read_text(encoding="utf-8", errors="replace"))
            assert complaints == [], "\n".join(complaints)


class KafkaBroker(AnyBroker):
    """A real Kafka, to try a story on before it is told to Kohort, and to compare with."""

    def __init__(self, folder: Path, **overrides: str) -> None:
        self.server = KafkaServer(
            folder / "kafka", {name.replace("_", "."): value for name, value in overrides.items()}
        )
        self.address = self.server.address

    def restart(self) -> None:
        self._forget_client()
        self.server.stop()
        self.server.start_again()

    def kill(self) -> None:
        self._forget_client()
        self.server.process.kill()
        self.server.process.wait()

    def start_again(self) -> None:
        self.server.start_again()

    def rebalances(self, group: str) -> list[Rebalance]:
        return []  # Kafka's log is not read

    def __enter__(self) -> KafkaBroker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._forget_client()
        self.server.stop()
