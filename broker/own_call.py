"""A request to a coordinator that has come from inside the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kohort.protocol.wire import Message

if TYPE_CHECKING:
    from kohort.broker.clock import Clock
    from kohort.coordinator.api import Api


class OwnCall:
    __slots__ = ("_answered", "api", "client_host", "client_id", "now", "steady_ms", "version")

    def __init__(self, clock: Clock, answered: Callable[[Any], object]) -> None:
        self.version = 0
        self.client_id = self.client_host = ""
        self.now, self.steady_ms = clock.now_ms(), clock.steady_ms()
        self.api: Api[Any, Any, Any]
        self._answered = answered

    def reply(self, response: Message) -> None:
        self._answered(response)
