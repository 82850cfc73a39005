"""Members of a group made of plain requests, one thread each: they commit as fast as they are answered.

A member joins, takes the partitions that the leader gives it, and commits ever higher offsets of them, with a
heartbeat between. When the broker is gone it waits until it is told that there is one again, and goes on where it was;
when a rebalance is due it joins again. One that is restless also leaves after a while and comes back as somebody else.
"""

from __future__ import annotations

import threading
from typing import Any

from kohort.client.client import Client
from kohort.client.errors import ClientError
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kohort.protocol.subscription import pack_assignment, pack_subscription, read_assignment

SESSION_MS = 60_000
REBALANCE_MS = 1_000  # so long the others wait for one who left unseen: its leaving was lost with the broker
COMMITS_OF_THE_RESTLESS = 5


class Crew:
    """What the members of one group have done, and whether there is a broker for them."""

    def __init__(self, group: str, topic: str, partitions: int) -> None:
        self.group = group
        self.topic = topic
        self.partitions = partitions
        self.acknowledged: dict[int, int] = {}  # partition: the highest offset that the broker said is committed
        self.sent: dict[int, int] = {}
        self.owners: dict[tuple[int, int], str] = {}  # (generation, partition): member
        self.problems: list[str] = []
        self.commits = 0
        self.waiting = 0  # members that found no broker
        self.address: str | None = None
        self.stopping = False
        self.changed = threading.Condition()

    # --- for the members

    def broker_address(self) -> str | None:
        """Where the broker is, as soon as there is one; None when it is time to stop."""
        with self.changed:
            self.waiting += 1
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.address is not None or self.stopping)
            self.waiting -= 1
            return None if self.stopping else self.address

    def assigned(self, generation: int, member_id: str, partitions: list[int]) -> None:
        with self.changed:
            for partition in partitions:
                owner = self.owners.setdefault((generation, partition), member_id)
                if owner != member_id:
                    self.problems.append(f"generation {generation}: {owner} and {member_id} own {partition}")

    def found(self, partition: int, offset: int, acknowledged: int) -> None:
        if offset < acknowledged:
            with self.changed:
                self.problems.append(f"partition {partition} has {offset}, {acknowledged} was acknowledged")

    def sending(self, offsets: dict[int, int]) -> None:
        with self.changed:
            self.sent |= offsets

    def committed(self, offsets: dict[int, int]) -> None:
        with self.changed:
            for partition, offset in offsets.items():
                if offset <= self.acknowledged.get(partition, -1):
                    self.problems.append(f"partition {partition}: {offset} was committed twice")
            self.acknowledged |= offsets
            self.commits += 1
            self.changed.notify_all()

    # --- for the test

    def go(self, address: str) -> None:
        with self.changed:
            self.address = address
            self.changed.notify_all()

    def wait_for_commits(self, count: int, timeout_s: float) -> None:
        with self.changed:
            goal = self.commits + count
            assert self.changed.wait_for(lambda: self.commits >= goal or self.problems, timeout_s), "no commits"

    def expect_crash(self) -> None:
        """From now on nobody connects."""
        with self.changed:
            self.address = None

    def wait_until_all_noticed(self, members: int, timeout_s: float) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.waiting == members, timeout_s), f"{self.waiting} noticed"

    def stop(self) -> None:
        with self.changed:
            self.stopping = True
            self.changed.notify_all()


class RejoinNeeded(Exception):
    """The group is in another generation than this member."""


