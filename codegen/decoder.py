"""bytes -> message.

A struct is read in runs: neighbouring fields of fixed size, and the length of what follows them, come out of one
`unpack_from`. A variable field ends a run. So OffsetCommit's partition is one unpack, one slice, one byte:

    partition_index, committed_offset, committed_leader_epoch, n = _unpack_iqiB(data, pos)
"""

from __future__ import annotations

from codegen.classes import default_of
from codegen.lines import Lines, Source
from codegen.schema import FIXED, Field, Message, Struct

INLINE_COUNT = 8  # arrays up to this long need no check: they cannot cost much
EAGER_COUNT = {0: 256}  # of an outermost array in a large frame; inner ones are lazy beyond INLINE_COUNT

RESERVED = {"data", "pos", "n", "end", "t", "tags", "item"}


def write_message_decoder(source: Source, message: Message, version: int, name: str) -> str:
    """The function that reads a whole message; returns its name."""
    flexible = message.flexible(version)
    key = ("decode", message.struct.signature(version, flexible))
    if key in source.made:
        return source.made[key]
    reader = _StructReader(source, version, flexible, depth=0)
    lines = reader.lines
    with lines.block(f"def {name}(data: bytes, pos: int = 0) -> {message.struct.class_name}:"):
        with lines.block("try:"):
            if any(f.type == "array" for f in message.struct.plain(version)):
                with lines.block(f"if len(data) > {source.use('SMALL_FRAME_BYTES')}:"):
                    lines.add(f"{source.use('start_large_request')}()")
            made = reader.read_struct(message.struct)
            with lines.block("if pos > len(data):"):
                lines.add(f"raise {source.use('past_end_error')}()")
            lines.add(f"return {made}")
        with lines.block(f"except {source.use('READ_ERRORS')} as problem:"):
            text = f"{message.struct.class_name} v{version}"
            lines.add(f'raise {source.use("unreadable")}("{text}", problem) from None')
    source.functions.append(lines.text())
    source.made[key] = name
    return name


