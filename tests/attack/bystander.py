"""A client that does nothing wrong: it asks ApiVersions every 5 ms on a connection of its own, in a process of its own.

    python -m tests.attack.bystander HOST:PORT PID

For each line on standard input it prints the longest wait since the last line, as JSON.

A busy machine lets threads wait for a core, and that is no fault of the broker. So two figures are kept: the wait by
the clock, and `held_ms`, the same wait without the time in which a thread of the broker, or this process, was ready to
run and had no core. It is never less than what the broker's event loop worked meanwhile. The kernel counts both in
/proc/PID/task/*/schedstat. With PID 0 only this process is looked at.
"""

from __future__ import annotations

import json
import os
import select
import selectors
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic, perf_counter
from types import TracebackType
from typing import NamedTuple

from kohort.client.settings import parse_address
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.frames import framed
from kohort.protocol.headers import request_header

INTERVAL_S = 0.005
PATIENCE_S = 15


class Wait(NamedTuple):
    wall_ms: float
    held_ms: float
    asked: int


class Bystander:
    """The process, as the attacker sees it."""

    def __init__(self, address: str, pid: int) -> None:
        command = [sys.executable, "-m", "tests.attack.bystander", address, str(pid)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.longest_wait()

    def longest_wait(self) -> Wait:
        """The longest wait since the last call. If the bystander is waiting now, this waits with it.

        Raises TimeoutError if the bystander still waits after PATIENCE_S.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], PATIENCE_S)[0]:
            raise TimeoutError("the bystander is not answered")
        line = self._process.stdout.readline()
        if not line:
            raise ConnectionError("the bystander's connection was closed")
        return Wait(**json.loads(line))

    def __enter__(self) -> Bystander:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()


class Threads(NamedTuple):
    """Seconds so far that the broker's event loop ran, and that any thread was ready to run and did not run."""

    loop_s: float
    delayed_s: float


def threads_of(pid: int) -> Threads:
    loop_s = delayed_s = 0.0
    for thread in os.listdir(f"/proc/{pid}/task") if pid else ():
        ran_s, waited_s = _schedule_of(f"{pid}/task/{thread}")
        delayed_s += waited_s
        if int(thread) == pid:  # the main thread runs the event loop
            loop_s = ran_s
    return Threads(loop_s, delayed_s)


def _schedule_of(task: str) -> tuple[float, float]:
    """(ran, was ready to run and did not run). Zeros where the kernel does not count it, or the thread has ended."""
    try:
        ran_ns, waited_ns, _ = Path(f"/proc/{task}/schedstat").read_text(encoding="ascii").split()
    except OSError:
        return 0.0, 0.0
    return int(ran_ns) / 1e9, int(waited_ns) / 1e9


def main(address: str, pid: int) -> None:
    with suppress(PermissionError):
        os.nice(-10)
    request = framed(request_header(ApiKey.API_VERSIONS, 0, 1, "bystander"))
    with socket.create_connection(parse_address(address), timeout=None) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector = selectors.DefaultSelector()
        selector.register(sys.stdin, selectors.EVENT_READ)
        wall_ms = held_ms = 0.0
        asked = 0
        while True:
            due = monotonic() + INTERVAL_S
            asked += 1
            waited, held = _ask(connection, request, pid)
            wall_ms, held_ms = max(wall_ms, waited), max(held_ms, held)
            if selector.select(max(0.0, due - monotonic())):
                if not sys.stdin.readline():
                    return
                print(json.dumps({"wall_ms": wall_ms, "held_ms": held_ms, "asked": asked}), flush=True)
                wall_ms = held_ms = 0.0
                asked = 0


def _ask(connection: socket.socket, request: bytes, pid: int) -> tuple[float, float]:
    """Milliseconds by the clock, and without the time in which somebody else had the cores."""
    before, own_before = threads_of(pid), _schedule_of("self")[1]
    started = perf_counter()
    connection.sendall(request)
    _receive(connection, int.from_bytes(_receive(connection, 4), "big"))
    waited_s = perf_counter() - started
    after, own_s = threads_of(pid), _schedule_of("self")[1] - own_before
    wait_s = waited_s - own_s
    worked_s = min(wait_s, after.loop_s - before.loop_s)
    held_s = max(worked_s, wait_s - (after.delayed_s - before.delayed_s))
    return waited_s * 1000, max(0.0, held_s) * 1000


def _receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionError("the broker closed the bystander's connection")
        data += piece
    return data


if __name__ == "__main__":
    with suppress(ConnectionError, KeyboardInterrupt):  # the attacker sees that standard output has ended
        main(sys.argv[1], int(sys.argv[2]))
