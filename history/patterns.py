"""What only several rebalances together show: members that come back, that flap, or that are restarted in turn.

A process that is started again has another member id. It is taken for the same one if it has the same instance id, or
else the same client id and host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from kohort.history.changes import Changes
from kohort.history.departure import SILENT_CODES, departure_of
from kohort.history.members import Member
from kohort.history.rebalance import Rebalance, Removal

WINDOW_MS = 10 * 60_000
FLAPS = 3  # so many times away within the window
MIN_ROLLED = 2

Person = tuple[str, str]


class Absence(NamedTuple):
    person: Person
    left_as: Member
    came_as: Member
    from_ms: int
    to_ms: int
    left_in: int  # index of the rebalance
    came_in: int

    @property
    def length_ms(self) -> int:
        return self.to_ms - self.from_ms


class Rolling(NamedTuple):
    """Members were restarted one after the other."""

    members: int
    of: int
    from_ms: int
    to_ms: int


class Patterns:
    def __init__(self, rebalances: Sequence[Rebalance], changes: Sequence[Changes]) -> None:
        self._rebalances = rebalances
        self.absences: list[Absence] = []
        self._shared = _shared_names(rebalances)
        gone: dict[Person, list[tuple[Member, int, int]]] = {}
        for index, (rebalance, changed) in enumerate(zip(rebalances, changes, strict=True)):
            for removal in changed.left:
                gone.setdefault(removal.member.person, []).append(
                    (removal.member, _last_there(rebalance, removal), index)
                )
            for member in changed.joined:
                waiting = gone.get(member.person)
                if waiting:
                    left_as, at, left_in = waiting.pop(0)
                    self.absences.append(
                        Absence(member.person, left_as, member, at, _seen(rebalance, at), left_in, index)
                    )

    def return_of(self, member: Member, index: int) -> Absence | None:
        """The absence that began in rebalance `index`, if the member came back later."""
        return next((each for each in self.absences if each.left_in == index and each.left_as == member), None)

    def absence_before(self, member: Member, index: int) -> Absence | None:
        """The absence that ended when the member joined in rebalance `index`, if it had been there before."""
        found = (each for each in self.absences if each.came_in == index and each.came_as == member)
        return next((each for each in found if each.length_ms <= WINDOW_MS), None)

    def flaps(self, member: Member, index: int) -> int:
        """How often the member was away around this rebalance; 0: not often, or several members have its name."""
        involved = any(each.person == member.person and index in (each.left_in, each.came_in) for each in self.absences)
        if member.person in self._shared or not involved:
            return 0
        at = self._rebalances[index].time_ms
        count = sum(each.person == member.person and abs(each.to_ms - at) <= WINDOW_MS for each in self.absences)
        return count if count >= FLAPS else 0

    def rolling(self, index: int) -> Rolling | None:
        """Whether this rebalance is one of a rolling restart."""
        at = self._rebalances[index].time_ms
        near = [each for each in self.absences if abs(each.to_ms - at) <= WINDOW_MS]
        near = [
            each for each in near if each.left_in >= index - 2 * len(near) and each.came_in <= index + 2 * len(near)
        ]
        if not any(index in (each.left_in, each.came_in) for each in near):
            return None
        times = Counter(each.person for each in near)
        if any(count >= FLAPS and person not in self._shared for person, count in times.items()):
            return None
        first, last = min(each.left_in for each in near), max(each.came_in for each in near)
        sizes = [len(each.members) for each in self._rebalances[first : last + 1]]
        rolled, size = len({each.left_as.member_id for each in near}), max(sizes)
        if rolled < MIN_ROLLED or 2 * rolled < size:
            return None
        return Rolling(rolled, size, min(each.from_ms for each in near), max(each.to_ms for each in near))


def _last_there(rebalance: Rebalance, removal: Removal) -> int:
    """When the member was last there: before its silence, as far as that is known."""
    at = removal.time_ms if rebalance.bumps else rebalance.begin_ms or rebalance.time_ms
    is_silent = departure_of(rebalance, removal).code in SILENT_CODES
    if is_silent and removal.sign is not None:
        return removal.sign.last_ms
    if rebalance.told is not None and rebalance.told.cause == "session expired":
        return at - (removal.member.session_timeout_ms or 0)
    return at


def _seen(rebalance: Rebalance, after_ms: int) -> int:
    return max(after_ms, rebalance.begin_ms or rebalance.time_ms)


def _shared_names(rebalances: Sequence[Rebalance]) -> set[Person]:
    """Names that several members had at the same time."""
    shared: set[Person] = set()
    for rebalance in rebalances:
        times = Counter(member.person for member in rebalance.members.values())
        shared |= {person for person, count in times.items() if count > 1}
    return shared
