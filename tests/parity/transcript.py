"""A transcript as people read it: each request, and the answer below it. T is the scenario's topic, T-... its group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kohort.protocol.api_keys import APIS
from kohort.protocol.codec import request_decoder
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.headers import read_request_header
from kohort.protocol.wire import Message
from tests.parity.peer import Exchange
from tests.parity.scenario import Scenario

LENGTH_BYTES = 4


def transcript_text(scenario: Scenario, version: int, transcript: Sequence[Exchange]) -> str:
    told = "".join(f"{_request_text(exchange)}\n    {short(exchange.answer)}\n" for exchange in transcript)
    topic = "".join(c if c.isalnum() else "-" for c in scenario.name.lower())[:80] + f"-v{version}"
    return f"\n=== {APIS[scenario.api_key].name} v{version}: {scenario.name}\n{told.replace(topic, 'T')}"


def _request_text(exchange: Exchange) -> str:
    if not exchange.request:
        return exchange.api
    frame = exchange.request[LENGTH_BYTES:]
    try:
        header, pos = read_request_header(frame)
        return f"v{exchange.version} {short(request_decoder(header.api_key, header.api_version)(frame, pos))}"
    except (MalformedMessage, LookupError):  # some scenarios send what cannot be read
        return f"{exchange.api} v{exchange.version}: {frame.hex()}"


def short(value: Any) -> str:
    """A message with the fields that do not have their default."""
    if isinstance(value, Message):
        usual = type(value)()
        fields = [
            (name, getattr(value, name)) for name in value.__slots__ if getattr(value, name) != getattr(usual, name)
        ]
        return f"{type(value).__name__}({', '.join(f'{name}={short(each)}' for name, each in fields)})"
    if isinstance(value, list):
        return f"[{', '.join(map(short, value))}]"
    return repr(value)
