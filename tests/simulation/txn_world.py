"""Transactions: the whole broker on a simulated machine, and processes that consume, transform and produce.

Everything is real but the machine and its network: the transaction coordinator, the group coordinator, Produce, Fetch,
producer state, markers, indexes, snapshots, recovery. Processes hang and die, and others take over their transactional
ids; connections are lost with requests in them, which arrive late; syncs and writes fail; the machine stops in the
middle of a write, with or without its page cache; the clock is set.

Checked after each event, from the logs on the disk (txn_checks.py):

    a marker comes after its decision is durable, says what was decided, and no partition misses one
    nobody writes into a partition that the coordinator does not know to be in the transaction
    epochs only rise; a fenced producer writes nothing; two processes never have the same epoch
    the last stable offset is where the oldest open transaction begins, no less and no more
    the group coordinator knows the committed and the pending offsets that the log has
    readers of committed records get nothing of a transaction that nobody wanted to commit

At the end nothing goes wrong any more: all transactions end, and the stable offsets reach the ends of their logs. Then
a committed transaction is visible wholly and once, any other one not at all, and each application has made one record
of each number below its committed offset. So it is again after a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from hashlib import sha256
from random import Random
from typing import Any

from kohort.broker.topics.catalog import CONSUMER_OFFSETS, TRANSACTION_STATE
from kohort.broker.topics.stable_offset import is_known, last_stable_offset
from kohort.coordinator.transactions import end_txn, init_producer_id, transaction
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.broker.committed_reader import committed
from tests.coordinator.support import START
from tests.simulation.machine import Crash, Machine, simulated_threads
from tests.simulation.network import Connection
from tests.simulation.replacing import replaced
from tests.simulation.txn_checks import TxnWatch
from tests.simulation.txn_client import COPIES, IN, JAVA_3, NEW, OLD, OUT, Attempt, Process, Watcher

APPS = ("a0", "a1", "a2")
CALM_MS = 120_000
EVENTS_PER_STEP = 4
FEW_EPOCHS = 6
FETCH_VERSION = 12

Chances = list[tuple[float, Callable[[], object]]]


class Reader:
    """Reads one partition with isolation.level=read_committed, from its beginning."""

    def __init__(self, world: TxnWorld, partition: int) -> None:
        self._world = world
        self._partition = partition
        self.forget()

    def forget(self) -> None:
        self.offset = 0
        self.seen: Counter[str] = Counter()
        self._connection = Connection(f"reader-{self._partition}", is_long=False)
        self._waits = False

    def act(self) -> None:
        connection = self._connection
        if connection.is_closed:
            self._connection, self._waits = Connection(connection.client_id, is_long=False), False
            self._world.connections.append(self._connection)
        elif not self._waits:
            if connection not in self._world.connections:
                self._world.connections.append(connection)
            random = self._world.random
            fetch = FetchPartition(
                self._partition, fetch_offset=self.offset, partition_max_bytes=random.choice((200, 1_000, 100_000))
            )
            wait_ms = random.choice((0, 0, 500))
            request = FetchRequest(
                session_epoch=-1, isolation_level=1, max_wait_ms=wait_ms, min_bytes=1,
                topics=[FetchTopic(OUT, partitions=[fetch])],
            )  # fmt: skip
            connection.send(request, FETCH_VERSION)
            self._waits = True
        elif (answer := connection.take_answer()) is not None:
            self._waits = False
            self._read(answer.responses[0].partitions[0])

    def _read(self, answer: Any) -> None:
        if answer.error_code:
            return
        seen, self.offset = committed(answer, self.offset)
        for record in seen:
            assert record.value is not None
            value = record.value.decode()
            self._world.watch.is_read(value)
            self.seen[value] += 1
            assert self.seen[value] == 1, f"{value} is read twice"


class TxnWorld:
    partition_count = 3
    coordinator_partitions = 2

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.trace: list[str] = []
        self.is_calm = False
        self.crashes = self.failures = self.assignments = 0
        self.wanted = 0  # transactions of each process, when the end has begun
        self.all_attempts: list[Attempt] = []
        self.attempts: dict[str, Attempt] = {}  # by value
        self.connections: list[Connection] = []
        self.loses_power = self.random.random() < 0.4
        self.few_epochs = self.random.random() < 0.3
        self._pace_ms = self.random.choice((20, 100, 400))
        self.machine = Machine(self.random, {
            "offsets.topic.num.partitions": str(self.coordinator_partitions),
            "transaction.state.log.num.partitions": str(self.coordinator_partitions),
            "transaction.state.log.segment.bytes": self.random.choice(("4000", "100000000")),
            "offsets.topic.segment.bytes": self.random.choice(("4000", "100000000")),
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
            "log.cleaner.enable": "false",
            "log.flush.offset.checkpoint.interval.ms": "5000",
            "producer.id.expiration.ms": self.random.choice(("86400000", "30000")),
            "producer.id.expiration.check.interval.ms": "10000",
        })  # fmt: skip
        self.watch = TxnWatch(self)
        self.readers = [Reader(self, each) for each in range(self.partition_count)]
        self.watchers = [Watcher(self, app) for app in APPS]
        self.processes: list[Process] = []
        self._made = 0

    def tell(self, text: str) -> None:
        self.trace.append(f"{self.machine.now - START:8d}  {text}")

    def digest(self) -> str:
        return sha256("\n".join(self.trace).encode()).hexdigest()

    def new_attempt(self, app: str, first: int, count: int) -> Attempt:
        attempt = Attempt(len(self.all_attempts), app, first=first, count=count)
        self.all_attempts.append(attempt)
        self.assignments += 1
        return attempt

    # --- what happens

    def chances(self) -> Chances:
        return [
            (0.35, self.someone_acts),
            (0.30, self.something_arrives),
            (0.22, self.machine.turn),
            (0.22, self.machine.threads_work),
            (0.06, self.time_passes),
            (0.06, self.someone_reads),
            (0.03, self.someone_watches),
            (0.012, self.process_starts),
            (0.002, self.disk_fails),
            (0.004, self.machine_stops),
            (0.001, self.clock_is_set),
        ]

    def run(self, steps: int) -> None:
        with simulated_threads(), epochs_are_few(self.few_epochs):
            self._create_topics()
            weights, actions = zip(*self.chances(), strict=True)
            for _ in range(steps * EVENTS_PER_STEP):
                self._happens(self.random.choices(actions, weights)[0])
            self.is_calm = True
            self.tell("calm")
            self.calm_down()

    def _happens(self, action: Callable[[], object]) -> None:
        try:
            if self.machine.broker is None:
                self._start_broker()
            else:
                action()
        except Crash:
            self._restart()
        self.watch.check()

    def _create_topics(self) -> None:
        broker = self.machine.start()
        settings = {"segment.ms": self.random.choice(("3000", "600000"))}
        if self.loses_power:
            settings["flush.messages"] = "1"
        broker.catalog.create(OUT, self.partition_count, settings)
        broker.catalog.create(IN, COPIES * len(APPS), {})
        broker.ensure_internal(TRANSACTION_STATE)
        broker.ensure_internal(CONSUMER_OFFSETS)
        _ = broker.transactions
        self._settle()
        for app in APPS:
            self._start_process(app)

    def someone_acts(self) -> None:
        living = [process for process in self.processes if process.is_alive]
        if living:
            process = self.random.choice(living)
            process.act()
            self._note(process)

    def _note(self, process: Process) -> None:
        if process.attempt is not None:
            for value in process.attempt.values:
                self.attempts[value] = process.attempt

    def something_arrives(self) -> None:
        self.connections = [each for each in self.connections if each.on_the_way or each.is_busy or not each.is_closed]
        ready = [each for each in self.connections if each.on_the_way and not each.is_busy]
        if ready:
            self.random.choice(ready).deliver(self.machine)

    def give_up(self, connection: Connection, *, may_come_later: bool) -> None:
        """A client hangs up. What it has sent arrives later, or never."""
        fate = self.random.random()
        if not may_come_later and fate < 0.5:
            while self.machine.broker is not None and connection.deliver(self.machine):
                pass
        connection.close()
        if not may_come_later or fate < 0.3:
            connection.on_the_way.clear()

    def someone_reads(self) -> None:
        self.random.choice(self.readers).act()

    def someone_watches(self) -> None:
        self.random.choice(self.watchers).act()

    def time_passes(self) -> None:
        self.machine.pass_time(int(self.random.expovariate(1 / self._pace_ms)))

    def process_starts(self) -> None:
        app = self.random.choice(APPS)
        if sum(process.app == app and process.is_alive for process in self.processes) < 3:
            self._start_process(app)

    def _start_process(self, app: str) -> None:
        self._made += 1
        versions = self.random.choice((NEW, NEW, NEW, JAVA_3, OLD))
        self.processes = [each for each in self.processes if each.is_alive]
        self.processes.append(Process(self, app, f"{app}-p{self._made}", versions))
        self.tell(f"{app}-p{self._made} starts, with EndTxn v{versions.end}")

    def disk_fails(self) -> None:
        if self.machine.disk.will_crash:
            return  # a sync that fails while the machine stops leaves no mark (storage/flush.py)
        operation = self.random.choice(("sync", "sync", "append"))
        place = self.random.choice(("", f"/{OUT}-", TRANSACTION_STATE, CONSUMER_OFFSETS))
        self.machine.disk.fail_next(operation, place)
        self.failures += 1
        self.tell(f"the next {operation} fails of {place}")

    def machine_stops(self) -> None:
        """At one of its next changes on the disk, or now."""
        if self.machine.disk.has_faults:
            return
        self.machine.disk.crash_at(self.random.choice((1, 2, 5, 20)))
        if self.random.random() < 0.3:
            raise Crash

    def _restart(self) -> None:
        power = self.loses_power and self.random.random() < 0.5
        if power:
            self.machine.lose_power()
            for reader in self.readers:
                reader.forget()
        else:
            self.machine.kill()
        self.watch.forget()
        for connection in self.connections:
            connection.close()
            connection.on_the_way.clear()
        self.connections = []
        self.crashes += 1
        self.tell("the power is lost" if power else "the broker is killed")

    def _start_broker(self) -> None:
        if not self.is_calm and self.random.random() < 0.5:
            self.machine.pass_time(int(self.random.expovariate(1 / 2_000)))
            return
        self.machine.start()
        self.tell("the broker starts")

    def clock_is_set(self) -> None:
        by_ms = self.random.choice((-3_600_000, -5_000, 5_000, 3_600_000))
        self.machine.wall_offset_ms += by_ms
        self.tell(f"the clock is set by {by_ms}")

    # --- the end

    def calm_down(self) -> None:
        self._restart()  # a log whose disk has failed is read again by a restart
        for process in self.processes:
            if self.random.random() < 0.5:
                process.die()
        self.wanted = max((process.transactions for process in self.processes), default=0) + 2
        self._come_to_rest()
        self._check_end()
        self._restart()
        self._come_to_rest()
        self._check_end()

    def _come_to_rest(self) -> None:
        until = self.machine.steady_ms + CALM_MS
        while self.machine.steady_ms < until:
            self._everyone_goes_on()
            if not (problem := self._unrest()):
                return
        raise AssertionError(f"{problem}, after {CALM_MS} ms without a fault")

    def _everyone_goes_on(self) -> None:
        if self.machine.broker is None:
            self._start_broker()
        for process in self.processes:
            process.act()
            self._note(process)
        for reader in self.readers:
            reader.act()
        self._settle()
        self.machine.pass_time(10)
        self._settle()

    def _settle(self) -> None:
        while True:
            self.watch.check()
            arrived = [connection.deliver(self.machine) for connection in self.connections]
            if not (self.machine.turn() or self.machine.threads_work() or any(arrived)):
                return

    def _unrest(self) -> str | None:
        if living := [process.name for process in self.processes if process.is_alive]:
            return f"{living} are not done"
        broker = self.machine.broker
        assert broker is not None
        unfinished = [
            f"{each.transactional_id} is {each.state.value}"
            for shard in broker.transactions.runtime.shards
            for each in shard.state.transactions.values()
            if each.state.value in ("Ongoing", "PrepareCommit", "PrepareAbort")
        ]
        if unfinished:
            return f"{unfinished}"
        for partition, reader in zip(self.watch.data, self.readers, strict=True):
            place = broker.catalog.partition(*partition.place)
            assert place is not None
            if not is_known(broker, place) or reader.offset < partition.end:
                return f"{partition} is read up to {reader.offset}, not {partition.end}"
            if last_stable_offset(broker, place) < partition.end:
                return f"the stable offset of {partition} stands still"
        pending = [partition for partition in self.watch.offsets if any(partition.pending.values())]
        return f"offsets are pending in {pending}" if pending else None

    def _check_end(self) -> None:
        seen: Counter[str] = Counter()
        for partition, reader in enumerate(self.readers):
            fresh = Reader(self, partition)
            while fresh.offset < self.watch.data[partition].end:
                fresh.act()
                self._settle()
                self.machine.pass_time(600)
            assert not reader.seen - fresh.seen, "a reader has got what is not there"
            seen += fresh.seen
        broker = self.machine.broker
        assert broker is not None
        offsets = {}
        for number, app in enumerate(APPS):
            store = broker.coordinator.runtime.shard_of(app).state.offsets
            known = store.get(app, IN, number * COPIES)
            offsets[app] = 0 if known is None else known.offset
            self.watch.told_offset(app, offsets[app], self.watch.committed(app))
        self.watch.check_end(seen, offsets)
        self.tell(f"end: {offsets}, {sorted(seen)}")


def epochs_are_few(wanted: bool) -> AbstractContextManager[None]:
    """Producers use their epochs up, and get new ids."""
    if not wanted:
        return nullcontext()
    return replaced(*((module, "LAST_EPOCH", FEW_EPOCHS) for module in (end_txn, init_producer_id, transaction)))
