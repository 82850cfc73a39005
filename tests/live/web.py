"""Requests to the HTTP port, and what it sends by itself."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from typing import Any, NamedTuple
from urllib.parse import urlsplit

TIMEOUT_S = 30
Events = Generator[tuple[str, Any], None, None]


class Told(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(url: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Told:
    connection, answer = _send(url, method, body, headers)
    with closing(connection), closing(answer):
        return Told(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())


def events(url: str, **headers: str) -> Events:
    """Name and data of each event, as they come."""
    connection, answer = _send(url, "GET", None, headers)
    with closing(connection), closing(answer):
        assert answer.status == 200, answer.read()
        name = ""
        while line := answer.readline().decode().rstrip("\n"):
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))
            if line.startswith(("data: ", "retry: ")):
                assert answer.readline() == b"\n"


def _send(url: str, method: str, body: bytes | None, headers: dict[str, str]) -> tuple[HTTPConnection, HTTPResponse]:
    parts = urlsplit(url)
    assert parts.hostname
    connection = HTTPConnection(parts.hostname, parts.port, timeout=TIMEOUT_S)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    connection.request(method, target, body, {name.replace("_", "-"): value for name, value in headers.items()})
    return connection, connection.getresponse()
