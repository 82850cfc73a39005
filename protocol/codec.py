"""Finds the generated codec of an API and version. Modules are imported when the first such message comes or goes.

A decoder takes (frame, position after the header) and returns the message; whatever is wrong with the bytes leaves as
MalformedMessage. An encoder takes a message and returns bytes, or a list of parts for APIs that carry records, so that
records can leave without being copied.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from kohort.protocol.api_keys import APIS

Decoder = Callable[..., Any]  # (frame, position) -> message
Encoder = Callable[[Any], Any]


def request_decoder(api_key: int, version: int) -> Decoder:
    return _find(api_key, version, "decode_request")


def response_encoder(api_key: int, version: int) -> Encoder:
    return _find(api_key, version, "encode_response")


def request_encoder(api_key: int, version: int) -> Encoder:
    return _find(api_key, version, "encode_request")


def response_decoder(api_key: int, version: int) -> Decoder:
    return _find(api_key, version, "decode_response")


def _find(api_key: int, version: int, table: str) -> Callable[..., Any]:
    """KeyError for an API or version without a codec; callers check APIS first."""
    module = import_module(f"kohort.protocol.messages.{APIS[api_key].module}")
    found: Callable[..., Any] = getattr(module, table)[version]
    return found
