"""Who owned which partition from when until when, as the members of one group told it.

A member says `revoked` before it tells the broker that the partition is free, and `assigned` after the broker gave it
the partition. So of two owners one after the other the first one's `revoked` is earlier, on the clock that all
processes of a machine share.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(eq=False)
class Span:
    """A time in which one member owned one partition."""

    partition: int
    member: str
    start: float
    end: float | None = None  # None: until now


@dataclass
class Ownership:
    spans: list[Span] = field(default_factory=list)
    _open: dict[tuple[str, int], Span] = field(default_factory=dict)

    def gained(self, member: str, partitions: Iterable[int], at: float) -> None:
        for partition in partitions:
            if (member, partition) not in self._open:
                span = Span(partition, member, at)
                self._open[member, partition] = span
                self.spans.append(span)

    def gave_up(self, member: str, partitions: Iterable[int], at: float) -> None:
        for partition in partitions:
            if (member, partition) in self._open:
                self._open.pop((member, partition)).end = at

    def ended(self, member: str, at: float) -> None:
        """The member's process is gone, whatever it said last."""
        self.gave_up(member, [partition for name, partition in self._open if name == member], at)

    def current(self) -> dict[int, Span]:
        """The span in which each partition is owned now."""
        return {partition: span for (_, partition), span in self._open.items()}

    def owned_twice(self) -> list[str]:
        """Every partition that two members owned at the same time."""
        found = []
        last: dict[int, Span] = {}
        for span in sorted(self.spans, key=lambda each: (each.partition, each.start)):
            before = last.get(span.partition)
            if before is not None and (before.end is None or before.end > span.start):
                found.append(f"{span.member} got partition {span.partition} at {span.start}, but {before}")
            last[span.partition] = span
        return found


def interrupted(before: dict[int, Span], after: dict[int, Span]) -> list[Span]:
    """Partitions that a member had to give up and got back, although it could have kept them."""
    return [
        span
        for partition, span in before.items()
        if (now := after[partition]).member == span.member and now is not span
    ]
