"""Plain tables for people; numbers to the right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    columns = [_column(head, [row[i] for row in cells]) for i, head in enumerate(heads)]
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def _column(head: str, cells: list[str]) -> list[str]:
    width = max(map(len, [head, *cells]))
    if cells and all(cell.lstrip("-").isdigit() or cell == "-" for cell in cells):
        return [cell.rjust(width) for cell in (head, *cells)]
    return [cell.ljust(width) for cell in (head, *cells)]
