"""A server that does what a test says with each connection, for what no broker of ours does."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from struct import pack, unpack
from types import TracebackType
from typing import Self

Script = Callable[[socket.socket], None]


class ScriptedServer:
    """Runs `script` with each connection, in a thread; with a context, after a TLS handshake."""

    def __init__(self, script: Script, context: ssl.SSLContext | None = None) -> None:
        self._script, self._context = script, context
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self._opened: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._opened.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            with connection:
                self._script(connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()
        for connection in self._opened:
            with suppress(OSError):
                connection.close()


def read_request(connection: socket.socket) -> bytes:
    """One request without its length; empty at the end of the connection."""
    with connection.makefile("rb") as stream:  # nothing comes behind a request before its answer
        head = stream.read(4)
        return stream.read(unpack(">i", head)[0]) if len(head) == 4 else b""


def answer(connection: socket.socket, request: bytes, body: bytes) -> None:
    connection.sendall(pack(">i", 4 + len(body)) + request[4:8] + body)
