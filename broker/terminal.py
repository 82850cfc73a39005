"""What people see: plain tables with numbers to the right, and complaints of one line each.

Clients choose the names of groups and members. A name with line breaks or control characters in it must not break the
table or send commands to the terminal, so such characters are written out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence


def printable(text: str) -> str:
    """The text with its line breaks, escapes and other control characters written out."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def complain(text: str) -> None:
    print(f"kohort: {printable(text)}", file=sys.stderr)


def in_plain_words(problem: OSError) -> str:
    """`no.properties: No such file or directory`, without Python's `[Errno 2]`."""
    reason = problem.strerror or str(problem)
    if isinstance(problem, FileExistsError):  # of all that Kohort asks of the system, only making a folder fails so
        reason = "this is a file, and a folder is needed"
    return reason if problem.filename is None else f"{problem.filename}: {reason}"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    cells = [["-" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    columns = [_column(head, [row[i] for row in cells]) for i, head in enumerate(heads)]
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


def _column(head: str, cells: list[str]) -> list[str]:
    width = max(map(_width, [head, *cells]))
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
