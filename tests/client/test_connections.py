"""Connections that fail: each says in one line what is wrong. And brokers that are older than we are."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from struct import pack

import pytest

from kohort.client.client import Client
from kohort.client.cluster import Cluster
from kohort.client.errors import AccessDenied, ClientError, ConnectionLost
from kohort.client.settings import ClientSettings, settings_of
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import response_encoder
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kohort.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from kohort.protocol.messages.sasl_handshake import SaslHandshakeResponse
from tests.client.certificates import Authority
from tests.client.scripted_server import Script, ScriptedServer, answer, read_request
from tests.clients.kohort import KohortProcess

JAAS = 'Plain required username="ann" password="secret";'
PLAIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS}
SHORT_MS = "300"  # how long the client waits for an answer that never comes


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server_tls(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.sign("broker"))
    return context


def with_tls(authority: Authority, **others: str) -> ClientSettings:
    given = {"security.protocol": "SSL", "ssl.truststore.location": str(authority.certificate)}
    return settings_of(given | {name.replace("_", "."): value for name, value in others.items()})


def complaint(address: str, settings: ClientSettings | None = None) -> str:
    with pytest.raises(ClientError) as told:
        Cluster(address, settings)
    return str(told.value)


def hang(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def saying(data: bytes) -> Script:
    def script(connection: socket.socket) -> None:
        connection.sendall(data)
        hang(connection)

    return script


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closing:
        address = f"127.0.0.1:{closing.getsockname()[1]}"
    assert complaint(address) == f"no broker answers at {address}: Connection refused"


def test_a_name_that_nobody_has_and_one_that_nobody_can_have() -> None:
    assert complaint("no.such.host.invalid:9092").startswith("no broker answers at no.such.host.invalid:9092: ")
    assert complaint("x" * 70 + ":9092") == f"{'x' * 70 + ':9092'!r} is not HOST:PORT"


def test_a_port_that_never_says_anything() -> None:
    with ScriptedServer(hang) as server:
        said = complaint(server.address, settings_of({"request.timeout.ms": SHORT_MS}))
        assert said == f"{server.address} does not answer: is it a Kafka broker's listener?"


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.6\r\n", b"\0\0\0\4nope"])
def test_a_port_that_speaks_something_else(greeting: bytes) -> None:
    with ScriptedServer(saying(greeting)) as server:
        said = complaint(server.address)
        assert said.startswith(f"{server.address} answer")


def test_tls_where_none_is_expected(server_tls: ssl.SSLContext) -> None:
    with ScriptedServer(hang, server_tls) as server:
        said = complaint(server.address)
        assert "TLS" in said
        assert "security.protocol" in said


def test_no_tls_where_it_is_expected(authority: Authority, tmp_path: Path) -> None:
    with KohortProcess(tmp_path) as broker:
        said = complaint(broker.address, with_tls(authority))
    assert "TLS" in said
    with ScriptedServer(saying(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as server:
        said = complaint(server.address, with_tls(authority))
        assert said == (
            f"{server.address} speaks no TLS: security.protocol must be PLAINTEXT or SASL_PLAINTEXT for this listener"
        )


def test_a_certificate_of_somebody_else(authority: Authority, server_tls: ssl.SSLContext, tmp_path: Path) -> None:
    stranger = Authority(tmp_path)
    with ScriptedServer(hang, server_tls) as server:
        said = complaint(server.address, with_tls(stranger))
        assert said.startswith(f"the certificate of {server.address} is not trusted: ")
        assert "ssl.truststore.location" in said


def test_a_certificate_for_another_name(authority: Authority) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.sign("elsewhere", host="DNS:elsewhere.example"))
    with ScriptedServer(BrokerScript(), context) as server:
        assert "is for another name" in complaint(server.address, with_tls(authority))
        any_name = with_tls(authority, ssl_endpoint_identification_algorithm="")
        with Client(server.address, settings=any_name) as client:
            assert client.offers(ApiKey.METADATA)


def test_a_broker_that_wants_a_certificate_of_the_client(authority: Authority) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.sign("strict"))
    context.load_verify_locations(authority.certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    with ScriptedServer(BrokerScript(), context) as server:
        complaint(server.address, with_tls(authority))
        own = with_tls(authority, ssl_keystore_location=str(authority.sign("client")))
        with Client(server.address, settings=own) as client:
            assert client.offers(ApiKey.METADATA)


# --- brokers as they were, are, and should not be


class BrokerScript:
    """Answers ApiVersions, SaslHandshake and SaslAuthenticate, and closes the connection at anything else."""

    def __init__(self, *, oldest: int = 0, newest: int = 4, mechanisms: tuple[str, ...] = ("PLAIN",)) -> None:
        self.oldest, self.newest, self.mechanisms = oldest, newest, mechanisms
        self.asked: list[tuple[int, int]] = []
        self.refuses = False
        self.lifetime_ms = 0

    def __call__(self, connection: socket.socket) -> None:
        while request := read_request(connection):
            api_key, version = int.from_bytes(request[:2], "big"), int.from_bytes(request[2:4], "big")
            self.asked.append((api_key, version))
            reply = self._replies().get(api_key)
            if reply is None:
                return
            answer(connection, request, reply(version))

    def _replies(self) -> dict[int, Callable[[int], bytes]]:
        return {
            ApiKey.API_VERSIONS: self._versions,
            ApiKey.SASL_HANDSHAKE: self._handshake,
            ApiKey.SASL_AUTHENTICATE: self._authenticate,
        }

    def _versions(self, version: int) -> bytes:
        if version > self.newest:  # brokers before Kafka 2.4 leave the list empty, later ones have ApiVersions in it
            return pack(">hi", ErrorCode.UNSUPPORTED_VERSION, 0)
        apis = [ApiVersion(key, 0, 1) for key in (ApiKey.METADATA, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)]
        body: bytes = response_encoder(ApiKey.API_VERSIONS, version)(ApiVersionsResponse(0, apis))
        return body

    def _handshake(self, version: int) -> bytes:
        error = 0 if "PLAIN" in self.mechanisms else ErrorCode.UNSUPPORTED_SASL_MECHANISM
        body: bytes = response_encoder(ApiKey.SASL_HANDSHAKE, version)(SaslHandshakeResponse(error, self.mechanisms))
        return body

    def _authenticate(self, version: int) -> bytes:
        told = SaslAuthenticateResponse(0, None, b"", self.lifetime_ms)
        if self.refuses:
            told = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, "Invalid username or password")
        body: bytes = response_encoder(ApiKey.SASL_AUTHENTICATE, version)(told)
        return body


def test_a_broker_that_does_not_know_our_api_versions_is_asked_in_the_oldest_way() -> None:
    script = BrokerScript(newest=2)
    with ScriptedServer(script) as server, Client(server.address) as client:
        assert client.newest_version(ApiKey.METADATA) == 1
        assert not client.offers(ApiKey.FETCH)
    assert script.asked == [(ApiKey.API_VERSIONS, 3), (ApiKey.API_VERSIONS, 0)]


def test_refused_credentials_are_told_without_the_password() -> None:
    script = BrokerScript()
    script.refuses = True
    with ScriptedServer(script) as server:
        said = complaint(server.address, settings_of(PLAIN))
        assert said == f"{server.address} refuses the credentials of ann: Invalid username or password"


def test_a_mechanism_that_the_broker_does_not_take() -> None:
    with ScriptedServer(BrokerScript(mechanisms=("SCRAM-SHA-512",))) as server:
        said = complaint(server.address, settings_of(PLAIN))
        assert said == f"{server.address} does not take PLAIN; it takes SCRAM-SHA-512"


def test_credentials_for_a_broker_that_takes_none(tmp_path: Path) -> None:
    with KohortProcess(tmp_path) as broker:
        said = complaint(broker.address, settings_of(PLAIN))
        assert said == f"{broker.address} takes no credentials: security.protocol must be PLAINTEXT or SSL for it"


def test_a_broker_that_wants_credentials_closes_the_connection_at_the_second_request() -> None:
    with (
        ScriptedServer(BrokerScript()) as server,
        Cluster(server.address) as cluster,
        pytest.raises(ConnectionLost, match="perhaps it wants credentials"),
    ):
        cluster.metadata(None)


def test_a_session_that_ends_is_renewed_before_the_next_request() -> None:
    script = BrokerScript()
    script.lifetime_ms = 1
    with ScriptedServer(script) as server, Client(server.address, settings=settings_of(PLAIN)) as client:
        script.lifetime_ms = 0
        while client._renew_at < float("inf"):
            client.send(ApiKey.API_VERSIONS, ApiVersionsRequest("test", "1"), 3)
    assert script.asked.count((ApiKey.SASL_AUTHENTICATE, 1)) == 2


def test_the_second_address_is_asked_if_the_first_does_not_answer(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closing:
        nobody = f"127.0.0.1:{closing.getsockname()[1]}"
    with KohortProcess(tmp_path) as broker, Cluster(f"{nobody},{broker.address}") as cluster:
        assert [each.address for each in cluster.brokers()] == [broker.address]


def test_if_no_address_answers_each_of_them_is_told_of() -> None:
    said = complaint("127.0.0.1:1,127.0.0.1:2")
    assert said == (
        "no broker answers at 127.0.0.1:1: Connection refused; no broker answers at 127.0.0.1:2: Connection refused"
    )


def test_refused_credentials_are_not_tried_on_the_other_brokers() -> None:
    script = BrokerScript()
    script.refuses = True
    with ScriptedServer(script) as first, ScriptedServer(script) as second, pytest.raises(AccessDenied):
        Cluster(f"{first.address},{second.address}", settings_of(PLAIN))
    assert script.asked.count((ApiKey.SASL_AUTHENTICATE, 1)) == 1


def test_a_connection_that_was_lost_is_made_again(tmp_path: Path) -> None:
    with KohortProcess(tmp_path) as broker, Cluster(broker.address) as cluster:
        cluster.metadata(None)
        cluster.any().close()
        assert cluster.metadata(None).topics is not None
