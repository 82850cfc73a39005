"""Settings of a client, in the words of Kafka's own client.properties (`--command-config FILE`).

    security.protocol=SASL_SSL
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="secret";
    ssl.truststore.location=/etc/kafka/ca.pem

What a client of Kafka's may have besides, and Kohort's has no use for (`group.id`, `acks`), is ignored.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from kohort.client.errors import WrongSettings
from kohort.client.jaas import parse_jaas
from kohort.client.sasl import Sasl, sasl_of
from kohort.client.tls import tls_context
from kohort.properties import parse_properties

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
BOOTSTRAP_VARIABLE = "KOHORT_BOOTSTRAP_SERVER"
FILE_VARIABLE = "KOHORT_COMMAND_CONFIG"
DEFAULT_BOOTSTRAP = "localhost:9092"
MAX_PORT = 65_535


@dataclass(frozen=True, slots=True)
class ClientSettings:
    bootstrap: tuple[str, ...] = (DEFAULT_BOOTSTRAP,)
    client_id: str = "kohort-cli"
    timeout_s: float = 30.0
    tls: ssl.SSLContext | None = None
    sasl: Sasl | None = None

    @property
    def protocol(self) -> str:
        """The value of security.protocol."""
        return PROTOCOLS[(self.tls is not None) + 2 * (self.sasl is not None)]


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`. Raises ValueError if `address` is not of that form."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > MAX_PORT:
        raise ValueError(f"{address!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def parse_addresses(text: str) -> tuple[str, ...]:
    """The addresses in `HOST:PORT,HOST:PORT`. Raises ValueError."""
    addresses = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for address in addresses:
        parse_address(address)
    if not addresses:
        raise ValueError(f"{text!r} is not HOST:PORT")
    return addresses


def load_settings(bootstrap: str | None, file: str | None, environment: Mapping[str, str]) -> ClientSettings:
    """What the command line says, or else the environment, or else the file of settings."""
    return settings_of(load_properties(bootstrap, file, environment))


def load_properties(bootstrap: str | None, file: str | None, environment: Mapping[str, str]) -> dict[str, str]:
    """The same as properties, which can be sent to another process."""
    path = file or environment.get(FILE_VARIABLE)
    properties = {} if not path else read_file(path)
    given = bootstrap or environment.get(BOOTSTRAP_VARIABLE) or properties.get("bootstrap.servers")
    return {**properties, "bootstrap.servers": given or DEFAULT_BOOTSTRAP}


def read_file(path: str) -> dict[str, str]:
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError as problem:
        raise WrongSettings(f"{path}: {problem.strerror}") from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("latin-1")  # as Java reads it
    try:
        return parse_properties(text)
    except ValueError as problem:
        raise WrongSettings(f"{path}: {problem}") from None


def settings_of(properties: Mapping[str, str]) -> ClientSettings:
    """Raises WrongSettings, which says which setting cannot be used."""
    protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise WrongSettings(f"security.protocol={protocol}: must be one of {', '.join(PROTOCOLS)}")
    sasl = None
    if protocol.startswith("SASL"):
        jaas = properties.get("sasl.jaas.config")
        mechanism = properties.get("sasl.mechanism", "GSSAPI").strip()
        sasl = sasl_of(mechanism, parse_jaas(jaas) if jaas else None, properties)
    try:
        bootstrap = parse_addresses(properties.get("bootstrap.servers", DEFAULT_BOOTSTRAP))
    except ValueError as problem:
        raise WrongSettings(str(problem)) from None
    return ClientSettings(
        bootstrap,
        properties.get("client.id") or "kohort-cli",
        _seconds("request.timeout.ms", properties),
        tls_context(properties) if protocol.endswith("SSL") else None,
        sasl,
    )


def _seconds(name: str, properties: Mapping[str, str]) -> float:
    text = properties.get(name, "30000").strip()
    if not text.isdecimal() or int(text) == 0:
        raise WrongSettings(f"{name}={text}: must be a number of milliseconds")
    return int(text) / 1000
