"""Random messages of every API and version, as plain values, and the three forms of them that tests compare.

Values follow the schema: a dict per struct, with only the fields of that version. From there to our classes, to what
kafka-python's codec takes, and to the JSON that Java's converters read. The pools are small on purpose: edge values
come up often, and the vectors made from them compress well.
"""

from __future__ import annotations

import base64
import importlib
import random
import uuid
from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

from codegen.schema import Field, Message, Struct, load
from kohort.protocol.api_keys import APIS
from kohort.protocol.log_records import CONSUMER_OFFSETS
from kohort.protocol.share_state_records import SHARE_GROUP_STATE
from kohort.protocol.transaction_records import TRANSACTION_STATE

LOGS = (CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE)
INTEGERS = {
    "int8": (0, 1, -1, 127, -128),
    "int16": (0, 1, -1, 32767, -32768, 35),
    "uint16": (0, 1, 9092, 65535),
    "int32": (0, 1, -1, 2**31 - 1, -(2**31), 45000, 7),
    "int64": (0, 1, -1, 2**63 - 1, -(2**63), 1_790_000_000_000),
}
STRINGS = ("", "a", "orders", "consumer-1-9f1c", "日本", "é\x00x", "\U0001f600", "long-" * 30)
BINARIES = (b"", b"\x00", b"\xff" * 7, bytes(range(64)), b"z" * 200)
UUIDS = (bytes(16), bytes(range(16)), b"\xff" * 16, bytes(15) + b"\x01")


class Kind(NamedTuple):
    """One message type: a request, a response, a log key or value, or part of ConsumerProtocol."""

    name: str  # as in the schema: JoinGroupRequest
    module: str
    part: str  # request, response, key, value, subscription, assignment
    message: Message

    def decode(self, version: int) -> Any:
        return getattr(self._module(), f"decode_{self.part}")[version]

    def encode(self, version: int) -> Any:
        function = getattr(self._module(), f"encode_{self.part}")[version]

        def joined(message: Any) -> bytes:
            packed = function(message)
            return packed if isinstance(packed, bytes) else b"".join(packed)

        return joined

    def versions(self) -> range:
        return range(self.message.versions[0], self.message.versions[1] + 1)

    def build(self, values: dict[str, Any]) -> Any:
        return to_ours(self._module(), self.message.struct, values)

    def _module(self) -> Any:
        return importlib.import_module(f"kohort.protocol.messages.{self.module}")


def kinds() -> Iterator[Kind]:
    for api in APIS.values():
        for part in ("request", "response"):
            message = load(f"{api.name}{part.title()}")
            message.restrict(api.min_version, api.max_version)
            yield Kind(f"{api.name}{part.title()}", api.module, part, message)
    for record in chain.from_iterable(topic.kinds.values() for topic in LOGS):
        for part in ("key", "value"):
            name = f"{record.name}{part.title()}"
            yield Kind(name, record.module, part, load(name))
    for part in ("subscription", "assignment"):
        name = f"ConsumerProtocol{part.title()}"
        yield Kind(name, "consumer_protocol", part, load(name))


def random_values(kind: Kind, version: int, rng: random.Random) -> dict[str, Any]:
    return _struct_values(kind.message.struct, version, rng)


def _struct_values(struct: Struct, version: int, rng: random.Random) -> dict[str, Any]:
    values = {f.name: _value(f, version, rng) for f in struct.plain(version)}
    for f in struct.tagged(version):
        if f.says_null():
            values[f.name] = _value(f, version, rng)
        elif rng.random() < 0.4 and (value := _value(f, version, rng)) != _default(f):
            values[f.name] = value  # the default is not written, and comes back as if nobody had given it
    return values


def _default(f: Field) -> Any:
    if f.struct is not None:
        return None if f.ever_nullable() else {inner.name: _default(inner) for inner in f.struct.fields}
    return f.default


def _value(f: Field, version: int, rng: random.Random) -> Any:
    if f.nullable(version) and rng.random() < 0.25:
        return None
    if f.element is not None:
        return [_value(f.element, version, rng) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    if f.struct is not None:
        return _struct_values(f.struct, version, rng)
    if f.type in INTEGERS:
        return rng.choice(INTEGERS[f.type])
    if f.type == "bool":
        return rng.random() < 0.5
    if f.type == "float64":
        return rng.choice((0.0, 1.5, -2.25e10))
    if f.type == "uuid":
        return rng.choice(UUIDS)
    return rng.choice(STRINGS if f.type == "string" else BINARIES)


def to_ours(module: Any, struct: Struct, values: dict[str, Any]) -> Any:
    """An object of the generated class."""
    fields = {f.name: f for f in struct.fields}
    made = {name: _to_ours_value(module, fields[name], value) for name, value in values.items()}
    return _class_of(module, struct)(**made)


def _to_ours_value(module: Any, f: Field, value: Any) -> Any:
    if value is None:
        return None
    if f.element is not None:
        return [_to_ours_value(module, f.element, item) for item in value]
    if f.struct is not None:
        return to_ours(module, f.struct, value)
    return value


def _class_of(module: Any, struct: Struct) -> Any:
    """Response structs that share a name with a different request struct carry a prefix."""
    wanted = tuple(f.name for f in struct.fields)
    for prefix in ("", "Response"):
        found = getattr(module, prefix + struct.class_name, None)
        if found is not None and found.__slots__ == wanted:
            return found
    raise LookupError(struct.class_name)


def to_kafka_python(struct: Struct, version: int, values: dict[str, Any]) -> dict[str, Any]:
    """A dict as kafka-python's codec takes it: uuids are its own objects, and absent tagged fields have defaults."""
    made = {}
    for f in struct.fields:
        if f.name in values:
            made[f.name] = _to_kafka_python_value(f, version, values[f.name])
    return made


def _to_kafka_python_value(f: Field, version: int, value: Any) -> Any:
    if value is None:
        return None
    if f.element is not None:
        return [_to_kafka_python_value(f.element, version, item) for item in value]
    if f.struct is not None:
        return to_kafka_python(f.struct, version, value)
    return uuid.UUID(bytes=value) if f.type == "uuid" else value


def to_java(struct: Struct, version: int, values: dict[str, Any]) -> dict[str, Any]:
    """The JSON that Java's generated converters read."""
    made = {}
    for f in struct.fields:
        if f.name in values:
            made[_camel_case(f.name)] = _to_java_value(f, version, values[f.name])
    return made


def _to_java_value(f: Field, version: int, value: Any) -> Any:
    if value is None:
        return None
    if f.element is not None:
        return [_to_java_value(f.element, version, item) for item in value]
    if f.struct is not None:
        return to_java(f.struct, version, value)
    if f.type == "uuid":
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    if f.type in ("bytes", "records"):
        return base64.b64encode(value).decode()
    return value


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
