"""One request in progress: whose it is, which API and version, and how it is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kohort.coordinator.outcome import PARKED, Parked
from kohort.protocol.errors_in import ERROR_FIELDS
from kohort.protocol.wire import Message

if TYPE_CHECKING:
    from kohort.broker.api_table import Route
    from kohort.broker.connection import Connection
    from kohort.broker.steps import Steps
    from kohort.coordinator.api import Api


__all__ = ["NO_ANSWER", "PARKED", "Call", "NoAnswer", "Parked"]


class NoAnswer:
    def __repr__(self) -> str:
        return "NO_ANSWER"


NO_ANSWER = NoAnswer()  # the client gets no answer: Produce with acks=0, or the connection was closed


class Call:
    """One request in progress. A handler that cannot answer yet keeps the call, returns PARKED, and calls `reply`
    later.
    """

    __slots__ = (
        "_connection",
        "api",
        "client_id",
        "correlation_id",
        "is_long",
        "listener_index",
        "now",
        "route",
        "started_ns",
        "steady_ms",
        "version",
    )

    def __init__(self, connection: Connection, route: Route, client_id: str) -> None:
        """The connection sets the attributes without a value. It uses the call again for a request that recurs."""
        self._connection = connection
        self.route = route
        self.version = route.version
        self.client_id = client_id
        self.listener_index = connection.listener_index
        # The request or its answer has more than ELEMENTS_AT_ONCE elements, or takes several slices (broker.steps).
        self.is_long = False
        self.correlation_id: int
        self.now: int  # wall time, milliseconds since 1970
        self.steady_ms: int  # the steady clock, for deadlines
        self.api: Api[Any, Any, Any]  # of a request to a coordinator, whose runtime sets it
        self.started_ns: int  # on the steady clock

    @property
    def connection(self) -> Connection:
        return self._connection

    @property
    def client_host(self) -> str:
        """The client's address as Kafka shows it: /127.0.0.1."""
        return self._connection.client_host

    @property
    def is_gone(self) -> bool:
        """The connection is closed: nobody waits for the answer."""
        return self._connection.is_closed

    def reply(self, response: Message | bytes) -> None:
        """Answer a parked request. A thread encodes the answer to a long one."""
        if self.is_long and not isinstance(response, bytes):
            self._connection.answer_long(self, response)
        else:
            self._connection.answer_parked(self, response)

    def reply_in_steps(self, steps: Steps[Message]) -> None:
        """Answer a parked request with what the steps return: see broker.steps."""
        self._connection.answer_in_steps(self, steps)

    def fail(self, problem: Exception) -> None:
        """Answering a parked request raised `problem`: tell the log and the client."""
        self._connection.fail_parked(self, problem)

    def keep(self, name: str, drop: Callable[[], object]) -> None:
        """The handler keeps something for this client. When the connection closes, `drop` is called."""
        self._connection.kept[name] = drop

    def forget(self, name: str) -> None:
        """What was kept under this name is gone."""
        self._connection.kept.pop(name, None)

    def let_go(self, name: str) -> None:
        """Drop what is kept under this name, if there is something."""
        if (drop := self._connection.kept.pop(name, None)) is not None:
            drop()

    def reply_long(self, response: Message) -> None:
        """Answer a parked request with a large response: a thread encodes it."""
        self._connection.answer_long(self, response)

    def __str__(self) -> str:
        return str(self._connection)

    def hang_up(self, reason: str) -> None:
        """Close the client's connection. Nothing else tells a producer with acks=0 that something is wrong."""
        self._connection.close(reason)


def holds_error(message: Message) -> bool:
    """Whether an answer has an error code anywhere: at the top, or for one topic or partition."""
    for name in message.__slots__:
        value = getattr(message, name)
        if name in ERROR_FIELDS:
            if value:
                return True
        elif type(value) is list and value and isinstance(value[0], Message) and any(map(holds_error, value)):
            return True
    return False
