"""TLS as a client, from the `ssl.*` settings of Kafka's client.properties. Certificates and keys are PEM."""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Mapping
from contextlib import suppress

from kohort.client.errors import WrongSettings

PEM_BEGINS = b"-----BEGIN"
PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
TO_PEM = {
    "truststore": {
        "JKS": "keytool -list -rfc -keystore {path} > ca.pem",
        "PKCS12": "openssl pkcs12 -in {path} -nokeys -out ca.pem",
    },
    "keystore": {
        "JKS": "keytool -importkeystore -srckeystore {path} -destkeystore client.p12 -deststoretype PKCS12;"
        " openssl pkcs12 -in client.p12 -out client.pem",
        "PKCS12": "openssl pkcs12 -in {path} -out client.pem",
    },
}
JKS_MAGIC = b"\xfe\xed\xfe\xed"


def tls_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Trusts the truststore, or the system's certificates if there is none."""
    trusted = properties.get("ssl.truststore.certificates") or _pem("truststore", properties)
    context = ssl.create_default_context()
    if trusted is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cadata=trusted)
        except ssl.SSLError as problem:
            raise WrongSettings(f"ssl.truststore has no certificate that can be read: {problem.reason}") from None
    _choose_versions(context, properties)
    _load_own_certificate(context, properties)
    # An empty value is Kafka's way to say: the certificate must be trusted, but may be for another name.
    context.check_hostname = bool(properties.get("ssl.endpoint.identification.algorithm", "https").strip())
    return context


def _choose_versions(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    """Never below TLS 1.2: Kafka's clients take no older versions either."""
    named = [name.strip() for name in properties.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3").split(",")]
    chosen = [VERSIONS[name] for name in named if name in VERSIONS]
    if not chosen:
        raise WrongSettings(f"ssl.enabled.protocols must have at least one of {', '.join(VERSIONS)}")
    context.minimum_version, context.maximum_version = min(chosen), max(chosen)


def _load_own_certificate(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    key, chain = properties.get("ssl.keystore.key"), properties.get("ssl.keystore.certificate.chain")
    if key and chain:
        pem: str | None = f"{key.strip()}\n{chain.strip()}\n"
    else:
        pem = _pem("keystore", properties)
    if pem is None:
        return
    password = properties.get("ssl.key.password") or properties.get("ssl.keystore.password") or ""
    descriptor, path = tempfile.mkstemp()  # Python reads own certificates from files only; nobody else may read it
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(pem)
        context.load_cert_chain(path, password=lambda: password)
    except ssl.SSLError as problem:
        reason = problem.reason or "is ssl.key.password wrong?"
        raise WrongSettings(f"ssl.keystore has no certificate with its key that can be read: {reason}") from None
    finally:
        with suppress(OSError):
            os.unlink(path)


def without_files(properties: Mapping[str, str]) -> dict[str, str]:
    """The same settings for other machines: with the certificates themselves instead of the names of their files."""
    found = dict(properties)
    if not found.get("ssl.truststore.certificates") and (trusted := _pem("truststore", properties)) is not None:
        found["ssl.truststore.certificates"] = trusted
    if not found.get("ssl.keystore.key") and (own := _pem("keystore", properties)) is not None:
        blocks = [(match[1], match[0]) for match in PEM_BLOCK.finditer(own)]
        found["ssl.keystore.key"] = "\n".join(block for label, block in blocks if label.endswith("KEY"))
        found["ssl.keystore.certificate.chain"] = "\n".join(block for label, block in blocks if "CERTIF" in label)
    for store in TO_PEM:
        found.pop(f"ssl.{store}.location", None)
    return found


def _pem(store: str, properties: Mapping[str, str]) -> str | None:
    """The text of `ssl.truststore.location` or `ssl.keystore.location`; None if it is not set."""
    path = properties.get(f"ssl.{store}.location")
    if not path:
        return None
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError as problem:
        raise WrongSettings(f"ssl.{store}.location={path}: {problem.strerror}") from None
    if PEM_BEGINS not in raw:
        kind = "JKS" if raw.startswith(JKS_MAGIC) else "PKCS12"
        command = TO_PEM[store][kind].format(path=path)
        raise WrongSettings(
            f"ssl.{store}.location={path} is {kind}, and Kohort's client reads only PEM. To convert it: {command}"
        )
    return raw.decode("latin-1")
