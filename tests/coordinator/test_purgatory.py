"""Where operations wait: what waits no more takes no room."""

from kohort.coordinator.outcome import Outcome
from kohort.coordinator.purgatory import SPARE_ENTRIES, Purgatory

FAR_AWAY = 2**31


class Waits:
    def __init__(self) -> None:
        self.expired_at: int | None = None

    def can_complete(self) -> bool:
        return False

    def complete(self, now: int, out: Outcome) -> None: ...

    def expire(self, now: int, out: Outcome) -> None:
        self.expired_at = now


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
    while (now := purgatory.next_deadline()) is not None:
        purgatory.expire(now)
    assert {deadline: operation.expired_at for deadline, operation in kept.items()} == {30: 30, 10: 10, 20: 20}
