"""message -> bytes.

As in the decoder, neighbouring fields of fixed size and the length of what follows leave in one `pack`. Pieces are
gathered in a list and joined once. The pieces of a long answer would take far more memory than the answer itself, so
they are joined now and then: whenever MANY of them stand behind the `k` that were joined before.
"""

from __future__ import annotations

from codegen.decoder import _snake
from codegen.lines import Lines, Source
from codegen.schema import FIXED, USUALLY_EMPTY, Field, Message, Struct


def write_message_encoder(source: Source, message: Message, version: int, name: str) -> str:
    """The function that turns a message into its bytes, or into parts if it holds records; returns its name."""
    flexible = message.flexible(version)
    key = ("encode", message.struct.signature(version, flexible))
    if key not in source.made:
        has_records = any(f.type == "records" for struct in message.structs for f in struct.fields)
        result = "list[Any]" if has_records else "bytes"
        writer = _StructWriter(source, version, flexible)
        writer.joins = message.struct.class_name.endswith("Response") and _has_long_elements(message.struct, version)
        writer.has_records = has_records
        _write_function(writer, name, message.struct, result)
        source.functions.append(writer.lines.text())
        source.made[key] = name
    return source.made[key]


def _write_function(writer: _StructWriter, name: str, struct: Struct, result: str) -> None:
    lines = writer.lines
    with lines.block(f"def {name}(m: {struct.class_name}) -> {result}:"):
        fields = struct.plain(writer.version)
        if all(f.type in FIXED for f in fields) and not (writer.flexible and struct.tagged(writer.version)):
            lines.add(f"return {writer.pack_fixed(fields, 'm')}")
            return
        lines.add("out: list[Any] = []")
        lines.add("w = out.append")
        if writer.joins:
            lines.add("k = 0")
        writer.write_struct(struct, "m")
        writer.flush()
        lines.add("return out" if result != "bytes" else 'return b"".join(out)')