class RawMember(threading.Thread):
    def __init__(self, crew: Crew, name: str, *, restless: bool = False) -> None:
        super().__init__(name=name, daemon=True)
        self._crew = crew
        self._restless = restless
        self._client: Client
        self._member_id = ""
        self._generation = -1
        self._offsets: dict[int, int] = {}  # of the partitions that it owns: the next to commit

    def run(self) -> None:
        crew = self._crew
        while (address := crew.broker_address()) is not None:
            try:
                with Client(address, client_id=self.name, timeout_s=120) as self._client:
                    self._work()
            except ClientError:
                continue  # the broker is gone
            except Exception as problem:
                with crew.changed:
                    crew.problems.append(f"{self.name}: {problem!r}")
                    crew.changed.notify_all()
                raise

    def _work(self) -> None:
        """As long as there is a broker."""
        while not self._crew.stopping:
            try:
                if self._generation < 0:
                    self._join()
                self._heartbeat()
                self._commit()
                if self._restless and self._crew.commits % COMMITS_OF_THE_RESTLESS == 0:
                    self._leave()
            except RejoinNeeded:
                self._generation = -1

    def _check(self, error: int) -> None:
        if error == ErrorCode.NONE:
            return
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        elif error not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            raise AssertionError(ErrorCode(error))
        raise RejoinNeeded

    # --- requests

    def _join(self) -> None:
        subscription = pack_subscription(ConsumerProtocolSubscription([self._crew.topic]), 0)
        request = JoinGroupRequest(
            self._crew.group, SESSION_MS, REBALANCE_MS, self._member_id, None, "consumer",
            [JoinGroupRequestProtocol("range", subscription)],
        )  # fmt: skip
        joined = self._client.send(ApiKey.JOIN_GROUP, request)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = request.member_id = joined.member_id
            joined = self._client.send(ApiKey.JOIN_GROUP, request)
        self._check(joined.error_code)
        self._sync(joined)

    def _sync(self, joined: JoinGroupResponse) -> None:
        generation = joined.generation_id
        assignments = self._assign(joined) if joined.leader == self._member_id else []
        request = SyncGroupRequest(
            self._crew.group, generation, self._member_id, None, "consumer", "range", assignments
        )
        answer = self._client.send(ApiKey.SYNC_GROUP, request)
        self._check(answer.error_code)
        partitions = [p for topic in read_assignment(answer.assignment).assigned_partitions for p in topic.partitions]
        self._crew.assigned(generation, self._member_id, partitions)
        self._offsets = self._fetch(partitions)
        self._generation = generation

    def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Round robin, and everything moves with each generation."""
        count = len(joined.members)
        shares: list[list[int]] = [[] for _ in range(count)]
        for partition in range(self._crew.partitions):
            shares[(partition + joined.generation_id) % count].append(partition)
        return [
            SyncGroupRequestAssignment(
                member.member_id,
                pack_assignment(ConsumerProtocolAssignment([TopicPartition(self._crew.topic, share)]), 0),
            )
            for member, share in zip(joined.members, shares, strict=True)
        ]

    def _fetch(self, partitions: list[int]) -> dict[int, int]:
        with self._crew.changed:
            acknowledged = dict(self._crew.acknowledged)
        topics = [OffsetFetchRequestTopics(self._crew.topic, partition_indexes=partitions)]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(self._crew.group, None, -1, topics)])
        (answer,) = self._client.send(ApiKey.OFFSET_FETCH, request, 8).groups
        assert answer.error_code == 0, answer
        found = {p.partition_index: p.committed_offset for topic in answer.topics for p in topic.partitions}
        for partition, offset in found.items():
            self._crew.found(partition, offset, acknowledged.get(partition, -1))
        return {partition: offset + 1 for partition, offset in found.items()}

    def _heartbeat(self) -> None:
        request = HeartbeatRequest(self._crew.group, self._generation, self._member_id)
        self._check(self._client.send(ApiKey.HEARTBEAT, request).error_code)

    def _commit(self) -> None:
        offsets = dict(self._offsets)
        partitions = [OffsetCommitRequestPartition(partition, offset) for partition, offset in offsets.items()]
        request = OffsetCommitRequest(
            self._crew.group, self._generation, self._member_id,
            topics=[OffsetCommitRequestTopic(self._crew.topic, partitions=partitions)],
        )  # fmt: skip
        self._crew.sending(offsets)
        self._offsets = {partition: offset + 1 for partition, offset in offsets.items()}
        answer: Any = self._client.send(ApiKey.OFFSET_COMMIT, request, 9)
        for topic in answer.topics:
            for each in topic.partitions:
                self._check(each.error_code)
        self._crew.committed(offsets)

    def _leave(self) -> None:
        request = LeaveGroupRequest(self._crew.group, members=[MemberIdentity(self._member_id)])
        answer = self._client.send(ApiKey.LEAVE_GROUP, request)
        self._member_id, self._generation = "", -1
        assert answer.error_code == 0, answer
