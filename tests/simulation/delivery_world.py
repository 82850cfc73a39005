"""Delivery to members of share groups: leaders of partitions, the share coordinator and its disk, and members that
fetch, acknowledge, hang and die.

Each record is watched on its own, with no thought of speed. Checked after each event:

    a record that was accepted or rejected, and answered so, is never delivered again, also over crashes
    a record that somebody has locked is delivered to nobody else; a lock lasts as long as the settings say, and ends
    a member may acknowledge what it has locked
    each delivery counts one more than the last, and none more than the limit
    the start offset only rises, and is never beyond a record that is not finished
    after a restart the share coordinator knows what it has answered

At the end nothing goes wrong any more: every record is finished, and a restart finds nothing more to deliver.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from random import Random

from kohort.coordinator.config import ShareGroupSettings
from kohort.coordinator.delivery.share_partition import SharePartition, Write
from kohort.coordinator.delivery.states import (
    ACCEPT,
    ACQUIRED,
    AVAILABLE,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    LogBatch,
    Refusal,
    Wish,
)
from kohort.coordinator.shard import Status
from kohort.coordinator.share_state.initialize_share_group_state import INITIALIZE, InitializeAsked
from kohort.coordinator.share_state.keys import SharePartitionKey
from kohort.coordinator.share_state.partition_api import Row
from kohort.coordinator.share_state.read_share_group_state import READ, ReadAsked
from kohort.coordinator.share_state.write_share_group_state import WRITE, WriteAsked
from kohort.protocol.error_codes import ErrorCode
from tests.coordinator.share_state.support import Call, ShareHost
from tests.coordinator.support import START

GROUPS = ("alpha", "beta")
PARTITIONS = 2
READERS = 8
LOCK_MS = 1_000
CALM_ROUNDS = 400
SOME_RECORDS = 6

Chances = list[tuple[float, Callable[[], None]]]


class Leader:
    """What the leader of a partition has in memory for one group. After a crash another object takes its place."""

    def __init__(self, world: DeliveryWorld, key: SharePartitionKey) -> None:
        self.world = world
        self.key = key
        self.share: SharePartition | None = None  # until the state is read
        self.counts: dict[int, int] = {}  # how often each record was delivered, as this leader must know
        self.locks: dict[int, tuple[Reader, int]] = {}  # who has a record, and until when
        self.in_doubt: set[int] = set()  # changes of these records are being written
        self.kept: set[int] = set()  # records that were finished when this leader read the state
        self.start = 0
        self.reads: Call | None = None

    def load(self) -> None:
        """Read the state, unless that is done or under way."""
        host = self.world.host
        if self.share is not None:
            return
        if self.reads is None:
            self.reads = host.ask(READ, ReadAsked(self.key, 0))
        if self.reads.answer is None:
            return
        row, self.reads = self.reads.answer, None
        if row.error:
            return
        start = max(row.start_offset, 0)
        assert start >= self.world.durable_start.get(self.key, 0), f"the start offset of {self.key.group_id} falls"
        self.share = SharePartition(lambda: self.world.settings, start, row.batches)
        self.start = start
        for batch in row.batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                self.counts[offset] = batch.delivery_count
                if batch.delivery_state != AVAILABLE:
                    self.kept.add(offset)
        self.world.tell(f"{self.key.group_id}-{self.key.partition} begins at {start}: {row.batches}")

    def unlock(self, offset: int) -> None:
        reader, _ = self.locks.pop(offset)
        reader.holds.pop((self, offset), None)

    def check(self) -> None:
        share, now = self.share, self.world.host.now
        if share is None:
            return
        assert share.window.start >= self.start, f"the start offset falls from {self.start} to {share.window.start}"
        done = self.world.done[self.key] | self.kept
        for offset in range(self.start, share.window.start):
            known = offset in done or offset in self.in_doubt or self.counts.get(offset, 0) >= self.world.limit
            assert known, f"the start offset has passed record {offset}, which is not finished"
        self.start = share.window.start
        locked = {
            each: run for run in share.window.runs() if run.state == ACQUIRED for each in range(run.first, run.last + 1)
        }
        for offset, run in locked.items():
            reader, until = self.locks.get(offset, (None, 0))
            assert reader is not None, f"record {offset} is locked, and nobody has it"
            assert run.deadline == until > now, f"the lock of record {offset} lasts until {run.deadline}, not {until}"
        for offset, (_, until) in self.locks.items():
            assert until <= now or offset in locked, f"record {offset} is not locked any more, before its time"


class Reader:
    """A member that reads. `holds`: records that it has locked, with how often they were delivered."""

    def __init__(self, world: DeliveryWorld, name: str, group_id: str) -> None:
        self.world = world
        self.name = name
        self.group_id = group_id
        self.holds: dict[tuple[Leader, int], int] = {}
        self.is_hanging = False

    def act(self) -> None:
        random = self.world.random
        if self.is_hanging:
            self.is_hanging = random.random() > 0.05
        elif random.random() < 0.03:
            self.is_hanging = True
        elif random.random() < 0.05:
            self.end_session()
        elif self.holds and random.random() < 0.6:
            self.acknowledge()
        else:
            self.fetch()

    def leader(self) -> Leader:
        return self.world.leaders[self.group_id, self.world.random.randrange(PARTITIONS)]

    def fetch(self) -> None:
        random, leader = self.world.random, self.leader()
        leader.load()
        if leader.share is None or not leader.share.can_acquire():
            return
        offset = leader.share.next_fetch_offset()
        found = [batch for batch in self.world.logs[leader.key.partition] if batch.last_offset >= offset]
        wish = Wish(self.name, random.randint(1, 12), random.randint(1, 12), random.random() < 0.5)
        acquired = leader.share.acquire(wish, offset, found[: random.randint(1, 3)], self.world.host.now)
        for first, last, count in acquired:
            for each in range(first, last + 1):
                self.world.is_delivered(leader, self, each, count)

    def acknowledge(self) -> None:
        """Some neighbours of what it has."""
        random = self.world.random
        leader, first = random.choice(sorted(self.holds, key=lambda held: (held[0].key.partition, held[1])))
        last = first
        while (leader, last + 1) in self.holds and random.random() < 0.8:
            last += 1
        kind = random.choice((ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT, RENEW))
        self.say(leader, first, last, ACCEPT if self.world.is_calm else kind)

    def say(self, leader: Leader, first: int, last: int, kind: int) -> None:
        world = self.world
        assert leader.share is not None
        found = leader.share.acknowledge(self.name, [Acknowledgement(first, last, [kind])], world.host.now)
        world.tell(f"{self.name} says {kind} of {leader.key.partition}: {first}-{last}: {type(found).__name__}")
        assert not isinstance(found, Refusal), f"{self.name} may not acknowledge {first}-{last}, which it has: {found}"
        offsets = range(first, last + 1)
        if kind == RENEW:
            until = world.host.now + LOCK_MS
            leader.locks.update((each, (self, until)) for each in offsets)
            return
        for each in offsets:
            leader.unlock(each)
        if found is not None:
            world.persist(leader, found, list(offsets), is_final=kind in (ACCEPT, REJECT))

    def end_session(self) -> None:
        """It leaves, or its connection breaks: what it has is free."""
        self.world.tell(f"{self.name} ends its session")
        for leader in [self.world.leaders[self.group_id, each] for each in range(PARTITIONS)]:
            if leader.share is None:
                continue
            mine = [offset for held, offset in list(self.holds) if held is leader]
            writes = list(leader.share.release(self.name))
            for offset in mine:
                leader.unlock(offset)
            for found in writes:  # a simulated member never has so many records that there are several
                self.world.persist(leader, found, mine, is_final=False)
        self.holds = {}


class DeliveryWorld:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.trace: list[str] = []
        self.limit = self.random.choice((2, 5))
        self.settings = ShareGroupSettings(
            record_lock_duration_ms=LOCK_MS, delivery_count_limit=self.limit, partition_max_record_locks=40
        )
        self.host = ShareHost(updates_per_snapshot=self.random.choice((0, 3, 500)))
        self.is_calm = False
        self.crashes = self.failures = self.assignments = 0
        self.logs: list[list[LogBatch]] = [[] for _ in range(PARTITIONS)]
        self.keys = [
            SharePartitionKey(group, self.host.key().topic_id, each) for group in GROUPS for each in range(PARTITIONS)
        ]
        self.done: dict[SharePartitionKey, set[int]] = {key: set() for key in self.keys}  # and a member knows it
        self.durable_start: dict[SharePartitionKey, int] = {}
        self.pending: list[tuple[Leader, Write, Call, list[int], bool]] = []
        self.leaders: dict[tuple[str, int], Leader] = {}
        self.readers = [Reader(self, f"r{n}", GROUPS[n % len(GROUPS)]) for n in range(READERS)]
        for key in self.keys:
            row: Row = self.host.ask(INITIALIZE, InitializeAsked(key, 1, 0)).answer
            assert row.error == ErrorCode.NONE
        self.new_leaders()

    def new_leaders(self) -> None:
        self.leaders = {(key.group_id, key.partition): Leader(self, key) for key in self.keys}
        for reader in self.readers:
            reader.holds = {}

    def tell(self, text: str) -> None:
        self.trace.append(f"{self.host.now - START:8d}  {text}")

    def digest(self) -> str:
        return sha256("\n".join(self.trace).encode()).hexdigest()

    # --- what happens

    def chances(self) -> Chances:
        return [
            (0.60, lambda: self.random.choice(self.readers).act()),
            (0.10, self.records_come),
            (0.12, self.time_passes),
            (0.16, self.disk_works),
            (0.01, self.disk_fails),
            (0.008, self.broker_crashes),
            (0.008, self.leaders_forget),
        ]

    def run(self, steps: int) -> None:
        weights, actions = zip(*self.chances(), strict=True)
        for _ in range(steps):
            self.random.choices(actions, weights)[0]()
            self.hear()
            self.check()
        self.is_calm = True
        self.tell("calm")
        self.calm_down()

    def records_come(self) -> None:
        log = self.random.choice(self.logs)
        first = log[-1].last_offset + 1 if log else 0
        log.append(LogBatch(first, first + self.random.randint(0, SOME_RECORDS)))

    def time_passes(self, ms: int | None = None) -> None:
        self.host.now += int(self.random.expovariate(1 / 300)) if ms is None else ms
        now = self.host.now
        for leader in self.leaders.values():
            if leader.share is None:
                continue
            expired = [offset for offset, (_, until) in leader.locks.items() if until <= now]
            write = leader.share.expire(now)
            for offset in expired:
                leader.unlock(offset)
            if write is not None:
                self.persist(leader, write, expired, is_final=False)
            deadline = leader.share.next_deadline()
            assert deadline is None or deadline > now, "a lock has expired, and nothing happens"

    def disk_works(self) -> None:
        self.host.disk_catches_up()
        self.host.is_slow = not self.is_calm and self.random.random() < 0.6

    def disk_fails(self) -> None:
        """What is on the way to one log is refused, though the first of it may have arrived."""
        if not self.host.on_the_way:
            return
        failed = self.random.choice(self.host.on_the_way).partition
        mine = [write for write in self.host.on_the_way if write.partition == failed]
        self.host.on_the_way = [write for write in self.host.on_the_way if write.partition != failed]
        for write in mine[: self.random.randint(0, len(mine))]:
            self.host.batches.setdefault(failed, []).extend(write.batches)
        for write in mine:
            self.host.runtime.write_failed(write, ErrorCode.NOT_COORDINATOR)
        self.host.settle()
        for shard in self.host.runtime.shards:
            if shard.status is not Status.ACTIVE:
                self.host.load_shard(shard)
        self.failures += 1
        self.tell(f"the disk fails for partition {failed}")

    def broker_crashes(self) -> None:
        for write in self.host.on_the_way[: self.random.randint(0, len(self.host.on_the_way))]:
            self.host.batches.setdefault(write.partition, []).extend(write.batches)
        self.pending = []
        self.host.crash()
        self.new_leaders()
        self.crashes += 1
        self.tell("the broker crashes")

    def leaders_forget(self) -> None:
        """The partitions have other leaders: they wait until what the old ones wrote is durable."""
        self.host.disk_catches_up()
        self.hear()
        self.new_leaders()
        self.tell("leaders forget")

    # --- between leaders and the share coordinator

    def is_delivered(self, leader: Leader, reader: Reader, offset: int, count: int) -> None:
        key, now = leader.key, self.host.now
        self.assignments += 1
        self.tell(f"{reader.name} gets {key.partition}: {offset} for the {count}. time")
        assert offset not in self.done[key], f"record {offset} of {key.group_id} is finished, and delivered again"
        owner, until = leader.locks.get(offset, (None, 0))
        assert owner is None, f"record {offset} is delivered to {reader.name}, while it is locked until {until}"
        assert offset not in leader.in_doubt, f"record {offset} is delivered before its last change is durable"
        expected = leader.counts.get(offset, 0) + 1
        assert count == expected, f"record {offset} is delivered for the {count}., not {expected}. time"
        assert count <= self.limit, f"record {offset} is delivered for the {count}. time; {self.limit} is the limit"
        leader.counts[offset] = count
        leader.locks[offset] = reader, now + LOCK_MS
        reader.holds[leader, offset] = count

    def persist(self, leader: Leader, write: Write, offsets: list[int], *, is_final: bool) -> None:
        if write.transition is not None:
            leader.in_doubt.update(offsets)
        asked = WriteAsked(leader.key, 1, 0, write.start_offset, write.complete_count, write.batches)
        self.pending.append((leader, write, self.host.ask(WRITE, asked), offsets, is_final))

    def hear(self) -> None:
        """The answers of the share coordinator that have come, in the order of the questions."""
        while self.pending and self.pending[0][2].answer is not None:
            leader, write, call, offsets, is_final = self.pending.pop(0)
            if leader is not self.leaders[leader.key.group_id, leader.key.partition] or leader.share is None:
                continue
            error = call.answer.error
            if not error:
                self.durable_start[leader.key] = max(self.durable_start.get(leader.key, 0), write.start_offset)
            if write.transition is not None:
                leader.in_doubt.difference_update(offsets)
            if write.transition is not None and error:
                self._take_back(leader, write, offsets)
            elif is_final:
                self.done[leader.key].update(offsets)
            leader.share.written(write, self.host.now, failed=bool(error))

    def _take_back(self, leader: Leader, write: Write, offsets: list[int]) -> None:
        """Its member has the records again, unless their locks have expired meanwhile."""
        assert write.transition is not None
        by_name = {reader.name: reader for reader in self.readers}
        for run in write.transition.runs:
            for offset in range(run.first, run.last + 1):
                if run.deadline > self.host.now and not run.is_lost:
                    reader = by_name[write.transition.member_id]
                    leader.locks[offset] = reader, run.deadline
                    reader.holds[leader, offset] = leader.counts[offset]

    def check(self) -> None:
        for leader in self.leaders.values():
            leader.check()

    # --- the end

    def calm_down(self) -> None:
        self.host.disk_catches_up()
        self.hear()
        for _ in range(CALM_ROUNDS):
            if self._is_finished():
                break
            self.host.disk_catches_up()
            for reader in self.readers:
                reader.fetch()
                while reader.holds:
                    reader.acknowledge()
                self.hear()
                self.check()
            self.time_passes(LOCK_MS)
            self.hear()
        self._check_end()
        self.new_leaders()
        self.host.crash()
        self._check_end()
        self.tell(f"end: {[(key.group_id, key.partition, sorted(self.done[key])) for key in self.keys]}")

    def _is_finished(self) -> bool:
        return all(leader.share is not None and self._left(leader) == [] for leader in self.leaders.values())

    def _left(self, leader: Leader) -> list[int]:
        assert leader.share is not None
        log = self.logs[leader.key.partition]
        end = log[-1].last_offset + 1 if log else 0
        return list(range(leader.share.window.start, end))

    def _check_end(self) -> None:
        for leader in self.leaders.values():
            leader.load()
            assert leader.share is not None
            assert (left := self._left(leader)) == [], f"never finished: {left} of {leader.key.group_id}"
