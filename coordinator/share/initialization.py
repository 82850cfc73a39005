"""Share partitions get a state with the share coordinator before anybody reads them.

    nothing  ->  initializing  ->  initialized  ->  deleting  ->  nothing

A heartbeat finds partitions of wanted topics that are not initialized, and writes down that they are initializing. When
that is durable, the host asks the share coordinator for their states (the event InitializeStates) and brings back the
answer as a request (StatesInitialized). If the answer is lost, a later heartbeat asks again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kohort.coordinator.api import GroupApi
from kohort.coordinator.assignors.server_side import TopicId
from kohort.coordinator.events import InitializeStates
from kohort.coordinator.outcome import Call, Outcome, Record
from kohort.coordinator.shard_state import ShardState
from kohort.coordinator.share.group import ShareGroup, find_share
from kohort.coordinator.share.records import PartitionStates, Ready, ReadyTopics, states_record
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.wire import Message

MAX_TOPICS = 1_000  # that a group wants: one record names all that are initialized, and is written anew each time
DEFAULT_START = -1  # where to start is decided by share.auto.offset.reset when the partition is first read
TOPIC_BYTES, PARTITION_BYTES = 30, 4  # of a topic and a partition in the record; the name comes on top

Partitions = Mapping[TopicId, tuple[int, ...]]  # sorted


def missing(shard: ShardState, group: ShareGroup, names: Iterable[str]) -> dict[TopicId, Ready]:
    """The partitions of these topics that are neither initialized nor being initialized.

    An initialization that takes too long is begun again, and so is one from before a restart of the broker.
    """
    states, since, topics = group.states, group.initializing_since, shard.topics
    age_ms = -1 if since is None else shard.clock.wall - since
    is_fresh = 0 <= age_ms < shard.config.share_initialize_retry_interval_ms
    room = shard.config.max_message_bytes - _size(states.initializing) - _size(states.initialized)
    found: dict[TopicId, Ready] = {}
    for name in names:
        topic_id, count = topics.topic_id(name), topics.partition_count(name)
        if topic_id is None:
            continue
        known = set(_partitions_of(states.initialized, topic_id))
        if is_fresh:
            known.update(_partitions_of(states.initializing, topic_id))
        if len(known) < count:
            topic = Ready(name, tuple(each for each in range(count) if each not in known))
            room -= _size({topic_id: topic})
            if room < 0:
                break  # one record names all partitions of the group, and must fit into a batch of the log
            found[topic_id] = topic
    return found


def has_room(shard: ShardState, group: ShareGroup, topics: ReadyTopics) -> bool:
    """Whether one record can name these topics as well as those that it names already."""
    named = merged(group.states.initializing, topics)
    size = _size(named) + _size(group.states.initialized)
    return size <= shard.config.max_message_bytes and len(named) + len(group.states.initialized) <= 2 * MAX_TOPICS


def _partitions_of(topics: ReadyTopics, topic_id: TopicId) -> Sequence[int]:
    return topics[topic_id].partitions if topic_id in topics else ()


def _size(topics: ReadyTopics) -> int:
    """About how many bytes of a record these topics take."""
    return sum(TOPIC_BYTES + 4 * len(topic.name) + PARTITION_BYTES * len(topic.partitions) for topic in topics.values())


def begin(shard: ShardState, group: ShareGroup, topics: ReadyTopics) -> Record:
    """The record that says that these partitions are being initialized from now on."""
    states = group.states
    initializing = merged(states.initializing, topics)
    deleting = {topic_id: name for topic_id, name in states.deleting.items() if topic_id not in initializing}
    return change(shard, group, PartitionStates(initializing, states.initialized, deleting))


def change(shard: ShardState, group: ShareGroup, states: PartitionStates) -> Record:
    """The record that says what these states are now. Topics that are gone are left out."""
    group.initializing_since = shard.clock.wall
    initializing = {each: topic for each, topic in states.initializing.items() if _exists(shard, each)}
    initialized = {each: topic for each, topic in states.initialized.items() if _exists(shard, each)}
    return states_record(group.group_id, PartitionStates(initializing, initialized, states.deleting))


def _exists(shard: ShardState, topic_id: TopicId) -> bool:
    return shard.topics.name_of(topic_id) is not None


def request_of(group_id: str, state_epoch: int, topics: ReadyTopics) -> InitializeStates:
    """The event by which the host asks the share coordinator."""
    partitions = [(topic_id, each) for topic_id, topic in topics.items() for each in topic.partitions]
    return InitializeStates(group_id, state_epoch, [(*each, DEFAULT_START) for each in partitions])


def merged(one: ReadyTopics, other: ReadyTopics) -> ReadyTopics:
    both = dict(one)
    for topic_id, topic in other.items():
        known = one.get(topic_id)
        if known is not None and known.partitions != topic.partitions:
            topic = Ready(topic.name, tuple(sorted({*known.partitions, *topic.partitions})))
        both[topic_id] = topic
    return both


def without(topics: ReadyTopics, partitions: Partitions) -> ReadyTopics:
    left = {}
    for topic_id, topic in topics.items():
        gone = partitions.get(topic_id, ())
        if not gone:
            left[topic_id] = topic
        elif gone != topic.partitions and (rest := set(topic.partitions).difference(gone)):
            left[topic_id] = Ready(topic.name, tuple(sorted(rest)))
    return left


class StatesInitialized(Message):
    """What the share coordinator has answered. An error of one partition is one of all, as in Kafka."""

    __slots__ = ("error", "group_id", "partitions")

    def __init__(self, group_id: str, partitions: Partitions, error: ErrorCode) -> None:
        self.group_id = group_id
        self.partitions = partitions
        self.error = error


class Noted(Message):
    """The answer to a request of the host."""

    __slots__ = ("error",)

    def __init__(self, error: ErrorCode = ErrorCode.NONE) -> None:
        self.error = error


def states_initialized(shard: ShardState, request: StatesInitialized, call: Call) -> Noted | Outcome:
    group = find_share(shard, request.group_id)
    if group is None:
        return Noted()
    states = group.states
    asked = {
        topic_id: topic
        if partitions == topic.partitions
        else Ready(topic.name, tuple(sorted(set(topic.partitions).intersection(partitions))))
        for topic_id, partitions in request.partitions.items()
        if (topic := states.initializing.get(topic_id)) is not None
    }
    if not asked:
        return Noted()  # topic or group were deleted meanwhile
    initializing = without(states.initializing, request.partitions)
    initialized = states.initialized if request.error else merged(states.initialized, asked)
    record = change(shard, group, PartitionStates(initializing, initialized, states.deleting))
    return Outcome([record], [(call, Noted())])


def unavailable(shard: ShardState, request: Message, call: Call, error: ErrorCode) -> Noted:
    return Noted(error)


def failed(response: Noted, version: int, error: ErrorCode) -> Noted:
    return Noted(error)


STATES_INITIALIZED = GroupApi(states_initialized, unavailable, failed)
