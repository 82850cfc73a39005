"""Frames that are well formed by the letter and as expensive as the schema allows.

A frame is written straight from the schema, field by field, with the counts of its arrays given by depth:

    hostile_body(kind, version, Shape((None, 8, 8)), 1_000_000)

holds as many outermost elements as fit into a million bytes, each with eight elements in each of its arrays, and
eight in each of those. Every value is one that costs the reader an object of its own: strings of two characters,
integers too large to be cached.
"""

from __future__ import annotations

from struct import pack
from typing import NamedTuple

from codegen.schema import FIXED, Field, Struct
from kohort.protocol.wire import uvarint
from tests.protocol.random_messages import Kind


class Shape(NamedTuple):
    counts: tuple[int | None, ...]  # of arrays of strings or structs, by depth; None: as many as fit. Empty below that.
    ints: int = 0  # integers in each array of integers
    text: bytes = b"xy"
    tags: int = 0  # unknown tagged fields behind each struct


class StructWriter:
    """Writes a struct with the counts of `shape`."""

    def __init__(self, version: int, flexible: bool, shape: Shape) -> None:
        self.version = version
        self.flexible = flexible
        self.shape = shape

    def struct(self, struct: Struct, counts: tuple[int, ...]) -> bytes:
        body = b"".join(self.field(f, counts) for f in struct.plain(self.version))
        if not self.flexible:
            return body
        return body + uvarint(self.shape.tags) + b"\xff\x01\x00" * self.shape.tags  # tag 255, no bytes

    def field(self, f: Field, counts: tuple[int, ...]) -> bytes:
        if f.type in FIXED:
            return b"\x01" if f.type == "bool" else b"\x71" * FIXED[f.type][1]
        if f.struct is not None:
            return (b"\x01" if f.nullable(self.version) else b"") + self.struct(f.struct, counts)
        if f.element is not None:
            return self.array(f.element, counts)
        return self.length(len(self.shape.text), short=f.type == "string") + self.shape.text

    def array(self, element: Field, counts: tuple[int, ...]) -> bytes:
        if element.type in FIXED and element.type != "uuid":
            return self.length(self.shape.ints) + b"\x71" * (FIXED[element.type][1] * self.shape.ints)
        count = counts[0] if counts else 0
        return self.length(count) + self.field(element, counts[1:]) * count

    def length(self, count: int, *, short: bool = False) -> bytes:
        if self.flexible:
            return uvarint(count + 1)
        return pack(">h" if short else ">i", count)


def hostile_body(kind: Kind, version: int, shape: Shape, size_bytes: int) -> bytes:
    """A body of about `size_bytes`, and never more; shorter if the schema has no array at the depth that may grow."""
    one, two = _written(kind, version, shape, 1), _written(kind, version, shape, 2)
    growth = len(two) - len(one)
    if growth == 0 or len(one) > size_bytes:
        return one
    count = 1 + (size_bytes - len(one) - 16) // growth  # 16: longer varints in front of the arrays
    return _written(kind, version, shape, max(1, count))


def _written(kind: Kind, version: int, shape: Shape, count: int) -> bytes:
    writer = StructWriter(version, kind.message.flexible(version), shape)
    return writer.struct(kind.message.struct, tuple(count if each is None else each for each in shape.counts))
