"""Regular expressions of subscriptions. They come from clients, so a real RE2 matches them: in time that grows with the
length of a name, and in bounded memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from kohort.coordinator.api import Steps, in_slices

if TYPE_CHECKING:
    from re2 import _Regexp

MAX_MEMORY_BYTES = 1 << 20  # of a compiled expression
MAX_REMEMBERED = 100


class InvalidRegularExpression(Exception):
    """The text is no regular expression; the message says what is wrong with it."""


class Pattern:
    __slots__ = ("_compiled",)

    def __init__(self, compiled: _Regexp) -> None:
        self._compiled = compiled

    def matching(self, names: Sequence[str]) -> Steps[list[str]]:
        """Those names that match from the first character to the last."""
        fits = self._compiled.fullmatch
        found: list[str] = []
        for some in in_slices(names):
            found += [name for name in some if fits(name) is not None]
            yield
        return found


@lru_cache(maxsize=MAX_REMEMBERED)
def compile_pattern(text: str) -> Pattern:
    import re2

    options = re2.Options()
    options.max_mem = MAX_MEMORY_BYTES
    options.log_errors = False
    options.never_capture = True
    try:
        return Pattern(re2.compile(text, options))
    except re2.error as problem:
        (message,) = problem.args
        raise InvalidRegularExpression(message.decode(errors="replace")) from None
