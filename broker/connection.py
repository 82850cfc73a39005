"""One client's connection: frames in, one request at a time, answers out in order.

Kafka stops reading a connection while it works on a request of it, so that answers come in the order of requests and
a parked JoinGroup holds back what follows. We do the same: while a request is parked (`_parked`) or the client does
not read its answers (`_choked`), frames wait in the buffer, and beyond READ_AHEAD_BYTES the socket is not read.

No task, no future: `data_received` calls the handler, the handler returns, the answer is written.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from kohort.broker.api_table import Route, UnsupportedRequest
from kohort.broker.call import NO_ANSWER, PARKED, Call
from kohort.broker.clock import CLOCK
from kohort.broker.recurring import MAX_BYTES as MAX_RECURRING_BYTES
from kohort.broker.recurring import Recurring, RecurringHeartbeats, remember
from kohort.broker.sending import MIN_BYTES, CutShort, FileSender, read_parts
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.frames import FrameSplitter
from kohort.protocol.headers import (
    CLIENT_ID_AT,
    MIN_REQUEST_HEADER_BYTES,
    api_key_and_version,
    decode_client_id,
    pack_framed_response,
    pack_framed_tagged_response,
    read_framed_kind,
    read_kind,
    read_tail,
)

if TYPE_CHECKING:
    from kohort.broker.server import Server
    from kohort.coordinator.classic.session import Pulse

logger = logging.getLogger(__name__)

READ_AHEAD_BYTES = 65_536
MAX_GATHERED_BYTES = 65_536
MAX_RECURRING_KINDS = 4  # an API in one version is a kind; a client that does not play has three

LENGTH_BYTES = 4  # the length of a frame, which stands before its header
FRAMED_CLIENT_ID_AT = LENGTH_BYTES + CLIENT_ID_AT
MIN_FRAME_BYTES = LENGTH_BYTES + MIN_REQUEST_HEADER_BYTES


class Connection(asyncio.Protocol):
    __slots__ = (
        "_beat",
        "_choked",
        "_client_id",
        "_frame_started",
        "_gathered",
        "_gathered_bytes",
        "_has_beaten",
        "_parked",
        "_peer",
        "_pumping",
        "_raw_client_id",
        "_reading",
        "_recurring",
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
        self._splitter = FrameSplitter(server.max_request_bytes)
        self._parked: Call | None = None
        self._beat: RecurringHeartbeats | None = None  # what came last, if that was all that came
        self._has_beaten = False  # since the server last looked: a heartbeat takes no time to look at the clock
        self._recurring: dict[int, Recurring] = {}  # by api key << 16 | version
        self._pumping = False
        self._gathered: list[bytes] = []  # answers, while pumping
        self._gathered_bytes = 0
        self._choked = False
        self._reading = True
        self._sender: FileSender | None = None  # for answers with records, from the first large one on
        self._sending = False  # a part of an answer waits for room in the socket
        self._client_id = ""
        self._raw_client_id = b""
        self._peer: tuple[str, int] | None = None
        self._frame_started = 0.0
        self.listener_index = listener_index
        self.last_active = server.time()
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
        self._beat = None
        self._recurring.clear()  # their calls know us: nobody should have to look for that circle
        self._server.disconnected(self)

    def data_received(self, data: bytes) -> None:
        if (beat := self._beat) is not None:
            now = monotonic_ns() // 1_000_000 + CLOCK.offset_ms
            # Bytes 8 to 12 are the correlation id, behind the frame's length, the api key and the version.
            if data[12:] == beat.rest and data[:8] == beat.start and beat.pulse.beats(now):
                self._transport.write(beat.before + data[8:12] + beat.after)
                self._has_beaten = True
                return
            self._beat = None
        server = self._server
        self.last_active = server.time()
        try:
            is_idle = not (self._splitter.rest or self._parked or self._choked or self._sending)
            if is_idle and len(data) >= MIN_FRAME_BYTES:
                length, kind, correlation_id = read_framed_kind(data)
                # Nearly always the data is exactly one frame.
                if length + LENGTH_BYTES == len(data) and length <= server.max_request_bytes:
                    self._handle(data, FRAMED_CLIENT_ID_AT, kind, correlation_id)
                    return
            self._collect(data)
        except (MalformedMessage, UnsupportedRequest) as problem:
            self._refuse(problem)
        except Exception:
            logger.exception("a request of %s could not be read; this is a bug", self)
            self.close("a bug in reading its request")

    def _collect(self, data: bytes) -> None:
        """Part of a frame, or several, or bytes that have to wait their turn."""
        splitter = self._splitter
        if not splitter.rest:
            self._frame_started = self.last_active
        splitter.feed(data)
        if self._parked is None:
            self._pump()
        waiting = self._parked or self._choked or self._sending
        if self._reading and waiting and len(splitter.rest) > READ_AHEAD_BYTES:
            self._reading = False
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._choked = True
        self._beat = None

    def resume_writing(self) -> None:
        self._choked = False
        self._pump()

    # --- frames

    def _pump(self) -> None:
        """Handle the frames that are there, until one is parked or the client stops reading."""
        if self._pumping:
            return  # a handler answered an earlier request of this connection; the loop below goes on by itself
        self._pumping = True
        splitter = self._splitter
        try:
            while not (self._parked or self._choked or self._sending or self.is_closed):
                frame = splitter.next_frame()
                if frame is None:
                    self._read_on()
                    return
                self._frame_started = self.last_active
                if len(frame) < MIN_REQUEST_HEADER_BYTES:
                    raise MalformedMessage(f"a request header of less than {MIN_REQUEST_HEADER_BYTES} bytes")
                self._handle(frame, CLIENT_ID_AT, *read_kind(frame))
        except (MalformedMessage, UnsupportedRequest) as problem:
            self._refuse(problem)
        except Exception:
            logger.exception("a request of %s could not be read; this is a bug", self)
            self.close("a bug in reading its request")
        finally:
            self._pumping = False
            self._write_gathered()

    def _refuse(self, problem: Exception) -> None:
        if self._server.metrics is not None:
            self._server.metrics.refused_requests += 1
        self.close(str(problem))

    def _read_on(self) -> None:
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()

    def _handle(self, frame: bytes, pos: int, kind: int, correlation_id: int) -> None:
        """`kind` is api key << 16 | version; `pos` is behind the correlation id, where the client id begins."""
        server = self._server
        known = self._recurring.get(kind)
        if known is not None and ((rest := frame[pos:]) == known.rest or known.reads(rest)):
            route, request, call = known.route, known.request, known.call
        else:
            found = server.routes.get(kind) or self._find_route(kind, correlation_id)
            if found is None:
                return
            route, request = found, self._read(found, frame, pos)
            call = Call(self, route, self._client_id)
            if route.recurs and len(frame) <= MAX_RECURRING_BYTES:
                if known is None and len(self._recurring) >= MAX_RECURRING_KINDS:
                    self._recurring.clear()
                known = self._recurring[kind] = remember(known, route, call, frame[pos:], request)
        self._parked = call
        call.correlation_id = correlation_id
        call.now = monotonic_ns() // 1_000_000 + CLOCK.offset_ms  # CLOCK.now_ms(), without a call
        call.started = self.last_active
        try:
            response = route.handler(server.broker, request, call)
        except Exception:
            logger.exception("%s v%d of %s failed; this is a bug", route.name, route.version, self)
            self._parked = None
            self._recurring.clear()  # their calls may have been kept
            self._answer_failure(call, route)
            return
        if response is not PARKED:
            self._parked = None
            self._answer(call, route, response)
            if type(known) is RecurringHeartbeats and not (self._pumping or self._choked or server.metrics is not None):
                self._begin_to_beat(known, server.broker.coordinator.runtime.pulse(request))

    def _begin_to_beat(self, heartbeats: RecurringHeartbeats, pulse: Pulse | None) -> None:
        if pulse is not None:
            heartbeats.pulse = pulse
            self._beat = heartbeats

    def _find_route(self, kind: int, correlation_id: int) -> Route | None:
        """The first request of its kind. None: it was an unknown ApiVersions, and is answered."""
        api_key, version = api_key_and_version(kind)
        try:
            return self._server.broker.apis.route(api_key, version)
        except UnsupportedRequest:
            if api_key != ApiKey.API_VERSIONS:
                raise
            self._answer_unknown_api_versions(version, correlation_id)
            return None

    def _read(self, route: Route, frame: bytes, pos: int) -> Any:
        """Decode the request; `pos` is where its client id begins. The client id is decoded only when it changes."""
        raw_client_id, pos = read_tail(frame, pos, route.flexible)
        if raw_client_id != self._raw_client_id:
            self._client_id = decode_client_id(raw_client_id)
            self._raw_client_id = raw_client_id
        return route.decode(frame, pos)

    # --- answers

    def answer_parked(self, call: Call, response: Any) -> None:
        if self._parked is not call:
            raise RuntimeError(f"{call.route.name} was answered twice")
        self._parked = None
        if not self.is_closed:
            try:
                self._answer(call, call.route, response)
            except Exception:  # others wait for their answers behind this one
                logger.exception("an answer to %s of %s could not be written; this is a bug", call.route.name, self)
                self._answer_failure(call, call.route)
            if self._splitter.rest or not self._reading:
                self._pump()

    def _answer(self, call: Call, route: Route, response: Any) -> None:
        if self._server.metrics is not None:
            self._measure(call, route, response)
        if type(response) is bytes:
            body = response
        elif response is NO_ANSWER:
            return
        else:
            body = route.encode(response)
            if type(body) is list:
                size = sum(map(len, body))
                if size >= MIN_BYTES:
                    self._send_parts(call.correlation_id, route.tagged, body, size)
                    return
                body = read_parts(body)
        if route.tagged:
            self._write(pack_framed_tagged_response(len(body) + 5, call.correlation_id) + body)
        else:
            self._write(pack_framed_response(len(body) + 4, call.correlation_id) + body)

    def _write(self, data: bytes) -> None:
        if not self._pumping:
            self._transport.write(data)
            return
        self._gathered.append(data)
        self._gathered_bytes += len(data)
        if self._gathered_bytes >= MAX_GATHERED_BYTES:
            self._write_gathered()

    def _write_gathered(self) -> None:
        """Answers to requests that came together leave together: for the kernel that is one packet, not many."""
        if self._gathered:
            data = b"".join(self._gathered)
            self._gathered.clear()
            self._gathered_bytes = 0
            self._transport.write(data)

    def _measure(self, call: Call, route: Route, response: Any) -> None:
        from kohort.broker.metrics import holds_error

        failed = response is not NO_ANSWER and type(response) is not bytes and holds_error(response)
        self._server.metrics.api(route.name).answered(self._server.loop.time() - call.started, failed)

    def _send_parts(self, correlation_id: int, tagged: bool, parts: list[Any], size: int) -> None:
        """An answer with many records: its log slices go from the file to the socket."""
        pack, header_bytes = (pack_framed_tagged_response, 5) if tagged else (pack_framed_response, 4)
        if self._sender is None:
            self._sender = FileSender(self._server.loop, self._transport, self._sent)
        self._write_gathered()
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

    def _answer_unknown_api_versions(self, version: int, correlation_id: int) -> None:  # noqa: ARG002
        from kohort.broker.cluster.api_versions import fallback_answer

        body = fallback_answer()
        self._write(pack_framed_response(len(body) + 4, correlation_id) + body)

    def _answer_failure(self, call: Call, route: Route) -> None:
        """UNKNOWN_SERVER_ERROR where the answer has a place for it, as Kafka does; otherwise hang up."""
        failure = self._server.broker.apis.failure_response(route)
        if failure is None:
            self.close(f"no answer to {route.name} after a failure")
        else:
            self._answer(call, route, failure)

    # --- the end

    def heard_last(self, now: float) -> float:
        """When the client last said something."""
        if self._has_beaten:
            self._has_beaten = False
            self.last_active = now
        return self.last_active

    def half_frame_since(self) -> float | None:
        """When the unfinished frame began, if there is one and we are waiting for the rest."""
        waiting = bool(self._splitter.rest) and self._parked is None and not self._choked and not self._sending
        return self._frame_started if waiting else None

    def close(self, reason: str) -> None:
        """Hang up, with one line that says who and why."""
        if not self.is_closed:
            logger.info("closed %s: %s", self, reason)
            self._write_gathered()
            self.is_closed = True
            self._transport.abort()

    def finish(self) -> None:
        """At shutdown: let what was written leave, then hang up."""
        self.is_closed = True
        self._transport.close()

    def __str__(self) -> str:
        client = f" (client id {self._client_id!r})" if self._client_id else ""
        return f"{self.peer[0]}:{self.peer[1]}{client}"
