"""Reads `sasl.jaas.config`, in which Kafka's clients keep user and password.

    org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="secret";

A class, a word that says whether the login is required, options, a semicolon. Values are in double quotes, in which a
backslash makes the next character an ordinary one, or they are bare words.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kohort.client.errors import WrongSettings

FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s="';]+)|([=;]))""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Jaas(NamedTuple):
    module: str  # the class, without its package
    options: dict[str, str]


def parse_jaas(text: str) -> Jaas:
    words = _words(text)
    if len(words) < 2 or words[1].lower() not in FLAGS:
        raise WrongSettings(
            'sasl.jaas.config must look like: ...PlainLoginModule required username="alice" password="secret";'
        )
    if words[-1] != ";":
        raise WrongSettings("sasl.jaas.config must end with a semicolon")
    rest = words[2:-1]
    names, equals, values = rest[0::3], rest[1::3], rest[2::3]
    if len(rest) % 3 or any(sign != "=" for sign in equals):
        raise WrongSettings('the options in sasl.jaas.config must look like: name="value"')
    return Jaas(words[0].rpartition(".")[2], dict(zip(names, values, strict=True)))


def _words(text: str) -> list[str]:
    words = []
    position = 0
    text = text.strip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:  # the text has a password in it: do not repeat it
            raise WrongSettings("sasl.jaas.config cannot be read: is a quote missing?")
        double, single, bare, sign = found.groups()
        quoted = double if double is not None else single
        words.append(_ESCAPE.sub(r"\1", quoted) if quoted is not None else bare or sign)
        position = found.end()
    return words
