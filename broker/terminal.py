"""What people see: plain tables with numbers to the right, and complaints of one line each.

Names that clients chose are made safe to print: see kohort/printable.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence

from kohort.printable import printable

MAX_COLUMN = 200


def complain(text: str) -> None:
    print(f"kohort: {printable(text)}", file=sys.stderr)


def in_plain_words(problem: OSError) -> str:
    """`no.properties: No such file or directory`, without Python's `[Errno 2]`."""
    reason = problem.strerror or str(problem)
    if isinstance(problem, FileExistsError):  # only making a folder raises this
        reason = "this is a file, and a folder is needed"
    if isinstance(problem, PermissionError):
        reason += ": run this as the user who owns the file or folder, or change its owner"
    return reason if problem.filename is None else f"{problem.filename}: {reason}"


Paint = Callable[[int, int, str], str]  # row (0: the heads), column, cell -> the cell in a colour


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], paint: Paint | None = None) -> str:
    cells = [["-" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    columns = [_column(head, [row[i] for row in cells]) for i, head in enumerate(heads)]
    if paint is not None:
        columns = [[paint(row, at, cell) for row, cell in enumerate(column)] for at, column in enumerate(columns)]
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def _column(head: str, cells: list[str]) -> list[str]:
    width = min(max(map(_width, [head, *cells])), MAX_COLUMN)  # a name of 32 kB does not make every line as long
    if any(_is_number(cell) for cell in cells) and all(_is_number(cell) or cell == "-" for cell in cells):
        return [" " * (width - _width(cell)) + cell for cell in (head, *cells)]
    return [cell + " " * (width - _width(cell)) for cell in (head, *cells)]


def _is_number(cell: str) -> bool:
    return cell.removeprefix("-").isdigit()


def _width(text: str) -> int:
    """How many columns the text takes on a terminal: a Chinese character takes two, a combining accent none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width  # only here: `kohort serve` has no tables, and starts quickly

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)
