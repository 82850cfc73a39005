"""SASL as a client, against the vectors of the RFCs and against brokers that do not play fair."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from kohort.client.errors import AccessDenied, ClientError, WrongSettings
from kohort.client.jaas import Jaas, parse_jaas
from kohort.client.sasl import MAX_ITERATIONS, Exchange, Sasl, sasl_of, scram

# RFC 7677, section 3: user "user", password "pencil"
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def pencil() -> Exchange:
    exchange = scram("sha256", "user", "pencil", NONCE)
    assert next(exchange) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    return exchange


def says(sasl: Sasl) -> bytes:
    return next(sasl.begin())


def test_scram_is_as_the_rfc_shows_it() -> None:
    exchange = pencil()
    assert exchange.send(SERVER_FIRST) == CLIENT_FINAL
    with pytest.raises(StopIteration):
        exchange.send(SERVER_FINAL)


def test_a_name_with_signs_of_scram_is_escaped() -> None:
    assert next(scram("sha256", "a=b,c", "x", "n")) == b"n,,n=a=3Db=2Cc,r=n"


def test_a_broker_that_does_not_know_the_password_is_refused() -> None:
    exchange = pencil()
    exchange.send(SERVER_FIRST)
    with pytest.raises(AccessDenied, match="does not know the password either"):
        exchange.send(b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        (b"r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not belong to this login"),
        (f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode(), "does not belong to this login"),
        (f"r={NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i={MAX_ITERATIONS + 1}".encode(), "rounds of hashing"),
        (f"r={NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=0".encode(), "rounds of hashing"),
        (f"r={NONCE}x,s=%%%,i=4096".encode(), "is not SCRAM"),
        (b"", "is not SCRAM"),
        (b"\xff\xfe", "is not SCRAM"),
        (b"e=unknown-user", "refuses the login: unknown-user"),
    ],
)
def test_a_strange_answer_ends_scram_with_a_word(told: bytes, complaint: str) -> None:
    with pytest.raises(ClientError, match=complaint):
        pencil().send(told)


def test_plain_says_user_and_password() -> None:
    jaas = parse_jaas('org.x.PlainLoginModule required username="Ann" password="a\\"b;c=\\\\";')
    assert says(sasl_of("PLAIN", jaas, {})) == b'\0Ann\0a"b;c=\\'


def test_a_token_comes_from_a_setting_a_file_or_a_command(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from.a.file\n")
    command = shlex.join([sys.executable, "-c", "print('from.a.command')"])
    for settings, token in (
        ({"kohort.oauthbearer.token": "as.it.is"}, "as.it.is"),
        ({"kohort.oauthbearer.token.command": command}, "from.a.command"),
        ({"sasl.oauthbearer.token.endpoint.url": file.as_uri()}, "from.a.file"),
    ):
        assert says(sasl_of("OAUTHBEARER", None, settings)) == f"n,,\1auth=Bearer {token}\1\1".encode()


def test_extensions_go_with_the_token() -> None:
    jaas = parse_jaas("OAuthBearerLoginModule required extension_logicalCluster='lkc-1';")
    said = says(sasl_of("OAUTHBEARER", jaas, {"kohort.oauthbearer.token": "t"}))
    assert said == b"n,,\1auth=Bearer t\1logicalCluster=lkc-1\1\1"


def test_the_reason_for_which_a_token_is_refused_is_told() -> None:
    exchange = sasl_of("OAUTHBEARER", None, {"kohort.oauthbearer.token": "t"}).begin()
    next(exchange)
    assert exchange.send(b'{"status":"invalid_token"}') == b"\1"
    with pytest.raises(AccessDenied, match="invalid_token"):
        exchange.send(b"")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({}, "OAUTHBEARER needs a token: set kohort.oauthbearer.token.command"),
        ({"kohort.oauthbearer.token.command": "echo no luck >&2; exit 3"}, "has failed with status 3: no luck"),
        ({"kohort.oauthbearer.token.command": "true"}, "has no token"),
        ({"sasl.oauthbearer.token.endpoint.url": "file:///nowhere/token"}, "No such file"),
    ],
)
def test_without_a_token_it_says_what_is_missing(settings: dict[str, str], complaint: str) -> None:
    with pytest.raises(ClientError, match=complaint):
        says(sasl_of("OAUTHBEARER", None, settings))


def test_jaas_is_read_as_java_writes_it() -> None:
    text = "org.apache.kafka.ScramLoginModule required\n  username=\"a b\" password=secret\n  x='y' ;"
    assert parse_jaas(text) == Jaas("ScramLoginModule", {"username": "a b", "password": "secret", "x": "y"})


@pytest.mark.parametrize(
    "text",
    ["", "Module", "Module required", 'Module required user="a"', 'Module required user "a";', 'M required u="a;'],
)
def test_broken_jaas_is_told_without_the_password(text: str) -> None:
    with pytest.raises(WrongSettings, match=r"^(sasl\.jaas\.config|the options in sasl\.jaas\.config)") as told:
        parse_jaas(text.replace("user", "password").replace('"a', '"hush'))
    assert "hush" not in str(told.value)
