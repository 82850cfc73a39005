"""Decides which findings of `kohort audit follow` are told. Each is told once; one that goes on is told again later.

A finding is recognised by its check and its place, not by its message, which changes while the finding lasts. The place
includes the time when it began. If a finding lasts longer than the window, its beginning is forgotten, and it seems to
begin later each time. So a finding is also recognised if it begins within the time of the one that was told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

Finding = dict[str, Any]

AGAIN = timedelta(seconds=30)  # a finding that goes on is told again after this time
SUBJECT = ("check", "group_id", "topic", "partition", "member_id", "log_partition")
PLACE = (*SUBJECT, "generation", "log_offset", "time")


@dataclass(slots=True)
class Known:
    finding: Finding  # in its latest form
    seen: datetime
    told: datetime
    told_until: datetime | None  # its end when it was told


class News:
    def __init__(self, memory: timedelta) -> None:
        """`memory`: how long a finding is remembered after it was last seen."""
        self._memory = memory
        self._known: dict[tuple[Any, ...], Known] = {}

    def among(self, findings: Iterable[Finding], log_partitions: Collection[int], now: datetime) -> list[Finding]:
        """The findings to tell. `findings` are all that there are now in these log partitions."""
        new = []
        for finding in findings:
            known = self._known.pop(_place(finding), None) or self._begun_earlier(finding)
            if known is None or (finding["until"] != known.told_until and now - known.told >= AGAIN):
                new.append(finding)
                known = Known(finding, now, now, finding["until"])
            known.finding, known.seen = finding, now
            self._known[_place(finding)] = known
        self._forget(log_partitions, now - self._memory)
        return new

    def _begun_earlier(self, finding: Finding) -> Known | None:
        """The known finding that this one continues, with a later beginning since the window moved on."""
        for place, known in self._known.items():
            before = known.finding
            if (
                all(finding[name] == before[name] for name in (*SUBJECT, "severity"))
                and None not in (before["time"], before["until"], finding["time"])
                and before["time"] <= finding["time"] <= before["until"]
            ):
                return self._known.pop(place)
        return None

    def _forget(self, log_partitions: Collection[int], before: datetime) -> None:
        """Forget old findings of these log partitions. The others were not checked, so theirs may still be there."""
        self._known = {
            place: known
            for place, known in self._known.items()
            if known.seen >= before or known.finding["log_partition"] not in log_partitions
        }


def _place(finding: Finding) -> tuple[Any, ...]:
    return tuple(finding[name] for name in PLACE)
