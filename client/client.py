"""A small blocking client of one broker: one connection, one request at a time.

It asks for the broker's versions first and speaks the newest that both sides know. With TLS and SASL, if the settings
say so. `cluster.py` is the client of a cluster.
"""

from __future__ import annotations

from struct import Struct
from time import monotonic
from types import TracebackType
from typing import Any

from kohort.client.errors import AccessDenied, ClientError, ConnectionLost
from kohort.client.settings import ClientSettings, parse_address
from kohort.client.sockets import lost, open_socket
from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.codec import request_encoder, response_decoder
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.frames import framed
from kohort.protocol.headers import read_response_header, request_header
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kohort.protocol.messages.sasl_handshake import SaslHandshakeRequest

_length = Struct(">i").unpack
_error_code = Struct(">h").unpack_from

MAX_ANSWER_BYTES = 1 << 30  # no broker sends more; the first four bytes of HTTP, read as a length, would be more
SETUP_TIMEOUT_S = 3.5  # to connect, and for each of the first answers: with its start, a command tells within 5 s
VERSIONS_VERSION = 3  # of ApiVersions; brokers before Kafka 2.4 answer it with an error, and are asked with 0
RENEW_AT = 0.85  # of a session's lifetime: then the client proves again who it is
TLS_RECORDS = (0x15, 0x16)  # the first byte of an alert, and of a handshake
TLS_MAJOR = 3


