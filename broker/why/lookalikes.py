"""Groups whose names look like one that is unknown."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MAX_SHOWN = 5
MAX_COMPARED = 20_000


def lookalikes(wanted: str, groups: Iterable[str]) -> tuple[list[str], int]:
    """The groups whose names are near, or contain the name; and how many groups there are."""
    known: dict[str, None] = {}
    for group in groups:
        known[group] = None
        if len(known) >= MAX_COMPARED:
            break
    lowered = wanted.lower()
    near = [group for group in known if lowered and lowered in group.lower()]
    near += get_close_matches(wanted, list(known), n=MAX_SHOWN)
    return list(dict.fromkeys(near))[:MAX_SHOWN], len(known)
