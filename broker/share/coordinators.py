"""Asks both coordinators: that of groups, which answers for one group, and the share coordinator, by partitions.

Both answer on the event loop. A request of a client waits for them in steps (broker/steps.py); if the client hangs up
meanwhile, what was asked is done all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

from kohort.broker.share.persister import SharePartitionKey
from kohort.broker.steps import Pause, WaitingSteps
from kohort.coordinator.outcome import Parked
from kohort.coordinator.share.initialization import STATES_INITIALIZED, StatesInitialized
from kohort.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.coordinator.api import Api, GroupApi, Request, Response
    from kohort.coordinator.events import InitializeStates
    from kohort.protocol.wire import Message

PARTITIONS_AT_ONCE = 100  # are asked for in one turn of the event loop

Place = tuple[bytes, int]  # id of the topic, partition
Problem = tuple[ErrorCode, "str | None"]  # an error and its message
Problems = dict[Place, Problem]  # of partitions for which the share coordinator has an error
Ask = Callable[[SharePartitionKey, "Callable[[ErrorCode, str | None], None]"], None]


class InternalCall:
    """A request of the broker itself to its coordinator of groups."""

    client_id = client_host = ""

    def __init__(self, broker: Broker, version: int = 0) -> None:
        self.version = version
        self.now, self.steady_ms = broker.clock.now_ms(), broker.clock.steady_ms()
        self.api: Api[Any, Any, Any]
        self._answer: Message
        self._waits = Pause()

    def reply(self, response: Message) -> None:
        self._answer = response
        self._waits.end()

    def wait_for(self, answer: Response | Parked) -> WaitingSteps[Response]:
        """The answer of the coordinator, now or later."""
        if not isinstance(answer, Parked):
            return answer
        yield self._waits
        return cast("Response", self._answer)


def ask_group(
    broker: Broker, group_id: str, api: GroupApi[Request, Response], request: Request
) -> WaitingSteps[Response]:
    call = InternalCall(broker)
    return (yield from call.wait_for(broker.coordinator.submit(group_id, api, request, call)))


class EachPartition:
    """One question to the share coordinator for each of these partitions. `waits` ends when all are answered."""

    def __init__(
        self, broker: Broker, group_id: str, places: Sequence[Place], ask: Ask, done: Callable[[Problems], None]
    ) -> None:
        self._broker = broker
        self._group_id = group_id
        self._places = places
        self._ask = ask
        self._done = done
        self._asked = 0
        self._left = len(places)
        self.problems: Problems = {}
        self.waits = Pause()
        self._ask_some()

    def _ask_some(self) -> None:
        some = self._places[self._asked : self._asked + PARTITIONS_AT_ONCE]
        self._asked += len(some)
        if self._asked < len(self._places):
            self._broker.call_soon(self._ask_some)
        for place in some:
            self._ask(SharePartitionKey(self._group_id, *place), lambda *answer, at=place: self._answered(at, *answer))

    def _answered(self, place: Place, error: ErrorCode, message: str | None) -> None:
        if error:
            self.problems[place] = error, message
        self._left -= 1
        if self._left == 0:
            self._broker.call_soon(self._end)  # not at once: the caller may still be asking about other partitions

    def _end(self) -> None:
        self._done(self.problems)
        self.waits.end()


def initialize(broker: Broker, event: InitializeStates) -> EachPartition:
    """Ask for states of these partitions, and tell the group. An error of one partition is one of all, as in Kafka."""
    starts = {(topic_id, partition): start for topic_id, partition, start in event.partitions}

    def ask(key: SharePartitionKey, done: Callable[[ErrorCode, str | None], None]) -> None:
        broker.share_state.initialize(key, event.state_epoch, starts[key.topic_id, key.partition], done)

    def tell(problems: Problems) -> None:
        partitions: dict[bytes, list[int]] = {}
        for topic_id, partition in starts:
            partitions.setdefault(topic_id, []).append(partition)
        error = next((error for error, _ in problems.values()), ErrorCode.NONE)
        in_order = {topic_id: tuple(sorted(some)) for topic_id, some in partitions.items()}
        request = StatesInitialized(event.group, in_order, error)
        broker.coordinator.submit(event.group, STATES_INITIALIZED, request, InternalCall(broker))

    return EachPartition(broker, event.group, list(starts), ask, tell)


def delete(broker: Broker, group_id: str, places: Sequence[Place]) -> EachPartition:
    return EachPartition(broker, group_id, places, broker.share_state.delete, _nothing_to_do)


def _nothing_to_do(problems: Problems) -> None:
    """The handler waits for the end of the EachPartition, and then reads its `problems`."""


def forget_deliveries(broker: Broker, group_id: str) -> None:
    """The group is gone: the leader of its partitions need not keep them in memory."""
    if (partitions := broker.extra.get("share_partitions")) is not None:
        partitions.forget_group(group_id)
