"""The largest requests that the schemas allow, for every served API: made from the schemas, field by field.

A `Recipe` says what is extreme about a request. One array grows to `count` elements, and everything else stays as a
client could send it, so that the request passes the guards of its handler and reaches the work:

    Recipe("topics.partitions", 100_000, names="existing")

is one topic that exists, with 100,000 times the partition 0. With names="different" the elements have different names,
or numbers of partitions. They are written once, with a mark where the name stands, and copied with the mark replaced:
writing a hundred thousand elements field by field would take longer than the broker takes to read them.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from struct import pack
from typing import NamedTuple

from codegen.schema import FIXED, Field, Message, Struct, load
from kohort.broker.api_table import HANDLERS
from kohort.broker.connection import MAX_OTHER_REQUEST_BYTES
from kohort.protocol.api_keys import APIS, Api, ApiKey
from kohort.protocol.headers import request_header
from kohort.protocol.record_batch import build_batch
from kohort.protocol.wire import MAX_ELEMENTS_PER_REQUEST, MAX_STRING_BYTES, uvarint

MAX_PRODUCE_BYTES = 104_857_600  # socket.request.max.bytes
MB = 1_000_000

TOPIC = "attacked-topic"
GROUP = "attacked-group"

# What a field holds if nothing is said about it, by the last part of its path; where that is ambiguous, by the path.
TEXTS = {
    "name": TOPIC,
    "topic": TOPIC,
    "topics": TOPIC,
    "topic_name": TOPIC,
    "topic_names": TOPIC,
    "resource_name": TOPIC,
    "group_id": GROUP,
    "groups": GROUP,
    "groups_names": GROUP,
    "key": GROUP,
    "coordinator_keys": GROUP,
    "configs.name": "retention.ms",
    "configs.value": "86400000",
    "configuration_keys": "retention.ms",
    "entity_type": "user",
    "ops.key": "producer_byte_rate",
    "protocols.name": "range",
    "protocol_type": "consumer",
    "protocol_name": "range",
    "feature": "metadata.version",
    "states_filter": "Stable",
    "types_filter": "classic",
    "client_software_name": "attacker",
    "client_software_version": "1",
}
NUMBERS = {
    "session_timeout_ms": 30_000,
    "rebalance_timeout_ms": 30_000,
    "timeout_ms": 1_000,
    "transaction_timeout_ms": 60_000,
    "max_wait_ms": 100,
    "min_bytes": 1,
    "partition_max_bytes": 1_048_576,
    "max_num_offsets": 1,
    "acks": -1,
    "generation_id": -1,
    "replica_id": -1,
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 4,
    "resource_type": 2,
    "max_version_level": 7,
    "retention_time_ms": -1,
}
PARTITION_NUMBERS = {"partition_index", "partition", "index"}
NULL_TEXTS = {"group_instance_id", "transactional_id", "cluster_id", "member_id"}  # null if they may be, or else empty
LEFT_OUT = {"assignments"}  # of CreateTopics and CreatePartitions: wrong beside a number of partitions

# Marks that are replaced in each copy of an element. They are as long as what replaces them.
TEXT_MARK = b"<mark-->"
NUMBER_MARK = b"\x7fN#\x7f"
UUID_MARK = b"<mark of a uuid>"
MARKS: dict[bytes, Callable[[int], bytes]] = {
    TEXT_MARK: lambda number: b"%08d" % number,
    NUMBER_MARK: lambda number: pack(">i", number),
    UUID_MARK: lambda number: b"%016d" % number,
}

_RECORDS = build_batch([(b"key", b"value")], timestamp=1_790_000_000_000)


@dataclass(frozen=True)
class Recipe:
    grown: str = ""  # the path of the array that has `count` elements
    count: int = 1
    inner: int = 1  # elements in each array inside an element of that array
    names: str = "existing"  # of its elements: existing, unknown, different, empty, long
    numbers: str = "usual"  # usual, largest, smallest
    nulls: bool = False  # null wherever the schema allows it
    long_texts: bool = False  # every string has the greatest length
    binary_bytes: int = 0  # the length of each bytes field
    tags: int = 0  # unknown tagged fields behind each struct, or with `root_tags` behind the message alone
    root_tags: bool = False
    tag_bytes: int = 0

    @property
    def is_large(self) -> bool:
        return bool(self.grown or self.binary_bytes or self.tags)

    def __str__(self) -> str:
        said = []
        if self.grown:
            said.append(f"{self.grown} x {self.count:,}, {self.names}")
            if self.inner != 1:
                said.append(f"{self.inner:,} inside each")
        if self.numbers != "usual":
            said.append(f"{self.numbers} numbers")
        if self.nulls:
            said.append("nulls")
        if self.long_texts:
            said.append("strings of 32 kB")
        if self.binary_bytes:
            said.append(f"{self.binary_bytes / MB:g} MB of bytes")
        if self.tags:
            said.append(f"{self.tags:,} tagged fields{'' if self.root_tags else ' each'}")
        return "; ".join(said) or "plain"


class Extreme(NamedTuple):
    """A request to be written: one API, one version, one recipe."""

    api: Api
    version: int
    recipe: Recipe

    def body(self, topic_id: bytes) -> bytes:
        return _Writer(self.version, schema(self.api), self.recipe, topic_id).body()

    def frame(self, topic_id: bytes) -> bytes:
        data = request_header(self.api.key, self.version, 1, "attacker") + self.body(topic_id)
        return pack(">i", len(data)) + data


@cache
def schema(api: Api) -> Message:
    message = load(f"{api.name}Request")
    message.restrict(api.min_version, api.max_version)
    return message


def served() -> list[Api]:
    return [APIS[key] for key in HANDLERS]


class Array(NamedTuple):
    path: str
    element: Field
    inside: int  # arrays inside each element
    has_name: bool  # an element has a string or a uuid


def arrays(api: Api, version: int) -> list[Array]:
    return list(_arrays(schema(api).struct, version, ""))


def _arrays(struct: Struct, version: int, prefix: str) -> Iterator[Array]:
    for field in struct.plain(version):
        inner = field.struct
        if field.element is not None:
            inner = field.element.struct
            inside = list(_arrays(inner, version, "")) if inner is not None else []
            parts = [field.element] if inner is None else inner.plain(version)
            has_name = any(part.type in ("string", "uuid") for part in parts)
            yield Array(prefix + field.name, field.element, len(inside), has_name)
        if inner is not None:
            yield from _arrays(inner, version, f"{prefix}{field.name}.")


def has_binaries(api: Api, version: int) -> bool:
    return any(field.type in ("bytes", "records") for struct in schema(api).structs for field in struct.plain(version))


class _Writer:
    """Writes one message."""

    def __init__(self, version: int, message: Message, recipe: Recipe, topic_id: bytes) -> None:
        self.version = version
        self.flexible = message.flexible(version)
        self.message = message
        self.recipe = recipe
        self.topic_id = topic_id
        self.in_grown = False  # the field being written is inside an element of the array that grows
        self.is_named = False  # that element has got its name

    def body(self) -> bytes:
        return self.struct(self.message.struct, "")

    def struct(self, struct: Struct, path: str) -> bytes:
        fields = struct.plain(self.version)
        has_name = any(f.type == "string" and f.name in ("name", "topic") for f in fields)
        body = b"".join(self.field(f, f"{path}.{f.name}" if path else f.name, has_name) for f in fields)
        if not self.flexible:
            return body
        tags = self.recipe.tags if not path or not self.recipe.root_tags else 0
        value = b"\xff\x01" + uvarint(self.recipe.tag_bytes) + bytes(self.recipe.tag_bytes)  # tag 255
        return body + uvarint(tags) + value * tags

    def field(self, f: Field, path: str, has_name: bool = False) -> bytes:
        recipe = self.recipe
        leads_to_grown = recipe.grown == path or recipe.grown.startswith(f"{path}.")
        if recipe.nulls and f.nullable(self.version) and not leads_to_grown:
            return self.null(f)
        if f.element is not None:
            return self.array(f.element, path)
        if f.struct is not None:
            return (b"\x01" if f.nullable(self.version) else b"") + self.struct(f.struct, path)
        if f.type == "uuid":
            return self.uuid(has_name)
        if f.type in FIXED:
            return self.number(f, path)
        if f.type == "string":
            return self.string(f, path)
        return self.binary(f)

    def null(self, f: Field) -> bytes:
        if f.struct is not None:
            return b"\xff"
        if self.flexible:
            return b"\x00"
        return b"\xff\xff" if f.type == "string" else b"\xff\xff\xff\xff"

    def number(self, f: Field, path: str) -> bytes:
        code, size = FIXED[f.type]
        if f.type == "float64":
            return pack(">d", {"largest": 1.7e308, "smallest": float("-inf")}.get(self.recipe.numbers, 1.0))
        if f.type == "bool":
            return b"\x00" if self.recipe.numbers == "smallest" or f.name == "validate_only" else b"\x01"
        if f.name in PARTITION_NUMBERS and self.takes_name():
            return NUMBER_MARK
        if self.recipe.numbers == "largest":
            return pack(f">{code}", 2 ** (size * 8 - (f.type != "uint16")) - 1)
        if self.recipe.numbers == "smallest":
            return pack(f">{code}", 0 if f.type == "uint16" else -(2 ** (size * 8 - 1)))
        usual = NUMBERS.get(f.name, f.default)
        return pack(f">{code}", usual if isinstance(usual, int) else 0)

    def takes_name(self) -> bool:
        """Whether this field makes the element different from the others: the first one that can."""
        if not self.in_grown or self.is_named or self.recipe.names != "different":
            return False
        self.is_named = True
        return True

    def uuid(self, has_name: bool) -> bytes:
        if has_name:
            return bytes(16)  # a topic is named by its name or by its id, not by both
        if self.takes_name():
            return UUID_MARK
        return self.topic_id if self.recipe.names != "unknown" else b"unknown-unknown-"

    def string(self, f: Field, path: str) -> bytes:
        if f.name in NULL_TEXTS and not self.recipe.long_texts:
            text = b""
            if f.nullable(self.version):
                return self.null(f)
        else:
            text = self.text(f.name, path)
        return self.length(len(text), short=True) + text

    def text(self, name: str, path: str) -> bytes:
        if self.recipe.long_texts:
            return b"x" * MAX_STRING_BYTES
        if self.in_grown and self.recipe.names not in ("existing", "different") and not self.is_named:
            self.is_named = True
            return {"unknown": b"unknown", "empty": b"", "long": b"x" * MAX_STRING_BYTES}[self.recipe.names]
        if self.takes_name():
            return TEXT_MARK
        ending = ".".join(path.split(".")[-2:])
        return TEXTS.get(ending, TEXTS.get(name, "")).encode()

    def binary(self, f: Field) -> bytes:
        usual = _RECORDS if f.type == "records" else b""
        data = b"x" * self.recipe.binary_bytes or usual
        return self.length(len(data)) + data

    def array(self, element: Field, path: str) -> bytes:
        grown = self.recipe.grown
        if path == grown:
            return self.grown_array(element, path)
        if not grown:
            count = 0 if path.rpartition(".")[2] in LEFT_OUT else 1
        elif grown.startswith(f"{path}."):
            count = 1
        elif self.in_grown and path.rpartition(".")[2] not in LEFT_OUT:
            count = self.recipe.inner
        else:
            count = 0
        return self.length(count) + (self.field(element, path) * count if count else b"")

    def grown_array(self, element: Field, path: str) -> bytes:
        count, different = self.recipe.count, self.recipe.names == "different"
        if element.type in ("int8", "int32", "int64"):
            return self.length(count) + self.integers(element, count, different)
        self.in_grown = True
        one = self.field(element, path)
        self.in_grown = self.is_named = False
        return self.length(count) + (b"".join(_copies(one, count)) if different else one * count)

    def integers(self, element: Field, count: int, different: bool) -> bytes:
        code, size = FIXED[element.type]
        if not different:
            return bytes(size * count)
        numbers = array(code, range(count) if size > 1 else (n & 0x7F for n in range(count)))
        numbers.byteswap()
        return numbers.tobytes()

    def length(self, count: int, *, short: bool = False) -> bytes:
        if self.flexible:
            return uvarint(count + 1)
        return pack(">h" if short else ">i", count)


def _copies(one: bytes, count: int) -> Iterator[bytes]:
    """The element with another name each time. It holds one mark, or none."""
    for mark, other in MARKS.items():
        start, found, end = one.partition(mark)
        if found:
            return (start + other(number) + end for number in range(count))
    return iter([one] * count)


# --- which requests are made --------------------------------------------------------------------------------------


# A hundred thousand new topics would be as many folders, which no broker makes quickly.
CREATES_TOPICS = {(ApiKey.METADATA, "topics", "different"), (ApiKey.CREATE_TOPICS, "topics", "different")}
MAX_NEW_TOPICS = 2_000


def greatest_bytes(api: Api) -> int:
    return MAX_PRODUCE_BYTES if api.key == ApiKey.PRODUCE else MAX_OTHER_REQUEST_BYTES


def greatest_count(api: Api, grown: Array, names: str, inner: int = 1, limit: int = MAX_ELEMENTS_PER_REQUEST) -> int:
    """As many elements as a request may have, counting those inside them."""
    if (api.key, grown.path, names) in CREATES_TOPICS:
        return MAX_NEW_TOPICS
    counted = 1 + grown.inside * inner
    return (limit - 4) // counted  # 4: the elements around them


def extremes(
    api: Api,
    version: int,
    *,
    counts: tuple[int, ...] = (2_000,),
    limit: int = MAX_ELEMENTS_PER_REQUEST,
    max_bytes: int = 0,
) -> Iterator[Extreme]:
    """Every array at its greatest, in several ways, and everything else that can be large.

    `max_bytes` is the size of the largest frames; unless told otherwise, what the broker allows.
    """
    max_bytes = max_bytes or greatest_bytes(api)
    for each in arrays(api, version):
        for names in ("existing", "unknown", "different", "empty") if each.has_name else ("existing", "different"):
            for count in (*counts, greatest_count(api, each, names, limit=limit)):
                yield Extreme(api, version, Recipe(each.path, count, names=names))
        yield Extreme(api, version, Recipe(each.path, limit + 1, names="different"))
        if each.has_name:
            long_count = min(limit // 2, max_bytes // (MAX_STRING_BYTES + 300))
            yield Extreme(api, version, Recipe(each.path, long_count, names="long"))
        if each.inside:
            few = max(1, limit // 100)
            # Arrays in arrays in arrays: 100 in each would be a million elements, more than a request may have.
            yield Extreme(
                api, version, Recipe(each.path, max(1, few // each.inside), inner=100 if each.inside < 3 else 20)
            )
        yield Extreme(api, version, Recipe(each.path, 1_000, numbers="largest"))
        yield Extreme(api, version, Recipe(each.path, 1_000, numbers="smallest"))
    yield from without_array(api, version, limit, max_bytes - 1_000_000)


def without_array(api: Api, version: int, limit: int, binary_bytes: int) -> Iterator[Extreme]:
    yield Extreme(api, version, Recipe(numbers="largest"))
    yield Extreme(api, version, Recipe(numbers="smallest"))
    yield Extreme(api, version, Recipe(nulls=True))
    yield Extreme(api, version, Recipe(long_texts=True))
    if has_binaries(api, version):
        yield Extreme(api, version, Recipe(binary_bytes=binary_bytes))
    if version >= api.first_flexible:
        yield Extreme(api, version, Recipe(tags=limit - 10, root_tags=True))
        yield Extreme(api, version, Recipe(tags=10, root_tags=True, tag_bytes=binary_bytes // 10))


def random_extreme(rng: random.Random, limit: int = MAX_ELEMENTS_PER_REQUEST) -> Extreme:
    """Any served API and version, any combination."""
    api = rng.choice(served())
    version = rng.randint(api.min_version, api.max_version)
    recipe = Recipe(
        numbers=rng.choice(("usual", "usual", "usual", "largest", "smallest")),
        nulls=rng.random() < 0.2,
        tags=rng.choice((0, 0, 0, 1, 5)),
    )
    if has_binaries(api, version) and rng.random() < 0.3:
        recipe = replace(recipe, binary_bytes=rng.choice((1_000, MB, greatest_bytes(api) - MB)))
    found = arrays(api, version)
    if not found:
        return Extreme(api, version, replace(recipe, long_texts=rng.random() < 0.5, tags=rng.choice((0, limit // 2))))
    grown = rng.choice(found)
    inner = rng.choice((0, 1, 1, 10, 100))
    names = rng.choice(("existing", "unknown", "different", "empty", "long"))
    most = greatest_count(api, grown, names, inner, limit // (1 + recipe.tags))
    count = rng.choice((most, most, most // 10, min(most, 2_000), most + 10))
    if names == "long":
        count = min(count, greatest_bytes(api) // (MAX_STRING_BYTES + 300))
    if recipe.binary_bytes:
        count, inner = min(count, greatest_bytes(api) // recipe.binary_bytes), min(inner, 1)
    return Extreme(api, version, replace(recipe, grown=grown.path, count=max(1, count), inner=inner, names=names))
