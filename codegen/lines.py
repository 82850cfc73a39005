"""Source text under construction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Lines:
    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def add(self, line: str = "") -> None:
        self._lines.append("    " * self._depth + line if line else "")

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.add(opening)
        self._depth += 1
        yield
        self._depth -= 1

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


class Source:
    """What all functions of one module share: the names they import, the struct formats, the functions made so far."""

    def __init__(self) -> None:
        self.imports: set[str] = set()
        self.formats: dict[str, str] = {}
        self.functions: list[str] = []
        self.made: dict[object, str] = {}

    def use(self, name: str) -> str:
        self.imports.add(name)
        return name

    def unpack(self, fmt: str) -> str:
        return self._format(fmt, "unpack_from")

    def iter_unpack(self, fmt: str) -> str:
        return self._format(fmt, "iter_unpack")

    def pack(self, fmt: str) -> str:
        return self._format(fmt, "pack")

    def _format(self, fmt: str, method: str) -> str:
        readable = fmt.replace("16s", "u").replace("?", "o")
        name = f"_{method.removesuffix('_from')}_{readable}"
        self.formats[name] = f'Struct(">{fmt}").{method}'
        return name
