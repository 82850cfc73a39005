"""Request and response headers: golden bytes, and headers that must be refused."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.schemas.fields.base import BaseField
from kafka.protocol.schemas.load_json import load_json

from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.headers import (
    has_response_tags,
    is_flexible,
    read_request_header,
    read_response_header,
    request_header,
    response_header,
)
from kohort.protocol.wire import MAX_STRING_BYTES

HEARTBEAT_V3 = bytes.fromhex("000c 0003 00000007 0003 616263")
HEARTBEAT_V4 = bytes.fromhex("000c 0004 00000007 0003 616263 00")


@pytest.mark.parametrize(("raw", "version"), [(HEARTBEAT_V3, 3), (HEARTBEAT_V4, 4)])
def test_golden_request_headers(raw: bytes, version: int) -> None:
    assert request_header(ApiKey.HEARTBEAT, version, 7, "abc") == raw
    header, pos = read_request_header(raw + b"body")
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (12, version, 7, "abc")
    assert (raw + b"body")[pos:] == b"body"
    assert repr(header) == f"RequestHeader(12, {version}, 7, 'abc')"


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_headers_are_those_of_kafka_python(api: object) -> None:
    request, response = (BaseField.parse_json(load_json(name)) for name in ("RequestHeader", "ResponseHeader"))
    api_key, low, high = api.key, api.min_version, api.max_version  # type: ignore[attr-defined]
    for version in range(low, high + 1):
        flexible = is_flexible(api_key, version)
        values = {"request_api_key": api_key, "request_api_version": version, "correlation_id": 9, "client_id": "ü"}
        assert request_header(api_key, version, 9, "ü") == request.encode(
            values, 2 if flexible else 1, compact=False, tagged=flexible
        )
        tagged = flexible and api_key != ApiKey.API_VERSIONS
        assert response_header(api_key, version, 9) == response.encode(
            {"correlation_id": 9}, 1 if tagged else 0, compact=False, tagged=tagged
        )
        read = response.decode(io.BytesIO(response_header(api_key, version, 9)), int(tagged), tagged=tagged)
        assert read["correlation_id"] == 9


def test_an_api_versions_answer_never_has_tags_in_its_header() -> None:
    assert is_flexible(ApiKey.API_VERSIONS, 3)
    assert not has_response_tags(ApiKey.API_VERSIONS, 3)
    assert response_header(ApiKey.API_VERSIONS, 4, 1) == b"\0\0\0\1"
    assert response_header(ApiKey.HEARTBEAT, 4, 1) == b"\0\0\0\1\0"


def test_a_null_client_id_counts_as_an_empty_one() -> None:
    header, pos = read_request_header(bytes.fromhex("000c 0003 00000007 ffff 2a"))
    assert (header.client_id, pos) == ("", 10)


def test_a_client_id_need_not_be_utf_8() -> None:
    assert read_request_header(bytes.fromhex("000c 0003 00000007 0004 61ff62c3"))[0].client_id == "a\ufffdb\ufffd"


def test_a_client_id_that_would_grow_too_long_when_it_is_mended_is_refused() -> None:
    start = bytes.fromhex("000c 0003 00000007")
    longest = MAX_STRING_BYTES // 3
    client_id = read_request_header(start + longest.to_bytes(2, "big") + b"\xff" * longest)[0].client_id
    assert len(client_id.encode()) <= MAX_STRING_BYTES
    with pytest.raises(MalformedMessage, match="not UTF-8"):
        read_request_header(start + (longest + 1).to_bytes(2, "big") + b"\xff" + b"a" * longest)


def test_unknown_tags_in_a_header_are_passed_over() -> None:
    header, pos = read_request_header(HEARTBEAT_V4[:-1] + bytes.fromhex("02 00 02 6162 ff01 00") + b"body")
    assert header.client_id == "abc"
    assert pos == len(HEARTBEAT_V4) + 7
    assert read_response_header(bytes.fromhex("00000007 01 05 01 61 2a"), ApiKey.HEARTBEAT, 4) == (7, 8)


def test_an_unknown_api_has_a_header_without_tags() -> None:
    assert read_request_header(bytes.fromhex("03e8 0000 00000007 0000 ff"))[1] == 10


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        HEARTBEAT_V3[:9],
        HEARTBEAT_V3[:-1],
        HEARTBEAT_V4[:-1],
        bytes.fromhex("000c 0003 00000007 7fff 61"),
        HEARTBEAT_V4[:-1] + b"\x01",
        HEARTBEAT_V4[:-1] + b"\x01\x00\x05ab",
        HEARTBEAT_V4[:-1] + b"\xff\xff\xff\xff\x07",
        HEARTBEAT_V4[:-1] + b"\xff" * 2000,
    ],
    ids=range(9),
)
def test_a_header_that_cannot_be_read_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read_request_header(raw)


@pytest.mark.parametrize("raw", [b"", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\1\1", b"\0\0\0\1\1\0\4abc"], ids=range(5))
def test_a_response_header_that_cannot_be_read_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read_response_header(raw, ApiKey.HEARTBEAT, 4)


@settings(deadline=None)  # the machine may be busy
@given(st.binary(max_size=60))
def test_any_bytes_are_a_header_or_malformed(raw: bytes) -> None:
    try:
        _, pos = read_request_header(raw)
    except MalformedMessage:
        return
    assert 10 <= pos <= len(raw)


@pytest.mark.parametrize("length", ["ffff", "fffe", "8000"])
def test_any_negative_length_of_the_client_id_means_that_there_is_none_as_in_kafka(length: str) -> None:
    header, pos = read_request_header(bytes.fromhex(f"000c 0003 00000007 {length}"))
    assert (header.client_id, pos) == ("", 10)
