"""The client's side of SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 (RFC 5802) and OAUTHBEARER (RFC 7628).

A mechanism is a generator: it yields what the client says, and is sent what the broker answers. It ends when the client
has nothing more to say, and raises AccessDenied if the broker does not prove that it knows the password, too.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import subprocess
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import NamedTuple

from kohort.client.errors import AccessDenied, ClientError, WrongSettings
from kohort.client.jaas import Jaas

Exchange = Generator[bytes, bytes, None]

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
SCRAM = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = (PLAIN, *SCRAM, OAUTHBEARER)
MAX_ITERATIONS = 1_000_000  # of a hash; a broker that asks for more would keep the client busy for minutes
TOKEN_TIMEOUT_S = 30

# Names of settings.
TOKEN = "kohort.oauthbearer.token"  # noqa: S105
TOKEN_COMMAND = "kohort.oauthbearer.token.command"  # noqa: S105
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105


class Sasl(NamedTuple):
    """How a client proves who it is."""

    mechanism: str
    user: str  # for messages; never a password
    begin: Callable[[], Exchange]


def sasl_of(mechanism: str, jaas: Jaas | None, properties: Mapping[str, str]) -> Sasl:
    if mechanism == OAUTHBEARER:
        extensions = {
            name.removeprefix("extension_"): value
            for name, value in (jaas.options if jaas is not None else {}).items()
            if name.startswith("extension_")
        }
        return Sasl(mechanism, "the token's user", partial(oauth_bearer, _token_source(properties), extensions))
    if mechanism not in MECHANISMS:
        raise WrongSettings(f"sasl.mechanism={mechanism}: Kohort's client knows {', '.join(MECHANISMS)}")
    if jaas is None or "username" not in jaas.options or "password" not in jaas.options:
        raise WrongSettings(f"{mechanism} needs sasl.jaas.config with a username and a password")
    user, password = jaas.options["username"], jaas.options["password"]
    if mechanism == PLAIN:
        return Sasl(mechanism, user, partial(plain, user, password))
    return Sasl(mechanism, user, partial(scram, SCRAM[mechanism], user, password))


# --- PLAIN


def plain(user: str, password: str) -> Exchange:
    yield f"\0{user}\0{password}".encode()


# --- SCRAM


def scram(hash_name: str, user: str, password: str, nonce: str | None = None) -> Exchange:
    """`nonce`: for tests only; else a random one."""
    nonce = nonce or secrets.token_urlsafe(24)
    name = user.replace("=", "=3D").replace(",", "=2C")
    client_first = f"n={name},r={nonce}"
    server_first = (yield b"n,," + client_first.encode()).decode(errors="replace")
    told = _attributes(server_first)
    if not told["r"].startswith(nonce) or len(told["r"]) == len(nonce):
        raise AccessDenied("the broker's answer to SCRAM does not belong to this login")
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), _unbase64(told["s"]), _iterations(told["i"]))
    without_proof = f"c=biws,r={told['r']}"
    message = f"{client_first},{server_first},{without_proof}".encode()
    key = _hmac(hash_name, salted, b"Client Key")
    signature = _hmac(hash_name, _hash(hash_name, key), message)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    server_final = _attributes((yield f"{without_proof},p={proof}".encode()).decode(errors="replace"))
    expected = _hmac(hash_name, _hmac(hash_name, salted, b"Server Key"), message)
    if not hmac.compare_digest(_unbase64(server_final["v"]), expected):
        raise AccessDenied("the broker does not know the password either: it is not what it claims to be")


def _attributes(text: str) -> dict[str, str]:
    found = dict(part.partition("=")[::2] for part in text.split(","))
    if "e" in found:
        raise AccessDenied(f"the broker refuses the login: {found['e']}")
    if not ({"r", "s", "i"} <= found.keys() or "v" in found):
        raise ClientError("the broker's answer is not SCRAM")
    return {"r": "", "s": "", "i": "", "v": ""} | found


def _iterations(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= MAX_ITERATIONS:
        raise ClientError(f"the broker asks for {text} rounds of hashing; Kohort's client makes {MAX_ITERATIONS}")
    return int(text)


def _unbase64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ClientError("the broker's answer is not SCRAM") from None


def _hmac(hash_name: str, key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, hash_name)


def _hash(hash_name: str, data: bytes) -> bytes:
    return hashlib.new(hash_name, data).digest()


# --- OAUTHBEARER


def oauth_bearer(token: Callable[[], str], extensions: Mapping[str, str]) -> Exchange:
    pairs = "".join(f"\1{name}={value}" for name, value in extensions.items())
    refusal = yield f"n,,\1auth=Bearer {token()}{pairs}\1\1".encode()
    if refusal:  # JSON with the reason; the broker then waits for one more byte before it says that it refuses
        yield b"\1"
        raise AccessDenied(f"the broker refuses the token: {refusal.decode(errors='replace')}")


def _token_source(properties: Mapping[str, str]) -> Callable[[], str]:
    """A function that is called for each login, because tokens expire."""
    url = properties.get(TOKEN_URL, "")
    if TOKEN in properties:
        return partial(_printable_token, properties[TOKEN], TOKEN)
    if TOKEN_COMMAND in properties:
        return partial(_token_of_command, properties[TOKEN_COMMAND])
    if url.startswith("file:"):
        return partial(_token_of_file, "/" + url.removeprefix("file:").lstrip("/"))
    raise WrongSettings(
        f"OAUTHBEARER needs a token: set {TOKEN_COMMAND} to a command that prints one,"
        f" {TOKEN_URL}=file:///... to a file that has one, or {TOKEN}"
    )


def _token_of_command(command: str) -> str:
    try:
        done = subprocess.run(  # noqa: S602  the user's own command line, as in their shell
            command, shell=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TOKEN_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise AccessDenied(f"{TOKEN_COMMAND} has printed no token within {TOKEN_TIMEOUT_S} s") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise AccessDenied(f"{TOKEN_COMMAND} has failed with status {done.returncode}: {last}")
    return _printable_token(done.stdout, TOKEN_COMMAND)


def _token_of_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return _printable_token(file.read(), path)
    except (OSError, UnicodeDecodeError) as problem:
        raise WrongSettings(f"{TOKEN_URL}: {problem}") from None


def _printable_token(text: str, source: str) -> str:
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable():
        raise AccessDenied(f"{source} has no token")
    return token
