"""One client of the HTTP port: HTTP/1.1 with h11, one request at a time.

A request must arrive within TIMEOUT_S, and a connection may be silent for TIMEOUT_S between two requests. At most
MAX_CONNECTIONS are open: that is enough for scrapers and people, and leaves the broker its descriptors and its time.
An answer may be a stream, which goes on until the client hangs up. The next request, or the next part of a stream,
waits until the client has read nearly all before it; a client that reads nothing for STALLED_S is cut off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from http import HTTPStatus
from typing import Final, cast

import h11

from kohort.broker.http.site import HttpAnswer, HttpError, Site, text_answer

logger = logging.getLogger(__name__)

MAX_CONNECTIONS: Final = 100  # a browser opens up to six for a page
MAX_HEAD_BYTES: Final = 8_192
MAX_BODY_BYTES: Final = 1_048_576
TIMEOUT_S: Final = 10.0
STALLED_S: Final = 30.0
SAFE: Final = {"X-Content-Type-Options": "nosniff"}  # an answer that repeats a name is no page, whatever stands in it


class HttpEndpoint(asyncio.Protocol):
    def __init__(self, site: Site, others: set[HttpEndpoint]) -> None:
        """`others` are all connections to the port."""
        self._site = site
        self._others = others
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        self._request: h11.Request | None = None  # the one that is being received or answered
        self._body = bytearray()
        self._answering: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_streaming = False
        self._room = asyncio.Event()  # for more of a stream: the client reads what it gets
        self._room.set()

    # --- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's has the same methods, and is no subclass
        if len(self._others) >= MAX_CONNECTIONS:
            self._transport.abort()
            return
        self._others.add(self)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._others.discard(self)
        self._expect_nothing()
        if self._answering is not None:
            self._answering.cancel()

    def data_received(self, data: bytes) -> None:
        if self._is_streaming:
            self._transport.abort()  # a client that watches a stream has nothing more to say
            return
        self._http.receive_data(data)
        self._read_or_refuse()

    def eof_received(self) -> bool:
        # A client that has asked may stop sending, and still wants its answer. One that watches a stream is gone.
        return self._answering is not None and not self._is_streaming

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def hang_up(self) -> None:
        """The server stops."""
        self._transport.abort()

    # --- requests

    def _read_or_refuse(self) -> None:
        try:
            self._read()
        except h11.RemoteProtocolError as problem:
            self._refuse(text_answer(f"this is no HTTP request: {problem}\n", HTTPStatus(problem.error_status_hint)))

    def _read(self) -> None:
        """Take what has come, as far as the end of one request. h11 keeps the rest."""
        while self._answering is None:
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                self._request = event
            elif isinstance(event, h11.Data):
                self._body += event.data
                if len(self._body) > MAX_BODY_BYTES:
                    too_large = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
                    self._refuse(text_answer(f"a request may have {MAX_BODY_BYTES} bytes\n", too_large))
                    return
            elif isinstance(event, h11.EndOfMessage):
                self._expect_nothing()
                self._transport.pause_reading()
                self._answering = asyncio.get_running_loop().create_task(self._answer())
            else:
                return  # the rest of the request has to come first, or the client has hung up

    async def _answer(self) -> None:
        request = self._request
        assert request is not None
        method, target = request.method.decode(), request.target.decode()
        headers = {name.decode(): value.decode("latin-1") for name, value in request.headers}
        body, self._body = bytes(self._body), bytearray()
        try:
            answer = await self._site.answer(method, target, headers, body)
        except HttpError as problem:
            answer = text_answer(f"{problem}\n", problem.status)
        except Exception:
            logger.exception("%s %s failed; this is a bug", method, target)
            answer = text_answer("this failed, and the log of the broker says why\n", HTTPStatus.INTERNAL_SERVER_ERROR)
        try:
            if answer.stream is not None and method != "HEAD":
                await self._stream(answer, answer.stream)
            else:
                self._send(answer, with_body=method != "HEAD")
                await self._have_room()
        except TimeoutError:
            self._transport.abort()
            return
        self._answering = None
        self._go_on()

    def _go_on(self) -> None:
        """The next request on this connection, or its end."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            self._expect_request()
            self._transport.resume_reading()
            self._read_or_refuse()  # the next request may be there already
        else:
            self._close()

    # --- answers

    def _send(self, answer: HttpAnswer, *, with_body: bool = True) -> None:
        headers = {
            "Content-Type": answer.content_type,
            "Content-Length": str(len(answer.body)),
            **SAFE,
            **answer.headers,
        }
        response = h11.Response(
            status_code=answer.status, reason=answer.status.phrase.encode(), headers=list(headers.items())
        )
        events = [response, h11.Data(data=answer.body if with_body else b""), h11.EndOfMessage()]
        self._transport.write(b"".join(self._http.send(event) or b"" for event in events))

    async def _stream(self, answer: HttpAnswer, parts: AsyncGenerator[bytes, None]) -> None:
        headers = list({"Content-Type": answer.content_type, **SAFE, **answer.headers}.items())
        response = h11.Response(status_code=answer.status, reason=answer.status.phrase.encode(), headers=headers)
        self._write(response)
        self._is_streaming = True
        self._transport.resume_reading()  # to see that the client hangs up
        try:
            async for part in parts:
                self._write(h11.Data(data=part))
                await self._have_room()
        finally:
            await parts.aclose()
        self._is_streaming = False
        self._write(h11.EndOfMessage())

    def _write(self, event: h11.Event) -> None:
        self._transport.write(self._http.send(event) or b"")

    async def _have_room(self) -> None:
        """Wait until the client has read nearly all that was sent. Raises TimeoutError if it does not read."""
        while not self._room.is_set():
            unread = self._transport.get_write_buffer_size()
            try:
                await asyncio.wait_for(self._room.wait(), STALLED_S)
            except TimeoutError:
                if self._transport.get_write_buffer_size() >= unread:
                    raise

    def _close(self) -> None:
        """Close the connection when the client has read the rest, and in any case after a while."""
        self._transport.close()
        self._expect_nothing()
        self._deadline = asyncio.get_running_loop().call_later(STALLED_S, self._transport.abort)

    def _refuse(self, answer: HttpAnswer) -> None:
        """Answer what is no request, or too large a one, and close the connection."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._send(answer._replace(headers={"Connection": "close"}))
        self._close()

    # --- time

    def _expect_request(self) -> None:
        self._deadline = asyncio.get_running_loop().call_later(TIMEOUT_S, self._transport.abort)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
