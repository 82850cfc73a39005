"""Which findings of `kohort audit follow` are news: each is told once, and while it goes on again now and then.

A finding is known by its check and its place, not by its words, which change while it lasts. Its place may move on as
well: the window forgets how a thing began, so one that lasts longer begins later each time. It is the same one if it
begins while the one that was told went on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

Finding = dict[str, Any]

AGAIN = timedelta(seconds=30)  # how soon a finding that goes on is told again
SUBJECT = ("check", "group_id", "topic", "partition", "member_id", "log_partition")
PLACE = (*SUBJECT, "generation", "log_offset", "time")


@dataclass(slots=True)
class Known:
    finding: Finding  # as it was seen last
    seen: datetime
    told: datetime
    told_until: datetime | None  # how long it had lasted when it was told


class News:
    def __init__(self, memory: timedelta) -> None:
        """`memory`: how long a finding is remembered that is not seen any more."""
        self._memory = memory
        self._known: dict[tuple[Any, ...], Known] = {}

    def among(self, findings: Iterable[Finding], log_partitions: Collection[int], now: datetime) -> list[Finding]:
        """Those to tell, of all that there are now in these log partitions."""
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
        """The one that it was before the window moved on."""
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
        """What lies in other log partitions was not looked for, and may still be there."""
        self._known = {
            place: known
            for place, known in self._known.items()
            if known.seen >= before or known.finding["log_partition"] not in log_partitions
        }


def _place(finding: Finding) -> tuple[Any, ...]:
    return tuple(finding[name] for name in PLACE)
