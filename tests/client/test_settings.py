"""client.properties, the environment and the command line; and certificates in forms that are and are not read."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from kohort.client.errors import WrongSettings
from kohort.client.settings import load_settings, settings_of
from tests.client.certificates import Authority

JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="x";'
SCRAM = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": JAAS}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1, file:2\nclient.id=me\nrequest.timeout.ms=1500\nacks=all\n")
    both = {"KOHORT_BOOTSTRAP_SERVER": "env:1", "KOHORT_COMMAND_CONFIG": str(file)}
    assert load_settings("line:1,line:2", str(file), both).bootstrap == ("line:1", "line:2")
    assert load_settings(None, None, both).bootstrap == ("env:1",)
    alone = load_settings(None, None, {"KOHORT_COMMAND_CONFIG": str(file)})
    assert (alone.bootstrap, alone.client_id, alone.timeout_s) == (("file:1", "file:2"), "me", 1.5)
    assert load_settings(None, None, {}).bootstrap == ("localhost:9092",)


def test_security_is_off_unless_a_setting_says_so() -> None:
    assert settings_of({}).protocol == "PLAINTEXT"
    secured = settings_of(SCRAM)
    assert secured.protocol == "SASL_SSL"
    assert secured.sasl is not None
    assert (secured.sasl.mechanism, secured.sasl.user) == ("SCRAM-SHA-512", "ann")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (
            {"security.protocol": "TLS"},
            "security.protocol=TLS: must be one of PLAINTEXT, SSL",
        ),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism=GSSAPI: Kohort's client knows PLAIN"),
        ({**SCRAM, "sasl.jaas.config": "X required;"}, "SCRAM-SHA-512 needs sasl.jaas.config with a username"),
        ({"bootstrap.servers": "broker"}, "'broker' is not HOST:PORT"),
        ({"bootstrap.servers": " , "}, "' , ' is not HOST:PORT"),
        ({"request.timeout.ms": "soon"}, "request.timeout.ms=soon: must be a number of milliseconds"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/no/ca.pem"}, "No such file or directory"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1"}, "ssl.enabled.protocols must have"),
        ({"security.protocol": "SSL", "ssl.truststore.certificates": "x"}, "no certificate that can be read"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(WrongSettings) as told:
        settings_of(given)
    assert complaint in str(told.value)


def test_pem_files_are_read_and_pem_texts_too(authority: Authority) -> None:
    own = authority.sign("client")
    by_file = {"ssl.truststore.location": str(authority.certificate), "ssl.keystore.location": str(own)}
    key, _, chain = own.read_text().partition("-----BEGIN CERTIFICATE-----")
    by_text = {
        "ssl.truststore.certificates": authority.certificate.read_text(),
        "ssl.keystore.key": key,
        "ssl.keystore.certificate.chain": "-----BEGIN CERTIFICATE-----" + chain,
    }
    for given in (by_file, by_text):
        context = settings_of({"security.protocol": "SSL", **given}).tls
        assert context is not None
        assert [each["subject"] for each in context.get_ca_certs()] == [((("commonName", "authority"),),)]
        assert context.check_hostname


def test_an_empty_algorithm_accepts_any_name_but_not_any_certificate() -> None:
    context = settings_of({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}).tls
    assert context is not None
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_REQUIRED)


@pytest.mark.parametrize(
    ("content", "kind", "command"),
    [(b"\xfe\xed\xfe\xed\0\0\0\2", "JKS", "keytool -list -rfc"), (b"0\x82\1\2", "PKCS12", "openssl pkcs12 -in")],
)
def test_java_keystores_are_refused_with_the_command_that_converts_them(
    tmp_path: Path, content: bytes, kind: str, command: str
) -> None:
    store = tmp_path / "trust.store"
    store.write_bytes(content)
    with pytest.raises(WrongSettings) as told:
        settings_of({"security.protocol": "SSL", "ssl.truststore.location": str(store)})
    assert f"is {kind}, and Kohort's client reads only PEM. To convert it: {command}" in str(told.value)
