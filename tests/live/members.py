"""Members of groups made of plain requests, all from one thread."""

from __future__ import annotations

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kohort.protocol.record_batch import build_batch
from tests.group_requests import assignment_bytes, subscription

LEAVE = -1
NAMED_COMMIT = 9  # the newest version of OffsetCommit that names topics
NAMED_PRODUCE = 12


def make_topic(client: Client, name: str, partitions: int) -> None:
    client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic(name, partitions, 1)]))


def produce(client: Client, topic: str, partition: int, count: int) -> None:
    records = build_batch([(None, b"x")] * count, timestamp=1_700_000_000_000)
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(partition, records)])]
    answer = client.send(ApiKey.PRODUCE, ProduceRequest(None, -1, 5_000, data), NAMED_PRODUCE)
    assert not answer.responses[0].partition_responses[0].error_code, answer


class Consumer:
    """A member of a group of KIP-848. Each `beat` says that it has what it was told to have."""

    def __init__(self, client: Client, group: str, member: str, topics: list[str], client_id: str = "") -> None:
        self.client, self.group, self.member = client, group, member
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}
        self._send(ConsumerGroupHeartbeatRequest(group, member, 0, None, None, 60_000, topics, None, None, []))

    def _send(self, request: ConsumerGroupHeartbeatRequest) -> None:
        answer: ConsumerGroupHeartbeatResponse = self.client.send(ApiKey.CONSUMER_GROUP_HEARTBEAT, request)
        assert not answer.error_code, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {each.topic_id: list(each.partitions) for each in answer.assignment.topic_partitions}

    def beat(self) -> None:
        owned = [TopicPartitions(topic, partitions) for topic, partitions in self.owned.items()]
        self._send(ConsumerGroupHeartbeatRequest(self.group, self.member, self.epoch, topic_partitions=owned))

    def leave(self) -> None:
        self._send(ConsumerGroupHeartbeatRequest(self.group, self.member, LEAVE))

    def commit(self, topic: str, offsets: dict[int, int]) -> None:
        commit(self.client, self.group, topic, offsets, self.member, self.epoch)


def settle(*members: Consumer, rounds: int = 6) -> None:
    for _ in range(rounds):
        for member in members:
            member.beat()


def commit(
    client: Client,
    group: str,
    topic: str,
    offsets: dict[int, int],
    member: str = "",
    epoch: int = -1,
    metadata: str = "",
) -> None:
    rows = [OffsetCommitRequestPartition(index, offset, -1, metadata) for index, offset in offsets.items()]
    request = OffsetCommitRequest(group, epoch, member, None, -1, [OffsetCommitRequestTopic(topic, partitions=rows)])
    client.send(ApiKey.OFFSET_COMMIT, request, NAMED_COMMIT)


class ShareMember:
    def __init__(self, client: Client, group: str, member: str, topics: list[str]) -> None:
        self.client, self.group, self.member = client, group, member
        self.epoch = 0
        self.assigned: list[tuple[bytes, int]] = []
        self._send(ShareGroupHeartbeatRequest(group, member, 0, None, topics))

    def _send(self, request: ShareGroupHeartbeatRequest) -> None:
        answer: ShareGroupHeartbeatResponse = self.client.send(ApiKey.SHARE_GROUP_HEARTBEAT, request)
        assert not answer.error_code, answer
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            self.assigned = [(each.topic_id, number) for each in topics for number in each.partitions]

    def beat(self) -> None:
        self._send(ShareGroupHeartbeatRequest(self.group, self.member, self.epoch))

    @property
    def topic_id(self) -> bytes:
        """Of the only topic of which it has partitions."""
        (topic_id,) = {each for each, _ in self.assigned}
        return topic_id

    def leave(self) -> None:
        self._send(ShareGroupHeartbeatRequest(self.group, self.member, -1))


class ClassicMember:
    """The only member of a classic group. The broker must not wait for others to join."""

    def __init__(
        self, client: Client, group: str, topics: dict[str, list[int]], *, instance: str | None = None
    ) -> None:
        self.client, self.group, self.instance = client, group, instance
        self.member = ""
        protocols = [JoinGroupRequestProtocol("range", subscription(*topics))]
        for _ in range(2):  # the first answer gives the member an id
            request = JoinGroupRequest(group, 60_000, 60_000, self.member, instance, "consumer", protocols)
            joined: JoinGroupResponse = client.send(ApiKey.JOIN_GROUP, request)
            self.member, self.generation = joined.member_id, joined.generation_id
            if not joined.error_code:
                break
        assigned = [SyncGroupRequestAssignment(self.member, assignment_bytes(topics))]
        sync = SyncGroupRequest(group, self.generation, self.member, instance, "consumer", "range", assigned)
        assert not client.send(ApiKey.SYNC_GROUP, sync).error_code

    def leave(self) -> None:
        client = self.client
        client.send(
            ApiKey.LEAVE_GROUP, LeaveGroupRequest(self.group, members=[MemberIdentity(self.member, self.instance)])
        )
