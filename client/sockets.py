"""Opens a connection to a broker, and says in words what is wrong with it."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from time import monotonic

from kohort.client.errors import AccessDenied, ClientError, ConnectionLost

NOT_TLS = ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
WANTS_CERTIFICATE = ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE", "BAD_CERTIFICATE")
OTHER_NAME = (62, 64)  # OpenSSL's codes: the certificate is for another host name, or another IP address


def open_socket(address: str, host: str, port: int, tls: ssl.SSLContext | None, timeout_s: float) -> socket.socket:
    """A connected socket, with TLS if there is a context. All of it takes at most `timeout_s`."""
    deadline = monotonic() + timeout_s
    plain = _connect(address, host, port, deadline)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is None:
            return plain
        plain.settimeout(max(deadline - monotonic(), 0.1))
        return tls.wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as problem:
        raise _not_trusted(address, problem) from None
    except TimeoutError:
        raise ConnectionLost(f"{address} does not answer the TLS handshake: is it a listener without TLS?") from None
    except ssl.SSLError as problem:
        raise _tls_failed(address, problem) from None
    except OSError:
        raise ConnectionLost(
            f"{address} closed the connection during the TLS handshake: is it a listener without TLS?"
        ) from None
    finally:
        if tls is not None:  # a wrapped socket has taken over the descriptor; after a failure this closes it
            with suppress(OSError):
                plain.close()


def _connect(address: str, host: str, port: int, deadline: float) -> socket.socket:
    """Try every address that the name stands for; each gets its share of the time that is left."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:  # a name that no DNS can have
        raise ClientError(f"{address!r} is not HOST:PORT") from None
    except OSError as problem:
        raise ConnectionLost(f"no broker answers at {address}: {problem.strerror or problem}") from None
    reason = "it has no address"
    for number, (family, kind, protocol, _, place) in enumerate(found):
        opened = socket.socket(family, kind, protocol)
        opened.settimeout(max((deadline - monotonic()) / (len(found) - number), 0.1))
        try:
            opened.connect(place)
            return opened
        except TimeoutError:
            reason = "the connection timed out"
        except OSError as problem:
            reason = problem.strerror or str(problem)
        opened.close()
    raise ConnectionLost(f"no broker answers at {address}: {reason}")


def _not_trusted(address: str, problem: ssl.SSLCertVerificationError) -> ClientError:
    if problem.verify_code in OTHER_NAME:
        return AccessDenied(
            f"the certificate of {address} is for another name: {problem.verify_message}."
            " ssl.endpoint.identification.algorithm= (empty) accepts any name"
        )
    return AccessDenied(
        f"the certificate of {address} is not trusted: {problem.verify_message}."
        " ssl.truststore.location must have the certificate of the authority that has signed it"
    )


def _tls_failed(address: str, problem: ssl.SSLError) -> ClientError:
    reason = problem.reason or str(problem)
    if any(word in reason for word in NOT_TLS) or isinstance(problem, ssl.SSLEOFError):
        return ClientError(
            f"{address} speaks no TLS: security.protocol must be PLAINTEXT or SASL_PLAINTEXT for this listener"
        )
    return lost(address, problem)


def lost(address: str, problem: OSError) -> ClientError:
    """What to say when reading or writing has failed."""
    if isinstance(problem, ssl.SSLError) and problem.reason:
        if any(word in problem.reason for word in WANTS_CERTIFICATE):
            return AccessDenied(f"{address} wants another certificate of the client: ssl.keystore ({problem.reason})")
        return ConnectionLost(f"{address}: TLS has failed: {problem.reason}")
    return ConnectionLost(f"{address} closed the connection: {problem.strerror or problem}")
