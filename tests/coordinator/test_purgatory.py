"""Where operations wait: what waits no more takes no room."""

from kohort.coordinator.outcome import Outcome
from kohort.coordinator.purgatory import SPARE_ENTRIES, Purgatory

FAR_AWAY = 2**31


class Waits:
    def __init__(self) -> None:
        self.has_expired = False

    def can_complete(self) -> bool:
        return False

    def complete(self, out: Outcome) -> None: ...

    def expire(self, out: Outcome) -> None:
        self.has_expired = True


def entries(purgatory: Purgatory) -> int:
    return len(purgatory._heap)


def test_what_is_watched_again_and_again_takes_no_more_room() -> None:
    purgatory = Purgatory()
    for now in range(10 * SPARE_ENTRIES):
        purgatory.watch(("join", "g"), Waits(), now + FAR_AWAY)
        purgatory.cancel(("sync", "g"))
        purgatory.watch(("sync", "g"), Waits(), now + FAR_AWAY)
    assert len(purgatory) == 2
    assert entries(purgatory) <= SPARE_ENTRIES + 2 * len(purgatory)


def test_what_is_cancelled_leaves_room_and_the_rest_expires_in_its_order() -> None:
    purgatory = Purgatory()
    kept = {deadline: Waits() for deadline in (30, 10, 20)}
    for deadline, operation in kept.items():
        purgatory.watch(("session", "g", str(deadline)), operation, deadline)
    for number in range(10 * SPARE_ENTRIES):
        purgatory.watch(("session", "g", f"m{number}"), Waits(), FAR_AWAY)
        purgatory.cancel(("session", "g", f"m{number}"))
    assert entries(purgatory) <= SPARE_ENTRIES + 2 * len(purgatory)
    for deadline in sorted(kept):
        assert purgatory.next_deadline() == deadline
        assert purgatory.expire(deadline - 1) is None
        assert purgatory.expire(deadline) is not None
        assert kept[deadline].has_expired
    assert purgatory.next_deadline() is None