class _StructReader:
    """Writes the statements that read one struct."""

    def __init__(self, source: Source, version: int, flexible: bool, depth: int) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible
        self.depth = depth
        self.lines = Lines()
        self._run: list[tuple[str, int, str]] = []  # format, size, variable

    # --- structs

    def read_struct(self, struct: Struct) -> str:
        """Statements for all fields; returns the expression that makes the object."""
        for f in struct.plain(self.version):
            self._read(f)
        if self.flexible:
            self._read_tags(struct)
        self._flush()
        arguments = [
            _variable(f) if f.present(self.version) else default_of(self.source, f) for f in struct.fields
        ]
        return f"{struct.class_name}({', '.join(arguments)})"

    def _read_tags(self, struct: Struct) -> None:
        self._flush_with("B", 1, "t")
        tagged = struct.tagged(self.version)
        for f in tagged:
            self.lines.add(f"{_variable(f)} = {default_of(self.source, f)}")
        with self.lines.block("if t:"):
            if not tagged:
                self.lines.add(f"pos = {self.source.use('skip_tags')}(t, data, pos)")
                return
            known = max(f.tag or 0 for f in tagged) + 1
            self.lines.add(f"tags, pos = {self.source.use('read_tags')}(t, data, pos, {known})")
            for f in tagged:
                reader = _value_function(self.source, f, self.version, struct.class_name, self.depth)
                with self.lines.block(f"if {f.tag} in tags:"):
                    call = f"{self.source.use('read_tag')}(data, tags[{f.tag}], {reader})"
                    self.lines.add(f"{_variable(f)} = {call}")

    def _read(self, f: Field) -> None:
        if f.type in FIXED:
            fmt, size = FIXED[f.type]
            self._run.append((fmt, size, _variable(f)))
        elif f.type == "struct":
            self._read_inner_struct(f)
        else:
            self._read_variable(f)

    def _read_inner_struct(self, f: Field) -> None:
        assert f.struct is not None
        function = struct_function(self.source, f.struct, self.version, self.flexible, self.depth)
        if not f.nullable(self.version):
            self._flush()
            self.lines.add(f"{_variable(f)}, pos = {function}(data, pos)")
            return
        self._flush_with("b", 1, "n")
        self.lines.add(f"{_variable(f)} = None")
        with self.lines.block("if n >= 0:"):
            self.lines.add(f"{_variable(f)}, pos = {function}(data, pos)")

    # --- what has a length

    def _read_variable(self, f: Field) -> None:
        name = _variable(f)
        nullable = f.nullable(self.version)
        if self.flexible:
            self._flush_with("B", 1, "n")
            long = f"n, pos = {self.source.use('long_uvarint')}(n, data, pos)"
            if nullable:
                with self.lines.block("if n:"):
                    with self.lines.block("if n > 127:"):
                        self.lines.add(long)
                    self._read_body(f, "n - 1")
                with self.lines.block("else:"):
                    self.lines.add(f"{name} = None")
            else:
                with self.lines.block("if not 0 < n < 128:"):
                    self.lines.add(f'n, pos = {self.source.use("unusual_length")}(n, data, pos, "{f.name}")')
                self._read_body(f, "n - 1")
            return
        self._flush_with("h" if f.type == "string" else "i", 2 if f.type == "string" else 4, "n")
        if nullable:
            with self.lines.block("if n >= 0:"):
                self._read_body(f, "n")
            with self.lines.block("else:"):
                self.lines.add(f'{self.source.use("check_null")}(n, "{f.name}")')
                self.lines.add(f"{name} = None")
        else:
            with self.lines.block("if n < 0:"):
                self.lines.add(f'raise {self.source.use("null_error")}("{f.name}")')
            self._read_body(f, "n")

    def _read_body(self, f: Field, length: str) -> None:
        name = _variable(f)
        if f.type == "array":
            self._read_array(f, length)
            return
        self.lines.add(f"end = pos + {length}")
        if f.type == "string":
            self.lines.add(f'{name} = data[pos:end].decode("utf-8", "java")')
        elif f.type == "records":
            self.lines.add(f"{name} = memoryview(data)[pos:end]")
        else:
            self.lines.add(f"{name} = data[pos:end]")
        self.lines.add("pos = end")

    def _read_array(self, f: Field, length: str) -> None:
        element = f.element
        assert element is not None
        name = _variable(f)
        if element.type in FIXED and element.type != "uuid":
            code = FIXED[element.type][0]
            self.lines.add(f'{name}, pos = {self.source.use("read_ints")}(data, pos, {length}, "{code}")')
            return
        if element.type == "struct":
            assert element.struct is not None
            read = struct_function(self.source, element.struct, self.version, self.flexible, self.depth + 1)
        elif element.type == "uuid":
            read = self.source.use("read_uuid")
        else:
            assert element.type == "string", element
            read = self.source.use("read_compact_string" if self.flexible else "read_string")
        if length != "n":
            self.lines.add(f"n = {length}")
        with self.lines.block(f"if n <= {INLINE_COUNT}:"):
            self.lines.add(f"{name} = []")
            with self.lines.block("for _ in range(n):"):
                self.lines.add(f"item, pos = {read}(data, pos)")
                self.lines.add(f"{name}.append(item)")
        with self.lines.block("else:"):
            shortest = element.min_bytes(self.version, self.flexible)
            eager = EAGER_COUNT.get(self.depth, INLINE_COUNT)
            many = self.source.use("read_many")
            self.lines.add(f"{name}, pos = {many}(data, pos, n, {shortest}, {eager}, {read})")

    # --- runs

    def _flush_with(self, fmt: str, size: int, variable: str) -> None:
        self._run.append((fmt, size, variable))
        self._flush()

    def _flush(self) -> None:
        if not self._run:
            return
        run, self._run = self._run, []
        size = sum(each[1] for each in run)
        if len(run) == 1 and run[0][0] == "B":
            self.lines.add(f"{run[0][2]} = data[pos]")
        else:
            variables = ", ".join(each[2] for each in run)
            unpack = self.source.unpack("".join(each[0] for each in run))
            left = f"({variables},)" if len(run) == 1 else variables
            self.lines.add(f"{left} = {unpack}(data, pos)")
        self.lines.add(f"pos += {size}")


def struct_function(source: Source, struct: Struct, version: int, flexible: bool, depth: int) -> str:
    """The function (data, pos) -> (object, pos) of a struct inside a message."""
    key = ("struct", depth, struct.signature(version, flexible))
    if key in source.made:
        return source.made[key]
    name = f"_read_{_snake(struct.class_name)}_v{version}" + (f"_{depth}" if depth > 1 else "")
    reader = _StructReader(source, version, flexible, depth)
    with reader.lines.block(f"def {name}(data: bytes, pos: int) -> tuple[{struct.class_name}, int]:"):
        made = reader.read_struct(struct)
        reader.lines.add(f"return {made}, pos")
    source.functions.append(reader.lines.text())
    source.made[key] = name
    return name


def _value_function(source: Source, f: Field, version: int, owner: str, depth: int) -> str:
    """The function (data, pos) -> (value, pos) of a tagged field."""
    key = ("value", owner, f.name, version)
    name = f"_read_{_snake(owner)}_{f.name}_v{version}"
    if key not in source.made:
        reader = _StructReader(source, version, flexible=True, depth=depth)
        with reader.lines.block(f"def {name}(data: bytes, pos: int) -> tuple[Any, int]:"):
            reader._read(f)
            reader._flush()
            reader.lines.add(f"return {_variable(f)}, pos")
        source.functions.append(reader.lines.text())
        source.made[key] = name
    return name


def _variable(f: Field) -> str:
    return f"{f.name}_" if f.name in RESERVED else f.name


def _snake(class_name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in class_name).lstrip("_")
