"""Connections of simulated clients: TCP keeps the order within one connection, and promises nothing beyond it.

A client sends one request after the other. A client that waits for too long gives its connection up, makes another one,
and sends its request again. What was on its way in the old one may still arrive: at once, much later, or never.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from kohort.protocol.api_keys import APIS
from kohort.protocol.codec import request_encoder
from tests.simulation.machine import Machine

KEY_OF_NAME = {api.name: api.key for api in APIS.values()}


class Sent(NamedTuple):
    """A request on its way, as bytes."""

    api_key: int
    version: int
    body: bytes


class Connection:
    """Both ends of it. The broker asks it what it asks the connection of a `Call`."""

    peer = ("10.0.0.7", 50_000)
    listener_index = 0
    last_active = 0.0

    def __init__(self, client_id: str, *, is_long: bool) -> None:
        self.client_id = client_id
        self.is_long = is_long  # requests are handled as if they had very many elements
        self.on_the_way: deque[Sent] = deque()
        self.is_busy = False  # the broker handles a request
        self.is_closed = False
        self.kept: dict[str, Callable[[], object]] = {}
        self.answer: Any = None  # that the client has not read yet

    # --- the client's end

    def send(self, request: Any, version: int) -> None:
        key = KEY_OF_NAME[type(request).__name__.removesuffix("Request")]
        body = request_encoder(key, version)(request)
        self.on_the_way.append(Sent(key, version, b"".join(body) if isinstance(body, list) else body))

    def take_answer(self) -> Any:
        answer, self.answer = self.answer, None
        return answer

    def close(self, reason: str = "") -> None:
        self.is_closed = True
        for drop in list(self.kept.values()):
            drop()

    # --- in between

    def deliver(self, machine: Machine) -> bool:
        """The next request arrives at the broker, if it reads it."""
        if self.is_busy or not self.on_the_way:
            return False
        self.is_busy = True
        machine.serve(self, *self.on_the_way.popleft())
        return True

    # --- the broker's end

    def answered(self, response: Any) -> None:
        assert self.is_busy, f"a second answer: {response!r}"
        self.is_busy = False
        self.answer = response

    def answer_parked(self, call: Any, response: Any) -> None:
        from tests.broker.broker_box import through_the_wire

        self.answered(through_the_wire(call.route, response))

    answer_long = answer_parked

    def fail_parked(self, call: Any, problem: Exception) -> None:
        raise AssertionError(f"the broker cannot answer {call.route.name}: {problem!r}") from problem
