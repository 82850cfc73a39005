"""Two transcripts of the same scenario -> where the answers differ, field by field."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from kohort.protocol.errors import MalformedMessage
from kohort.protocol.record_batch import parse_header, read_records
from kohort.protocol.wire import LazyArray, Message
from tests.parity.differences import ALLOWED, OPTIONAL, UNORDERED, Allowed, Kind
from tests.parity.peer import Exchange, TopicWords

_INDEX = re.compile(r"\[\d+\]")
_LONG = 160


@dataclass(frozen=True)
class Difference:
    scenario: str
    api: str
    version: int
    field: str
    kafka: str
    ours: str


class Comparison:
    """Collects differences; remembers which allowances were needed."""

    def __init__(self) -> None:
        self.differences: list[Difference] = []
        self.fields = 0
        self.used: set[Allowed] = set()

    def transcripts(self, scenario: str, kafka: Sequence[Exchange], ours: Sequence[Exchange]) -> None:
        for step, (one, other) in enumerate(zip(kafka, ours, strict=False), start=1):
            prefix = f"#{step} " if len(kafka) > 1 else ""
            for field, left, right in _walk(one.api, "", one.answer, other.answer):
                self._judge(scenario, one, prefix, field, left, right)
            if other.codec_loss is not None and one.codec_loss is None:
                self._add(scenario, one, prefix + "(bytes)", "as decoded", other.codec_loss)
        if kafka or ours:
            self._judge(scenario, kafka[-1] if kafka else ours[-1], "", "(steps)", len(kafka), len(ours))

    def _judge(self, scenario: str, exchange: Exchange, prefix: str, field: str, kafka: Any, ours: Any) -> None:
        self.fields += 1
        if _equal(kafka, ours):
            return
        plain = _INDEX.sub("", field)
        for allowed in ALLOWED:
            where = prefix + plain if allowed.field.startswith("#") else plain
            if _applies(allowed, scenario, exchange.api, where, kafka, ours):
                self.used.add(allowed)
                return
        self._add(scenario, exchange, prefix + field, _show(kafka, exchange), _show(ours, exchange))

    def _add(self, scenario: str, exchange: Exchange, field: str, kafka: str, ours: str) -> None:
        self.differences.append(Difference(scenario, exchange.api, exchange.version, field, kafka, ours))


def _applies(allowed: Allowed, scenario: str, api: str, field: str, kafka: Any, ours: Any) -> bool:
    if not (fnmatchcase(api, allowed.api) and fnmatchcase(field, allowed.field)):
        return False
    if not fnmatchcase(scenario, allowed.scenario):
        return False
    return allowed.kind is Kind.ANY or _shape(kafka) == _shape(ours)


def _shape(value: Any) -> str:
    """Whether there is a value, and of which type: what must agree where the value itself may differ."""
    if value is None:
        return "null"
    if isinstance(value, int):
        return "negative" if value < 0 else "number"
    if isinstance(value, bytes) and not any(value):
        return "zero"
    if isinstance(value, TopicWords):
        return f"the topic {value}"
    return "set" if value else "empty"


def _walk(api: str, path: str, kafka: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
    """Every pair of plain values below two messages, with the path to it."""
    if isinstance(kafka, Message) and type(kafka) is type(ours):
        for name in kafka.__slots__:
            inner = f"{path}.{name}" if path else name
            left, right = getattr(kafka, name), getattr(ours, name)
            if name == "records":
                left, right = read_batches(left), read_batches(right)
            yield from _walk(api, inner, left, right)
    elif isinstance(kafka, dict) and isinstance(ours, dict):
        for name in kafka | ours:
            yield from _walk(api, f"{path}.{name}", kafka.get(name), ours.get(name))
    elif _is_list(kafka) and _is_list(ours):
        left, right = _ordered(api, path, kafka), _ordered(api, path, ours)
        left = _wanted(api, path, left, right)
        yield f"{path}.count", len(left), len(right)
        if len(left) == len(right):
            for index, (one, other) in enumerate(zip(left, right, strict=True)):
                yield from _walk(api, f"{path}{_place(index, one, other)}", one, other)
        else:
            yield f"{path}.names", _names(left), _names(right)
    else:
        yield path or "(answer)", kafka, ours


def _place(index: int, kafka: Any, ours: Any) -> str:
    """[3], or the name of a setting: rules speak of settings by name."""
    name = getattr(kafka, "name", None)
    named = hasattr(kafka, "config_source") and name == getattr(ours, "name", None)
    return f"({name})" if named else f"[{index}]"


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple, array, LazyArray)) and not hasattr(value, "_fields")


def _ordered(api: str, path: str, values: Any) -> list[Any]:
    """In the order that counts: the broker's own, or by name where Kafka's order is that of a hash table."""
    plain = _INDEX.sub("", path)
    for unordered in UNORDERED:
        if unordered.api == api and fnmatchcase(plain, unordered.field):
            keys = unordered.keys
            return sorted(values, key=lambda each: repr([getattr(each, key) for key in keys] if keys else each))
    return list(values)


def _wanted(api: str, path: str, kafka: list[Any], ours: list[Any]) -> list[Any]:
    """Kafka's elements, without those that we may leave out and did."""
    for optional in OPTIONAL:
        if optional.api == api and optional.field == path:
            there = [getattr(each, optional.key) for each in ours]
            return [each for each in kafka if getattr(each, optional.key) in there]
    return kafka


def _names(values: list[Any]) -> list[Any]:
    """What tells list elements apart at a glance, when their number differs."""
    for name in ("name", "topic", "api_key", "partition_index", "key", "resource_name"):
        if values and hasattr(values[0], name):
            return [getattr(each, name) for each in values]
    return values


def read_batches(records: Any) -> Any:
    """Record batches as fields; what is no batch stays bytes."""
    if not records:
        return records if records is None else b""
    data, position, batches = bytes(records), 0, []
    try:
        while position < len(data):
            header = parse_header(data, position)
            batch = data[position : position + header.size_bytes]
            if len(batch) < header.size_bytes:
                batches.append({"cut off after": len(batch), "base_offset": header.base_offset})
                break
            batches.append(header._asdict() | {"records": [record._asdict() for record in read_records(batch)]})
            position += header.size_bytes
    except MalformedMessage:
        return data
    return batches


def _equal(kafka: Any, ours: Any) -> bool:
    return type(kafka) is type(ours) and bool(kafka == ours)


def _show(value: Any, exchange: Exchange) -> str:
    text = value.hex() if isinstance(value, bytes) else repr(value)
    text = text.replace(f"-v{exchange.scenario_version}", "-vN")
    return text if len(text) <= _LONG else f"{text[:_LONG]}... ({len(text)})"