class Client:
    def __init__(
        self,
        address: str,
        *,
        client_id: str | None = None,
        timeout_s: float | None = None,
        settings: ClientSettings | None = None,
        setup_timeout_s: float = SETUP_TIMEOUT_S,
    ) -> None:
        """`settings` say how the connection is protected. Connects, and logs in if there are credentials."""
        self.address = address
        self._settings = settings = settings or ClientSettings()
        self._client_id = client_id if client_id is not None else settings.client_id
        self._timeout_s = timeout_s if timeout_s is not None else settings.timeout_s
        self._setup_timeout_s = min(setup_timeout_s, self._timeout_s)
        self.is_lost = False
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] | None = None
        self._answers = 0
        self._renew_at = float("inf")
        try:
            host, port = parse_address(address)
        except ValueError:
            raise ClientError(f"{address!r} is not HOST:PORT") from None
        self._socket = open_socket(address, host, port, settings.tls, self._setup_timeout_s)
        self._socket.settimeout(self._timeout_s)
        if settings.sasl is not None:
            try:
                self._log_in()
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.is_lost = True
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    # --- requests

    def send(self, api_key: int, request: Any, version: int | None = None) -> Any:
        """The answer to `request`, in the newest common version unless one is given."""
        if version is None:
            version = self.newest_version(api_key)
        return self.receive(api_key, version, self.post(api_key, request, version))

    def post(self, api_key: int, request: Any, version: int) -> int:
        """Send a request without waiting for the answer; returns the correlation id."""
        if monotonic() > self._renew_at:
            self._renew_at = float("inf")
            self._log_in()
        self._correlation_id += 1
        body = request_encoder(api_key, version)(request)
        parts = [body] if isinstance(body, bytes) else body
        header = request_header(api_key, version, self._correlation_id, self._client_id)
        self.send_raw(framed(header, *parts))
        return self._correlation_id

    def receive(self, api_key: int, version: int, correlation_id: int) -> Any:
        return self._read(self.receive_frame(), api_key, version, correlation_id)

    def _read(self, frame: bytes, api_key: int, version: int, correlation_id: int) -> Any:
        try:
            answered, pos = read_response_header(frame, api_key, version)
            if answered != correlation_id:
                raise ClientError(f"{self.address} answered request {answered} instead of {correlation_id}")
            return response_decoder(api_key, version)(frame, pos)
        except MalformedMessage as problem:
            raise ClientError(f"{self.address} answers with what is not Kafka's protocol: {problem}") from None

    # --- versions

    def newest_version(self, api_key: int) -> int:
        version = self._newest_common(api_key)
        if version is None:
            raise ClientError(f"{self.address} does not offer {APIS[api_key].name} in a version that Kohort speaks")
        return version

    def offers(self, api_key: int) -> bool:
        return self._newest_common(api_key) is not None

    def _newest_common(self, api_key: int) -> int | None:
        if self._versions is None:
            self._versions = self._ask_for_versions()
        ours = APIS[api_key]
        low, high = self._versions.get(api_key, (1, 0))
        version = min(high, ours.max_version)
        return version if version >= max(low, ours.min_version) else None

    def _ask_for_versions(self) -> dict[int, tuple[int, int]]:
        self._socket.settimeout(self._setup_timeout_s)
        request = ApiVersionsRequest("kohort", "0.1")
        frame = self._frame_for(request, VERSIONS_VERSION)
        if len(frame) >= 6 and _error_code(frame, 4)[0] == ErrorCode.UNSUPPORTED_VERSION:
            frame = self._frame_for(request, 0)
            answer = self._read(frame, ApiKey.API_VERSIONS, 0, self._correlation_id)
        else:
            answer = self._read(frame, ApiKey.API_VERSIONS, VERSIONS_VERSION, self._correlation_id)
        self._socket.settimeout(self._timeout_s)
        return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    def _frame_for(self, request: ApiVersionsRequest, version: int) -> bytes:
        self.post(ApiKey.API_VERSIONS, request, version)
        return self.receive_frame()

    # --- logging in

    def _log_in(self) -> None:
        sasl = self._settings.sasl
        assert sasl is not None
        if not self.offers(ApiKey.SASL_HANDSHAKE):
            raise ClientError(f"{self.address} takes no credentials: security.protocol must be PLAINTEXT or SSL for it")
        self._socket.settimeout(self._setup_timeout_s)
        answer = self.send(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest(sasl.mechanism), 1)
        if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise ClientError(f"{self.address} takes no credentials: security.protocol must be PLAINTEXT or SSL for it")
        if answer.error_code:
            offered = ", ".join(answer.mechanisms) or "nothing else"
            raise AccessDenied(f"{self.address} does not take {sasl.mechanism}; it takes {offered}")
        exchange = sasl.begin()
        say = next(exchange)
        while True:
            heard = self._authenticate(say)
            try:
                say = exchange.send(heard)
            except StopIteration:
                break
        self._socket.settimeout(self._timeout_s)

    def _authenticate(self, say: bytes) -> bytes:
        assert self._settings.sasl is not None
        answer = self.send(ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest(say))
        if answer.error_code:
            why = answer.error_message or ErrorCode(answer.error_code).name
            raise AccessDenied(f"{self.address} refuses the credentials of {self._settings.sasl.user}: {why}")
        if answer.session_lifetime_ms > 0:
            self._renew_at = monotonic() + answer.session_lifetime_ms / 1000 * RENEW_AT
        heard: bytes = answer.auth_bytes
        return heard

    # --- bytes

    def send_raw(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except TimeoutError:
            self.is_lost = True
            raise ConnectionLost(f"{self.address} does not answer") from None
        except OSError as problem:
            self.is_lost = True
            raise lost(self.address, problem) from None

    def receive_frame(self) -> bytes:
        self.is_lost = True  # until the whole answer is there: what is left of it would be taken for the next one
        head = self._receive_exactly(4)
        if not self._answers and self._settings.tls is None and head[0] in TLS_RECORDS and head[1] == TLS_MAJOR:
            raise ClientError(f"{self.address} speaks TLS: security.protocol must be SSL or SASL_SSL for this listener")
        (length,) = _length(head)
        if not 0 <= length <= MAX_ANSWER_BYTES:
            raise ClientError(f"{self.address} answers with what is not Kafka's protocol")
        frame = self._receive_exactly(length)
        self._answers += 1
        self.is_lost = False
        return frame

    def _receive_exactly(self, count: int) -> bytes:
        data = bytearray(count)
        view = memoryview(data)
        got = 0
        while got < count:
            try:
                piece = self._socket.recv_into(view[got : got + (1 << 20)])
            except TimeoutError:
                raise ConnectionLost(f"{self.address} does not answer{self._hint_at_silence()}") from None
            except ConnectionError:
                raise ConnectionLost(f"{self.address} closed the connection{self._hint_at_end()}") from None
            except OSError as problem:
                raise lost(self.address, problem) from None
            if not piece:
                raise ConnectionLost(f"{self.address} closed the connection{self._hint_at_end()}")
            got += piece
        return bytes(data)

    def _hint_at_silence(self) -> str:
        return "" if self._answers else ": is it a Kafka broker's listener?"

    def _hint_at_end(self) -> str:
        """A listener that expects another protocol closes the connection at the first request that it cannot take."""
        if not self._answers:
            with_tls = self._settings.tls is not None
            return " at the first request: is it a Kafka broker's listener" + (
                "?" if with_tls else ", and one without TLS (security.protocol=SSL)?"
            )
        if self._answers == 1 and self._settings.sasl is None:
            return " at the second request: perhaps it wants credentials (security.protocol=SASL_PLAINTEXT or SASL_SSL)"
        return ""
