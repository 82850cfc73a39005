"""bytes -> message.

A struct is read in runs: neighbouring fields of fixed size, and the length of what follows them, come out of one
`unpack_from` straight into the object. A variable field ends a run. So OffsetCommit's partition is one unpack, one
slice and one byte for the tagged fields:

    e.partition_index, e.committed_offset, e.committed_leader_epoch, n = _unpack_iqiB(data, pos)

Each struct has a function (data, pos) -> (object, pos). Where an array's elements hold no further structs, they are
also read in place, because a call costs as much as the reading; the function remains for large frames, which have
many rules (see protocol/wire.py).
"""

from __future__ import annotations

from codegen.classes import default_of
from codegen.lines import Lines, Source
from codegen.schema import FIXED, USUALLY_EMPTY, Field, Message, Struct


def write_message_decoder(source: Source, message: Message, version: int, name: str) -> str:
    """The function that reads a whole message; returns its name."""
    flexible = message.flexible(version)
    key = ("decode", message.struct.signature(version, flexible))
    if key in source.made:
        return source.made[key]
    reader = _StructReader(source, version, flexible)
    lines = reader.lines
    with lines.block(f"def {name}(data: bytes, pos: int = 0) -> {message.struct.class_name}:"):
        with lines.block("try:"):
            if any(f.type in ("array", "struct") for f in message.struct.plain(version)):
                with lines.block(f"if len(data) > {source.use('SMALL_FRAME_BYTES')}:"):
                    lines.add(f"{source.use(_start_large(message.struct))}(len(data))")
                reader.read_struct(message.struct)
            else:
                reader.read_struct(message.struct, starts_with_tags=True)
            if not flexible:  # a flexible message was long enough: its last byte, the count of tags, was read
                with lines.block("if pos > len(data):"):
                    lines.add(f"raise {source.use('past_end_error')}()")
            lines.add("return o")
        with lines.block(f"except {source.use('READ_ERRORS')} as problem:"):
            text = f"{message.struct.class_name} v{version}"
            lines.add(f'raise {source.use("unreadable")}("{text}", problem) from None')
    source.functions.append(lines.text())
    source.made[key] = name
    return name


def _start_large(struct: Struct) -> str:
    return "start_large_request" if struct.class_name.endswith("Request") else "start_large_answer"