class _StructWriter:
    """Writes the statements that pack one struct."""

    def __init__(self, source: Source, version: int, flexible: bool) -> None:
        self.source = source
        self.version = version
        self.flexible = flexible
        self.lines = Lines()
        self._run: list[tuple[str, str]] = []  # format, expression ("" for a zero byte)
        self._names = 0
        self.joins = False  # pieces are joined now and then
        self.has_records = False

    def write_struct(self, struct: Struct, value: str) -> None:
        for f in struct.plain(self.version):
            self._write(f, f"{value}.{f.name}")
        if self.flexible:
            self._write_tags(struct, value)

    def pack_fixed(self, fields: list[Field], value: str) -> str:
        """One expression for a struct that has only fields of fixed size."""
        fmt = "".join(FIXED[f.type][0] for f in fields) + ("x" if self.flexible else "")
        if not fields:
            return 'b"\\0"' if self.flexible else 'b""'
        return f"{self.source.pack(fmt)}({', '.join(f'{value}.{f.name}' for f in fields)})"

    def _write_tags(self, struct: Struct, value: str) -> None:
        tagged = struct.tagged(self.version)
        if not tagged:
            self._run.append(("x", ""))
            return
        self.flush()
        tags = self._name("tags")
        self.lines.add(f"{tags}: list[tuple[int, bytes]] = []")
        for f in tagged:
            pack = _value_function(self.source, f, self.version, struct.class_name)
            with self.lines.block(f"if {_differs_from_default(f, f'{value}.{f.name}', self.source)}:"):
                self.lines.add(f"{tags}.append(({f.tag}, {pack}({value}.{f.name})))")
        self.lines.add(f"w({self.source.use('pack_tags')}({tags}))")

    def _write(self, f: Field, value: str) -> None:
        if f.type in FIXED:
            self._run.append((FIXED[f.type][0], value))
        elif f.type == "struct":
            self._write_inner_struct(f, value)
        elif f.type == "array":
            self._write_array(f, value)
        else:
            self._write_bytes(f, value)

    def _write_inner_struct(self, f: Field, value: str) -> None:
        assert f.struct is not None
        inner = self._name("s")
        self.lines.add(f"{inner} = {value}")
        if not f.nullable(self.version):
            self.write_struct(f.struct, inner)
            return
        self.flush()
        with self.lines.block(f"if {inner} is None:"):
            null = r"\0" if f.tagged(self.version) else r"\xff"
            self.lines.add(f'w(b"{null}")')
        with self.lines.block("else:"):
            self._run.append(("b", "1"))
            self.write_struct(f.struct, inner)
            self.flush()

    def _write_bytes(self, f: Field, value: str) -> None:
        raw = "b.encode()" if f.type == "string" else "b"
        plus = " + 1" if self.flexible else ""
        if f.nullable(self.version):
            self.lines.add(f"b = {value}")
            with self.lines.block("if b is None:"):
                self.lines.add(f'b = b""; n = {0 if self.flexible else -1}')
            with self.lines.block("else:"):
                self.lines.add(f"b = {raw}; n = len(b){plus}" if raw != "b" else f"n = len(b){plus}")
        else:
            self.lines.add(f"b = {value}{'.encode()' if f.type == 'string' else ''}; n = len(b){plus}")
        self._flush_length("h" if f.type == "string" else "i")
        self.lines.add("w(b)")

    def _write_array(self, f: Field, value: str) -> None:
        element = f.element
        assert element is not None
        items = self._name("items")
        plus = " + 1" if self.flexible else ""
        self.lines.add(f"{items} = {value}")
        if element.type in FIXED and element.type != "uuid":
            self._write_ints(f, FIXED[element.type][0], items)
            return
        if f.nullable(self.version):
            with self.lines.block(f"if {items} is None:"):
                self.lines.add(f"{items} = (); n = {0 if self.flexible else -1}")
            with self.lines.block("else:"):
                self.lines.add(f"n = len({items}){plus}")
        else:
            self.lines.add(f"n = len({items}){plus}")
        self._flush_length("i")
        self._write_elements(element, items)

    def _write_elements(self, element: Field, items: str) -> None:
        if element.type == "struct":
            assert element.struct is not None
            fields = element.struct.plain(self.version)
            each = self._name("e")
            tagged = self.flexible and element.struct.tagged(self.version)
            if all(f.type in FIXED for f in fields) and not tagged:
                self.lines.add(f"out += [{self.pack_fixed(fields, each)} for {each} in {items}]")
                return
            with self.lines.block(f"for {each} in {items}:"):
                if not tagged and {f.name for f in fields if f.type not in FIXED} <= USUALLY_EMPTY:
                    self._write_without_text(fields, each)
                self.write_struct(element.struct, each)
                self.flush()
                if self.joins:
                    self._join_pieces()
        elif element.type == "uuid":
            self.lines.add(f"out += {items}")
        elif element.type == "string":
            pack = self.source.use("pack_compact_string" if self.flexible else "pack_string")
            self.lines.add(f"out += [{pack}(text) for text in {items}]")
        else:
            raise ValueError(element)

    def _join_pieces(self) -> None:
        with self.lines.block(f"if len(out) > k + {self.source.use('MANY')}:"):
            if self.has_records:
                self.lines.add(f"k = {self.source.use('join_between_records')}(out, k)")
            else:
                self.lines.add('out[k:] = (b"".join(out[k:]),)')
                self.lines.add("k += 1")

    def _write_without_text(self, fields: list[Field], each: str) -> None:
        """If the only string of an element is empty, as the metadata of offsets is, one `pack` writes the element."""
        run = []
        for f in fields:
            if f.type in FIXED:
                run.append((FIXED[f.type][0], f"{each}.{f.name}"))
            else:
                run.append(("B", "1") if self.flexible else ("xx", ""))
                text = f.name
        with self.lines.block(f'if {each}.{text} == "":'):
            self.lines.add(f"w({self._packed([*run, *([('x', '')] if self.flexible else [])])})")
            self.lines.add("continue")

    def _write_ints(self, f: Field, code: str, items: str) -> None:
        """One `pack` writes the count and the integers of a short array."""
        self.flush()
        pack = self.source.use("pack_compact_ints" if self.flexible else "pack_ints")
        whole = f'{pack}({items}, "{code}")'
        if f.nullable(self.version):
            null = r'b"\0"' if self.flexible else r'b"\xff\xff\xff\xff"'
            self.lines.add(f"w({null} if {items} is None else {whole})")
            return
        if code == "i":
            table = self.source.use("SHORT_COMPACT_INTS" if self.flexible else "SHORT_INTS")
            count = "n + 1" if self.flexible else "n"
            self.lines.add(f"n = len({items})")
            whole = f"{table}[n]({count}, *{items}) if n < 33 else {whole}"
        self.lines.add(f"w({whole})")

    def _flush_length(self, fixed_format: str) -> None:
        """Write the run so far, and the length `n` behind it."""
        if not self.flexible:
            self._run.append((fixed_format, "n"))
            self.flush()
            return
        run, self._run = self._run, []
        uvarint = self.source.use("uvarint")
        if not run:
            self.lines.add(f"w({uvarint}(n))")
            return
        short = self._packed([*run, ("B", "n")])
        self.lines.add(f"w({short} if n < 128 else {self._packed(run)} + {uvarint}(n))")

    def flush(self) -> None:
        run, self._run = self._run, []
        if run:
            self.lines.add(f"w({self._packed(run)})")

    def _packed(self, run: list[tuple[str, str]]) -> str:
        values = [value for _, value in run if value]
        if not values:
            return 'b"' + r"\0" * len(run) + '"'
        return f"{self.source.pack(''.join(fmt for fmt, _ in run))}({', '.join(values)})"

    def _name(self, stem: str) -> str:
        self._names += 1
        return f"{stem}{self._names}"


def _has_long_elements(struct: Struct, version: int) -> bool:
    """Whether the message has an array of structs that are written in several pieces."""
    for f in struct.plain(version):
        if f.element is not None and f.element.struct is not None:
            inner = f.element.struct
            if any(each.type not in FIXED for each in inner.fields if each.present(version)):
                return True
    return False


def _value_function(source: Source, f: Field, version: int, owner: str) -> str:
    """The function value -> bytes of a tagged field."""
    key = ("pack", owner, f.name, version)
    name = f"_pack_{_snake(owner)}_{f.name}_v{version}"
    if key not in source.made:
        writer = _StructWriter(source, version, flexible=True)
        with writer.lines.block(f"def {name}(value: Any) -> bytes:"):
            writer.lines.add("out: list[Any] = []")
            writer.lines.add("w = out.append")
            writer._write(f, "value")
            writer.flush()
            writer.lines.add('return b"".join(out)')
        source.functions.append(writer.lines.text())
        source.made[key] = name
    return name


def _differs_from_default(f: Field, value: str, source: Source) -> str:
    if f.type == "struct":
        assert f.struct is not None
        if f.says_null():
            return f"{value} != {f.struct.class_name}()"
        if f.ever_nullable():
            return f"{value} is not None"
        return f"{value} is not None and {value} != {f.struct.class_name}()"
    if f.type == "array":
        if f.default is None:
            return f"{value} is not None"
        return f"{value} is None or len({value})" if f.ever_nullable() else f"len({value})"
    if f.type == "uuid":
        return f"{value} != {source.use('NO_UUID')}"
    if f.default is None:
        return f"{value} is not None"
    return f"{value} != {f.default!r}"
