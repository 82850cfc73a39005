"""Groups as the log of a cluster tells them, and what a client can ask the cluster beside it.

The log says who is in a group, who owns what, and how far commits have come. Where logs end, which makes lag of it, and
states that no log tells come from elsewhere: see cluster_tail.py and folder_tail.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from time import time
from typing import Any, Final

from kohort.broker.live.explainer import Explainer
from kohort.broker.live.group import GroupHistory, Place
from kohort.broker.live.histories import Histories
from kohort.broker.live.log_reader import LogReader
from kohort.broker.live.rows import GroupRow, Lag, PartitionRow
from kohort.broker.live.work import Work

PARTITIONS_IN_STEP: Final = 1_000
GROUPS_IN_STEP: Final = 200

Listed = Mapping[str, tuple[str, str]]  # group: type and state, as ListGroups tells them


class LogSource:
    def __init__(
        self,
        about: Mapping[str, Any],
        call_soon: Callable[[Callable[[], object]], object],
        explainer: Explainer | None = None,
    ) -> None:
        self.explainer = explainer
        self.histories = Histories()
        self.reader = LogReader(self.histories, with_commits=True)
        self.work = Work(call_soon)
        self.ends: dict[Place, int] = {}  # where logs end, as far as that is known
        self.listed: Listed | None = None  # None: nobody tells
        self.troubles: list[str] = []
        self.behind = 0  # offsets of the log that were not read yet
        self._about = {**about, "version": version("kohort")}

    def about(self) -> dict[str, Any]:
        reading = (
            [f"{self.behind:,} records of __consumer_offsets are still being read"] if self.behind > 10_000 else []
        )
        return {**self._about, "troubles": [*reading, *self.troubles]}

    def now_ms(self) -> int:
        return int(time() * 1000)

    # --- groups

    def rows(self) -> Iterator[GroupRow | None]:
        for number, group_id in enumerate(list(self.histories.groups)):
            yield from self.row(group_id)
            if number % GROUPS_IN_STEP == 0:
                yield None
        for group_id in list(self.listed or ()):
            if group_id not in self.histories.groups:
                yield from self.row(group_id)

    def row(self, group_id: str) -> Iterator[GroupRow | None]:
        group = self.histories.get(group_id)
        listed = (self.listed or {}).get(group_id)
        if group is None:
            if listed is not None:
                yield GroupRow(group_id, listed[0], listed[1], 0, None, None, None, 0, 0)
            return
        if listed is None and self.listed is not None and not group.present and not group.commits:
            return  # it was deleted
        lag = Lag()
        for number, (place, progress) in enumerate(list(group.commits.items())):
            lag.add(progress.offset, self.ends.get(place))
            if number % PARTITIONS_IN_STEP == PARTITIONS_IN_STEP - 1:
                yield None
        kind, state = listed or (group.type, group.state)
        yield GroupRow(
            group_id, kind, state, len(group.present), *lag.sum_and_max, group.last_commit_ms,
            group.in_last_hour(self.now_ms()), len(group.unowned) if group.present else 0,
        )  # fmt: skip

    def partitions(self, group_id: str) -> Iterator[PartitionRow | None]:
        group = self.histories.get(group_id)
        if group is None:
            return
        now = self.now_ms()
        for number, (place, progress) in enumerate(list(group.commits.items())):
            end = self.ends.get(place)
            lag = None if end is None else max(0, end - progress.offset)
            owner = next(iter(group.held.get(place, ())), None)
            yield PartitionRow(*place, progress.offset, end, lag, progress.rate_at(now), progress.at_ms, owner)
            if number % PARTITIONS_IN_STEP == PARTITIONS_IN_STEP - 1:
                yield None
        for place, holders in list(group.held.items()):
            if place not in group.commits:
                yield PartitionRow(*place, None, self.ends.get(place), None, None, None, next(iter(holders), None))

    def details(self, group_id: str) -> dict[str, Any]:
        listed = (self.listed or {}).get(group_id)
        group = self.histories.get(group_id)
        return {"state": listed[1] if listed else "" if group is None else group.state}

    def watched(self, group_id: str, watchers: int) -> None:
        """Every group is followed, whoever looks."""

    # --- what others find out

    def take_listed(self, listed: Listed | None) -> None:
        """States were asked for again. Groups that have another one now are looked at again."""
        before, self.listed = self.listed or {}, listed
        for group_id, told in (listed or {}).items():
            group = self.histories.get(group_id)
            if group is not None and before.get(group_id) != told:
                self.histories.changed(group)

    def take_share_starts(self, told: Mapping[str, Mapping[Place, int]]) -> None:
        """How far share groups have come stands in another log, so it is asked for. When it moves, that is a commit."""
        now = self.now_ms()
        for group_id, starts in told.items():
            group = self.histories.get(group_id)
            if group is None:
                continue
            for place, offset in starts.items():
                known = group.commits.get(place)
                if known is None or known.offset != offset:
                    self.histories.committed(group, place, offset, now)

    def places(self) -> Iterator[list[Place]]:
        """Partitions that have commits or owners, in steps."""
        for group in list(self.histories.groups.values()):
            yield _places(group)


def _places(group: GroupHistory) -> list[Place]:
    return [*group.commits, *(place for place in group.held if place not in group.commits)]
