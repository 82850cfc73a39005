"""Request and response headers: the one place that knows their bytes.

    request    | api key int16 | version int16 | correlation id int32 | client id: int16 length, bytes | tags |
               0               2               4                      8
    response   | correlation id int32 | tags |

On the wire an int32 with the length of the rest stands before either (protocol/frames.py).

Tagged fields are there from an API's first flexible version on, with one exception: ApiVersions answers never have
them in the header, since the client cannot know yet what the broker speaks. The client id keeps its int16 length in
every version.

The broker's connection reads the parts of a request header one by one, because it remembers the client id and the API
of the last request; everybody else calls `read_request_header`. Both read the client id and the tags with `read_tail`.
"""

from __future__ import annotations

from struct import Struct

from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.wire import READ_ERRORS, skip_tags, start_large_request

CLIENT_ID_AT = 8  # where a request's client id begins: behind the correlation id
MIN_REQUEST_HEADER_BYTES = 10  # with an empty client id, without tags
MAX_HEADER_TAGS = 127  # Kafka has defined none; the header is read on the event loop, however long it is

_start = Struct(">hhi").unpack_from
_pack_request = Struct(">hhih").pack
_client_id_length = Struct(">h").unpack_from
_correlation_id = Struct(">i")
_API_VERSIONS = int(ApiKey.API_VERSIONS)

# Api key and version read as one number, the kind of a request: api key << 16 | version. One number is a quicker key
# of a dict than a pair.
read_kind = Struct(">Ii").unpack_from  # kind, correlation id
read_framed_kind = Struct(">iIi").unpack_from  # the frame's length, kind, correlation id
pack_framed_kind = Struct(">ihh").pack  # the frame's length, api key, version: everything before the correlation id
_kind = Struct(">I").pack
_api_key_and_version = Struct(">hh").unpack

pack_framed_response = Struct(">ii").pack  # the frame's length, correlation id
pack_framed_tagged_response = Struct(">iix").pack  # likewise, and no tags


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
    """The header and where the body starts."""
    if len(frame) < MIN_REQUEST_HEADER_BYTES:
        raise MalformedMessage(f"a request header of less than {MIN_REQUEST_HEADER_BYTES} bytes")
    api_key, version, correlation_id = _start(frame)
    client_id, pos = read_tail(frame, CLIENT_ID_AT, is_flexible(api_key, version))
    return RequestHeader(api_key, version, correlation_id, decode_client_id(client_id)), pos


def read_tail(frame: bytes, pos: int, flexible: bool) -> tuple[bytes, int]:
    """The client id's bytes, whose length is at `pos`, and where the body starts: behind the tags, if there are any.

    A null client id, any negative length, counts as an empty one. Tags of a header mean nothing to us.
    """
    try:
        (length,) = _client_id_length(frame, pos)
        pos += 2
        if length > 0:
            start = pos
            pos += length
            client_id = frame[start:pos]
        else:
            client_id = b""
        if flexible:
            tags = frame[pos]
            pos += 1
            if tags:
                if tags > MAX_HEADER_TAGS:
                    raise MalformedMessage(f"more than {MAX_HEADER_TAGS} tagged fields in a request header")
                start_large_request(len(frame))
                pos = skip_tags(tags, frame, pos)
    except READ_ERRORS as problem:
        raise MalformedMessage(f"request header: {problem}") from None
    if pos > len(frame):
        raise MalformedMessage("the request header is longer than its frame")
    return client_id, pos


def body_at(frame: bytes, pos: int) -> int:
    """As `read_tail` says where the body starts, if the header was read before and has no tags. Otherwise -1."""
    length = frame[pos] << 8 | frame[pos + 1]
    pos += 2 + length if length < 0x8000 else 2
    return -1 if frame[pos] else pos + 1


def decode_client_id(raw: bytes) -> str:
    return raw.decode("utf-8", "java")


def api_key_and_version(kind: int) -> tuple[int, int]:
    """Both parts of a request's kind; either may be negative in a request that nobody should send."""
    api_key, version = _api_key_and_version(_kind(kind))
    return api_key, version


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
