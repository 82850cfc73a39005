"""APIs 83 to 87, as brokers ask the share coordinator of another broker: each share partition is asked for on its own.

In a cluster without authorizer everybody may ask. A request without a group, without topics, or with a topic without
partitions gets an empty answer, as from Kafka. Before the first use of share groups there is no __share_group_state,
and nobody coordinates them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kohort.broker.steps import Pause, WaitingSteps
from kohort.broker.topics.catalog import SHARE_GROUP_STATE
from kohort.coordinator.delivery.states import StateBatch
from kohort.coordinator.share_state.delete_share_group_state import DELETE
from kohort.coordinator.share_state.initialize_share_group_state import INITIALIZE, InitializeAsked
from kohort.coordinator.share_state.keys import SharePartitionKey
from kohort.coordinator.share_state.partition_api import Asked, PartitionApi, Row, refused
from kohort.coordinator.share_state.read_share_group_state import READ, ReadAsked
from kohort.coordinator.share_state.read_share_group_state_summary import READ_SUMMARY
from kohort.coordinator.share_state.write_share_group_state import WRITE, WriteAsked
from kohort.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from kohort.protocol.wire import Message

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call

A = TypeVar("A", bound=Asked)
Topic = TypeVar("Topic", bound=Message)
LOWEST = -(2**31) - 1  # below every number


def initialize_states(
    broker: Broker,
    request: initialize_share_group_state.InitializeShareGroupStateRequest,
    call: Call,  # noqa: ARG001
) -> WaitingSteps[initialize_share_group_state.InitializeShareGroupStateResponse]:
    def asked(key: SharePartitionKey, each: initialize_share_group_state.PartitionData) -> InitializeAsked:
        return InitializeAsked(key, each.state_epoch, each.start_offset)

    def result(partition: int, row: Row) -> initialize_share_group_state.PartitionResult:
        return initialize_share_group_state.PartitionResult(partition, row.error, row.message)

    results = yield from _ask_all(
        broker, request, INITIALIZE, asked, result, initialize_share_group_state.InitializeStateResult
    )
    return initialize_share_group_state.InitializeShareGroupStateResponse(results)


def read_states(
    broker: Broker,
    request: read_share_group_state.ReadShareGroupStateRequest,
    call: Call,  # noqa: ARG001
) -> WaitingSteps[read_share_group_state.ReadShareGroupStateResponse]:
    def asked(key: SharePartitionKey, each: read_share_group_state.PartitionData) -> ReadAsked:
        return ReadAsked(key, each.leader_epoch)

    def result(partition: int, row: Row) -> read_share_group_state.PartitionResult:
        batches = [read_share_group_state.StateBatch(*batch) for batch in row.batches]
        return read_share_group_state.PartitionResult(
            partition, row.error, row.message, row.state_epoch, row.start_offset, batches
        )

    results = yield from _ask_all(broker, request, READ, asked, result, read_share_group_state.ReadStateResult)
    return read_share_group_state.ReadShareGroupStateResponse(results)


def write_states(
    broker: Broker,
    request: write_share_group_state.WriteShareGroupStateRequest,
    call: Call,  # noqa: ARG001
) -> WaitingSteps[write_share_group_state.WriteShareGroupStateResponse]:
    def asked(key: SharePartitionKey, each: write_share_group_state.PartitionData) -> WriteAsked:
        batches = [
            StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in each.state_batches
        ]
        return WriteAsked(
            key, each.state_epoch, each.leader_epoch, each.start_offset, each.delivery_complete_count, batches
        )

    def result(partition: int, row: Row) -> write_share_group_state.PartitionResult:
        return write_share_group_state.PartitionResult(partition, row.error, row.message)

    results = yield from _ask_all(broker, request, WRITE, asked, result, write_share_group_state.WriteStateResult)
    return write_share_group_state.WriteShareGroupStateResponse(results)


def delete_states(
    broker: Broker,
    request: delete_share_group_state.DeleteShareGroupStateRequest,
    call: Call,  # noqa: ARG001
) -> WaitingSteps[delete_share_group_state.DeleteShareGroupStateResponse]:
    def asked(key: SharePartitionKey, each: delete_share_group_state.PartitionData) -> Asked:  # noqa: ARG001
        return Asked(key)

    def result(partition: int, row: Row) -> delete_share_group_state.PartitionResult:
        return delete_share_group_state.PartitionResult(partition, row.error, row.message)

    results = yield from _ask_all(broker, request, DELETE, asked, result, delete_share_group_state.DeleteStateResult)
    return delete_share_group_state.DeleteShareGroupStateResponse(results)


def read_summaries(
    broker: Broker,
    request: read_share_group_state_summary.ReadShareGroupStateSummaryRequest,
    call: Call,  # noqa: ARG001
) -> WaitingSteps[read_share_group_state_summary.ReadShareGroupStateSummaryResponse]:
    def asked(key: SharePartitionKey, each: read_share_group_state_summary.PartitionData) -> ReadAsked:
        return ReadAsked(key, each.leader_epoch)

    def result(partition: int, row: Row) -> read_share_group_state_summary.PartitionResult:
        return read_share_group_state_summary.PartitionResult(
            partition, row.error, row.message, row.state_epoch, row.leader_epoch, row.start_offset,
            row.delivery_complete_count,
        )  # fmt: skip

    results = yield from _ask_all(
        broker, request, READ_SUMMARY, asked, result, read_share_group_state_summary.ReadStateSummaryResult
    )
    return read_share_group_state_summary.ReadShareGroupStateSummaryResponse(results)


# --- all of them


class TopicAnswers:
    """The results of one topic in the order of the request; a partition that has no answer yet has its number there.

    A partition that is named twice is answered once. Mostly each number is higher than those before it, so that nothing
    has to be looked up.
    """

    __slots__ = ("_highest", "_places", "results")

    def __init__(self) -> None:
        self.results: list[Any] = []
        self._highest = LOWEST
        self._places: dict[int, int] | None = None  # by partition

    def place_of(self, partition: int) -> int:
        if partition > self._highest:
            self._highest = partition
        else:
            if self._places is None:
                numbers = (each if isinstance(each, int) else each.partition for each in self.results)
                self._places = {number: place for place, number in enumerate(numbers)}
            if (known := self._places.get(partition)) is not None:
                return known
        if self._places is not None:
            self._places[partition] = len(self.results)
        self.results.append(partition)
        return len(self.results) - 1


class Answers:
    """The results that have come, and a pause until the last of them."""

    def __init__(self, result: Callable[[int, Row], Message]) -> None:
        self.topics: dict[bytes, TopicAnswers] = {}
        self.all_are_here = Pause()
        self._result = result
        self._missing = 1  # one more than was asked, so that early answers do not end the pause

    def expect(self, key: SharePartitionKey) -> Callable[[Row], None]:
        """The function to be called with the row of this share partition."""
        self._missing += 1
        topic = self.topics.get(key.topic_id)
        if topic is None:
            topic = self.topics[key.topic_id] = TopicAnswers()
        place, results = topic.place_of(key.partition), topic.results

        def answered(row: Row) -> None:
            results[place] = self._result(key.partition, row)
            self.one_less()

        return answered

    def one_less(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            self.all_are_here.end()


def _ask_all(
    broker: Broker,
    request: Any,
    api: PartitionApi[A],
    asked: Callable[[SharePartitionKey, Any], A],
    result: Callable[[int, Row], Message],
    of_topic: Callable[[bytes, Sequence[Any]], Topic],
) -> WaitingSteps[list[Topic]]:
    if not request.group_id:
        return []
    for topic in request.topics:
        if not topic.partitions:
            return []
        yield None
    answers = Answers(result)
    is_coordinated = broker.catalog.get(SHARE_GROUP_STATE) is not None
    for topic in request.topics:
        for each in topic.partitions:
            key = SharePartitionKey(request.group_id, topic.topic_id, each.partition)
            if is_coordinated:
                broker.share_coordinator.ask(api, asked(key, each), answers.expect(key), is_rare=True)
            else:
                answers.expect(key)(refused(api))
            yield None
    answers.one_less()
    if not answers.all_are_here.is_over:
        yield answers.all_are_here
    topics = []
    for topic_id, found in answers.topics.items():
        topics.append(of_topic(topic_id, found.results))
        yield None
    return topics
