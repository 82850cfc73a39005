"""Reads Java properties files as java.util.Properties does.

    # a comment, as is a line that starts with !
    key=value
    key: value
    key value
    listeners=PLAINTEXT://a:9092,\\
              PLAINTEXT://b:9092
    path=C:\\\\data

A backslash at the end of a line continues the line, without the blanks at the start of the next one. Elsewhere a
backslash makes the next character an ordinary one, or spells a special one: \\t, \\n, \\r, \\f, \\u00e9.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

BLANKS = " \t\f"
LINE_END = re.compile(r"\r\n|\r|\n")  # str.splitlines would also split at characters that are ordinary in Java
KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.?)", re.DOTALL)
SPECIAL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """All keys with their values. Of a key that is given twice, the last value. Raises ValueError for a broken \\u."""
    given: dict[str, str] = {}
    for line in _logical_lines(text):
        key = KEY.match(line)
        assert key is not None  # the pattern matches the empty string too
        separator = SEPARATOR.match(line, key.end())
        assert separator is not None
        given[_unescape(key[0])] = _unescape(line[separator.end() :])
    return given


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and empty ones, each joined with the lines that continue it."""
    whole = ""  # the part of a logical line that has been read
    for natural in LINE_END.split(text):
        line = natural.lstrip(BLANKS)
        if not whole and (not line or line[0] in "#!"):
            continue
        whole += line
        if _is_continued(line):
            whole = whole[:-1]
        else:
            yield whole
            whole = ""
    if whole:
        yield whole


def _is_continued(line: str) -> bool:
    """Two backslashes at the end are a backslash; a single one that is left over continues the line."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str) -> str:
    return ESCAPE.sub(_character, text) if "\\" in text else text


def _character(escape: re.Match[str]) -> str:
    code = escape[1]
    if len(code) == 5:
        return chr(int(code[1:], 16))
    if code == "u":
        raise ValueError("\\u must be followed by four hexadecimal digits")
    return SPECIAL.get(code, code)
