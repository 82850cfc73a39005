"""Request and response headers.

    request    | api key int16 | version int16 | correlation id int32 | client id: int16 length, bytes | tags |
    response   | correlation id int32 | tags |

Tagged fields are there from an API's first flexible version on, with one exception: ApiVersions answers never have
them in the header, since the client cannot know yet what the broker speaks. The client id keeps its int16 length in
every version.
"""

from __future__ import annotations

from struct import Struct

from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.wire import READ_ERRORS, skip_tags, start_large_request

_fixed = Struct(">hhih").unpack_from
_pack_request = Struct(">hhih").pack
_correlation_id = Struct(">i")
_API_VERSIONS = int(ApiKey.API_VERSIONS)


class RequestHeader:
    __slots__ = ("api_key", "api_version", "client_id", "correlation_id")

    def __init__(self, api_key: int, api_version: int, correlation_id: int, client_id: str) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    def __repr__(self) -> str:
        return f"RequestHeader({self.api_key}, {self.api_version}, {self.correlation_id}, {self.client_id!r})"


def read_request_header(frame: bytes) -> tuple[RequestHeader, int]:
    """The header and where the body starts. A null client id, any negative length, counts as an empty one."""
    try:
        api_key, version, correlation_id, length = _fixed(frame)
        pos = 10
        client_id = ""
        if length > 0:
            pos += length
            client_id = frame[10:pos].decode("utf-8", "java")
        if is_flexible(api_key, version):
            tags = frame[pos]
            pos += 1
            if tags:
                start_large_request(len(frame))
                pos = skip_tags(tags, frame, pos)
    except READ_ERRORS as problem:
        raise MalformedMessage(f"request header: {problem}") from None
    if pos > len(frame):
        raise MalformedMessage("the request header is longer than its frame")
    return RequestHeader(api_key, version, correlation_id, client_id), pos


def is_flexible(api_key: int, version: int) -> bool:
    api = APIS.get(api_key)
    return api is not None and version >= api.first_flexible


def response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    packed = _correlation_id.pack(correlation_id)
    return packed + b"\0" if has_response_tags(api_key, version) else packed


def has_response_tags(api_key: int, version: int) -> bool:
    return api_key != _API_VERSIONS and is_flexible(api_key, version)


def request_header(api_key: int, version: int, correlation_id: int, client_id: str) -> bytes:
    """What a client sends."""
    raw = client_id.encode()
    packed = _pack_request(api_key, version, correlation_id, len(raw)) + raw
    return packed + b"\0" if is_flexible(api_key, version) else packed


def read_response_header(frame: bytes, api_key: int, version: int) -> tuple[int, int]:
    """The correlation id and where the body starts."""
    try:
        (correlation_id,) = _correlation_id.unpack_from(frame)
        pos = 4
        if has_response_tags(api_key, version):
            tags = frame[pos]
            pos += 1
            if tags:
                start_large_request(len(frame))
                pos = skip_tags(tags, frame, pos)
    except READ_ERRORS as problem:
        raise MalformedMessage(f"response header: {problem}") from None
    return correlation_id, pos
