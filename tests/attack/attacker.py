"""Sends one attack and measures it: how long the bystander waited, what the broker's process took and gave back."""

from __future__ import annotations

import select
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from threading import Thread
from typing import NamedTuple

from kohort.client.settings import parse_address
from tests.attack.bystander import PATIENCE_S, Bystander, Wait
from tests.attack.target import IDLE_CPU_S, Target

ANSWER_TIMEOUT_S = 30
NO_ANSWER = "no answer"  # the result if the broker works and works
STUCK = "stuck"  # the result if the broker does not come back: it must be ended
PARKED_S = 0.3  # a request without an answer, of which the broker has done nothing for so long, is parked


class Attack(NamedTuple):
    """Requests that one client sends, and what a table calls them."""

    api: str
    shape: str
    frames: Callable[[bytes], Sequence[bytes]]  # made from the id of the topic before anything is measured
    prepare: Callable[[str], object] | None = None  # makes the state at this address; not measured
    hang_up: bool = False  # do not wait for answers: a connection for each request, closed when it is sent
    at_once: bool = False  # send all requests before reading the first answer
    clients: int = 1  # so many send all of these requests, at the same time and before reading; only with `at_once`
    side_by_side: bool = False  # as many clients as requests, all at the same time
    only_long: bool = False  # not in `make test`


class Figure(NamedTuple):
    api: str
    shape: str
    result: str
    request_bytes: int
    answer_bytes: int
    seconds: float
    wall_ms: float
    held_ms: float
    peak_bytes: int  # growth at its highest
    kept_bytes: int  # growth that was left after the client had gone


def attack(target: Target, bystander: Bystander, each: Attack, topic_id: bytes) -> Figure:
    if each.prepare is not None:
        each.prepare(target.address)
    frames = each.frames(topic_id)
    target.wait_until_idle()
    before, _ = target.memory_bytes()
    target.forget_peak()
    bystander.longest_wait()
    started = time.monotonic()
    if each.hang_up:
        result, answer_bytes = _hang_up(target, frames)
    elif each.clients > 1:
        result, answer_bytes = _flood_by_many(target, b"".join(frames), each.clients, len(frames))
    elif each.at_once:
        result, answer_bytes = _flood(target, frames)
    elif each.side_by_side:
        with ThreadPoolExecutor(len(frames)) as pool:
            answers = list(pool.map(lambda frame: _converse(target, [frame]), frames))
        result, answer_bytes = answers[-1][0], sum(size for _, size in answers)
    else:
        result, answer_bytes = _converse(target, frames)
    seconds = time.monotonic() - started
    target.wait_until_idle(at_most_s=PATIENCE_S)
    try:
        wait = bystander.longest_wait()
    except (TimeoutError, ConnectionError):
        waited_ms = (time.monotonic() - started) * 1000
        result, wait = STUCK, Wait(waited_ms, waited_ms, 0)
    after, peak = target.memory_bytes()
    size = sum(map(len, frames)) * each.clients
    grown, kept = max(0, peak - before), max(0, after - before)
    return Figure(each.api, each.shape, result, size, answer_bytes, seconds, wait.wall_ms, wait.held_ms, grown, kept)


def _converse(target: Target, frames: Sequence[bytes]) -> tuple[str, int]:
    """Send each request when the one before it is answered."""
    answer_bytes = 0
    with _connect(target) as connection:
        for frame in frames:
            try:
                connection.sendall(frame)
                size = _receive_answer(target, connection)
            except (ConnectionError, TimeoutError) as problem:
                return ("closed" if isinstance(problem, ConnectionError) else NO_ANSWER), answer_bytes
            if size is None:
                return "parked", answer_bytes
            answer_bytes += size
    return "answered", answer_bytes


def _flood(target: Target, frames: Sequence[bytes]) -> tuple[str, int]:
    """Send all requests from a thread of their own, while the answers are read here."""
    answer_bytes = 0
    with _connect(target) as connection:
        sender = Thread(target=_send_all, args=(connection, b"".join(frames)))
        sender.start()
        try:
            for _ in frames:
                size = _receive_answer(target, connection)
                if size is None:
                    return "parked", answer_bytes
                answer_bytes += size
        except (ConnectionError, TimeoutError) as problem:
            return ("closed" if isinstance(problem, ConnectionError) else NO_ANSWER), answer_bytes
        finally:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            sender.join()
    return "answered", answer_bytes


