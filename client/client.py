"""A small blocking client, for the command line and for tests: one connection, one request at a time.

It asks for the broker's versions first and speaks the newest that both sides know.
"""

from __future__ import annotations

import socket
from struct import Struct
from types import TracebackType
from typing import Any

from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.codec import request_encoder, response_decoder
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.frames import framed
from kohort.protocol.headers import read_response_header, request_header
from kohort.protocol.messages.api_versions import ApiVersionsRequest

_length = Struct(">i").unpack

MAX_PORT = 65_535
MAX_ANSWER_BYTES = 1 << 30  # no broker sends more; the first four bytes of HTTP, read as a length, would be more


class ClientError(Exception):
    """The broker cannot be reached, or does not speak what is needed. The text is for people to read."""


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`. Raises ValueError if `address` is not of that form."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > MAX_PORT:
        raise ValueError(f"{address!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


class Client:
    def __init__(self, address: str, *, client_id: str = "kohort-cli", timeout_s: float = 30.0) -> None:
        self.address = address
        self._client_id = client_id
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] | None = None
        try:
            self._socket = socket.create_connection(parse_address(address), timeout=timeout_s)
        except ValueError:  # from parse_address, or from the encoding of the host's name, which is a UnicodeError
            raise ClientError(f"{address!r} is not HOST:PORT") from None
        except OSError as problem:
            raise ClientError(f"no broker answers at {address}: {problem.strerror or problem}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, api_key: int, request: Any, version: int | None = None) -> Any:
        """The answer to `request`, in the newest common version unless one is given."""
        if version is None:
            version = self.newest_version(api_key)
        return self.receive(api_key, version, self.post(api_key, request, version))

    def post(self, api_key: int, request: Any, version: int) -> int:
        """Send a request without waiting for the answer; returns the correlation id."""
        self._correlation_id += 1
        body = request_encoder(api_key, version)(request)
        parts = [body] if isinstance(body, bytes) else body
        header = request_header(api_key, version, self._correlation_id, self._client_id)
        self.send_raw(framed(header, *parts))
        return self._correlation_id

    def receive(self, api_key: int, version: int, correlation_id: int) -> Any:
        frame = self.receive_frame()
        try:
            answered, pos = read_response_header(frame, api_key, version)
            if answered != correlation_id:
                raise ClientError(f"{self.address} answered request {answered} instead of {correlation_id}")
            return response_decoder(api_key, version)(frame, pos)
        except MalformedMessage as problem:
            raise ClientError(f"{self.address} answers with what is not Kafka's protocol: {problem}") from None

    def newest_version(self, api_key: int) -> int:
        version = self._newest_common(api_key)
        if version is None:
            raise ClientError(f"{self.address} does not offer {APIS[api_key].name} in a version that Kohort speaks")
        return version

    def offers(self, api_key: int) -> bool:
        return self._newest_common(api_key) is not None

    def _newest_common(self, api_key: int) -> int | None:
        if self._versions is None:
            answer = self.send(ApiKey.API_VERSIONS, ApiVersionsRequest("kohort", "0.1"), 3)
            self._versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        ours = APIS[api_key]
        low, high = self._versions.get(api_key, (1, 0))
        version = min(high, ours.max_version)
        return version if version >= max(low, ours.min_version) else None

    def send_raw(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as problem:
            raise ClientError(f"{self.address} closed the connection: {problem.strerror or problem}") from None

    def receive_frame(self) -> bytes:
        (length,) = _length(self._receive_exactly(4))
        if not 0 <= length <= MAX_ANSWER_BYTES:
            raise ClientError(f"{self.address} answers with what is not Kafka's protocol")
        return self._receive_exactly(length)

    def _receive_exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            try:
                piece = self._socket.recv(min(count - len(data), 1 << 20))
            except TimeoutError:
                raise ClientError(f"{self.address} does not answer") from None
            except OSError as problem:
                raise ClientError(f"{self.address} closed the connection: {problem.strerror or problem}") from None
            if not piece:
                raise ClientError(f"{self.address} closed the connection")
            data += piece
        return bytes(data)