class _StructReader:
    """Writes the statements that read one struct into the object called `target`."""

    def __init__(self, source: Source, version: int, flexible: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible
        self.target = "o"
        self.lines = Lines()
        self._run: list[tuple[str, int, str]] = []  # format, size, the variable that takes the value

    # --- structs

    def read_struct(self, struct: Struct, *, starts_with_tags: bool = False) -> None:
        """`starts_with_tags`: nothing before the tagged fields could make the message expensive."""
        self.lines.add(f"{self.target} = {self.source.use('new')}({struct.class_name})")
        for f in struct.fields:
            if not f.present(self.version):
                self.lines.add(f"{self._place(f)} = {default_of(self.source, f)}")
        for f in struct.plain(self.version):
            self.read(f, self._place(f))
        if self.flexible:
            self._read_tags(struct, starts_with_tags)
        self.flush()

    def _place(self, f: Field) -> str:
        return f"{self.target}.{f.name}"

    def _read_tags(self, struct: Struct, starts: bool) -> None:
        self._flush_with("B", 1, "t")
        tagged = struct.tagged(self.version)
        for f in tagged:
            absent = f"{f.struct.class_name}()" if f.struct and f.says_null() else default_of(self.source, f)
            self.lines.add(f"{self._place(f)} = {absent}")
        with self.lines.block("if t:"):
            if starts:
                self.lines.add(f"{self.source.use(_start_large(struct))}(len(data))")
            if not tagged:
                self.lines.add(f"pos = {self.source.use('skip_tags')}(t, data, pos)")
                return
            known = max(f.tag or 0 for f in tagged) + 1
            self.lines.add(f"tags, pos = {self.source.use('read_tags')}(t, data, pos, {known})")
            for f in tagged:
                reader = _value_function(self.source, f, self.version, struct.class_name)
                with self.lines.block(f"if {f.tag} in tags:"):
                    call = f"{self.source.use('read_tag')}(data, tags[{f.tag}], {reader})"
                    self.lines.add(f"{self._place(f)} = {call}")

    def read(self, f: Field, place: str) -> None:
        if f.type in FIXED:
            fmt, size = FIXED[f.type]
            self._run.append((fmt, size, place))
        elif f.type == "struct":
            self._read_inner_struct(f, place)
        else:
            self._read_variable(f, place)

    def _read_inner_struct(self, f: Field, place: str) -> None:
        assert f.struct is not None
        function = struct_function(self.source, f.struct, self.version, self.flexible)
        if not f.nullable(self.version):
            self.flush()
            self.lines.add(f"{place}, pos = {function}(data, pos)")
            return
        self._flush_with("b", 1, "n")
        there = "n > 0" if f.tagged(self.version) else "n >= 0"  # a tagged field's null is 0, any other's is -1
        with self.lines.block(f"if {there}:"):
            self.lines.add(f"{place}, pos = {function}(data, pos)")
        with self.lines.block("else:"):
            self.lines.add(f"{place} = None")

    # --- what has a length

    def _read_variable(self, f: Field, place: str) -> None:
        nullable = f.nullable(self.version)
        if self.flexible:
            self._flush_with("B", 1, "n")
            if nullable:
                with self.lines.block("if n:"):
                    with self.lines.block("if n > 127:"):
                        long = "long_string_length" if f.type == "string" else "long_uvarint"
                        self.lines.add(f"n, pos = {self.source.use(long)}(n, data, pos)")
                    self._read_body(f, place, "n - 1")
                with self.lines.block("else:"):
                    self.lines.add(f"{place} = None")
            else:
                with self.lines.block("if not 0 < n < 128:"):
                    unusual = self.source.use("unusual_string_length" if f.type == "string" else "unusual_length")
                    self.lines.add(f'n, pos = {unusual}(n, data, pos, "{f.name}")')
                self._read_body(f, place, "n - 1")
            return
        self._flush_with("h" if f.type == "string" else "i", 2 if f.type == "string" else 4, "n")
        if nullable:
            with self.lines.block("if n >= 0:"):
                self._read_body(f, place, "n")
            with self.lines.block("else:"):
                self.lines.add(f'{self.source.use("check_null")}(n, "{f.name}")')
                self.lines.add(f"{place} = None")
        else:
            with self.lines.block("if n < 0:"):
                self.lines.add(f'raise {self.source.use("null_error")}("{f.name}")')
            self._read_body(f, place, "n")

    def _read_body(self, f: Field, place: str, length: str) -> None:
        if f.type == "array":
            self._read_array(f, place, length)
            return
        self.lines.add(f"end = pos + {length}")
        if f.type == "string":
            self.lines.add(f'{place} = data[pos:end].decode("utf-8", "java")')
        elif f.type == "records":
            self.lines.add(f"{place} = memoryview(data)[pos:end]")
        else:
            self.lines.add(f"{place} = data[pos:end]")
        self.lines.add("pos = end")

    # --- arrays

    def _read_array(self, f: Field, place: str, length: str) -> None:
        element = f.element
        assert element is not None
        if element.type in FIXED and element.type != "uuid":
            code = FIXED[element.type][0]
            self.lines.add(f'{place}, pos = {self.source.use("read_ints")}(data, pos, {length}, "{code}")')
            return
        if length != "n":
            self.lines.add(f"n = {length}")
        read = self._element_function(element)
        with self.lines.block(f"if len(data) <= {self.source.use('SMALL_FRAME_BYTES')} or not n:"):
            if element.struct is not None and _holds_no_structs(element.struct, self.version):
                self._read_in_place(element.struct, place)
            else:
                self._read_by_function(place, read)
        with self.lines.block("else:"):
            shortest = element.min_bytes(self.version, self.flexible)
            many = self.source.use("read_many")
            self.lines.add(f"{place}, pos = {many}(data, pos, n, {shortest}, {read})")

    def _element_function(self, element: Field) -> str:
        if element.struct is not None:
            return struct_function(self.source, element.struct, self.version, self.flexible)
        if element.type == "uuid":
            return self.source.use("read_uuid")
        assert element.type == "string", element
        return self.source.use("read_compact_string" if self.flexible else "read_string")

    def _read_by_function(self, place: str, read: str) -> None:
        self.lines.add(f"{place} = items = []")
        with self.lines.block("for _ in range(n):"):
            self.lines.add(f"item, pos = {read}(data, pos)")
            self.lines.add("items.append(item)")

    def _read_in_place(self, struct: Struct, place: str) -> None:
        fields = struct.plain(self.version)
        if all(f.type in FIXED for f in fields) and fields:
            self._read_rows(struct, place)
        elif len(fields) > 1 and all(f.type in FIXED for f in fields[:-1]) and fields[-1].name in USUALLY_EMPTY:
            self._read_rows_without_text(struct, place)
        else:
            self._read_one_by_one(struct, place)

    def _read_one_by_one(self, struct: Struct, place: str) -> None:
        self.lines.add(f"{place} = items = []")
        with self.lines.block("for _ in range(n):"):
            outer, self.target = self.target, "e"
            self.read_struct(struct)
            self.target = outer
            self.lines.add("items.append(e)")

    def _read_rows(self, struct: Struct, place: str) -> None:
        """Elements of fixed size without tagged fields are read as rows of a table, which pays from three on."""
        fields = struct.plain(self.version)
        fmt = "".join(FIXED[f.type][0] for f in fields) + ("x" if self.flexible else "")
        size = sum(FIXED[f.type][1] for f in fields) + self.flexible
        self.lines.add(f"end = pos + n * {size}")
        all_there = f"data[pos + {size - 1} : end : {size}].count(0) == n" if self.flexible else "end <= len(data)"
        with self.lines.block(f"if n > 2 and {all_there}:"):
            self._unpack_rows(struct, place, fields, self.source.iter_unpack(fmt))
        with self.lines.block("else:"):
            self._read_one_by_one(struct, place)

    def _read_rows_without_text(self, struct: Struct, place: str) -> None:
        """Elements that end with a string are rows too if it is empty in all of them, as the metadata of offsets is."""
        *fields, text = struct.plain(self.version)
        fixed = sum(FIXED[f.type][1] for f in fields)
        size = fixed + 2  # flexible: a length of 1, no tags; otherwise a length of 0 in two bytes
        length = 1 if self.flexible else 0
        self.lines.add(f"end = pos + n * {size}")
        empty = f"data[pos + {fixed} : end : {size}].count({length}) == n"
        no_tags = f"data[pos + {fixed + 1} : end : {size}].count(0) == n"
        with self.lines.block(f"if n > 2 and {empty} and {no_tags}:"):
            rows = self.source.iter_unpack("".join(FIXED[f.type][0] for f in fields) + "xx")
            self._unpack_rows(struct, place, fields, rows, {text.name: "''"})
        with self.lines.block("else:"):
            self._read_one_by_one(struct, place)

    def _unpack_rows(
        self, struct: Struct, place: str, fields: list[Field], rows: str, known: dict[str, str] | None = None
    ) -> None:
        """All elements at once: `fields` come from the table, `known` are constants, the others have their defaults."""
        names = {f.name: f"v{i}" for i, f in enumerate(fields)} | (known or {})
        first, others = struct.fields[: len(fields)], struct.fields[len(fields) :]
        if first == fields and all(names.get(f.name) in (None, default_of(self.source, f)) for f in others):
            # The class fills in the other fields. `starmap` loops in C, which takes two thirds of the time.
            self.lines.add(f"{place} = list({self.source.use('starmap')}({struct.class_name}, {rows}(data[pos:end])))")
        else:
            row = ", ".join(f"v{i}" for i in range(len(fields))) + ("," if len(fields) == 1 else "")
            values = ", ".join(names[f.name] if f.name in names else default_of(self.source, f) for f in struct.fields)
            self.lines.add(f"{place} = [{struct.class_name}({values}) for {row} in {rows}(data[pos:end])]")
        self.lines.add("pos = end")

    # --- runs

    def _flush_with(self, fmt: str, size: int, place: str) -> None:
        self._run.append((fmt, size, place))
        self.flush()

    def flush(self) -> None:
        if not self._run:
            return
        run, self._run = self._run, []
        size = sum(each[1] for each in run)
        if len(run) == 1 and run[0][0] == "B":
            self.lines.add(f"{run[0][2]} = data[pos]")
        else:
            places = ", ".join(each[2] for each in run)
            unpack = self.source.unpack("".join(each[0] for each in run))
            left = f"({places},)" if len(run) == 1 else places
            self.lines.add(f"{left} = {unpack}(data, pos)")
        self.lines.add(f"pos += {size}")


def struct_function(source: Source, struct: Struct, version: int, flexible: bool) -> str:
    """The function (data, pos) -> (object, pos) of a struct inside a message."""
    key = ("struct", struct.signature(version, flexible))
    if key not in source.made:
        name = f"_read_{_snake(struct.class_name)}_v{version}"
        while name in source.made.values():  # request and response may differ in a struct of one name
            name += "_too"
        source.made[key] = name
        reader = _StructReader(source, version, flexible)
        with reader.lines.block(f"def {name}(data: bytes, pos: int) -> tuple[{struct.class_name}, int]:"):
            reader.read_struct(struct)
            reader.lines.add("return o, pos")
        source.functions.append(reader.lines.text())
    return source.made[key]


def _value_function(source: Source, f: Field, version: int, owner: str) -> str:
    """The function (data, pos) -> (value, pos) of a tagged field."""
    name = f"_read_{_snake(owner)}_{f.name}_v{version}"
    key = ("value", name)
    if key not in source.made:
        source.made[key] = name
        reader = _StructReader(source, version, flexible=True)
        with reader.lines.block(f"def {name}(data: bytes, pos: int) -> tuple[Any, int]:"):
            reader.read(f, "value")
            reader.flush()
            if f.struct is not None and not f.ever_nullable():
                # An absent struct has all defaults and is None here. So is one that spells out all defaults.
                with reader.lines.block(f"if value == {f.struct.class_name}():"):
                    reader.lines.add("return None, pos")
            reader.lines.add("return value, pos")
        source.functions.append(reader.lines.text())
    return name


def _holds_no_structs(struct: Struct, version: int) -> bool:
    return not any(f.struct or (f.element and f.element.type not in FIXED) for f in struct.plain(version))


def _snake(class_name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in class_name).lstrip("_")
