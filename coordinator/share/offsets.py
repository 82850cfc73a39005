"""The group's part in DescribeShareGroupOffsets (90), AlterShareGroupOffsets (91), DeleteShareGroupOffsets (92) and
DeleteGroups (42).

Start offsets are kept by the share coordinator. The group knows which partitions have a state there, and writes down
what is going to happen to these states before the share coordinator is asked. So each of these APIs asks the group for
its part, then the share coordinator, and then tells the group (broker/share/).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kohort.coordinator.api import GroupApi
from kohort.coordinator.assignors.server_side import TopicId
from kohort.coordinator.outcome import Call, Outcome
from kohort.coordinator.shard_state import ShardState
from kohort.coordinator.share.group import ShareGroup, find_share
from kohort.coordinator.share.initialization import begin, change, has_room, merged
from kohort.coordinator.share.records import PartitionStates, Ready, ReadyTopics
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from kohort.protocol.wire import Message

Places = Sequence[tuple[TopicId, int]]  # partitions with a state, or that shall have one


NOT_HERE = "This server does not host this topic-partition."


class AboutGroup(Message):
    """A question of the broker about one group."""

    __slots__ = ("group_id",)

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id


class PartOfGroup(Message):
    """What the group has to say."""

    __slots__ = ("error", "message", "places", "state_epoch", "unknown_topics")

    def __init__(
        self,
        error: ErrorCode = ErrorCode.NONE,
        message: str | None = None,
        places: Places = (),
        state_epoch: int = 0,
        unknown_topics: Mapping[str, str] | None = None,
    ) -> None:
        self.error = error
        self.message = message
        self.places = places  # of which the share coordinator shall be asked now
        self.state_epoch = state_epoch  # for states that are made anew
        self.unknown_topics = (
            unknown_topics or {}
        )  # topics that cannot be handled, and why: none of their offsets is known


class Refusal(NamedTuple):
    error: ErrorCode
    message: str

    def response(self) -> PartOfGroup:
        return PartOfGroup(self.error, self.message)


TOO_MANY = Refusal(
    ErrorCode.UNKNOWN_SERVER_ERROR, "The group would have more partitions than a record of the log can name."
)
NON_EMPTY = Refusal(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")


def _find(shard: ShardState, group_id: str) -> ShareGroup | Refusal:
    """The share group, if it has no members."""
    group = shard.groups.get(group_id)
    if group is None:
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(group, ShareGroup):
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
    return NON_EMPTY if group.members else group


def _places(topics: ReadyTopics) -> Places:
    return [(topic_id, partition) for topic_id, topic in topics.items() for partition in topic.partitions]


def _answer(shard: ShardState, group: ShareGroup, states: PartitionStates, call: Call, answer: PartOfGroup) -> Outcome:
    return Outcome([change(shard, group, states)], [(call, answer)])


# --- DescribeShareGroupOffsets


def initialized_partitions(shard: ShardState, request: AboutGroup, call: Call) -> PartOfGroup:
    """All partitions whose state is initialized; of a group that does not exist there are none."""
    group = find_share(shard, request.group_id)
    return PartOfGroup(places=() if group is None else _places(group.states.initialized))


# --- AlterShareGroupOffsets


class StartsAltered(Message):
    """These partitions, which exist, shall have states that begin somewhere else."""

    __slots__ = ("group_id", "topics")

    def __init__(self, group_id: str, topics: Mapping[TopicId, Ready]) -> None:
        self.group_id = group_id
        self.topics = topics


def alter_offsets(shard: ShardState, request: StartsAltered, call: Call) -> PartOfGroup | Outcome:
    """The partitions are being initialized anew from now on. A group that does not exist is created."""
    found = _find(shard, request.group_id)
    if isinstance(found, Refusal):
        if request.group_id in shard.groups:
            return found.response()
        found = ShareGroup(request.group_id)
    topics = request.topics
    if not topics:
        return PartOfGroup()
    if not has_room(shard, found, topics):
        return TOO_MANY.response()
    if shard.groups.get(request.group_id) is not found:
        shard.replace(found)
    answer = PartOfGroup(places=_places(topics), state_epoch=found.epoch)
    return Outcome([begin(shard, found, topics)], [(call, answer)])


# --- DeleteShareGroupOffsets


def begin_deletion(shard: ShardState, request: DeleteShareGroupOffsetsRequest, call: Call) -> PartOfGroup | Outcome:
    """The initialized partitions of these topics are being deleted from now on."""
    group = _find(shard, request.group_id)
    if isinstance(group, Refusal):
        return group.response()
    states, topics = group.states, shard.topics
    initialized, deleting = dict(states.initialized), dict(states.deleting)
    places: list[tuple[TopicId, int]] = []
    unknown: dict[str, str] = {}
    for name in dict.fromkeys(topic.topic_name for topic in request.topics):
        topic_id = topics.topic_id(name)
        if topic_id is None:
            unknown[name] = NOT_HERE
        elif topic_id in initialized:
            places += ((topic_id, partition) for partition in initialized.pop(topic_id).partitions)
            deleting[topic_id] = name
        elif topic_id in deleting:  # an earlier deletion was not completed
            places += ((topic_id, partition) for partition in range(topics.partition_count(name)))
        else:
            unknown[name] = "There is no offset information to delete."
    answer = PartOfGroup(places=places, unknown_topics=unknown)
    if not places:
        return answer
    return _answer(shard, group, PartitionStates(states.initializing, initialized, deleting), call, answer)


class TopicsDeleted(Message):
    """The share coordinator has no states of these topics any more."""

    __slots__ = ("group_id", "topic_ids")

    def __init__(self, group_id: str, topic_ids: Sequence[TopicId]) -> None:
        self.group_id = group_id
        self.topic_ids = topic_ids


def complete_deletion(shard: ShardState, request: TopicsDeleted, call: Call) -> PartOfGroup | Outcome:
    group = find_share(shard, request.group_id)
    if group is None or not any(topic_id in group.states.deleting for topic_id in request.topic_ids):
        return PartOfGroup()
    left = {topic_id: name for topic_id, name in group.states.deleting.items() if topic_id not in request.topic_ids}
    return _answer(shard, group, group.states._replace(deleting=left), call, PartOfGroup())


# --- DeleteGroups


def begin_group_deletion(shard: ShardState, request: AboutGroup, call: Call) -> PartOfGroup | Outcome:
    """All states of the group are being deleted from now on. A group that is no share group has no such states."""
    group = _find(shard, request.group_id)
    if isinstance(group, Refusal):
        return PartOfGroup(ErrorCode.NON_EMPTY_GROUP if group is NON_EMPTY else ErrorCode.NONE)
    states, topics = group.states, shard.topics
    gone = merged(states.initialized, states.initializing)
    not_completed = {
        topic_id: Ready(name, tuple(range(topics.partition_count(name))))
        for topic_id in states.deleting
        if (name := topics.name_of(topic_id)) is not None
    }
    gone = merged(gone, not_completed)
    answer = PartOfGroup(places=_places(gone))
    if not answer.places:
        return answer
    deleting = {topic_id: topic.name for topic_id, topic in gone.items()}
    return _answer(shard, group, PartitionStates({}, {}, deleting), call, answer)


def unavailable(shard: ShardState, request: Message, call: Call, error: ErrorCode) -> PartOfGroup:
    return PartOfGroup(error)


def failed(response: PartOfGroup, version: int, error: ErrorCode) -> PartOfGroup:
    return PartOfGroup(error)


INITIALIZED_PARTITIONS = GroupApi(initialized_partitions, unavailable, failed)
ALTER_OFFSETS = GroupApi(alter_offsets, unavailable, failed)
BEGIN_DELETION = GroupApi(begin_deletion, unavailable, failed)
COMPLETE_DELETION = GroupApi(complete_deletion, unavailable, failed)
BEGIN_GROUP_DELETION = GroupApi(begin_group_deletion, unavailable, failed)
