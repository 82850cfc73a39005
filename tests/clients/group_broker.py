"""A `kohort serve` process that can be stopped, killed and started again on the same data and port."""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from kohort.broker.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.describe_groups import DescribeGroupsRequest
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kohort.protocol.subscription import read_assignment
from tests.clients.kohort import KohortProcess
from tests.clients.ports import free_ports

REBALANCED = re.compile(r"rebalanced group=(\S+) generation=(\d+) cause=(['\"])(.*?)\3 trigger=(['\"])(.*?)\5 ")
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


class GroupBroker:
    def __init__(self, folder: Path, **overrides: str) -> None:
        self._folder = folder
        self._overrides = overrides
        (port,) = free_ports(1)
        self.address = f"127.0.0.1:{port}"
        self._client: Client | None = None
        self.process = self._start()

    def _start(self) -> KohortProcess:
        return KohortProcess(self._folder, listeners=f"PLAINTEXT://{self.address}", **self._overrides)

    # --- stop and start

    def restart(self) -> None:
        self._forget_client()
        assert self.process.stop() == 0, self.process.log_tail()
        self.process = self._start()

    def kill(self) -> None:
        """SIGKILL, as a crash; `start_again` follows."""
        self._forget_client()
        self.process.process.kill()
        self.process.process.wait()
        assert self.process.process.stdout is not None
        self.process.process.stdout.close()

    def start_again(self) -> None:
        self.process = self._start()

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
        found = REBALANCED.findall(self.process.log.read_text(encoding="utf-8", errors="replace"))
        all_of_them = [Rebalance(name, int(generation), cause, by) for name, generation, _, cause, _, by in found]
        return [each for each in all_of_them if each.group == group]

    def describe(self, group: str) -> Described:
        (answer,) = self.client.send(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest([group], False)).groups
        owned = {}
        for member in answer.members:
            topics = read_assignment(member.member_assignment).assigned_partitions if member.member_assignment else []
            owned[member.member_id] = frozenset((t.topic, p) for t in topics for p in t.partitions)
        return Described(answer.group_state, owned)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """All committed offsets of the group; the broker answers when writes in progress are done."""
        asked = OffsetFetchRequestGroup(group, None, -1, None)
        request = OffsetFetchRequest(groups=[asked], require_stable=True)
        (answer,) = self.client.send(ApiKey.OFFSET_FETCH, request, 8).groups
        while answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            (answer,) = self.client.send(ApiKey.OFFSET_FETCH, request, 8).groups
        assert answer.error_code == 0, answer
        return {(t.name, p.partition_index): p.committed_offset for t in answer.topics for p in t.partitions}
