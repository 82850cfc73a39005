"""Who watches what: the overview or a group, as server-sent events.

While somebody watches the overview, all groups are looked at again and again, in slices between other requests, and
what has changed is sent. A pass takes at most a thirtieth of the time, however many groups there are. A group whose
history changes, by a rebalance for instance, is looked at at once.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncGenerator
from hashlib import sha256
from time import monotonic
from typing import Any, Final

from kohort.broker.http.slices import in_slices
from kohort.broker.live.group import GroupHistory
from kohort.broker.live.rows import GroupRow, PartitionRow
from kohort.broker.live.source import Source
from kohort.broker.live.view import MAX_TEXT, cut, group_view

MAX_WATCHERS: Final = 40
ROWS_AT_ONCE: Final = 500  # in one event
LEAST_PAUSE_S: Final = 0.5
PAUSE_FOR_WORK: Final = 30.0  # a pause of so many times what a pass took
URGENT_PAUSE_S: Final = 0.1  # between two looks at groups that have changed
TICK_S: Final = 1.0
QUIET_S: Final = 10.0  # a word at least so often, so that broken connections are noticed
MAX_PARTITIONS: Final = 2_000  # of a group, in one event
MAX_GONE: Final = 10_000
LONG: Final = "sha256:"
IDLE_S: Final = 30.0  # rows are kept so long after the last watcher has gone


class TooManyWatchers(Exception):
    pass


class Feed:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.rows: OrderedDict[str, tuple[int, GroupRow]] = OrderedDict()  # by group, with version; newest last
        self.version = 0
        self._gone: list[tuple[int, str]] = []
        self._forgotten_until = 0  # who has seen less must get everything anew
        self._watchers = 0
        self._overview_watchers = 0
        self._refresher: asyncio.Task[None] | None = None
        self._urgent: set[str] = set()
        self._wake = asyncio.Event()
        self._news: set[asyncio.Event] = set()  # of each watcher
        self._group_watchers: dict[str, set[asyncio.Event]] = {}
        self._first_pass = asyncio.Event()
        source.histories.on_change.append(self._changed)

    def stop(self) -> None:
        if self._refresher is not None:
            self._refresher.cancel()

    def _changed(self, group: GroupHistory) -> None:
        if self._refresher is not None:
            self._urgent.add(group.group_id)
            self._wake.set()
        for event in self._group_watchers.get(group.group_id, ()):
            event.set()

    # --- all groups

    async def find(self, key: str) -> str:
        """The id of the group that has this key."""
        if not key.startswith(LONG):
            return key
        for row in await self.all_rows():
            if len(row.group) > MAX_TEXT and key_of(row.group) == key:
                return row.group
        return key

    async def all_rows(self) -> list[GroupRow]:
        """Every group, as it is now."""
        return [row for row in await in_slices(self.source.rows()) if row is not None]

    async def _refresh(self) -> None:
        idle_since = monotonic()
        while self._overview_watchers or monotonic() - idle_since < IDLE_S:
            if self._overview_watchers:
                idle_since = monotonic()
            took = await self._pass()
            until = monotonic() + max(LEAST_PAUSE_S, took * PAUSE_FOR_WORK)
            while (left := until - monotonic()) > 0:
                try:
                    await asyncio.wait_for(self._wake.wait(), left)
                except TimeoutError:
                    break
                await self._look_at_urgent()
                await asyncio.sleep(URGENT_PAUSE_S)
        self._refresher = None
        self.rows.clear()
        self._first_pass.clear()
        self._forgotten_until = self.version

    async def _pass(self) -> float:
        """Look at all groups. Returns the seconds that it took, without those of others."""
        took = 0.0
        seen: set[str] = set()
        steps = self.source.rows()
        done = False
        while not done:
            began = monotonic()
            while not done and monotonic() - began < 0.004:
                row = next(steps, _END)
                if isinstance(row, GroupRow):
                    seen.add(row.group)
                    self._note(row)
                done = row is _END
            took += monotonic() - began
            await asyncio.sleep(0)
        if len(seen) < len(self.rows):
            for group_id in [group_id for group_id in self.rows if group_id not in seen]:
                self._drop(group_id)
        self._first_pass.set()
        self._tell()
        return took

    async def _look_at_urgent(self) -> None:
        self._wake.clear()
        urgent, self._urgent = self._urgent, set()
        for number, group_id in enumerate(urgent):
            found = [row for row in self.source.row(group_id) if row is not None]
            if found:
                self._note(found[0])
            else:
                self._drop(group_id)
            if number % 20 == 0:
                await asyncio.sleep(0)
        self._tell()

    def _note(self, row: GroupRow) -> None:
        known = self.rows.get(row.group)
        if known is None or known[1] != row:
            self.version += 1
            self.rows[row.group] = (self.version, row)
            self.rows.move_to_end(row.group)

    def _drop(self, group_id: str) -> None:
        if self.rows.pop(group_id, None) is not None:
            self.version += 1
            self._gone.append((self.version, group_id))
            if len(self._gone) > MAX_GONE:
                self._forgotten_until = self._gone[MAX_GONE // 2][0]
                del self._gone[: MAX_GONE // 2 + 1]

    def _tell(self) -> None:
        for event in self._news:
            event.set()

    # --- watchers

    def _admit(self) -> None:
        if self._watchers >= MAX_WATCHERS:
            raise TooManyWatchers(f"{MAX_WATCHERS} pages are open already; close one of them")

    def overview(self) -> AsyncGenerator[bytes, None]:
        """Raises TooManyWatchers."""
        self._admit()
        return self._overview()

    async def _overview(self) -> AsyncGenerator[bytes, None]:
        self._watchers += 1
        self._overview_watchers += 1
        news = asyncio.Event()
        self._news.add(news)
        if self._refresher is None:
            self._refresher = asyncio.get_running_loop().create_task(self._refresh())
        seen = -1
        told_about: dict[str, Any] = {}
        try:
            yield b"retry: 1000\n\n"
            await self._first_pass.wait()
            while True:
                about = self.source.about()
                if about != told_about:
                    told_about = about
                    yield event("about", about)
                version = self.version
                if version > seen:
                    if seen < self._forgotten_until:
                        seen = -1
                        yield event("begin", {"now": self.source.now_ms()})
                    async for part in self._since(seen):
                        yield part
                    seen = version
                    yield event("now", {"now": self.source.now_ms()})
                news.clear()
                try:
                    await asyncio.wait_for(news.wait(), QUIET_S)
                except TimeoutError:
                    yield event("now", {"now": self.source.now_ms()})
        finally:
            self._news.discard(news)
            self._watchers -= 1
            self._overview_watchers -= 1

    async def _since(self, seen: int) -> AsyncGenerator[bytes, None]:
        changed: list[GroupRow] = []
        for version, row in reversed(self.rows.values()):
            if version <= seen:
                break
            changed.append(row)
        for start in range(0, len(changed), ROWS_AT_ONCE):
            yield event("rows", [shown_row(row) for row in changed[start : start + ROWS_AT_ONCE]])
            await asyncio.sleep(0)
        gone = [group_id for version, group_id in self._gone if version > seen] if seen >= 0 else []
        if gone := [group_id for group_id in gone if group_id not in self.rows]:
            yield event("gone", gone)

    def group(self, group_id: str) -> AsyncGenerator[bytes, None]:
        """Raises TooManyWatchers."""
        self._admit()
        return self._group(group_id)

    async def _group(self, group_id: str) -> AsyncGenerator[bytes, None]:
        self._watchers += 1
        news = asyncio.Event()
        watchers = self._group_watchers.setdefault(group_id, set())
        watchers.add(news)
        self.source.watched(group_id, len(watchers))
        told: tuple[int, dict[str, Any]] = (-1, {})
        told_about: dict[str, Any] = {}
        not_before = 0.0
        try:
            yield b"retry: 1000\n\n"
            while True:
                if (about := self.source.about()) != told_about:
                    told_about = about
                    yield event("about", about)
                history = self.source.histories.get(group_id)
                version = -2 if history is None else history.version
                details = self.source.details(group_id)
                if (version, details) != told and monotonic() >= not_before:
                    began = monotonic()
                    yield event("group", await self.group_now(group_id))
                    told = version, details
                    not_before = began + (monotonic() - began) * PAUSE_FOR_WORK / 3
                yield event("tick", await self.tick(group_id))
                news.clear()
                try:
                    await asyncio.wait_for(news.wait(), TICK_S)
                    await asyncio.sleep(max(URGENT_PAUSE_S, min(TICK_S, not_before - monotonic())))
                except TimeoutError:
                    continue
        finally:
            self._watchers -= 1
            watchers.discard(news)
            self.source.watched(group_id, len(watchers))
            if not watchers:
                self._group_watchers.pop(group_id, None)

    async def group_now(self, group_id: str) -> dict[str, Any]:
        """All that the page of a group shows, but for what changes with each commit."""
        row = [row for row in await in_slices(self.source.row(group_id)) if row is not None]
        if not row:
            return {"group": cut(group_id), "exists": False, "now": self.source.now_ms()}
        history = self.source.histories.of(group_id)
        parts = await in_slices(group_view(history, self.source.now_ms()))
        shown = {key: value for part in parts for key, value in part.items()}
        first = row[0]
        return {
            "group": cut(group_id), "exists": True, "type": first.type, "state": first.state,
            "protocol_type": history.protocol_type, "assignor": history.assignor,
            "details": self.source.details(group_id), **shown,
        }  # fmt: skip

    async def tick(self, group_id: str) -> dict[str, Any]:
        """What changes all the time: state, lag and commits."""
        row = [row for row in await in_slices(self.source.row(group_id)) if row is not None]
        made = await in_slices(self.source.partitions(group_id))
        partitions = sorted(row for row in made if row is not None)
        return {
            "now": self.source.now_ms(),
            "row": shown_row(row[0]) if row else None,
            "partitions": [_shown_partition(each) for each in partitions[:MAX_PARTITIONS]],
            "partition_count": len(partitions),
        }


class _End:
    pass


_END = _End()


def event(name: str, value: object) -> bytes:
    """A server-sent event. JSON has no line breaks, so it is one line."""
    return f"event: {name}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n".encode()


def key_of(group_id: str) -> str:
    """What stands for the group in addresses: its id, or a digest if that is too long."""
    if len(group_id) <= MAX_TEXT:
        return group_id
    return f"{LONG}{sha256(group_id.encode(errors='surrogatepass')).hexdigest()[:32]}"


def shown_row(row: GroupRow) -> list[Any]:
    """Behind the group's name comes its key, or null if that is the same."""
    if len(row.group) <= MAX_TEXT:
        return [row.group, None, *row[1:]]
    return [cut(row.group), key_of(row.group), *row[1:]]


def _shown_partition(row: PartitionRow) -> list[Any]:
    rate = None if row.rate is None else round(row.rate, 2)
    return [
        cut(row.topic), row.partition, row.offset, row.end, row.lag, rate, row.committed_ms, row.owner, row.deliveries
    ]  # fmt: skip