class _Flood:
    """One of many connections, all served by one thread: what it has to send, and which answers it waits for."""

    def __init__(self, connection: socket.socket, data: bytes, answers: int) -> None:
        self.connection = connection
        self.unsent = memoryview(data)
        self.answers_left = answers
        self.answer_bytes = 0
        self._head = b""
        self._missing = 0  # bytes of the answer that is being read

    def send(self) -> None:
        self.unsent = self.unsent[self.connection.send(self.unsent) :]

    def receive(self, buffer: bytearray) -> None:
        data = _some(self.connection, buffer, len(buffer))
        self.answer_bytes += len(data)
        while data:
            if self._missing:
                taken = min(self._missing, len(data))
                self._missing -= taken
            else:
                taken = min(4 - len(self._head), len(data))
                self._head += data[:taken]
                if len(self._head) == 4:
                    self._missing, self._head = int.from_bytes(self._head, "big"), b""
            data = data[taken:]
            self.answers_left -= not (self._missing or self._head)


def _flood_by_many(target: Target, data: bytes, clients: int, answers: int) -> tuple[str, int]:
    """Send all requests of all clients, and read the answers as they come."""
    buffer = bytearray(1 << 16)
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        floods = [_Flood(stack.enter_context(_connect(target)), data, answers) for _ in range(clients)]
        for each in floods:
            each.connection.setblocking(False)
            selector.register(each.connection, selectors.EVENT_READ | selectors.EVENT_WRITE, each)
        while selector.get_map():
            ready = selector.select(ANSWER_TIMEOUT_S)
            if not ready:
                return NO_ANSWER, sum(each.answer_bytes for each in floods)
            for key, events in ready:
                try:
                    _go_on(selector, key.data, events, buffer)
                except ConnectionError:
                    return "closed", sum(each.answer_bytes for each in floods)
        return "answered", sum(each.answer_bytes for each in floods)


def _go_on(selector: selectors.BaseSelector, flood: _Flood, events: int, buffer: bytearray) -> None:
    if events & selectors.EVENT_WRITE:
        flood.send()
        if not flood.unsent:
            selector.modify(flood.connection, selectors.EVENT_READ, flood)
    if events & selectors.EVENT_READ:
        flood.receive(buffer)
        if not flood.answers_left:
            selector.unregister(flood.connection)


def _send_all(connection: socket.socket, data: bytes) -> None:
    with suppress(OSError):
        connection.sendall(data)


def _hang_up(target: Target, frames: Sequence[bytes]) -> tuple[str, int]:
    for frame in frames:
        with _connect(target) as connection:
            try:
                connection.sendall(frame)
                while not select.select([connection], [], [], 0.02)[0] and target.is_busy():
                    pass
            except ConnectionError:
                return "closed", 0
    return "hung up", 0


def _connect(target: Target) -> socket.socket:
    return socket.create_connection(parse_address(target.address), timeout=ANSWER_TIMEOUT_S)


def _receive_answer(target: Target, connection: socket.socket) -> int | None:
    """The size of the answer; None if the request is parked."""
    end = time.monotonic() + ANSWER_TIMEOUT_S
    idle_since, used = time.monotonic(), target.cpu_s()
    while not select.select([connection], [], [], 0.02)[0]:
        now, now_used = time.monotonic(), target.cpu_s()
        if now_used - used > IDLE_CPU_S or target.is_busy():
            idle_since = now
        elif now - idle_since > PARKED_S:
            return None
        if now > end:
            raise TimeoutError
        used = now_used
    buffer = bytearray(1 << 18)
    head = b""
    while len(head) < 4:
        head += _some(connection, buffer, 4 - len(head))
    missing = size = int.from_bytes(head, "big")
    while missing:
        missing -= len(_some(connection, buffer, missing))
    return size + 4


def _some(connection: socket.socket, buffer: bytearray, count: int) -> memoryview:
    got = connection.recv_into(buffer, min(count, len(buffer)))
    if not got:
        raise ConnectionError("closed")
    return memoryview(buffer)[:got]
