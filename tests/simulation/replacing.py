"""Attributes of modules and classes that are others for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(*places: tuple[Any, str, Any]) -> Iterator[None]:
    """Each place is an object, the name of its attribute, and the value that the attribute has meanwhile."""
    before = [(owner, name, owner.__dict__[name]) for owner, name, _ in places]
    try:
        for owner, name, value in places:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
