"""A share partition beside a naive model of it, over random histories with failing writes and crashes.

In `make test` some thousand steps. More than a hundred thousand, in two minutes; they are counted, and what they did:

    KOHORT_DELIVERY_EXAMPLES=2000 .venv/bin/python -m pytest -s tests/coordinator/delivery/test_against_naive_model.py
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from unittest import mock

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kohort.coordinator.config import ShareGroupSettings
from kohort.coordinator.delivery import acknowledge, share_partition
from kohort.coordinator.delivery.share_partition import SharePartition, Write
from kohort.coordinator.delivery.states import (
    ACCEPT,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    LogBatch,
    Refusal,
    Wish,
)
from tests.coordinator.delivery.naive import FINAL, NaiveRecord, NaiveShare
from tests.share.memory_persister import KeptState

EXAMPLES = int(os.environ.get("KOHORT_DELIVERY_EXAMPLES", "40"))
STEPS = 100
MEMBERS = ("m1", "m2", "m3")
LOCK_MS = 1_000
MAX_LOCKS = 12
RUNS_AT_ONCE = 3  # are freed
TO_READ = 40  # records; nothing is appended while more of them wait

members = st.sampled_from(MEMBERS)


class Counted:
    """What the histories were made of: steps that find nothing to do prove nothing."""

    def __init__(self) -> None:
        self.histories = self.steps = 0
        self.deeds: Counter[str] = Counter()

    def __str__(self) -> str:
        deeds = ", ".join(f"{count:,} {name}" for name, count in self.deeds.most_common())
        return f"{self.steps:,} steps in {self.histories:,} histories: {deeds}"


COUNTED = Counted()


def has_acquired(machine: DeliveryMachine) -> bool:
    return any(each.state == ACQUIRED for each in machine.naive.records.values())


def finds_records(machine: DeliveryMachine) -> bool:
    return machine.log_end > machine.share.window.end + 1 or any(
        each.is_available for each in machine.naive.records.values()
    )


def is_calm(machine: DeliveryMachine) -> bool:
    return machine.calm <= 0


class DeliveryMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        COUNTED.histories += 1
        COUNTED.steps -= 1  # what holds at all times is looked at before the first step, too
        self.patched = ExitStack()
        for module in (acknowledge, share_partition):
            self.patched.enter_context(mock.patch.object(module, "RUNS_AT_ONCE", RUNS_AT_ONCE))
        self.settings = replace(
            ShareGroupSettings(), record_lock_duration_ms=LOCK_MS, partition_max_record_locks=MAX_LOCKS
        )
        self.now = 0
        self.log: list[LogBatch] = []
        self.aborted: set[LogBatch] = set()  # of a transaction that was aborted
        self.log_start = self.log_end = 0
        self.persisted = KeptState(0, 0)
        self.writes: list[tuple[Write, Sequence[int]]] = []  # not persisted yet; the offsets in transition
        self.naive = NaiveShare(self.settings.delivery_count_limit, LOCK_MS)
        self.share = self.load()
        self.start = 0
        self.calm = 10  # so many steps until the leader may crash, or records vanish

    def load(self) -> SharePartition:
        batches = self.persisted.batches()
        return SharePartition(lambda: self.settings, self.persisted.start_offset, batches)

    # --- what happens

    @precondition(lambda self: self.log_end - self.share.window.end < TO_READ)
    @rule(sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4), aborted=st.integers(0, 12))
    def append(self, sizes: list[int], aborted: int) -> None:
        for number, size in enumerate(sizes):
            batch = LogBatch(self.log_end, self.log_end + size - 1)
            self.log.append(batch)
            self.log_end += size
            if number == aborted:
                self.aborted.add(batch)

    @precondition(finds_records)
    @rule(member=members, max_records=st.integers(1, 30), batch_size=st.integers(1, 30), batches=st.integers(1, 6))
    def fetch_batches(self, member: str, max_records: int, batch_size: int, batches: int) -> None:
        self.fetch(Wish(member, max_records, batch_size), batches)

    @precondition(finds_records)
    @rule(member=members, max_records=st.integers(1, 12), batches=st.integers(1, 6))
    def fetch_records(self, member: str, max_records: int, batches: int) -> None:
        self.fetch(Wish(member, max_records, max_records, is_record_limit=True), batches)

    def fetch(self, wish: Wish, batches: int) -> None:
        if not self.share.can_acquire():
            return
        offset = self.share.next_fetch_offset()
        if offset < self.log_start:
            self.naive.lose(self.start, self.log_start - 1)
            self.share.log_starts_at(self.log_start)
            return
        found = [batch for batch in self.log if batch.last_offset >= offset][:batches]
        window = self.share.window
        in_flight, end = window.in_flight_count, window.end
        if found and found[0].last_offset >= self.start:
            self.naive.lose(offset, found[0].base_offset - 1)
        aborted = [batch for batch in found if batch in self.aborted]
        acquired = self.share.acquire(wish, offset, found, self.now, aborted)
        new = [each for each in acquired if each.last_offset > end]
        assert not new or in_flight < MAX_LOCKS
        self.check_suspects(acquired)
        COUNTED.deeds["fetches"] += bool(acquired)
        self.naive.take(acquired, wish.member_id, self.now)
        self.take_aborted(aborted, acquired)
        for run in window.runs():  # the rest of a batch of which a part was acquired
            for each in range(run.first, run.last + 1):
                self.naive.records.setdefault(each, NaiveRecord())
        if wish.is_record_limit:
            assert sum(last - first + 1 for first, last, _ in acquired) <= wish.max_records
        if found and found[0].base_offset <= offset <= found[0].last_offset:
            passed = found[0] in self.aborted and self.share.next_fetch_offset() > offset
            assert acquired or passed, f"nothing was acquired at {offset}"

    def take_aborted(self, aborted: Sequence[LogBatch], acquired: Sequence[tuple[int, int, int]]) -> None:
        """Records of aborted transactions are given to nobody. What would have been acquired of them is archived."""
        for batch in aborted:
            assert not [each for each in acquired if each[0] <= batch.last_offset and batch.base_offset <= each[1]]
            for offset in range(batch.base_offset, min(batch.last_offset + 1, self.share.window.start)):
                self.naive.records.setdefault(offset, NaiveRecord(ARCHIVED, 1))  # the start has passed it at once
            for run in self.share.window.runs():
                for offset in range(max(run.first, batch.base_offset), min(run.last, batch.last_offset) + 1):
                    assert run.state in (ARCHIVED, AVAILABLE), (offset, run.state)
                    if run.state == ARCHIVED:
                        self.naive.records[offset] = NaiveRecord(ARCHIVED, run.delivery_count)

    def check_suspects(self, acquired: Sequence[tuple[int, int, int]]) -> None:
        """Records that were delivered often come from one batch; at their last attempt, alone."""
        limit = self.settings.delivery_count_limit
        firsts = {self.share.window.floor(first) for first, _, _ in acquired}
        for first, last, count in acquired:
            if count > (limit + 1) // 2:
                assert len(firsts) == 1, f"{acquired} is of several batches"
            if count == limit:
                assert (len(acquired), last) == (1, first), f"{acquired} is not alone"

    @precondition(has_acquired)
    @rule(data=st.data())
    def accept(self, data: st.DataObject) -> None:
        self.acknowledge(data, [ACCEPT])

    @precondition(has_acquired)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        self.acknowledge(data, [RELEASE])

    @precondition(has_acquired)
    @rule(data=st.data(), wrongly=st.integers(0, 5))
    def say_anything(self, data: st.DataObject, wrongly: int) -> None:
        self.acknowledge(data, [GAP, ACCEPT, RELEASE, REJECT, RENEW], wrongly)

    def acknowledge(self, data: st.DataObject, kinds_to_say: Sequence[int], wrongly: int = 5) -> None:
        """Mostly of what the member has; 1: also of what follows; 0: of anything."""
        records, window = self.naive.records, self.share.window
        owners = sorted({each.member for each in records.values() if each.state == ACQUIRED})
        member = data.draw(st.sampled_from(owners if wrongly else MEMBERS))
        own = [at for at, each in sorted(records.items()) if (each.state, each.member) == (ACQUIRED, member)]
        offsets = own if wrongly else [run.first for run in window.runs()]
        if not offsets:
            return
        told = []
        at = data.draw(st.sampled_from(offsets))
        for _ in range(data.draw(st.integers(1, 3))):
            last = at + data.draw(st.integers(0, 8))
            if wrongly > 1:
                while last > at and last not in own:
                    last -= 1
            kinds = st.sampled_from(kinds_to_say)
            count = last - at + 1
            types = (
                [data.draw(kinds)]
                if data.draw(st.booleans())
                else data.draw(st.lists(kinds, min_size=count, max_size=count))
            )
            told.append(Acknowledgement(at, last, types))
            following = [offset for offset in offsets if offset > last]
            if not following:
                break
            at = data.draw(st.sampled_from(following[:6]))
        allowed = self.naive.may(member, told, window.start)
        found = self.share.acknowledge(member, told, self.now)
        assert isinstance(found, Refusal) != allowed, (told, found)
        COUNTED.deeds["acknowledgements" if allowed else "refusals"] += 1
        if allowed:
            changed = self.naive.acknowledge(told, window.start, self.now)
            assert bool(changed) == (found is not None)
            if isinstance(found, Write):
                self.writes.append((found, changed))
        else:
            self.naive.renew_before_refusal(member, told, window.start, self.now)

    @precondition(has_acquired)
    @rule(member=members)
    def end_session(self, member: str) -> None:
        changed = self.naive.release(member, self.share.window.start)
        released = []
        for write in self.share.release(member):
            assert write.transition is not None
            offsets = [at for run in write.transition.runs for at in range(run.first, run.last + 1)]
            self.writes.append((write, offsets))
            released += offsets
        assert sorted(released) == sorted(changed)
        COUNTED.deeds["sessions that ended"] += bool(changed)

    @precondition(lambda self: self.writes)
    @rule(succeeds=st.integers(0, 3))
    def write_ends(self, succeeds: int) -> None:
        write, offsets = self.writes.pop(0)
        COUNTED.deeds["writes" if succeeds else "failed writes"] += 1
        if succeeds:
            self.persisted.take(write.start_offset, write.complete_count, write.batches)
            self.naive.written(offsets)
        else:
            self.naive.failed(offsets, self.share.window.start, self.now)
        self.share.written(write, self.now, failed=not succeeds)

    @precondition(has_acquired)
    @rule(ms=st.sampled_from((1, LOCK_MS // 2, LOCK_MS)))
    def pass_time(self, ms: int) -> None:
        self.now += ms
        self.naive.expire(self.share.window.start, self.now)
        while (write := self.share.expire(self.now)) is not None:
            self.writes.append((write, ()))
            COUNTED.deeds["expiries"] += 1
        deadline = self.share.next_deadline()
        assert deadline is None or deadline > self.now

    @precondition(lambda self: is_calm(self) and len(self.log) > 1)
    @rule(count=st.integers(1, 3))
    def retention(self, count: int) -> None:
        self.calm = count * 4
        COUNTED.deeds["retentions"] += 1
        del self.log[: min(count, len(self.log) - 1)]
        self.log_start = self.log[0].base_offset

    @precondition(lambda self: is_calm(self) and len(self.log) > 2)
    @rule(data=st.data())
    def compaction(self, data: st.DataObject) -> None:
        """A batch vanishes from the middle of the log."""
        self.calm = 8
        COUNTED.deeds["compactions"] += 1
        del self.log[data.draw(st.integers(1, len(self.log) - 2))]

    @precondition(is_calm)
    @rule(durable=st.integers(0, 5), calm=st.integers(0, 30))
    def crash(self, durable: int, calm: int) -> None:
        """The leader is lost. Some writes have reached the disk, though nobody was told."""
        self.calm = calm
        COUNTED.deeds["crashes"] += 1
        for write, _ in self.writes[:durable]:
            self.persisted.take(write.start_offset, write.complete_count, write.batches)
        self.writes.clear()
        self.share = self.load()
        before, self.naive = self.naive, NaiveShare(self.settings.delivery_count_limit, LOCK_MS)
        self.naive.accepted = before.accepted
        self.naive.records = {at: NaiveRecord(*kept) for at, kept in self.persisted.records.items()}
        self.start = self.persisted.start_offset
        for offset in before.accepted:
            kept = self.persisted.records.get(offset)
            assert offset < self.start or (kept is not None and kept[0] in FINAL), f"{offset} was accepted"

    # --- what holds at all times

    @invariant()
    def start_only_rises(self) -> None:
        COUNTED.steps += 1
        self.calm -= 1
        start = self.share.window.start
        assert start >= self.start
        for batch in self.log:
            for offset in range(max(batch.base_offset, self.start), min(batch.last_offset + 1, start)):
                assert self.naive.records[offset].state in FINAL, f"the start offset has passed record {offset}"
        self.start = start

    @invariant()
    def every_record_is_in_one_state(self) -> None:
        window = self.share.window
        seen = -1
        for batch in window.batches:
            assert batch.first > seen
            assert batch.first == batch.runs[0].first
            expected = batch.first
            for run in batch.runs:
                assert run.first == expected
                assert run.last >= run.first
                expected = run.last + 1
                for offset in range(run.first, run.last + 1):
                    record = self.naive.records[offset]
                    assert (offset, run.state, run.delivery_count) == (offset, record.state, record.count)
                    assert run.member_id == record.member
                    assert (run.transition is not None) == bool(record.was_owner)
            assert expected == batch.last + 1
            seen = batch.last
        if window.batches:
            assert seen <= window.end

    @invariant()
    def nothing_is_lost(self) -> None:
        """What is not final is in the window, or is not yet fetched, or not in the log any more."""
        window = self.share.window
        held = {offset for run in window.runs() for offset in range(run.first, run.last + 1)}
        for offset, record in self.naive.records.items():
            assert offset in held or (record.state in FINAL and not record.was_owner and offset < window.start)
        final = [at for at, each in self.naive.records.items() if each.state in FINAL and at >= window.start]
        assert window.complete_count == len(final)

    @invariant()
    def the_next_fetch_begins_with_the_first_available_record(self) -> None:
        window = self.share.window
        available = [at for at, each in self.naive.records.items() if each.is_available and at >= window.start]
        offset = self.share.next_fetch_offset()
        if available:
            assert offset == min(available) or (window.has_gap and offset < min(available))
        elif not window.has_gap:
            assert offset == (
                window.end + 1 if window.batches and window.batches[-1].last >= window.start else window.end
            )

    def teardown(self) -> None:
        """Whatever happened: in the end every record of the log can be fetched and accepted."""
        with self.patched:
            self.finish()

    def finish(self) -> None:
        while self.writes:
            self.write_ends(1)
        self.pass_time(LOCK_MS)
        while self.writes:
            self.write_ends(1)
        self.drain()
        left = [
            offset
            for batch in self.log
            if batch not in self.aborted
            for offset in range(max(batch.base_offset, self.share.window.start), batch.last_offset + 1)
            if self.naive.records.get(offset, NaiveRecord()).state not in FINAL
        ]
        assert left == [], f"never delivered: {left}; {self.story()}"
        # Records that were aborted, or lie behind a start that followed the log, are passed with the next record.
        self.log.append(LogBatch(self.log_end, self.log_end))
        self.log_end += 1
        self.drain()
        assert self.share.window.start == self.log_end, f"the start stays at {self.share.window.start}; {self.story()}"

    def drain(self) -> None:
        """Fetch and accept until nothing comes any more."""
        for _ in range(2_000):
            before = (self.share.next_fetch_offset(), self.share.window.start)
            self.fetch(Wish("m1", 30, 30), 6)
            acquired = [at for at, each in sorted(self.naive.records.items()) if each.state == ACQUIRED]
            if acquired:
                told = [Acknowledgement(at, at, [ACCEPT]) for at in acquired if at >= self.share.window.start]
                found = self.share.acknowledge("m1", told, self.now)
                assert isinstance(found, Write)
                self.writes.append((found, self.naive.acknowledge(told, self.share.window.start, self.now)))
                self.write_ends(1)
            elif before == (self.share.next_fetch_offset(), self.share.window.start):
                break

    def story(self) -> str:
        return f"log: {self.log}, in flight: {[run.state_batch for run in self.share.window.runs()]}"


DeliveryMachine.TestCase.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None, suppress_health_check=list(HealthCheck)
)


class TestDelivery(DeliveryMachine.TestCase):  # type: ignore[misc,valid-type]
    @classmethod
    def tearDownClass(cls) -> None:
        print(f"\n{COUNTED}")
