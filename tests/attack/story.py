"""Attacks written by hand: requests from messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import pack
from typing import Any

from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.codec import request_encoder
from kohort.protocol.headers import request_header
from tests.attack.attacker import Attack


def request(api_key: ApiKey, version: int, message: Any) -> bytes:
    body = request_encoder(api_key, version)(message)
    data = request_header(api_key, version, 1, "attacker") + (body if isinstance(body, bytes) else b"".join(body))
    return pack(">i", len(data)) + data


def one(api_key: ApiKey, version: int, shape: str, message: Callable[[], Any], count: int = 1, **more: Any) -> Attack:
    """The same request `count` times; `message` is called when the state is prepared."""
    name = f"{APIS[api_key].name} v{version}"
    return Attack(name, shape, lambda _: [request(api_key, version, message())] * count, **more)


def several(api_key: ApiKey, version: int, shape: str, messages: Callable[[], Iterable[Any]], **more: Any) -> Attack:
    """Different requests of one API."""
    name = f"{APIS[api_key].name} v{version}"
    return Attack(name, shape, lambda _: [request(api_key, version, each) for each in messages()], **more)
