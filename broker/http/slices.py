"""Long work for an HTTP request, in slices between other requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import monotonic_ns
from typing import Final, TypeVar

T = TypeVar("T")

SLICE_NS: Final = 5_000_000


async def in_slices(steps: Iterator[T]) -> list[T]:
    """All that `steps` gives. The event loop has its turn after each slice."""
    made: list[T] = []
    until = monotonic_ns() + SLICE_NS
    for step in steps:
        made.append(step)
        if monotonic_ns() > until:
            await asyncio.sleep(0)
            until = monotonic_ns() + SLICE_NS
    return made
