"""Members of both protocols that say exactly what a script tells them to, so that a group can be left in any state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kohort.protocol.subscription import read_assignment
from tests.group_requests import Partitions, assignment_bytes, commit_request, full_subscription, owned_rows

REBALANCE_MS = 300_000
CLASSIC_SESSION_MS = 1_800_000  # longer than any script runs
LEAVE, LEAVE_FOR_A_WHILE = -1, -2


class NewMember:
    """A member of the protocol of KIP-848."""

    def __init__(
        self, address: str, topic_ids: Mapping[str, bytes], group: str, member_id: str, *,
        instance: str | None = None, rack: str | None = None, client_id: str | None = None,
    ) -> None:  # fmt: skip
        self.client = Client(address, client_id=client_id or f"client-{member_id}")
        self.topic_ids = topic_ids
        self.group, self.id, self.instance, self.rack = group, member_id, instance, rack
        self.epoch = 0
        self.heartbeat_interval_ms = 0
        self.has: dict[str, list[int]] = {}

    def join(
        self, *topics: str, regex: str | None = None, assignor: str | None = None, rebalance_ms: int = REBALANCE_MS
    ) -> NewMember:
        self.epoch, self.has = 0, {}
        return self._send(
            instance_id=self.instance, rack_id=self.rack, rebalance_timeout_ms=rebalance_ms, server_assignor=assignor,
            subscribed_topic_names=list(topics), subscribed_topic_regex=regex, topic_partitions=[],
        )  # fmt: skip

    def beat(self) -> NewMember:
        """A heartbeat that says nothing new; what the broker takes away is not given up yet."""
        return self._send()

    def report(self) -> NewMember:
        """A heartbeat that says what the member has, so that the broker can give away what it gave up."""
        return self._send(topic_partitions=owned_rows(self.has, self.topic_ids.__getitem__))

    def subscribe(self, *topics: str, regex: str | None = None) -> NewMember:
        return self._send(subscribed_topic_names=list(topics), subscribed_topic_regex=regex)

    def leave(self, epoch: int = LEAVE) -> None:
        self.epoch = epoch
        self._send(instance_id=self.instance)

    def commit(self, offsets: Mapping[tuple[str, int], int], metadata: str = "") -> None:
        commit(self.client, self.group, self.id, self.epoch, self.instance, offsets, metadata)

    def _send(self, **fields: Any) -> NewMember:
        request = ConsumerGroupHeartbeatRequest(self.group, self.id, self.epoch, **fields)
        if self.instance is not None:
            request.instance_id = self.instance
        answer = self.client.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, request, 1)
        assert answer.error_code == 0, (self.group, self.id, ErrorCode(answer.error_code), answer.error_message)
        self.epoch = answer.member_epoch
        self.heartbeat_interval_ms = answer.heartbeat_interval_ms
        if answer.assignment is not None:
            names = {topic_id: name for name, topic_id in self.topic_ids.items()}
            self.has = {
                names[bytes(each.topic_id)]: list(each.partitions) for each in answer.assignment.topic_partitions
            }
        return self


class ClassicMember:
    """A member of the classic protocol, with the subscription that a consumer would send."""

    def __init__(
        self, address: str, group: str, topics: Sequence[str], *, instance: str | None = None,
        client_id: str = "classic", protocols: Sequence[str] = ("range",), version: int = 3,
    ) -> None:  # fmt: skip
        self.client = Client(address, client_id=client_id)
        self.group, self.topics, self.instance = group, list(topics), instance
        self.protocols, self.version = protocols, version
        self.id, self.generation, self.leads = "", -1, False
        self.has: dict[str, list[int]] = {}
        self.others: list[str] = []

    def join(self) -> ClassicMember:
        """Until the join phase is over. The others must have sent their JoinGroup."""
        self.send_join()
        return self.joined()

    def send_join(self) -> None:
        if not self.id and self.instance is None:
            answer = self.client.send(ApiKey.JOIN_GROUP, self._join_request(), 9)
            assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED, ErrorCode(answer.error_code)
            self.id = answer.member_id
        self._sent = self.client.post(ApiKey.JOIN_GROUP, self._join_request(), 9)

    def joined(self) -> ClassicMember:
        answer = self.client.receive(ApiKey.JOIN_GROUP, 9, self._sent)
        assert answer.error_code == 0, (self.group, self.id, ErrorCode(answer.error_code))
        self.id, self.generation, self.protocol = answer.member_id, answer.generation_id, answer.protocol_name
        self.leads = answer.leader == self.id
        self.others = [each.member_id for each in answer.members]
        return self

    def sync(self, assignments: Mapping[str, Partitions] | None = None) -> ClassicMember:
        given = [SyncGroupRequestAssignment(who, assignment_bytes(each)) for who, each in (assignments or {}).items()]
        request = SyncGroupRequest(
            self.group, self.generation, self.id, self.instance, "consumer", self.protocol, given
        )
        answer = self.client.send(ApiKey.SYNC_GROUP, request, 5)
        assert answer.error_code == 0, (self.group, self.id, ErrorCode(answer.error_code))
        read = read_assignment(answer.assignment)
        self.has = {each.topic: list(each.partitions) for each in read.assigned_partitions}
        return self

    def beat(self) -> ErrorCode:
        request = HeartbeatRequest(self.group, self.generation, self.id, self.instance)
        return ErrorCode(self.client.send(ApiKey.HEARTBEAT, request, 4).error_code)

    def give_up(self, *partitions: tuple[str, int]) -> None:
        self.has = {
            topic: [each for each in numbers if (topic, each) not in partitions] for topic, numbers in self.has.items()
        }

    def leave(self) -> None:
        request = LeaveGroupRequest(self.group, "", [MemberIdentity(self.id, self.instance)])
        answer = self.client.send(ApiKey.LEAVE_GROUP, request, 5)
        assert answer.error_code == 0, ErrorCode(answer.error_code)

    def commit(self, offsets: Mapping[tuple[str, int], int], metadata: str = "") -> None:
        commit(self.client, self.group, self.id, self.generation, self.instance, offsets, metadata)

    def _join_request(self) -> JoinGroupRequest:
        metadata = full_subscription(self.topics, self.has, self.generation, self.version)
        offered = [JoinGroupRequestProtocol(name, metadata) for name in self.protocols]
        return JoinGroupRequest(
            self.group, CLASSIC_SESSION_MS, REBALANCE_MS, self.id, self.instance, "consumer", offered
        )


def classic_round(members: Sequence[ClassicMember], wanted: Mapping[int, Partitions]) -> None:
    """A whole rebalance of a classic group; `wanted` says what the n-th member shall get."""
    for member in members:
        member.send_join()
    for member in members:
        member.joined()
    given = {member.id: wanted.get(number, {}) for number, member in enumerate(members)}
    for member in sorted(members, key=lambda each: not each.leads):
        member.sync(given if member.leads else None)


def commit(
    client: Client, group: str, member_id: str, epoch: int, instance: str | None,
    offsets: Mapping[tuple[str, int], int], metadata: str = "",
) -> None:  # fmt: skip
    request = commit_request(group, offsets, epoch, member_id, instance, metadata=metadata, leader_epoch=0)
    answer = client.send(ApiKey.OFFSET_COMMIT, request, 9)
    errors = [ErrorCode(each.error_code) for topic in answer.topics for each in topic.partitions]
    assert not any(errors), (group, member_id, errors)


def settle(*members: NewMember, rounds: int = 8) -> None:
    """Members report in turn until nothing changes any more."""
    for _ in range(rounds):
        before = [(member.epoch, member.has) for member in members]
        for member in members:
            member.beat()
            member.report()
        if before == [(member.epoch, member.has) for member in members]:
            return
    raise AssertionError("the members do not settle")


def partitions_of(members: Iterable[NewMember | ClassicMember]) -> list[tuple[str, int]]:
    return sorted((topic, one) for member in members for topic, numbers in member.has.items() for one in numbers)
