"""Words for tests of share groups: members that join, beat and leave, and a share coordinator that answers when told.

group = a_group()
assert group.join("m1") == Answer(2, {})
group.initialize()                                   # the share coordinator has made the states of all partitions
group.host.advance(1_000)
assert group.beat("m1", 2) == Answer(3, {"orders": [0, 1, 2]})
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kohort.coordinator.events import InitializeStates
from kohort.coordinator.outcome import PARKED
from kohort.coordinator.share.group import ShareGroup, find_share
from kohort.coordinator.share.initialization import STATES_INITIALIZED, StatesInitialized
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.log_records import SHARE_GROUP_RECORDS, decode_key, decode_value
from kohort.protocol.messages.share_group_describe import DescribedGroup, ShareGroupDescribeRequest
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.coordinator.support import Call, FakeTopics, Host


class Answer(NamedTuple):
    epoch: int
    assignment: dict[str, list[int]] | None


class NobodysCall:
    """A request of the host itself."""

    version = 0
    client_id = client_host = ""

    def __init__(self, host: Host) -> None:
        self.now, self.steady_ms = host.now, host.steady_ms
        self.api: Any
        self.answer: Any = None

    def reply(self, response: Any) -> None:
        self.answer = response


class Group:
    def __init__(self, host: Host, group_id: str = "work") -> None:
        self.host = host
        self.group_id = group_id

    def send(self, member_id: str, epoch: int, *, client_id: str = "client", **fields: Any) -> Call:
        return self.host.send(ShareGroupHeartbeatRequest(self.group_id, member_id, epoch, **fields), 1, client_id)

    def beat(self, member_id: str, epoch: int, **fields: Any) -> Answer | ErrorCode:
        return self.read(self.send(member_id, epoch, **fields))

    def join(self, member_id: str, topics: Sequence[str] = ("orders",), **fields: Any) -> Answer | ErrorCode:
        return self.beat(member_id, 0, subscribed_topic_names=topics, **fields)

    def leave(self, member_id: str) -> Answer | ErrorCode:
        return self.beat(member_id, -1)

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

    # --- the share coordinator

    @property
    def asked(self) -> list[InitializeStates]:
        """What the share coordinator was asked for, and has not answered yet."""
        return [each for each in self.host.events if isinstance(each, InitializeStates) and each.group == self.group_id]

    def asked_partitions(self) -> list[tuple[int, dict[str, list[int]]]]:
        """The state epoch and the partitions of each request that was not answered."""
        return [(each.state_epoch, self._by_name(each)) for each in self.asked]

    def _by_name(self, event: InitializeStates) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for topic_id, partition, _ in event.partitions:
            found.setdefault(self.host.topics.name_of(topic_id) or "?", []).append(partition)
        return found

    def initialize(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """The share coordinator answers everything that it was asked for."""
        for event in self.asked:
            self.host.events.remove(event)
            self.answer(event, error)

    def answer(self, event: InitializeStates, error: ErrorCode = ErrorCode.NONE) -> None:
        partitions: dict[bytes, list[int]] = {}
        for topic_id, partition, _ in event.partitions:
            partitions.setdefault(topic_id, []).append(partition)
        in_order = {topic_id: tuple(sorted(some)) for topic_id, some in partitions.items()}
        call = NobodysCall(self.host)
        answer = self.host.runtime.submit(
            event.group, STATES_INITIALIZED, StatesInitialized(event.group, in_order, error), call
        )
        if answer is not PARKED:
            call.reply(answer)
        self.host.settle()

    # --- looking

    def describe(self) -> DescribedGroup:
        (described,) = self.host.ask(ShareGroupDescribeRequest([self.group_id])).groups
        assert isinstance(described, DescribedGroup)
        return described

    def log(self, *, start: int = 0) -> list[tuple[int, Any, Any]]:
        """(type, key, value) of the group's durable records; `start`: without so many of the first ones."""
        found = []
        for record in self.host.log_of(self.group_id):
            assert record.key is not None
            kind, key = decode_key(record.key)
            if kind in SHARE_GROUP_RECORDS and key.group_id == self.group_id:
                found.append((kind, key, None if record.value is None else decode_value(kind, record.value)))
        return found[start:]

    def types(self, *, start: int = 0) -> list[int]:
        """The types of the group's durable records, negative for a tombstone."""
        return [kind if value is not None else -kind for kind, _, value in self.log(start=start)]

    @property
    def state(self) -> str:
        return self.describe().group_state

    @property
    def object(self) -> ShareGroup:
        found = find_share(self.host.state_of(self.group_id), self.group_id)
        assert found is not None
        return found


def a_group(partitions: int = 3, **settings: Any) -> Group:
    """A new group on a host with the topics `orders` and `payments`."""
    return Group(Host(topics=FakeTopics(orders=partitions, payments=2), **settings))


def with_members(*member_ids: str, partitions: int = 3, **settings: Any) -> Group:
    """A group whose partitions are initialized and assigned; all members are at its epoch."""
    group = a_group(partitions, **settings)
    for member_id in member_ids:
        group.join(member_id)
        group.initialize()
        next_target(group)
    for member_id in member_ids * 2:
        group.beat(member_id, group.object.members[member_id].epoch)
        group.host.advance(1_000)
    return group


def next_target(group: Group) -> None:
    """Wait until another target may be computed."""
    group.host.advance(1_000)
