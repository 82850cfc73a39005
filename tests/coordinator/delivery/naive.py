"""Share partitions for people with patience: each record on its own, with no thought of speed."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.coordinator.delivery.states import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    RENEW,
    STATE_AFTER,
    Acknowledgement,
    Acquired,
)

FINAL = (ACKNOWLEDGED, ARCHIVED)


class NaiveRecord:
    def __init__(self, state: int = AVAILABLE, count: int = 0) -> None:
        self.state = state
        self.count = count
        self.member = ""
        self.deadline = 0
        self.was_owner = ""  # while a change is being written: who gets the record back if that fails
        self.is_lost = False  # it left the log meanwhile

    @property
    def is_available(self) -> bool:
        return self.state == AVAILABLE and not self.was_owner

    def become_free(self, limit: int, *, is_gone: bool) -> None:
        self.state = ARCHIVED if is_gone or self.count >= limit else AVAILABLE
        self.member = ""

    def change(self, state: int, limit: int) -> None:
        self.was_owner, self.member = self.member, ""
        self.state = ARCHIVED if state == AVAILABLE and self.count >= limit else state


class NaiveShare:
    def __init__(self, limit: int, lock_ms: int) -> None:
        self.limit = limit
        self.lock_ms = lock_ms
        self.records: dict[int, NaiveRecord] = {}  # all that were ever acquired, or lay between such records
        self.accepted: set[int] = set()  # that was persisted, and answered

    def take(self, acquired: Sequence[Acquired], member: str, now: int) -> None:
        for first, last, count in acquired:
            for offset in range(first, last + 1):
                record = self.records.setdefault(offset, NaiveRecord())
                assert record.is_available, f"record {offset} was not available"
                assert record.count + 1 == count, f"record {offset} was delivered {record.count} times before"
                assert offset not in self.accepted
                record.state, record.count = ACQUIRED, record.count + 1
                record.member, record.deadline = member, now + self.lock_ms

    def may(self, member: str, told: Sequence[Acknowledgement], start: int) -> bool:
        """Whether the member may acknowledge all that: it has acquired all of it, and ends no record twice."""
        seen: set[int] = set()
        for first, last, types in told:
            if last < start:
                continue
            if last not in self.records:
                return False
            for offset in range(max(first, start), last + 1):
                record = self.records.get(offset)
                if record is not None:
                    if offset in seen or record.state != ACQUIRED or record.member != member:
                        return False
                    if (types[0] if len(types) == 1 else types[offset - first]) != RENEW:
                        seen.add(offset)
        return True

    def acknowledge(self, told: Sequence[Acknowledgement], start: int, now: int) -> list[int]:
        """The records that change. Those that are renewed do not: their locks begin anew."""
        changed = []
        for first, last, types in told:
            for offset in range(max(first, start), last + 1):
                if offset in self.records:
                    kind = types[0] if len(types) == 1 else types[offset - first]
                    if kind == RENEW:
                        self.records[offset].deadline = now + self.lock_ms
                    else:
                        self.records[offset].change(STATE_AFTER[kind], self.limit)
                        changed.append(offset)
        return changed

    def renew_before_refusal(self, member: str, told: Sequence[Acknowledgement], start: int, now: int) -> None:
        """Nothing of a refused list has changed, but as in Kafka, locks before the first wrong record began anew."""
        seen: set[int] = set()
        for first, last, types in told:
            if last < start:
                continue
            if last not in self.records:
                return
            for offset in range(max(first, start), last + 1):
                record = self.records.get(offset)
                if record is None:
                    continue
                if offset in seen or record.state != ACQUIRED or record.member != member:
                    return
                if (types[0] if len(types) == 1 else types[offset - first]) == RENEW:
                    record.deadline = now + self.lock_ms
                else:
                    seen.add(offset)

    def release(self, member: str, start: int) -> list[int]:
        changed = [offset for offset, each in self.records.items() if (each.state, each.member) == (ACQUIRED, member)]
        for offset in changed:
            self.records[offset].change(ARCHIVED if offset < start else AVAILABLE, self.limit)
        return changed

    def written(self, offsets: Sequence[int]) -> None:
        for offset in offsets:
            record = self.records[offset]
            record.was_owner = ""
            if record.state == ACKNOWLEDGED:
                self.accepted.add(offset)

    def failed(self, offsets: Sequence[int], start: int, now: int) -> None:
        for offset in offsets:
            record = self.records[offset]
            owner, record.was_owner = record.was_owner, ""
            if record.is_lost:
                continue
            if record.deadline > now:
                record.state, record.member = ACQUIRED, owner
            else:
                record.become_free(self.limit, is_gone=offset < start)

    def expire(self, start: int, now: int) -> None:
        for offset, record in self.records.items():
            if record.state == ACQUIRED and record.deadline <= now:
                record.become_free(self.limit, is_gone=offset < start)

    def lose(self, first: int, last: int) -> None:
        """These records are not in the log any more."""
        for offset in range(first, last + 1):
            record = self.records.get(offset)
            if record is not None and record.state == AVAILABLE:
                record.state, record.is_lost = ARCHIVED, True
