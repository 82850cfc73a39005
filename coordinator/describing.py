"""What ConsumerGroupDescribe and ShareGroupDescribe have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from kohort.coordinator.group import NOT_ASKED
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.wire import Message

if TYPE_CHECKING:
    from kohort.coordinator.shard_state import ShardState

MEMBER_BYTES = 300  # of memory for a member, without its ids, topics and partitions
TOPIC_BYTES = 150
PARTITION_BYTES = 8
MAX_TOLD = 1_000  # characters of an id in a message: the answer must not be twice as long as the request

Numbers = TypeVar("Numbers", bound=Iterable[int])


class UnknownGroup(Message):
    """As much of a DescribedGroup as is encoded, in a part of the memory: a request may name 100,000 such groups."""

    __slots__ = ("_wanted", "group_id", "is_known")

    error_code = ErrorCode.GROUP_ID_NOT_FOUND
    group_state = assignor_name = ""
    group_epoch = assignment_epoch = 0
    members: Sequence[Message] = ()
    authorized_operations = NOT_ASKED

    def __init__(self, wanted: str, group_id: str, is_known: bool) -> None:
        self._wanted = wanted
        self.group_id = group_id
        self.is_known = is_known  # a group of another kind has this id

    @property
    def error_message(self) -> str:
        name = f"{self.group_id[:MAX_TOLD]}{'...' if len(self.group_id) > MAX_TOLD else ''}"
        return f"Group {name} {f'is not a {self._wanted}' if self.is_known else 'not found'}."


class TopicRow(Protocol):
    partitions: Sequence[int]


class MemberRow(Protocol):
    member_id: str
    client_id: str
    subscribed_topic_names: Sequence[str]


def topics_that_exist(shard: ShardState, partitions: Mapping[bytes, Numbers]) -> Iterator[tuple[bytes, str, Numbers]]:
    """Topics that do not exist any more are left out."""
    for topic_id, owned in partitions.items():
        name = shard.topics.name_of(topic_id)
        if name is not None:
            yield topic_id, name, owned


def member_bytes(member: MemberRow, topics: Sequence[TopicRow]) -> int:
    """About how much memory a described member with partitions of these topics takes."""
    names = sum(map(len, member.subscribed_topic_names))
    partitions = sum(TOPIC_BYTES + PARTITION_BYTES * len(topic.partitions) for topic in topics)
    return MEMBER_BYTES + len(member.member_id) + len(member.client_id) + names + partitions
