"""Struct objects that are made at run time. Equal formats share one object, since a long one takes kilobytes."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct


@lru_cache(maxsize=1000)
def shared_struct(form: str) -> Struct:
    return Struct(form)
