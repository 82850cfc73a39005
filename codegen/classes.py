"""A class of slots for each message and each struct in it."""

from __future__ import annotations

from codegen.lines import Lines, Source
from codegen.schema import Field, Struct

PYTHON_TYPES = {
    "int8": "int",
    "int16": "int",
    "uint16": "int",
    "int32": "int",
    "int64": "int",
    "float64": "float",
    "bool": "bool",
    "uuid": "bytes",
    "string": "str",
    "bytes": "bytes",
    "records": "Records",
}


def write_class(source: Source, struct: Struct) -> str:
    source.use("Message")
    lines = Lines()
    with lines.block(f"class {struct.class_name}(Message):"):
        names = ", ".join(f'"{f.name}"' for f in struct.fields)
        lines.add(f"__slots__ = ({names}{',' if len(struct.fields) == 1 else ''})")
        lines.add()
        with lines.block("def __init__("):
            lines.add("self,")
            for f in struct.fields:
                lines.add(f"{f.name}: {_parameter_type(source, f)} = {default_of(source, f)},")
        with lines.block(") -> None:"):
            for f in struct.fields:
                lines.add(f"self.{f.name} = {_initial_value(f)}")
    return lines.text()


def default_of(source: Source, f: Field) -> str:
    """The value of a field that a version does not have."""
    if f.type == "struct":
        return "None"
    if f.type == "array":
        return "None" if f.default is None else "()"
    if f.type == "uuid":
        return source.use("NO_UUID")
    return repr(f.default)


def always_there(f: Field) -> bool:
    """Whether the field is a struct that is never absent: an empty one is made if the caller gives none."""
    return f.type == "struct" and not f.ever_nullable() and f.tag is None


def _initial_value(f: Field) -> str:
    if always_there(f):
        assert f.struct is not None
        return f"{f.struct.class_name}() if {f.name} is None else {f.name}"
    return f.name


def _parameter_type(source: Source, f: Field) -> str:
    python = python_type(source, f)
    return f"{python} | None" if f.type == "struct" or f.ever_nullable() or f.default is None else python


def python_type(source: Source, f: Field) -> str:
    if f.type == "array":
        assert f.element is not None
        return f"Sequence[{python_type(source, f.element)}]"
    if f.type == "struct":
        assert f.struct is not None
        return f.struct.class_name
    if f.type == "records":
        source.use("Records")
    return PYTHON_TYPES[f.type]
