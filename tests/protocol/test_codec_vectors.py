"""Our codecs against bytes that Kafka's own Java classes made, with kafka-python's codec as a second reader.

tests/data/message_vectors.xz holds 100 messages of each API, version and direction, and of each kind of log record;
tests/kafka/make_message_vectors.py makes it. Where a JVM is at hand, a few fresh ones are made on each run.
"""

from __future__ import annotations

import base64
import functools
import io
import json
import random
import uuid
from array import array
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from codegen.schema import Struct
from kohort.protocol.api_keys import APIS
from kohort.protocol.wire import LazyArray, Message
from tests.kafka import jars
from tests.kafka.make_message_vectors import read_vectors
from tests.protocol.random_messages import LOGS, Kind, kinds, random_values, to_java
from tests.protocol.test_codec_oracle import kafka_python_codec

KINDS = {kind.name: kind for kind in kinds()}
NAMES = list(KINDS)
JAVA_SOURCE = Path(jars.__file__).parent / "MessageVectors.java"


@functools.cache
def vectors() -> dict[str, dict[int, list[bytes]]]:
    found: dict[str, dict[int, list[bytes]]] = {}
    for name, version, messages in read_vectors():
        found.setdefault(name, {})[version] = messages
    return found


def test_there_are_100_vectors_of_each_api_version_and_direction() -> None:
    wanted = {(name, version) for name, kind in KINDS.items() for version in kind.versions()}
    for api in APIS.values():
        for direction in ("Request", "Response"):
            assert {(api.name + direction, v) for v in range(api.min_version, api.max_version + 1)} <= wanted
    for record in chain.from_iterable(topic.kinds.values() for topic in LOGS):
        assert (f"{record.name}Value", record.value_version) in wanted
    there = {(name, version): len(messages) for name, v in vectors().items() for version, messages in v.items()}
    assert there == dict.fromkeys(wanted, 100)


@pytest.mark.parametrize("name", NAMES)
def test_what_kafka_wrote_is_written_again_to_the_byte(name: str) -> None:
    kind = KINDS[name]
    for version, messages in vectors()[name].items():
        decode, encode = kind.decode(version), kind.encode(version)
        for raw in messages:
            assert encode(decode(raw)) == raw, (name, version, raw.hex())


@pytest.mark.parametrize("name", NAMES)
def test_kafka_python_reads_the_same_values_and_writes_the_same_bytes(name: str) -> None:
    kind = KINDS[name]
    theirs = kafka_python_codec(kind)
    for version, messages in vectors()[name].items():
        flexible = kind.message.flexible(version)
        for raw in messages:
            ours = kind.decode(version)(raw)
            if any(f.says_null() and getattr(ours, f.name) is None for f in kind.message.struct.tagged(version)):
                continue  # kafka-python does not know how Kafka writes the null of a tagged struct
            values = theirs.decode(io.BytesIO(raw), version, compact=flexible, tagged=flexible)
            assert_same_fields(kind.message.struct, version, ours, values, (name, version, raw.hex()))
            assert theirs.encode(with_zero_uuids(kind.message.struct, values), version, compact=flexible,
                                 tagged=flexible) == raw  # fmt: skip


def assert_same_fields(struct: Struct, version: int, ours: Message, theirs: dict[str, Any], where: object) -> None:
    plain = {f.name for f in struct.plain(version)}
    tagged = {f.name for f in struct.tagged(version)}
    assert plain <= theirs.keys() <= plain | tagged, where
    for f in struct.fields:
        value = getattr(ours, f.name)
        if f.name not in theirs:
            default = getattr(type(ours)(), f.name)
            assert value == default or f.says_null(), where
        elif f.struct is not None:
            assert_same_struct(f.struct, version, value, theirs[f.name], where)
        elif f.element is not None and f.element.struct is not None and value is not None:
            assert len(value) == len(theirs[f.name]), where
            for one, other in zip(value, theirs[f.name], strict=True):
                assert_same_fields(f.element.struct, version, one, other, where)
        else:
            assert plain_value(value) == plain_value(theirs[f.name]), (f.name, where)


def assert_same_struct(struct: Struct, version: int, ours: Any, theirs: Any, where: object) -> None:
    assert (ours is None) == (theirs is None), where
    if ours is not None:
        assert_same_fields(struct, version, ours, theirs, where)


def plain_value(value: Any) -> Any:
    """One form for what both sides hold: lists, bytes, and a zero uuid as kafka-python's None."""
    if isinstance(value, (list, tuple, array, LazyArray)):
        return [plain_value(item) for item in value]
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, memoryview):
        return bytes(value)
    return None if value == bytes(16) else value


def with_zero_uuids(struct: Struct, values: dict[str, Any]) -> dict[str, Any]:
    """kafka-python reads a zero uuid as None, and writes None as a zero uuid, except in an array and in tags."""
    made = dict(values)
    for f in struct.fields:
        value = values.get(f.name)
        inner = f.struct or (f.element.struct if f.element is not None else None)
        if inner is not None and value is not None:
            made[f.name] = (
                [with_zero_uuids(inner, item) for item in value]
                if f.element is not None
                else with_zero_uuids(inner, value)
            )
    return made


@pytest.mark.kafka
def test_fresh_random_messages_have_the_bytes_that_java_gives_them() -> None:
    seed = random.SystemRandom().randrange(10**9)
    rng = random.Random(seed)
    asked: list[tuple[Kind, int, Any]] = []
    for kind in KINDS.values():
        versions = list(kind.versions())
        for version in {versions[0], versions[-1], rng.choice(versions)}:
            asked += [(kind, version, random_values(kind, version, rng)) for _ in range(3)]
    lines = [
        f"{kind.name} {version} {json.dumps(to_java(kind.message.struct, version, values))}\n"
        for kind, version, values in asked
    ]
    answers = jars.java(str(JAVA_SOURCE), stdin="".join(lines)).splitlines()
    for (kind, version, values), answer in zip(asked, answers, strict=True):
        expected = base64.b64decode(answer)
        message = kind.build(values)
        assert kind.encode(version)(message) == expected, (f"seed {seed}", kind.name, version, values)
        assert kind.decode(version)(expected) == message, (f"seed {seed}", kind.name, version, values)
