"""Text that strangers chose, made safe to print.

Clients choose the names of groups, members and themselves, and the keys, headers and values of records. Such a text may
hold line breaks, which forge lines, escapes, which a terminal obeys, and marks that turn the direction of writing, so
that something else is shown than is there. All of these are written out, and so is every other character that Python
does not call printable, except for blanks of all widths.
"""

from __future__ import annotations

from unicodedata import category

MAX_LINE = 4_000  # characters of a line of the log: a name may have 32 kB, and six characters for each when written out


def printable(text: str) -> str:
    """The text on one line, with control characters as Python writes them: \\n, \\x1b, \\u202e."""
    if text.isprintable():
        return text
    return "".join(char if _is_safe(char) else char.encode("unicode_escape").decode() for char in text)


def printable_json(text: str) -> str:
    """The same JSON, with control characters as JSON writes them. Line breaks, which indent it, stay."""
    if text.isprintable():
        return text
    return "".join(char if _is_safe(char) or char == "\n" else _json_escape(char) for char in text)


def shortened(text: str) -> str:
    """The text, or its beginning and how much more there is."""
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}... and {len(text) - MAX_LINE:,} characters more"


def _is_safe(char: str) -> bool:
    return char.isprintable() or category(char) == "Zs"


def _json_escape(char: str) -> str:
    code = char.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{code[at : at + 4]}" for at in range(0, len(code), 4))
