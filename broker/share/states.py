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
    from kohort.broker.share.state_host import ShareStateHost

A = TypeVar("A", bound=Asked)
Rows = dict[bytes, dict[int, Row]]  # by topic id and partition; named twice, a partition is answered once


def initialize_states(
    broker: Broker,
    request: initialize_share_group_state.InitializeShareGroupStateRequest,
    call: Call,  # noqa: ARG001
) -> WaitingSteps[initialize_share_group_state.InitializeShareGroupStateResponse]:
    def asked(key: SharePartitionKey, each: initialize_share_group_state.PartitionData) -> InitializeAsked:
        return InitializeAsked(key, each.state_epoch, each.start_offset)

    def result(partition: int, row: Row) -> initialize_share_group_state.PartitionResult:
        return initialize_share_group_state.PartitionResult(partition, row.error, row.message)

    rows = yield from _ask_all(broker, request, INITIALIZE, asked)
    results = yield from _results(rows, result, initialize_share_group_state.InitializeStateResult)
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

    rows = yield from _ask_all(broker, request, READ, asked)
    results = yield from _results(rows, result, read_share_group_state.ReadStateResult)
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

    rows = yield from _ask_all(broker, request, WRITE, asked)
    results = yield from _results(rows, result, write_share_group_state.WriteStateResult)
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

    rows = yield from _ask_all(broker, request, DELETE, asked)
    results = yield from _results(rows, result, delete_share_group_state.DeleteStateResult)
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

    rows = yield from _ask_all(broker, request, READ_SUMMARY, asked)
    results = yield from _results(rows, result, read_share_group_state_summary.ReadStateSummaryResult)
    return read_share_group_state_summary.ReadShareGroupStateSummaryResponse(results)


# --- all of them


class Answers:
    """The rows that have come, and a pause until the last of them."""

    def __init__(self) -> None:
        self.rows: Rows = {}
        self.all_are_here = Pause()
        self._missing = 1  # one more, until everything was asked

    def ask(self, host: ShareStateHost, api: PartitionApi[A], asked: A) -> None:
        self._missing += 1
        rows = self.rows.setdefault(asked.key.topic_id, {})
        rows.setdefault(asked.key.partition, Row())  # in the order of the request; it is replaced by the answer

        def answered(row: Row) -> None:
            rows[asked.key.partition] = row
            self.one_less()

        host.ask(api, asked, answered)

    def one_less(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            self.all_are_here.end()


def _ask_all(
    broker: Broker, request: Any, api: PartitionApi[A], asked: Callable[[SharePartitionKey, Any], A]
) -> WaitingSteps[Rows]:
    answers = Answers()
    if not request.group_id:
        return answers.rows
    for topic in request.topics:
        if not topic.partitions:
            return answers.rows
        yield None
    is_coordinated = broker.catalog.get(SHARE_GROUP_STATE) is not None
    for topic in request.topics:
        for each in topic.partitions:
            key = SharePartitionKey(request.group_id, topic.topic_id, each.partition)
            if is_coordinated:
                answers.ask(broker.share_coordinator, api, asked(key, each))
            else:
                answers.rows.setdefault(key.topic_id, {})[key.partition] = refused(api)
            yield None
    answers.one_less()
    if not answers.all_are_here.is_over:
        yield answers.all_are_here
    return answers.rows


Result = TypeVar("Result", bound=Message)
Topic = TypeVar("Topic", bound=Message)


def _results(
    rows: Rows, result: Callable[[int, Row], Result], of_topic: Callable[[bytes, Sequence[Result]], Topic]
) -> WaitingSteps[list[Topic]]:
    topics = []
    for topic_id, partitions in rows.items():
        results = []
        for partition, row in partitions.items():
            results.append(result(partition, row))
            yield None
        topics.append(of_topic(topic_id, results))
    return topics
