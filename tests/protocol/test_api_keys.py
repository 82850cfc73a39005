"""The table of APIs against what a real Kafka 4.3.1 announces, and against the schemas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codegen.schema import load
from kohort.protocol.api_keys import APIS, NEVER_FLEXIBLE, Api, ApiKey
from kohort.protocol.codec import request_decoder, request_encoder, response_decoder, response_encoder

ANSWER = json.loads((Path(__file__).parent.parent / "data" / "api_versions.json").read_text())
ANNOUNCED = {api["key"]: api for api in ANSWER["apis"]}


def ids(api: Api) -> str:
    return api.name


@pytest.mark.parametrize("api", APIS.values(), ids=ids)
def test_names_and_versions_are_those_that_kafka_announces(api: Api) -> None:
    announced = ANNOUNCED[api.key]
    assert api.name == announced["name"]
    assert api.max_version == announced["max"]
    # Kafka announces Produce from 0 for old librdkafka, which would not compress otherwise, but serves it from 3.
    assert api.min_version == (3 if api.key is ApiKey.PRODUCE else announced["min"])


@pytest.mark.parametrize("api", APIS.values(), ids=ids)
def test_versions_are_flexible_where_the_schemas_say_so(api: Api) -> None:
    for direction in ("Request", "Response"):
        message = load(api.name + direction)
        flexible = [v for v in range(api.min_version, api.max_version + 1) if message.flexible(v)]
        assert flexible == list(range(max(api.first_flexible, api.min_version), api.max_version + 1))


def test_only_two_apis_are_never_flexible() -> None:
    never = [api.key for api in APIS.values() if api.first_flexible == NEVER_FLEXIBLE]
    assert never == [ApiKey.SASL_HANDSHAKE, ApiKey.OFFSET_DELETE]


def test_each_key_is_in_the_table_once() -> None:
    assert list(APIS) == sorted(ApiKey)
    assert all(api.key == key for key, api in APIS.items())


@pytest.mark.parametrize("api", APIS.values(), ids=ids)
def test_each_version_has_codecs_and_no_other_has(api: Api) -> None:
    for find in (request_decoder, request_encoder, response_decoder, response_encoder):
        for version in range(api.min_version, api.max_version + 1):
            assert callable(find(api.key, version))
        for version in (-1, api.min_version - 1, api.max_version + 1):
            with pytest.raises(KeyError):
                find(api.key, version)


def test_an_api_without_codecs_is_a_key_error() -> None:
    for api_key in (-1, 4, 5, 1000):
        with pytest.raises(KeyError):
            request_decoder(api_key, 0)
