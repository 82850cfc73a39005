"""`--log-level debug`: a line in the log for each request.

    request api=Heartbeat version=4 client_id='billing-1' client=127.0.0.1:53210 correlation_id=7
            error=NONE duration_ms=0.041

The line is written just before the answer leaves. The duration is the time from reading the request to that moment; for
a JoinGroup that waits for others, it includes the wait. The error is NONE, or all errors in the answer, each once.

Whether requests are logged is decided when the server starts: it makes LoggedConnections or plain Connections. So
requests that are not logged cost nothing more.
"""

from __future__ import annotations

import logging
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from kohort.broker.call import NO_ANSWER, Call, NoAnswer
from kohort.broker.connection import Connection
from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.codec import response_decoder
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors_in import errors_in
from kohort.protocol.wire import Message

if TYPE_CHECKING:
    from kohort.broker.api_table import Route
    from kohort.broker.recurring import RecurringHeartbeats
    from kohort.broker.server import Server

logger = logging.getLogger("kohort.request")

# Clients choose their ids: %r writes line breaks and the like as escapes, so that an id cannot forge a line.
LINE = "request api=%s version=%d client_id=%r client=%s correlation_id=%d error=%s duration_ms=%.3f"
NONE = "NONE"
NOT_ANSWERED = "NOT_ANSWERED"  # Produce with acks=0


class LoggedConnection(Connection):
    __slots__ = ("_request_began_ns",)

    def __init__(self, server: Server, listener_index: int) -> None:
        super().__init__(server, listener_index)
        self._request_began_ns = 0

    def _handle(self, frame: bytes, pos: int, kind: int, correlation_id: int, decoded: Message | None = None) -> None:
        if decoded is None:
            self._request_began_ns = perf_counter_ns()  # a connection handles one request at a time
        super()._handle(frame, pos, kind, correlation_id, decoded)

    def _begin_to_beat(self, heartbeats: RecurringHeartbeats, response: Any) -> None:
        """Do nothing: the quick path for heartbeats answers them without a call of `_answer`, which logs."""

    def _answer(self, call: Call, route: Route, response: Any) -> None:
        self._log(route.name, route.version, call.correlation_id, error_of(route, response))
        super()._answer(call, route, response)

    def answer_long(self, call: Call, response: Message | NoAnswer) -> None:
        """Encode on the event loop: `_answer` logs the errors in the response."""
        self.answer_parked(call, response)

    def _answer_unknown_api_versions(self, version: int, correlation_id: int) -> None:
        error = ErrorCode.UNSUPPORTED_VERSION.name
        self._log(APIS[ApiKey.API_VERSIONS].name, version, correlation_id, error)
        super()._answer_unknown_api_versions(version, correlation_id)

    def _log(self, api: str, version: int, correlation_id: int, error: str) -> None:
        host, port = self.peer
        fields = {
            "api": api,
            "version": version,
            "client_id": self._client_id,
            "client": f"{host}:{port}",
            "correlation_id": correlation_id,
            "error": error,
            "duration_ms": (perf_counter_ns() - self._request_began_ns) / 1_000_000,
        }
        logger.debug(LINE, *fields.values(), extra={"fields": fields})


def error_of(route: Route, response: Any) -> str:
    """The names of the errors in an answer, in the order of their numbers; NONE if there are none."""
    if response is NO_ANSWER:
        return NOT_ANSWERED
    if response.encoded is not None:
        response = response_decoder(route.api_key, route.version)(response.encoded, 0)
    return ",".join(_name(code) for code in sorted(set(errors_in(response)))) or NONE


def _name(code: int) -> str:
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else str(code)
