"""Which names a topic can have: Kafka's rules in Kafka's words, because clients show these words to people."""

from __future__ import annotations

import re

MAX_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def name_problem(name: str) -> str | None:
    """Why `name` is no topic name; None if it is one."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_LENGTH:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {MAX_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return (
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None


def shortened(name: str) -> str:
    """The name for an error message that is repeated for every partition: no topic has a longer name."""
    return name if len(name) <= MAX_LENGTH else f"{name[:MAX_LENGTH]}..."


def collision_key(name: str) -> str:
    """Kafka makes metric names of topics with '.' as '_', so two topics may not differ in that alone."""
    return name.replace(".", "_")
