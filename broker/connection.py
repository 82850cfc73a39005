"""One client's connection: frames in, one request at a time, answers out in order.

Kafka stops reading a connection while it works on one of its requests. So answers come in the order of requests, and a
parked JoinGroup holds back the requests behind it. We do the same: while a request is parked (`_parked`), or the client
does not read its answers (`_choked`, `_sending`), further frames wait in the buffer. When more than READ_AHEAD_BYTES
wait, the socket is not read any more.

There is no task and no future per request: `data_received` calls the handler and writes the answer that it returns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic_ns
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from kohort.broker.api_table import Route, UnsupportedRequest
from kohort.broker.call import NO_ANSWER, PARKED, Call, NoAnswer, Parked, holds_error
from kohort.broker.clock import MILLISECONDS
from kohort.broker.recurring import MAX_BYTES as MAX_RECURRING_BYTES
from kohort.broker.recurring import Recurring, RecurringHeartbeats, remember
from kohort.broker.sending import MIN_BYTES, CutShort, FileSender, Part, close_parts, join_small, read_parts
from kohort.broker.steps import ELEMENTS_AT_ONCE, Answer, Done, LongRequest, Pause, WaitingSteps, take_steps
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.errors import MalformedMessage, TooManyElements
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
from kohort.protocol.wire import MAX_ELEMENTS_PER_REQUEST, SMALL_FRAME_BYTES, decode_at_most

if TYPE_CHECKING:
    from kohort.broker.server import Server
    from kohort.protocol.wire import Message

logger = logging.getLogger(__name__)

READ_AHEAD_BYTES = 65_536
# Requests that are not Produce may have 100,000 elements; those of honest clients have far less than 160 bytes each.
MAX_OTHER_REQUEST_BYTES = 16_777_216
MAX_GATHERED_BYTES = 65_536
SLOW_STEP_NS = 100_000_000
# Requests of these APIs are parked until other clients do something. Fetches and members have limits of their own. All
# other parked requests wait for the disk.
WAIT_FOR_CLIENTS = (ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
MAX_TAIL_BYTES = 300  # of a header, to be remembered
MAX_RECURRING_KINDS = 4  # of an API in one version; a real client has three: Heartbeat, OffsetCommit, OffsetFetch

LENGTH_BYTES = 4  # the length of a frame, which stands before its header
FRAMED_CLIENT_ID_AT = LENGTH_BYTES + CLIENT_ID_AT
MIN_FRAME_BYTES = LENGTH_BYTES + MIN_REQUEST_HEADER_BYTES
NO_FRAMES = FrameSplitter(0)  # of connections whose data has always been exactly one frame; it is never fed


class Connection(asyncio.Protocol):
    __slots__ = (
        "_beat",
        "_choked",
        "_client_host",
        "_client_id",
        "_frame_started",
        "_gathered",
        "_gathered_bytes",
        "_has_beaten",
        "_is_paused",
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
        "_tails",
        "_transport",
        "_unread_bytes",
        "elements",
        "is_closed",
        "kept",
        "last_active",
        "listener_index",
    )

    def __init__(self, server: Server, listener_index: int) -> None:
        self._server = server
        self._splitter = NO_FRAMES
        self._parked: Call | None = None
        self._beat: RecurringHeartbeats | None = None  # set if the last request was a heartbeat and nothing else waits
        self._has_beaten = False  # a heartbeat came by the quick path, which does not set `last_active`
        self._recurring: dict[int, Recurring] = {}  # by api key << 16 | version
        self._pumping = False
        self._is_paused = False  # frames wait for the next turn of the event loop: see Turns
        self._gathered: list[bytes] = []  # answers to frames that came together; see `_write_gathered`
        self._gathered_bytes = 0
        self._choked = False
        self._reading = True
        self._sender: FileSender | None = None  # for large answers with records; made with the first one
        self._sending = False  # a part of a large answer waits for room in the socket
        self._client_id = ""
        self._raw_client_id = b""
        self._tails = [b"", b""]  # of the last headers without and with tags: the client id and what follows
        self._peer: tuple[str, int] | None = None
        self._client_host: str | None = None
        self._frame_started = 0.0
        self._unread_bytes = 0  # of a long request that waits for the thread which reads it
        self.elements = 0  # of a long request: see LongRequests
        self.listener_index = listener_index
        self.last_active = server.time()
        self.is_closed = False
        self.kept: dict[str, Callable[[], object]] = {}  # what is dropped when the connection is closed, by name

    @property
    def peer(self) -> tuple[str, int]:
        """The client's address. It is looked up when it is first needed, since it is rarely needed."""
        if self._peer is None:
            found = self._transport.get_extra_info("peername") or ("?", 0)
            self._peer = str(found[0]), int(found[1])
        return self._peer

    @property
    def client_host(self) -> str:
        """As `peer`, as Kafka shows it: /127.0.0.1."""
        if self._client_host is None:
            self._client_host = "/" + self.peer[0]
        return self._client_host

    @property
    def descriptor(self) -> int:
        return int(self._transport.get_extra_info("socket").fileno())

    @property
    def held_bytes(self) -> int:
        """How much memory the client takes for half of a large request, or one that waits to be read, and for answers
        that it does not read."""
        held = self._splitter.large_bytes + self._unread_bytes
        if self._choked:
            held += self._transport.get_write_buffer_size()
        if self._sending and self._sender is not None:
            held += self._sender.unsent_bytes
        return held

    # --- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        if not self._server.admits(self):
            self.is_closed = True
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.is_closed = True
        if self._sender is not None:
            self._sender.close()
        self._beat = None
        self._recurring.clear()  # calls refer to this connection; clearing them avoids a reference cycle
        self._server.disconnected(self)
        if self.elements or self._unread_bytes:
            self._server.long_requests.leave(self)
        if self.kept:
            for drop in list(self.kept.values()):
                drop()
            self.kept.clear()

    def data_received(self, data: bytes) -> None:
        if (beat := self._beat) is not None:
            if (now_ns := monotonic_ns()) >= MILLISECONDS.ends_ns:
                MILLISECONDS.pass_on(now_ns)
            # Bytes 8 to 12 are the correlation id, behind the frame's length, the api key and the version.
            if data[12:] == beat.rest and data[:8] == beat.start and beat.pulse.beats(MILLISECONDS.steady_ms):
                self._transport.write(beat.before + data[8:12] + beat.after)
                self._has_beaten = True
                if beat.metrics is not None:
                    beat.metrics.beat(monotonic_ns() - now_ns)
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
        """Take in bytes that are not exactly one frame, or that must wait for the answer to an earlier request."""
        splitter = self._splitter
        if splitter is NO_FRAMES:
            splitter = self._splitter = FrameSplitter(self._server.max_request_bytes, MAX_OTHER_REQUEST_BYTES)
        if not splitter.rest:
            self._frame_started = self.last_active
        splitter.feed(data)
        if self._parked is None and not self._is_paused:
            self._pump()
        waiting = self._parked or self._is_paused or self._choked or self._sending
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
        """Handle the frames in the buffer, until a request is parked or the client stops reading."""
        if self._pumping or self._is_paused:
            return  # the loop below is running and has called a handler, or frames wait for the next turn
        self._pumping = True
        splitter = self._splitter
        until = self._server.turns.ends_ns()
        try:
            while not (self._parked or self._choked or self._sending or self.is_closed):
                if monotonic_ns() > until:
                    self._is_paused = True
                    self._server.turns.wait(self._pump_on)
                    return
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

    def _pump_on(self) -> None:
        self._is_paused = False
        self._pump()

    def _refuse(self, problem: Exception) -> None:
        if self._server.metrics is not None:
            self._server.metrics.refused_requests += 1
        from kohort.broker.unserved import unserved

        told = unserved(self._server.broker)
        if isinstance(problem, UnsupportedRequest):
            told.tell_of_request(self.peer[0], self._client_id, str(self), problem.api_key, problem.version)
        elif not told.tell_of_bytes(self.peer[0], str(self), bytes(self._splitter.rest[:2])):
            self.close(str(problem))
            return
        self.close(str(problem), logging.DEBUG)  # `unserved` has logged it, once for all connections of the client

    def _read_on(self) -> None:
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()

    def _handle(self, frame: bytes, pos: int, kind: int, correlation_id: int, decoded: Message | None = None) -> None:
        """Read one request, call its handler, and answer it unless it is parked.

        `kind` is api key << 16 | version; `pos` is where the client id begins, behind the correlation id. `decoded` is
        a request that a thread has read.
        """
        if (began := monotonic_ns()) >= MILLISECONDS.ends_ns:
            MILLISECONDS.pass_on(began)
        slow_from = MILLISECONDS.ends_ns + SLOW_STEP_NS  # a step that ends earlier was not slow
        server = self._server
        known = self._recurring.get(kind)
        is_same = False
        if known is not None and ((is_same := (rest := frame[pos:]) == known.rest) or known.reads(rest)):
            route, request, call = known.route, known.request, known.call
            call.is_long = False  # the last one may have been, for instance because its handler had to be imported
        else:
            found = server.routes.get(kind) or self._find_route(kind, correlation_id, frame, pos)
            if found is None:
                return
            route = found
            try:
                request = decoded or self._read(route, frame, pos)
            except TooManyElements:
                self._read_in_thread(route, frame, pos, kind, correlation_id)
                return
            call = Call(self, route, self._client_id)
            call.is_long = decoded is not None
            if route.recurs and len(frame) <= MAX_RECURRING_BYTES:
                if known is None and len(self._recurring) >= MAX_RECURRING_KINDS:
                    self._recurring.clear()
                known = self._recurring[kind] = remember(known, route, call, frame[pos:], request)
        self._parked = call
        call.correlation_id = correlation_id
        call.now = MILLISECONDS.now_ms
        call.steady_ms = MILLISECONDS.steady_ms
        call.started_ns = began
        try:
            response = route.handler(server.broker, request, call)
            if type(response) is GeneratorType:  # isinstance() takes three times as long, for every request
                response = self._take_first_steps(call, response)
        except Exception as problem:
            self._fail(call, problem)
            return
        if response is not PARKED:
            self._parked = None
            self._answer(call, route, response)
            if is_same and isinstance(known, RecurringHeartbeats) and not (self._pumping or self._choked):
                self._begin_to_beat(known, response)
        if server.metrics is not None or monotonic_ns() > slow_from:
            server.measure_step(call, monotonic_ns() - began)

    def _fail(self, call: Call, problem: Exception) -> None:
        """The handler raised `problem`: tell the log and the client."""
        route = call.route
        if isinstance(problem, OSError):
            logger.error("%s v%d of %s failed: %s", route.name, route.version, self, problem)
        else:
            bug = "%s v%d of %s failed; this is a bug"
            logger.error(bug, route.name, route.version, self, exc_info=problem)
        self._end_request()
        self._recurring.clear()  # the handler may have kept a call, which must not be used again
        if not self.is_closed:
            self._answer_failure(call, route)

    def _begin_to_beat(self, heartbeats: RecurringHeartbeats, response: Any) -> None:
        if response.error_code:
            return
        pulse = self._server.broker.coordinator.runtime.pulse(heartbeats.request)
        if pulse is not None:
            metrics = self._server.metrics
            heartbeats.begin(pulse, response, None if metrics is None else metrics.api(heartbeats.route.name))
            self._beat = heartbeats

    def _find_route(self, kind: int, correlation_id: int, frame: bytes, pos: int) -> Route | None:
        """The route for the first request of its kind. None: an ApiVersions of an unknown version, already answered."""
        api_key, version = api_key_and_version(kind)
        try:
            return self._server.broker.apis.route(api_key, version)
        except UnsupportedRequest:
            if api_key != ApiKey.API_VERSIONS:
                self._client_id = decode_client_id(read_tail(frame, pos, flexible=False)[0])
                raise
            self._answer_unknown_api_versions(version, correlation_id)
            return None

    def _read(self, route: Route, frame: bytes, pos: int) -> Message:
        """Decode the request; `pos` is where its client id begins. The client id is decoded only when it changes."""
        known = self._tails[route.flexible]
        if known and frame.startswith(known, pos):
            pos += len(known)
        else:
            pos = self._read_tail(frame, pos, route.flexible)
        if len(frame) > SMALL_FRAME_BYTES:
            large: Message = decode_at_most(ELEMENTS_AT_ONCE, route.decode, frame, pos)
            return large
        request: Message = route.decode(frame, pos)
        return request

    def _read_tail(self, frame: bytes, pos: int, flexible: bool) -> int:
        """Read the rest of the header, and remember it: the client's next requests have the same. Returns its end."""
        raw_client_id, end = read_tail(frame, pos, flexible)
        if raw_client_id != self._raw_client_id:
            self._client_id = decode_client_id(raw_client_id)
            self._raw_client_id = raw_client_id
            self._tails = [b"", b""]
        if end - pos <= MAX_TAIL_BYTES:
            self._tails[flexible] = frame[pos:end]
        return end

    # --- long requests: see broker.steps

    def _take_first_steps(self, call: Call, steps: WaitingSteps[Answer]) -> Answer:
        left_ns = self._server.turns.ends_ns() - monotonic_ns()
        taken = take_steps(steps, min(left_ns, self._server.long_requests.first_slice_ns))
        if isinstance(taken, Done):
            if not call.is_long:
                return taken.response
            self._finish(call, taken.response)
        elif isinstance(taken, Pause):
            taken.then(lambda: self._go_on_in_steps(call, steps))  # it has not become a long one by waiting
        else:
            self.answer_in_steps(call, steps)
        return PARKED

    def _read_in_thread(self, route: Route, frame: bytes, pos: int, kind: int, correlation_id: int) -> None:
        """Decode a request with many elements. Meanwhile the connection waits, as for a parked request."""
        call = self._parked = Call(self, route, self._client_id)
        self._unread_bytes = len(frame)

        def finished(request: Message) -> None:
            self._unread_bytes = 0
            if not self.is_closed:
                self._handle(frame, pos, kind, correlation_id, request)
                if self._parked is None:
                    self._server.long_requests.leave(self)
                    self._go_on()

        body_at = read_tail(frame, pos, route.flexible)[1]
        self._server.long_requests.read(
            self,
            min(len(frame), MAX_ELEMENTS_PER_REQUEST),  # an element has a byte or more
            lambda: route.decode(frame, body_at),
            finished,
            lambda problem: self._fail_long(call, problem),
        )

    def answer_in_steps(self, call: Call, steps: WaitingSteps[Answer]) -> None:
        """Take the steps between other requests, and answer with what they return, unless that is PARKED."""
        call.is_long = True
        self._go_on_in_steps(call, steps)

    def _go_on_in_steps(self, call: Call, steps: WaitingSteps[Answer]) -> None:
        self._server.long_requests.add(
            LongRequest(
                self,
                call,
                steps,
                finished=lambda response: self._finish(call, response),
                failed=lambda problem: self._fail_long(call, problem),
            )
        )

    def fail_parked(self, call: Call, problem: Exception) -> None:
        """Answering a parked request raised `problem`."""
        if self._parked is call:
            self._fail_long(call, problem)
        else:
            logger.error("%s of %s was answered, and then failed", call.route.name, self, exc_info=problem)

    def _finish(self, call: Call, response: Answer) -> None:
        """A request that was not done at once has taken its last step."""
        if isinstance(response, Parked):
            self._stays_parked(call)
        elif call.is_long:
            self.answer_long(call, response)
        else:
            self.answer_parked(call, response)

    def answer_long(self, call: Call, response: Message | NoAnswer) -> None:
        """Answer a parked request. Encoding the response may take long, so a thread does it."""
        if isinstance(response, NoAnswer) or response.encoded is not None:
            self.answer_parked(call, response)
            return
        is_measured = self._server.metrics is not None

        def encode() -> tuple[bytes | list[Part], bool]:
            body = call.route.encode(response)
            return join_small(body) if isinstance(body, list) else body, is_measured and holds_error(response)

        def finished(encoded: tuple[bytes | list[Part], bool]) -> None:
            began = monotonic_ns()
            self._end_request()
            body, failed = encoded
            if self.is_closed:
                close_parts(body)
            else:
                if is_measured:
                    self._measure(call, failed)
                self._send(call, body)
                self._server.measure_step(call, monotonic_ns() - began)
                self._go_on()

        self._server.long_requests.in_thread(encode, finished, lambda problem: self._fail_long(call, problem))

    def _fail_long(self, call: Call, problem: Exception) -> None:
        self._unread_bytes = 0
        if isinstance(problem, MalformedMessage):
            self._refuse(problem)
        else:
            self._fail(call, problem)
            self._go_on()

    def _stays_parked(self, call: Call) -> None:
        """The handler has kept the call of a long request. Do not count its elements if it waits for clients."""
        if self._parked is call and call.route.api_key in WAIT_FOR_CLIENTS:
            self._server.long_requests.leave(self)

    def _end_request(self) -> None:
        self._parked = None
        if self.elements:
            self._server.long_requests.leave(self)

    def _go_on(self) -> None:
        """Handle the frames that came while a request was parked."""
        if self._splitter.rest or not self._reading:
            self._pump()

    # --- answers

    def answer_parked(self, call: Call, response: Any) -> None:
        if self._parked is not call:
            raise RuntimeError(f"{call.route.name} was answered twice")
        self._parked = None
        if self.elements:
            self._server.long_requests.leave(self)
        if not self.is_closed:
            try:
                self._answer(call, call.route, response)
            except Exception:  # the caller has more replies to send and must not fail
                logger.exception("an answer to %s of %s could not be written; this is a bug", call.route.name, self)
                self._answer_failure(call, call.route)
            if self._splitter.rest or not self._reading:  # as _go_on, without a call
                self._pump()

    def _answer(self, call: Call, route: Route, response: Any) -> None:
        if self._server.metrics is not None:
            failed = response is not NO_ANSWER and response.encoded is None and holds_error(response)
            self._measure(call, failed)
        if response is NO_ANSWER:
            return
        body = response.encoded
        if body is None:
            body = route.encode(response)
            if type(body) is list:
                self._send(call, body)
                return
        if route.tagged:
            data = pack_framed_tagged_response(len(body) + 5, call.correlation_id) + body
        else:
            data = pack_framed_response(len(body) + 4, call.correlation_id) + body
        if self._pumping:
            self._gather(data)
        else:
            self._transport.write(data)

    def _send(self, call: Call, body: bytes | list[Part]) -> None:
        """Write an encoded response, which may be long, or have records in it."""
        tagged = call.route.tagged
        if isinstance(body, list):
            size = sum(map(len, body))
            if size >= MIN_BYTES:
                self._send_parts(call.correlation_id, tagged, body, size)
                return
            body = read_parts(body)
        pack, header_bytes = (pack_framed_tagged_response, 5) if tagged else (pack_framed_response, 4)
        self._write_gathered()
        self._transport.writelines((pack(len(body) + header_bytes, call.correlation_id), body))  # not copied together

    def _gather(self, data: bytes) -> None:
        self._gathered.append(data)
        self._gathered_bytes += len(data)
        if self._gathered_bytes >= MAX_GATHERED_BYTES:
            self._write_gathered()

    def _write_gathered(self) -> None:
        """Write the answers to requests that came together in one call, so that they leave in one packet."""
        if self._gathered:
            data = b"".join(self._gathered)
            self._gathered.clear()
            self._gathered_bytes = 0
            self._transport.write(data)

    def _measure(self, call: Call, failed: bool) -> None:
        self._server.metrics.api(call.route.name).answered(monotonic_ns() - call.started_ns, failed)

    def _send_parts(self, correlation_id: int, tagged: bool, parts: list[Part], size: int) -> None:
        """Send an answer with many records: the kernel copies its log slices from the files to the socket."""
        pack, header_bytes = (pack_framed_tagged_response, 5) if tagged else (pack_framed_response, 4)
        if self._sender is None and not self._make_sender():
            close_parts(parts)
            self.close("no descriptor is free for a large answer; raise the limit of open files (ulimit -n)")
            return
        assert self._sender is not None
        self._write_gathered()
        try:
            self._sending = not self._sender.send([pack(size + header_bytes, correlation_id), *parts])
        except CutShort as problem:
            self.close(str(problem))

    def _make_sender(self) -> bool:
        """Make the sender for large answers. False: it would take a descriptor that is reserved for files."""
        try:
            made = FileSender(self._server.loop, self._transport, self._sent)
        except OSError:
            return False
        if made.descriptor >= self._server.first_reserved:
            made.close()
            return False
        self._sender = made
        return True

    def _sent(self, problem: CutShort | None) -> None:
        """Called when the rest of a large answer is sent, or could not be."""
        self._sending = False
        self.last_active = self._server.loop.time()
        if problem is not None:
            self.close(str(problem))
        self._pump()

    def _answer_unknown_api_versions(self, version: int, correlation_id: int) -> None:  # noqa: ARG002
        from kohort.broker.cluster.api_versions import fallback_answer

        body = fallback_answer()
        self._gather(pack_framed_response(len(body) + 4, correlation_id) + body)
        if not self._pumping:
            self._write_gathered()

    def _answer_failure(self, call: Call, route: Route) -> None:
        """Answer UNKNOWN_SERVER_ERROR, as Kafka does, or close the connection if the answer has no error field."""
        failure = self._server.broker.apis.failure_response(route)
        if failure is None:
            self.close(f"no answer to {route.name} after a failure")
        else:
            self._answer(call, route, failure)

    # --- the end

    def heard_last(self, now: float) -> float:
        """When the client was last heard from. A heartbeat by the quick path counts as heard at `now`."""
        if self._has_beaten:
            self._has_beaten = False
            self.last_active = now
        return self.last_active

    def half_frame_since(self) -> float | None:
        """When the first bytes of an unfinished frame came. None: there is none, or we are not waiting for its rest."""
        waiting = bool(self._splitter.rest) and self._parked is None and not self._choked and not self._sending
        return self._frame_started if waiting else None

    def close(self, reason: str, level: int = logging.INFO) -> None:
        """Close the connection at once, and log whose it is and why."""
        if not self.is_closed:
            logger.log(level, "closed %s: %s", self, reason)
            self._write_gathered()
            self.is_closed = True
            self._transport.abort()

    def finish(self) -> None:
        """At shutdown: close the connection when everything that was written has left."""
        self.is_closed = True
        self._transport.close()

    def cut(self) -> None:
        """Close the connection at once, without a word in the log."""
        self.is_closed = True
        self._transport.abort()

    def __str__(self) -> str:
        client = f" (client id {self._client_id!r})" if self._client_id else ""
        return f"{self.peer[0]}:{self.peer[1]}{client}"
