"""One client's connection: frames in, one request at a time, answers out in order.

Kafka stops reading a connection while it works on a request of it, so that answers come in the order of requests and
a parked JoinGroup holds back what follows. We do the same: while a request is parked (`_parked`) or the client does
not read its answers (`_choked`), frames wait in the buffer, and beyond READ_AHEAD_BYTES the socket is not read.

No task, no future: `data_received` calls the handler, the handler returns, the answer is written.
"""

from __future__ import annotations

import asyncio
import logging
from struct import Struct
from time import time
from typing import TYPE_CHECKING, Any

from broker.api_table import Route, UnsupportedRequest
from broker.call import NO_ANSWER, PARKED, Call
from broker.sending import MIN_BYTES, CutShort, FileSender, read_parts
from protocol.api_keys import ApiKey
from protocol.errors import MalformedMessage
from protocol.frames import FrameSplitter
from protocol.wire import skip_tags

if TYPE_CHECKING:
    from broker.server import Server

logger = logging.getLogger(__name__)

READ_AHEAD_BYTES = 65_536

_request_header = Struct(">hhih").unpack_from
_answer_header = Struct(">ii").pack
_answer_header_tagged = Struct(">iix").pack


class Connection(asyncio.Protocol):
    __slots__ = (
        "_choked",
        "_client_id",
        "_frame_started",
        "_parked",
        "_peer",
        "_pumping",
        "_raw_client_id",
        "_reading",
        "_sender",
        "_sending",
        "_server",
        "_splitter",
        "_transport",
        "is_closed",
        "last_active",
        "listener_index",
    )

    def __init__(self, server: Server, listener_index: int) -> None:
        self._server = server
        self._splitter = FrameSplitter(server.broker.config.socket_request_max_bytes)
        self._parked: Call | None = None
        self._pumping = False
        self._choked = False
        self._reading = True
        self._sender: FileSender | None = None  # for answers with records, from the first large one on
        self._sending = False  # a part of an answer waits for room in the socket
        self._client_id = ""
        self._raw_client_id = b""
        self._peer: tuple[str, int] | None = None
        self._frame_started = 0.0
        self.listener_index = listener_index
        self.last_active = server.loop.time()
        self.is_closed = False

    @property
    def peer(self) -> tuple[str, int]:
        """The client's address; looked up when somebody wants to know, since most connections nobody asks about."""
        if self._peer is None:
            found = self._transport.get_extra_info("peername") or ("?", 0)
            self._peer = str(found[0]), int(found[1])
        return self._peer

    # --- what the event loop tells us

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        if refusal := self._server.connected(self):
            self.close(refusal)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.is_closed = True
        if self._sender is not None:
            self._sender.close()
        self._server.disconnected(self)

    def data_received(self, data: bytes) -> None:
        self.last_active = self._server.loop.time()
        splitter = self._splitter
        if not splitter.pending_bytes:
            self._frame_started = self.last_active
        if self._parked is None:
            self._pump(data)
        else:
            splitter.feed(data)
        if (
            self._reading
            and splitter.pending_bytes > READ_AHEAD_BYTES
            and (self._parked or self._choked or self._sending)
        ):
            self._reading = False
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._choked = True

    def resume_writing(self) -> None:
        self._choked = False
        self._pump()

    # --- frames

    def _pump(self, data: bytes | None = None) -> None:
        """Handle the frames that are there, and what `data` adds, until one is parked or the client stops reading."""
        if self._pumping:  # then `data` is None: nothing is received while a handler runs
            return  # a handler answered an earlier request of this connection; the loop below goes on by itself
        self._pumping = True
        splitter = self._splitter
        try:
            if data is not None:
                if not (self._choked or self._sending) and splitter.is_whole_frame(data):
                    self._handle(data, 4)
                    return
                splitter.feed(data)
            while self._parked is None and not (self._choked or self._sending) and not self.is_closed:
                frame = splitter.next_frame()
                if frame is None:
                    self._read_on()
                    return
                self._frame_started = self.last_active
                self._handle(frame, 0)
        except (MalformedMessage, UnsupportedRequest) as problem:
            if self._server.metrics is not None:
                self._server.metrics.refused_requests += 1
            self.close(str(problem))
        except Exception:
            logger.exception("a request of %s could not be read; this is a bug", self)
            self.close("a bug in reading its request")
        finally:
            self._pumping = False

    def _read_on(self) -> None:
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()

    def _handle(self, frame: bytes, start: int) -> None:
        # As protocol.headers.read_request_header, without making an object.
        pos = start + 10
        api_key, version, correlation_id, length = _request_header(frame, start) if len(frame) >= pos else _too_short()
        if length > 0:
            raw_client_id = frame[pos : pos + length]
            pos += length
            if raw_client_id != self._raw_client_id:
                self._raw_client_id = raw_client_id
                self._client_id = self._raw_client_id.decode("utf-8", "java")
        elif self._raw_client_id:
            self._raw_client_id, self._client_id = b"", ""
        try:
            route = self._server.broker.apis.route(api_key, version)
        except UnsupportedRequest:
            if api_key != ApiKey.API_VERSIONS:
                raise
            self._answer_unknown_api_versions(correlation_id)
            return
        if route.flexible:
            pos = _after_tags(frame, pos)
        request = route.decode(frame, pos)
        call = self._parked = Call(self, route, version, correlation_id, self._client_id, int(time() * 1000))
        try:
            response = route.handler(self._server.broker, request, call)
        except Exception:
            logger.exception("%s v%d of %s failed; this is a bug", route.name, version, self)
            self._parked = None
            self._answer_failure(call, route)
            return
        if response is not PARKED:
            self._parked = None
            self._answer(call, route, response)

    # --- answers

    def answer_parked(self, call: Call, route: Route, response: Any) -> None:
        if self._parked is not call:
            raise RuntimeError(f"{route.name} was answered twice")
        self._parked = None
        if not self.is_closed:
            self._answer(call, route, response)
            self._pump()

    def _answer(self, call: Call, route: Route, response: Any) -> None:
        if self._server.metrics is not None:
            self._measure(call, route, response)
        if response is NO_ANSWER:
            return
        body = response if type(response) is bytes else route.encode(response)
        if type(body) is list:
            size = sum(map(len, body))
            if size >= MIN_BYTES:
                self._send_parts(call.correlation_id, route.tagged, body, size)
                return
            body = read_parts(body)
        if route.tagged:
            self._transport.write(_answer_header_tagged(len(body) + 5, call.correlation_id) + body)
        else:
            self._transport.write(_answer_header(len(body) + 4, call.correlation_id) + body)

    def _measure(self, call: Call, route: Route, response: Any) -> None:
        from broker.metrics import holds_error

        failed = response is not NO_ANSWER and type(response) is not bytes and holds_error(response)
        self._server.metrics.api(route.name).answered(self._server.loop.time() - call.started, failed)

    def _send_parts(self, correlation_id: int, tagged: bool, parts: list[Any], size: int) -> None:
        """An answer with many records: its log slices go from the file to the socket."""
        pack, header_bytes = (_answer_header_tagged, 5) if tagged else (_answer_header, 4)
        if self._sender is None:
            self._sender = FileSender(self._server.loop, self._transport, self._sent)
        try:
            self._sending = not self._sender.send([pack(size + header_bytes, correlation_id), *parts])
        except CutShort as problem:
            self.close(str(problem))

    def _sent(self, problem: CutShort | None) -> None:
        """The rest of an answer, for which the socket had no room at first, is sent too."""
        self._sending = False
        self.last_active = self._server.loop.time()
        if problem is not None:
            self.close(str(problem))
        self._pump()

    def _answer_unknown_api_versions(self, correlation_id: int) -> None:
        from broker.cluster.api_versions import fallback_answer

        body = fallback_answer()
        self._transport.write(_answer_header(len(body) + 4, correlation_id) + body)

    def _answer_failure(self, call: Call, route: Route) -> None:
        """UNKNOWN_SERVER_ERROR where the answer has a place for it, as Kafka does; otherwise hang up."""
        failure = self._server.broker.apis.failure_response(route)
        if failure is None:
            self.close(f"no answer to {route.name} after a failure")
        else:
            self._answer(call, route, failure)

    # --- the end

    def half_frame_since(self) -> float | None:
        """When the unfinished frame began, if there is one and we are waiting for the rest."""
        waiting = self._splitter.pending_bytes and self._parked is None and not self._choked and not self._sending
        return self._frame_started if waiting else None

    def close(self, reason: str) -> None:
        """Hang up, with one line that says who and why."""
        if not self.is_closed:
            logger.info("closed %s: %s", self, reason)
            self.is_closed = True
            self._transport.abort()

    def finish(self) -> None:
        """At shutdown: let what was written leave, then hang up."""
        self.is_closed = True
        self._transport.close()

    def __str__(self) -> str:
        client = f" (client id {self._client_id!r})" if self._client_id else ""
        return f"{self.peer[0]}:{self.peer[1]}{client}"


def _too_short() -> tuple[int, int, int, int]:
    raise MalformedMessage("a request header of less than 10 bytes")


def _after_tags(frame: bytes, pos: int) -> int:
    try:
        tags = frame[pos]
        return skip_tags(tags, frame, pos + 1) if tags else pos + 1
    except IndexError:
        raise MalformedMessage("the request header is longer than its frame") from None
