"""Carries the wishes of share groups to the share coordinator, and its answers back to the groups.

A group that wants states for partitions says so in an event, once that is durable in its log. Each partition is asked
for on its own. When all have been answered, the group is told; the coordinator of groups does not wait for it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kohort.broker.share.persister import SharePartitionKey
from kohort.coordinator.events import InitializeStates
from kohort.coordinator.share.initialization import STATES_INITIALIZED, StatesInitialized
from kohort.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.coordinator.api import GroupApi
    from kohort.protocol.wire import Message

PARTITIONS_AT_ONCE = 100  # are asked for in one turn of the event loop


class InternalCall:
    """A request of the broker itself to its coordinator. `answer` is set when it has been answered."""

    version = 0
    client_id = client_host = ""

    def __init__(self, broker: Broker) -> None:
        self.now, self.steady_ms = broker.clock.now_ms(), broker.clock.steady_ms()
        self.api: GroupApi[Any, Any]
        self.answer: Message | None = None

    def reply(self, response: Message) -> None:
        self.answer = response


class Initialization:
    """One wish of one group."""

    def __init__(self, broker: Broker, event: InitializeStates) -> None:
        self._broker = broker
        self._event = event
        self._asked = 0
        self._left = len(event.partitions)  # to be answered
        self._error = ErrorCode.NONE  # the first one

    def ask(self) -> None:
        event = self._event
        some = event.partitions[self._asked : self._asked + PARTITIONS_AT_ONCE]
        self._asked += len(some)
        if self._asked < len(event.partitions):
            self._broker.call_soon(self.ask)
        for topic_id, partition, start_offset in some:
            key = SharePartitionKey(event.group, topic_id, partition)
            self._broker.share_state.initialize(key, event.state_epoch, start_offset, self._answered)

    def _answered(self, error: ErrorCode, _message: str | None) -> None:
        self._left -= 1
        self._error = self._error or error
        if self._left == 0:
            # Not at once: the group's own request may still be on the stack.
            self._broker.call_soon(partial(tell_group, self._broker, self._event, self._error))


def tell_group(broker: Broker, event: InitializeStates, error: ErrorCode) -> None:
    partitions: dict[bytes, list[int]] = {}
    for topic_id, partition, _ in event.partitions:
        partitions.setdefault(topic_id, []).append(partition)
    request = StatesInitialized(event.group, partitions, error)
    broker.coordinator.submit(event.group, STATES_INITIALIZED, request, InternalCall(broker))
