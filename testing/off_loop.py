"""Lets a test's event loop go on while the test waits for the broker. The loop is asyncio's, or trio's under anyio."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


async def off_loop(work: Callable[[], Result]) -> Result:
    """Call `work` in another thread, and wait for it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # not asyncio's
        if "trio" not in sys.modules:
            raise
        result: Result = await sys.modules["trio"].to_thread.run_sync(work)
        return result
    return await asyncio.to_thread(work)
