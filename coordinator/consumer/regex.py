"""Regular expressions of subscriptions, as Kafka's RE2/J understands them.

They come from clients, so a real RE2 matches them: in time that grows with the length of a name, and in bounded memory.
RE2 itself takes long to compile some short texts, so texts are looked through first (`_Reader`): what would take long
is refused, and what RE2/J reads in another way than RE2 is refused or translated. docs/protocol-support.md has what is
left of the differences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from kohort.coordinator.api import Steps

if TYPE_CHECKING:
    from re2 import _Regexp

MAX_LENGTH = 4_096
MAX_MEMORY_BYTES = 1 << 18  # of a compiled expression; RE2 uses a part of it as a cache
# Within these limits an expression is compiled in 10 ms. A name of 249 characters is matched in 2 us for each
# instruction at worst, and mostly in a few microseconds.
MAX_INSTRUCTIONS = 5_000
MAX_REPETITIONS = 1_000  # of x{2,5} and its like: the sum of all counts
MAX_UNICODE_CLASSES = 10  # \pL and its like
MAX_REMEMBERED = 100

NAMES_IN_STEP, INSTRUCTIONS_IN_STEP = 200, 2_000


class InvalidRegularExpression(Exception):
    """The text is no regular expression, or one that is too expensive; the message says what is wrong with it."""


class Pattern:
    __slots__ = ("_compiled", "_names_in_step")

    def __init__(self, compiled: _Regexp) -> None:
        self._compiled = compiled
        self._names_in_step = min(NAMES_IN_STEP, max(1, INSTRUCTIONS_IN_STEP // compiled.programsize))

    def matching(self, names: Iterable[str]) -> Steps[list[str]]:
        """Those names that match from the first character to the last."""
        matches = self._compiled.fullmatch
        found: list[str] = []
        rest = iter(names)
        while some := list(islice(rest, self._names_in_step)):
            found += [name for name in some if matches(name.encode()) is not None]  # four times as fast as with str
            yield
        return found


@lru_cache(maxsize=MAX_REMEMBERED)
def compile_pattern(text: str) -> Pattern:
    """InvalidRegularExpression for a text that Kafka would refuse, or that would take too long or too much memory."""
    import re2

    if len(text) > MAX_LENGTH:
        raise InvalidRegularExpression(f"it is longer than {MAX_LENGTH} characters")
    options = re2.Options()
    options.max_mem = MAX_MEMORY_BYTES
    options.log_errors = False
    options.never_capture = True
    try:
        compiled = re2.compile(_Reader().read(text).encode(), options)
    except re2.error as problem:
        (message,) = problem.args
        raise InvalidRegularExpression(message.decode(errors="replace")) from None
    except UnicodeEncodeError:
        raise InvalidRegularExpression("it is not Unicode") from None
    if compiled.programsize > MAX_INSTRUCTIONS:
        raise InvalidRegularExpression("pattern too large")
    return Pattern(compiled)


# The pieces of an expression that have to be looked at; all other characters stay as they are.
_PIECE = re.compile(
    r"""
    \\Q .*? (?: \\E | \Z )                                    # \Q quotes everything up to \E
    | \\ (?P<escaped> . )
    | \[ \^? \]? (?: \\. | \[:\^?\w*:\] | [^]\\] )* \]?       # [a class], with [:alpha:] in it
    | \( \? P? < (?P<name> [^>=!]* ) >
    | \{ (?P<low> [0-9]+ ) (?: , (?P<high> [0-9]* ) )? \}
    | (?P<brace> \{ ) (?= [*+?] | \{ [0-9]+ (?: ,[0-9]* )? \} )     # a literal brace that is repeated
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?P<escaped>.)", re.DOTALL)
_NAME = re.compile("[0-9A-Za-z_]+")


class _Reader:
    """Looks through an expression once, from left to right."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._repetitions = 0
        self._unicode_classes = 0

    def read(self, text: str) -> str:
        """The expression for RE2. It may still be wrong: RE2 says so."""
        return _PIECE.sub(self._piece, text)

    def _piece(self, found: re.Match[str]) -> str:
        piece = found[0]
        if piece.startswith("["):
            return _ESCAPE.sub(self._escape, piece)
        if piece.startswith("\\Q"):
            return piece
        if found["escaped"] is not None:
            return self._escape(found)
        if found["brace"] is not None:  # RE2/J takes the brace for a repetition
            raise InvalidRegularExpression("invalid nested repetition operator: {")
        if found["name"] is not None:
            self._name(found["name"])
        else:
            self._repeat(found["low"], found["high"])
        return piece

    def _escape(self, found: re.Match[str]) -> str:
        escaped = found["escaped"]
        if escaped in "pP":
            self._unicode_classes += 1
            if self._unicode_classes > MAX_UNICODE_CLASSES:
                raise InvalidRegularExpression(f"it has more than {MAX_UNICODE_CLASSES} Unicode classes")
        if escaped == "C":  # any byte in RE2; RE2/J does not know it
            raise InvalidRegularExpression(r"invalid escape sequence: \C")
        return escaped if not escaped.isascii() else found[0]  # RE2/J takes such a character literally; RE2 refuses it

    def _name(self, name: str) -> None:
        if not _NAME.fullmatch(name):  # RE2 would take other letters as well
            raise InvalidRegularExpression(f"invalid named capture: {name}")
        if name in self._names:
            raise InvalidRegularExpression(f"duplicate capture group name: {name}")
        self._names.add(name)

    def _repeat(self, low: str, high: str | None) -> None:
        given = [each for each in (low, high) if each]
        if any(len(each) > 1 and each.startswith("0") for each in given):
            return  # the braces are literal
        if any(len(each) > 4 for each in given):  # RE2 takes the largest of them literally
            raise InvalidRegularExpression(f"invalid repetition size: {max(given, key=len)}")
        self._repetitions += max(map(int, given))
        if self._repetitions > MAX_REPETITIONS:
            raise InvalidRegularExpression(f"its repetitions are more than {MAX_REPETITIONS} together")
