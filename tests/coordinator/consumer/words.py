"""Words for tests of consumer groups: members that join, beat and leave.

group = Group(Host())
assert group.join("m1") == Answer(2, {"orders": [0, 1, 2]})
assert group.beat("m1", 2) == Answer(2, None)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kohort.coordinator.consumer.group import ConsumerGroup, find_consumer
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.log_records import CONSUMER_GROUP_RECORDS, decode_key, decode_value
from kohort.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.coordinator.members import ids_on
from tests.coordinator.support import Call, FakeTopics, Host
from tests.group_requests import Partitions, owned_rows


class Answer(NamedTuple):
    epoch: int
    assignment: dict[str, list[int]] | None


class Group:
    def __init__(self, host: Host, group_id: str = "billing") -> None:
        self.host = host
        self.group_id = group_id

    def send(
        self, member_id: str, epoch: int, owned: Partitions | None = None, version: int = 1, **fields: Any
    ) -> Call:
        partitions = None if owned is None else owned_rows(owned, ids_on(self.host))
        request = ConsumerGroupHeartbeatRequest(self.group_id, member_id, epoch, topic_partitions=partitions)
        request.rebalance_timeout_ms = -1
        request.subscribed_topic_names = request.subscribed_topic_regex = request.server_assignor = None
        request.instance_id = request.rack_id = None
        for name, value in fields.items():
            setattr(request, name, value)
        return self.host.send(request, version)

    def beat(self, member_id: str, epoch: int, owned: Partitions | None = None, **fields: Any) -> Answer | ErrorCode:
        return self.read(self.send(member_id, epoch, owned, **fields))

    def join(self, member_id: str, topics: Sequence[str] | None = ("orders",), **fields: Any) -> Answer | ErrorCode:
        fields.setdefault("rebalance_timeout_ms", 60_000)
        return self.beat(member_id, 0, {}, subscribed_topic_names=topics, **fields)

    def leave(self, member_id: str, epoch: int = -1, **fields: Any) -> Answer | ErrorCode:
        return self.beat(member_id, epoch, **fields)

    def read(self, call: Call) -> Answer | ErrorCode:
        answer = call.answer
        if answer.error_code:
            return ErrorCode(answer.error_code)
        if answer.assignment is None:
            return Answer(answer.member_epoch, None)
        by_name = {
            self.host.topics.name_of(each.topic_id) or "?": list(each.partitions)
            for each in answer.assignment.topic_partitions
        }
        return Answer(answer.member_epoch, by_name)

    def describe(self, version: int = 1) -> DescribedGroup:
        (described,) = self.host.ask(ConsumerGroupDescribeRequest([self.group_id]), version).groups
        assert isinstance(described, DescribedGroup)
        return described

    def log(self, *, start: int = 0) -> list[tuple[int, Any, Any]]:
        """(type, key, value) of the group's durable records; `start`: without so many of the first ones."""
        found = []
        for record in self.host.log_of(self.group_id):
            assert record.key is not None
            kind, key = decode_key(record.key)
            if kind in CONSUMER_GROUP_RECORDS and key.group_id == self.group_id:
                found.append((kind, key, None if record.value is None else decode_value(kind, record.value)))
        return found[start:]

    def types(self, *, start: int = 0) -> list[tuple[int, bool]]:
        """(type, whether it is no tombstone) of the group's durable records."""
        return [(kind, value is not None) for kind, _, value in self.log(start=start)]

    @property
    def state(self) -> str:
        return self.describe().group_state

    @property
    def object(self) -> ConsumerGroup:
        found = find_consumer(self.host.state_of(self.group_id), self.group_id)
        assert found is not None
        return found


def a_group(partitions: int = 3, **settings: Any) -> Group:
    """A new group on a host with the topic `orders`. Targets are computed at once, unless a test says otherwise."""
    return Group(Host(topics=FakeTopics(orders=partitions, payments=2), **settings))


def next_target(group: Group) -> None:
    """Wait until another target may be computed."""
    group.host.advance(1_000)
