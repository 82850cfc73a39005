"""Explains the rebalances of a group that somebody looks at, as `kohort why` does: from all that its log says.

The log is read by a thread, one group at a time. What was explained is kept until the group rebalances again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from kohort.broker.live.group import GroupHistory as LiveHistory
from kohort.broker.live.view import cut
from kohort.broker.why.source import CannotRead, read_history
from kohort.broker.why.source import Source as WhySource
from kohort.broker.worker import quick_switches
from kohort.client.errors import ClientError
from kohort.history.explain import explain
from kohort.history.text import lines_of

MAX_EXPLAINED: Final = 50  # rebalances of a group; fewer of a large one
MAX_MEMBERS: Final = 50_000  # of all rebalances that are explained, together
MAX_REMEMBERED: Final = 20  # groups

OpenSource = Callable[[], AbstractContextManager[WhySource]]


class CannotExplain(Exception):
    """The log cannot be read; the text says why."""


class Explainer:
    def __init__(self, open_source: OpenSource) -> None:
        self._open_source = open_source
        self._busy = asyncio.Lock()
        self._known: OrderedDict[str, tuple[int, list[dict[str, Any]]]] = OrderedDict()

    async def explain(self, history: LiveHistory) -> list[dict[str, Any]]:
        """The last rebalances, the newest first. Raises CannotExplain."""
        async with self._busy:
            group_id, version = history.group_id, history.rebalance_count * 2 + (history.unfinished is None)
            known = self._known.get(group_id)
            if known is not None and known[0] == version:
                return known[1]
            count = max(3, min(MAX_EXPLAINED, MAX_MEMBERS // max(1, len(history.present))))
            made = await asyncio.get_running_loop().run_in_executor(None, self._explain, group_id, count)
            self._known[group_id] = version, made
            self._known.move_to_end(group_id)
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)
            return made

    def _explain(self, group_id: str, count: int) -> list[dict[str, Any]]:
        with quick_switches(True):
            try:
                with self._open_source() as source:
                    found = read_history(source, group_id, count, _Silent())
            except (CannotRead, ClientError, OSError) as problem:
                raise CannotExplain(str(problem)) from None
            return [
                {
                    "epoch": each.rebalance.generation,
                    "inferred": each.is_inferred,
                    "lines": [[line.label, cut(line.text)] for line in lines_of(each)],
                }
                for each in reversed(explain(found.history))
                if each.is_rebalance
            ]


class _Silent:
    def show(self, done_bytes: int, total_bytes: int) -> None:
        pass
