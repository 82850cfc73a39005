"""kafka-python's schema tree as a small model: which fields a message has in which version, and what they are.

Messages that kafka-python does not ship are read from protocol/schemas/ by the same parser. Only its parser is used:
its message classes would register themselves globally.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka.protocol.schemas.fields.base import BaseField
from kafka.protocol.schemas.load_json import load_json

OWN_SCHEMAS = Path(__file__).parent.parent / "protocol" / "schemas"

# struct format and size of what has a fixed size
FIXED = {
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "bool": ("?", 1),
    "uuid": ("16s", 16),
}

# Strings that are nearly always empty. A row whose other fields have fixed sizes is read and written at once then.
USUALLY_EMPTY = {"committed_metadata", "metadata"}
ALWAYS = (0, 32767)
NEVER = (1, 0)


@dataclass
class Field:
    name: str
    type: str  # one of FIXED, or string, bytes, records, array, struct
    default: Any
    versions: tuple[int, int]
    nullable_versions: tuple[int, int]
    tag: int | None
    tagged_versions: tuple[int, int]
    element: Field | None = None  # of an array
    struct: Struct | None = None  # of a struct

    def present(self, version: int) -> bool:
        return _within(version, self.versions)

    def nullable(self, version: int) -> bool:
        return _within(version, self.nullable_versions)

    def tagged(self, version: int) -> bool:
        return self.tag is not None and _within(version, self.tagged_versions)

    def ever_nullable(self) -> bool:
        return self.nullable_versions != NEVER

    def says_null(self) -> bool:
        """Whether a null must be written: this tagged struct may be null, but an absent one means an empty struct."""
        return self.type == "struct" and self.tag is not None and self.ever_nullable() and self.default is not None

    def min_bytes(self, version: int, flexible: bool) -> int:
        """The fewest bytes that this field can take, so that an array's count can be compared with what remains."""
        if self.type in FIXED:
            return FIXED[self.type][1]
        if self.type == "struct":
            assert self.struct is not None
            return 1 if self.nullable(version) else self.struct.min_bytes(version, flexible)
        if flexible:
            return 1
        return 2 if self.type == "string" else 4


@dataclass
class Struct:
    class_name: str
    fields: list[Field] = field(default_factory=list)

    def plain(self, version: int) -> list[Field]:
        return [f for f in self.fields if f.present(version) and not f.tagged(version)]

    def tagged(self, version: int) -> list[Field]:
        found = [f for f in self.fields if f.present(version) and f.tagged(version)]
        return sorted(found, key=lambda f: f.tag or 0)

    def min_bytes(self, version: int, flexible: bool) -> int:
        return sum(f.min_bytes(version, flexible) for f in self.plain(version)) + flexible

    def shape(self) -> object:
        """Equal for two structs exactly if they need the same class."""
        return [(f.name, f.type, f.default, f.ever_nullable(), f.tag, _inner_shape(f)) for f in self.fields]

    def signature(self, version: int, flexible: bool) -> object:
        """Equal for two versions exactly if their bytes are laid out alike."""
        return (self.class_name, flexible, *(_field_signature(f, version, flexible) for f in self.fields))


@dataclass
class Message:
    struct: Struct
    versions: tuple[int, int]
    flexible_versions: tuple[int, int]
    structs: list[Struct]  # every struct in it, inner ones first, the message itself last

    def flexible(self, version: int) -> bool:
        return _within(version, self.flexible_versions)

    def restrict(self, min_version: int, max_version: int) -> None:
        """Forget versions that are not served, and fields that only they had."""
        assert self.versions[0] <= min_version <= max_version <= self.versions[1], self.struct.class_name
        self.versions = (min_version, max_version)
        for struct in self.structs:
            struct.fields = [f for f in struct.fields if f.versions[0] <= max_version and f.versions[1] >= min_version]


def load(name: str) -> Message:
    own = OWN_SCHEMAS / f"{name}.json"
    description = json.loads(own.read_text()) if own.exists() else load_json(name)
    tree = BaseField.parse_json(_null_as_text(description))
    structs: list[Struct] = []
    root = _struct(tree, name, structs)
    flexible = BaseField.parse_versions(description.get("flexibleVersions"))
    return Message(root, tree._versions, flexible or NEVER, structs)


def _null_as_text(description: Any) -> Any:
    """Kafka writes a null default both as null and as "null"; kafka-python knows the latter."""
    if isinstance(description, dict):
        return {k: "null" if k == "default" and v is None else _null_as_text(v) for k, v in description.items()}
    if isinstance(description, list):
        return [_null_as_text(item) for item in description]
    return description


def _struct(tree: Any, class_name: str, structs: list[Struct]) -> Struct:
    """The struct of this schema. Structs of the same name must have the same fields, and become one class."""
    made = Struct(class_name, [_field(f, structs) for f in tree._fields])
    for known in structs:
        if known.class_name == class_name:
            if known == made:
                return known
            raise ValueError(f"two different structs are called {class_name}")
    structs.append(made)
    return made


def _field(tree: Any, structs: list[Struct], *, is_element: bool = False) -> Field:
    made = Field(
        name=_snake_case(tree._name),
        type=tree._type_str,
        default=None,
        versions=tree._versions,
        nullable_versions=tree._nullable_versions or NEVER,
        tag=tree._tag,
        tagged_versions=tree._tagged_versions or NEVER,
    )
    if tree.is_array() or tree.is_struct_array():
        made.type = "array"
        made.default = tree.default
        made.element = _field(tree.array_of, structs, is_element=True)
        made.element.nullable_versions = NEVER
    elif tree.is_struct():
        made.type = "struct"
        made.struct = _struct(tree, tree._type_str.removeprefix("[]"), structs)
        made.default = None if tree._json.get("default") == "null" else {}
    elif tree._type_str == "uuid":
        made.default = bytes(16)
    elif not is_element:  # kafka-python hands an array's default down to its elements
        made.default = tree.default
    return made


def _snake_case(name: str) -> str:
    return str(BaseField.underscore_name(name[0].upper() + name[1:]))


def _within(version: int, versions: tuple[int, int]) -> bool:
    return versions[0] <= version <= versions[1]


def _field_signature(f: Field, version: int, flexible: bool) -> object:
    if not f.present(version):
        return None
    inner: object = None
    if f.element is not None:
        inner = _field_signature(f.element, version, flexible)
    elif f.struct is not None:
        inner = f.struct.signature(version, flexible)
    return (f.name, f.type, f.nullable(version), f.tag if f.tagged(version) else None, inner)


def _inner_shape(f: Field) -> object:
    inner = f.element.struct if f.element is not None else f.struct
    return inner.shape() if inner is not None else f.element.type if f.element is not None else None
