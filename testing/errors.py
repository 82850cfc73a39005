"""Answers that say nothing but an error, for any API.

Some APIs have one error for the whole answer, others one for each topic, partition, group or resource that the request
names. Where the answer's schema has such rows, they are made from the rows of the request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

from kohort.broker.api_table import Route
from kohort.protocol.api_keys import APIS, ApiKey
from kohort.protocol.errors_in import ERROR_FIELDS
from kohort.protocol.wire import Message

NUMBERS = ("partition_index", "partition", "index", "partition_id")  # how schemas call the number of a partition
NAMES = ("name", "topic", "topic_name", "group_id", "key", "resource_name", "user", "feature", "transactional_id")
KINDS = (*NUMBERS, *NAMES, "topic_id", "resource_type", "member_id", "group_instance_id", "producer_id")


def error_answer(route: Route, request: Message, error: int) -> Message:
    """The answer to this request that says the error wherever it can say one."""
    response: Any = _class(route, f"{route.name}Response")()
    has_rows = False
    for field, row_class in _rows_of(type(response)).items():
        asked = _asked(request, field)
        rows = [_row(row_class, each, error) for each in asked]
        setattr(response, field, rows)
        has_rows = has_rows or bool(rows)
    # Clients take the error of a whole Fetch for one of its session, and not for one of its partitions.
    if "error_code" in response.__slots__ and not (has_rows and route.api_key == ApiKey.FETCH):
        response.error_code = error
    if "member_id" in response.__slots__:  # Kafka repeats the one of the request
        response.member_id = getattr(request, "member_id", "")
    made: Message = response
    return made


def with_error(response: Message, error: int) -> Message:
    """The same answer, with the error in all of its rows."""
    for name in response.__slots__:
        value = getattr(response, name)
        if name in ERROR_FIELDS:
            setattr(response, name, error)
        elif isinstance(value, list | tuple):
            for each in value:
                if isinstance(each, Message) and _has_own_error(type(each)):
                    with_error(each, error)
    return response


def _row(row_class: type[Any], asked: object, error: int) -> Message:
    """The row of the answer for a row of the request, which is a message, or just a name or a number."""
    row: Message = row_class()
    for name in row.__slots__:
        if name in KINDS:
            value = _kind(asked, name)
            if value is not None:
                setattr(row, name, value)
    for name in ERROR_FIELDS:
        if name in row.__slots__:
            setattr(row, name, error)
            return row
    for field, inner_class in _rows_of(row_class).items():
        setattr(row, field, [_row(inner_class, each, error) for each in _asked(asked, field)])
    return row


def _kind(asked: object, name: str) -> object:
    """What the row of the request has under this name, or under another name for the same."""
    if isinstance(asked, str):
        return asked if name in NAMES else None
    if isinstance(asked, int):
        return asked if name in NUMBERS else None
    alike = NUMBERS if name in NUMBERS else NAMES if name in NAMES else (name,)
    return next((getattr(asked, each) for each in (name, *alike) if hasattr(asked, each)), None)


def _asked(request: object, field: str) -> Iterable[object]:
    """The rows of the request that this field of the answer has rows for: those under the same name, or the first."""
    own: Any = getattr(request, field, None)
    if own:
        return list(own)
    return next((list(value) for value in _sequences(request) if value), [])


def _sequences(message: object) -> Iterator[Any]:
    for name in getattr(message, "__slots__", ()):
        value = getattr(message, name)
        if not isinstance(value, str | bytes | int | None) and hasattr(value, "__iter__"):
            yield value


def _rows_of(message: type[Any]) -> dict[str, type[Any]]:
    """The fields of an answer whose rows have an error, at the top or further down, and the classes of the rows."""
    found = {}
    module = import_module(message.__module__)
    for field, told in message.__init__.__annotations__.items():
        named = re.search(r"Sequence\[(\w+)\]", str(told))
        row_class = None if named is None else getattr(module, named.group(1), None)
        if row_class is not None and _has_error(row_class):
            found[field] = row_class
    return found


def _has_error(message: type[Any]) -> bool:
    return _has_own_error(message) or bool(_rows_of(message))


def _has_own_error(message: type[Any]) -> bool:
    return any(name in message.__slots__ for name in ERROR_FIELDS)


def _class(route: Route, name: str) -> type[Any]:
    found: type[Any] = getattr(import_module(f"kohort.protocol.messages.{APIS[route.api_key].module}"), name)
    return found
