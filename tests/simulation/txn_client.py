"""A process that consumes, transforms and produces, exactly once.

An *application* has a transactional id and a group. Its input is the numbers from 0 on. A process of it begins with
InitProducerId, asks how far its group has come, and then makes transactions: for some numbers in a row one record each,
in some partition, and the offset of the number behind them. Other transactions have records or offsets alone. At the
end each number below the committed offset must be there once, whatever has happened: processes that die, that hang
until another one has taken over, that lose their connections and send everything again.

A process of transaction version 2 behaves as Kafka's Java client 4 does, one of version 0 as the client 3, and as older
ones. What a late duplicate of EndTxn and TxnOffsetCommit may do to producers of version 0 is the reason why version 2
was made (KIP-890). So what they have sent arrives at once when they give a connection up, or never.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.end_txn import EndTxnRequest
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kohort.protocol.record_batch import build_batch
from tests.simulation.network import Connection
from tests.transaction_requests import (
    Identity,
    add_offsets_request,
    add_partitions_request,
    produce_request,
    txn_commit_request,
)

if TYPE_CHECKING:
    from tests.simulation.txn_world import TxnWorld

IN, OUT = "in", "out"
FETCH_VERSION = 9
COPIES = 2  # partitions of IN for each application: their committed offsets are always the same
NO_OFFSET = -1


class Versions(NamedTuple):
    """Of the requests that a client sends. `is_new`: transaction version 2."""

    is_new: bool
    init: int
    add_partitions: int
    produce: int
    commit: int
    end: int


NEW = Versions(True, 5, -1, 12, 5, 5)
JAVA_3 = Versions(False, 4, 3, 11, 4, 3)
OLD = Versions(False, 1, 0, 9, 2, 1)

COME_AGAIN = frozenset((
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNSTABLE_OFFSET_COMMIT,
))  # fmt: skip
FENCED = frozenset((ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH))
# Answers that only a producer gets whose transaction was ended by somebody else: it took too long, or its transactional
# id was taken over.
TOO_LATE = FENCED | {
    ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_TIMESTAMP,  # the clock of the broker was set back by an hour
}  # fmt: skip


class Fate(Enum):
    OPEN = "open"  # its producer has not decided, or is gone without deciding: it must not be committed
    ASKED = "asked"  # EndTxn was sent, and nobody knows more
    COMMITTED = "committed"
    ABORTED = "aborted"


class Attempt:
    """A transaction, as its producer sees it."""

    def __init__(self, number: int, app: str, *, first: int, count: int) -> None:
        self.number = number
        self.app = app
        self.first = first  # number of the input
        self.count = count  # 0: records that are not about the input
        self.values: dict[str, int] = {}  # what was written, and the partition
        self.has_offsets = False
        self.fate = Fate.OPEN

    def value(self, number: str) -> str:
        return f"{self.app}:{number}:{self.number}"

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.app}"


Step = Callable[[], None]


class Process:
    def __init__(self, world: TxnWorld, app: str, name: str, versions: Versions) -> None:
        self.world = world
        self.app = app
        self.name = name
        self.versions = versions
        self.is_alive = True
        self.sleeps_until = 0
        self.transactions = 0
        self.timeout_ms = world.random.choice((1_000, 5_000, 60_000))
        self.me = Identity(app, -1, -1)
        self.sequences: dict[int, int] = {}
        self.attempt: Attempt | None = None
        self.plan: list[Step] = []
        self.committed = 0
        self._request: Any = None
        self._version = 0
        self._heard: Callable[[Any], None] = self._initialized
        self._connect()
        self.initialize()

    # --- connections

    def _connect(self) -> None:
        self.connection = Connection(self.name, is_long=self.world.random.random() < 0.3)
        self.world.connections.append(self.connection)

    def _send(self, request: Any, version: int, heard: Callable[[Any], None]) -> None:
        self._request, self._version, self._heard = request, version, heard
        self.connection.send(request, version)

    def _again(self) -> None:
        """The same bytes once more, in a while."""
        self.sleeps_until = self.world.machine.steady_ms + self.world.random.choice((5, 20, 100, 500))
        self.connection.send(self._request, self._version)

    def reconnect(self) -> None:
        """It has waited for long enough. What it has sent is on its way all the same."""
        self.world.give_up(self.connection, may_come_later=self.versions.is_new)
        self._connect()
        self.connection.send(self._request, self._version)

    def die(self) -> None:
        if self.is_alive:
            self.is_alive = False
            self.world.tell(f"{self.name} dies")
            self.world.give_up(self.connection, may_come_later=self.versions.is_new)

    # --- what it does

    def act(self) -> None:
        """What a process does that has a turn now."""
        random = self.world.random
        if not self.is_alive or self.world.machine.steady_ms < self.sleeps_until:
            return
        answer = self.connection.take_answer()
        if answer is not None:
            self._heard(answer)
        elif self.connection.is_closed or (not self.world.is_calm and random.random() < 0.01):
            self.reconnect()
        elif not self.world.is_calm and random.random() < 0.004:
            self.die()
        elif not self.world.is_calm and random.random() < 0.004:
            self.sleeps_until = self.world.machine.steady_ms + random.choice((500, 8_000, 30_000, 90_000))
            self.world.tell(f"{self.name} hangs")

    def tell(self, text: str) -> None:
        self.world.tell(f"{self.name} {self.me.producer_id}/{self.me.epoch}: {text}")

    # --- the beginning

    def initialize(self, *, goes_on: bool = False) -> None:
        """`goes_on`: with the id and epoch that it has (KIP-360)."""
        self.attempt = None
        ids = (self.me.producer_id, self.me.epoch) if goes_on and self.versions.init >= 3 else (-1, -1)
        self._send(InitProducerIdRequest(self.app, self.timeout_ms, *ids), self.versions.init, self._initialized)

    def _initialized(self, answer: Any) -> None:
        error = ErrorCode(answer.error_code)
        if error in COME_AGAIN:
            self._again()
        elif error:
            assert error in FENCED, f"InitProducerId of {self.name}: {error.name}"
            self.tell("is fenced when it begins")
            self.die()
        else:
            self.world.watch.got_epoch(self.name, answer.producer_id, answer.producer_epoch)
            self.me = Identity(self.app, answer.producer_id, answer.producer_epoch)
            self.sequences = {}
            self.tell("begins")
            self._fetch_offsets()

    def _fetch_offsets(self) -> None:
        least = self.world.watch.committed(self.app)
        self._send(fetch_stable(self.app), FETCH_VERSION, lambda answer: self._fetched(answer, least))

    def _fetched(self, answer: Any, least: int) -> None:
        told = stable_offset(self.app, answer)
        if told is None:
            self._again()
            return
        self.committed = told
        self.world.watch.told_offset(self.app, self.committed, least)
        self.tell(f"goes on at {self.committed}")
        self._begin()

    # --- a transaction

    def _begin(self) -> None:
        world, random = self.world, self.world.random
        if world.is_calm and self.transactions >= world.wanted:
            self.die()
            return
        self.transactions += 1
        count = random.choice((0, 1, 2, 4))
        attempt = world.new_attempt(self.app, self.committed, count)
        self.attempt = attempt
        values = [attempt.value(str(attempt.first + each)) for each in range(count)]
        values = values or [attempt.value(f"x{each}") for each in range(random.choice((1, 3)))]
        by_partition: dict[int, list[str]] = {}
        for value in values:
            by_partition.setdefault(random.randrange(world.partition_count), []).append(value)
        steps: list[Step] = [lambda p=p, v=v: self._produce(p, v) for p, v in by_partition.items()]  # type: ignore[misc]
        if not self.versions.is_new:
            steps = [lambda: self._add_partitions(list(by_partition)), *steps]
        if count:
            added = [] if self.versions.is_new else [self._add_offsets]
            steps = [*steps, *added, self._commit_offsets]
        self.plan = steps
        self.tell(f"begins {attempt}: {by_partition}, from {attempt.first}")
        self._next()

    def _next(self) -> None:
        if not self.plan:
            self._end(commit=self.world.random.random() < 0.85)
        elif self.world.random.random() < 0.03:
            self._end(commit=False)
        else:
            self.plan.pop(0)()

    def _add_partitions(self, partitions: list[int]) -> None:
        request = add_partitions_request(self.me, [(OUT, each) for each in partitions], self.versions.add_partitions)
        self._send(request, self.versions.add_partitions, self._partitions_added)

    def _partitions_added(self, answer: Any) -> None:
        rows = [row for topic in answer.results_by_topic_v3_and_below for row in topic.results_by_partition]
        self._go_on_if(ErrorCode(max(row.partition_error_code for row in rows)))

    def _add_offsets(self) -> None:
        request = add_offsets_request(self.me, self.app)
        self._send(request, self.versions.add_partitions, lambda answer: self._go_on_if(ErrorCode(answer.error_code)))

    def _produce(self, partition: int, values: list[str]) -> None:
        sequence = self.sequences.get(partition, 0)
        self.sequences[partition] = sequence + len(values)
        assert self.attempt is not None
        self.attempt.values.update(dict.fromkeys(values, partition))
        batch = build_batch(
            [(None, value.encode()) for value in values], timestamp=self.world.machine.now,
            producer_id=self.me.producer_id, producer_epoch=self.me.epoch, base_sequence=sequence, transactional=True,
        )  # fmt: skip
        self._send(produce_request(self.app, {(OUT, partition): batch}), self.versions.produce, self._produced)

    def _produced(self, answer: Any) -> None:
        self._go_on_if(ErrorCode(answer.responses[0].partition_responses[0].error_code))

    def _commit_offsets(self) -> None:
        assert self.attempt is not None
        self.attempt.has_offsets = True
        offsets = {(IN, each): self.attempt.first + self.attempt.count for each in inputs(self.app)}
        self._send(txn_commit_request(self.me, self.app, offsets), self.versions.commit, self._offsets_committed)

    def _offsets_committed(self, answer: Any) -> None:
        self._go_on_if(ErrorCode(max(row.error_code for topic in answer.topics for row in topic.partitions)))

    def _go_on_if(self, error: ErrorCode) -> None:
        if error in COME_AGAIN:
            self._again()
        elif error:
            assert error in TOO_LATE, f"{self.name}: {error.name}"
            self.tell(f"is told {error.name}")
            self._end(commit=False)
        else:
            self._next()

    # --- the end

    def _end(self, *, commit: bool) -> None:
        assert self.attempt is not None
        if commit:
            self.attempt.fate = Fate.ASKED
        self.tell(f"ends {self.attempt}: {'commit' if commit else 'abort'}")
        heard = self._has_committed if commit else self._has_aborted
        self._send(EndTxnRequest(*self.me, commit), self.versions.end, heard)

    def _has_committed(self, answer: Any) -> None:
        error, attempt = ErrorCode(answer.error_code), self.attempt
        assert attempt is not None
        if error in COME_AGAIN:
            self._again()
        elif error:
            assert error in TOO_LATE, f"EndTxn of {self.name}: {error.name}"
            self.tell(f"cannot commit {attempt}: {error.name}")
            self.die()
        else:
            attempt.fate = Fate.COMMITTED
            if attempt.count:
                self.committed = attempt.first + attempt.count
                self.world.watch.has_committed(self.app, self.committed)
            self._take_new_epoch(answer)
            self.tell(f"has committed {attempt}")
            self._begin()

    def _has_aborted(self, answer: Any) -> None:
        error, attempt = ErrorCode(answer.error_code), self.attempt
        assert attempt is not None
        if error in COME_AGAIN:
            self._again()
        elif error:
            assert error in TOO_LATE, f"EndTxn of {self.name}: {error.name}"
            self.tell(f"cannot abort {attempt}: {error.name}")
            if self.world.random.random() < 0.5:
                self.initialize(goes_on=True)
            else:
                self.die()
        else:
            attempt.fate = Fate.ABORTED
            self._take_new_epoch(answer)
            self.tell(f"has aborted {attempt}")
            if self.versions.is_new:
                self._begin()
            else:  # batches may be on their way, and sequences unknown: begin with another epoch
                self.initialize(goes_on=True)

    def _take_new_epoch(self, answer: Any) -> None:
        if self.versions.is_new:
            self.world.watch.got_epoch(self.name, answer.producer_id, answer.producer_epoch)
            self.me = Identity(self.app, answer.producer_id, answer.producer_epoch)
            self.sequences = {}


class Watcher:
    """Asks now and then how far an application has come, and wants no offset that may still change."""

    def __init__(self, world: TxnWorld, app: str) -> None:
        self._world = world
        self._app = app
        self._connection = Connection(f"{app}-watcher", is_long=False)
        self._connection.close()
        self._least = NO_OFFSET

    def act(self) -> None:
        if self._connection.is_closed:
            self._connection = Connection(self._connection.client_id, is_long=False)
            self._world.connections.append(self._connection)
        elif (answer := self._connection.take_answer()) is not None:
            told = stable_offset(self._app, answer)
            if told is not None:
                self._world.watch.told_offset(self._app, told, self._least)
        elif not self._connection.on_the_way and not self._connection.is_busy:
            self._least = self._world.watch.committed(self._app)
            self._connection.send(fetch_stable(self._app), FETCH_VERSION)


def inputs(app: str) -> list[int]:
    """The partitions of IN that have the offsets of this application."""
    number = int(app[1:])
    return list(range(number * COPIES, (number + 1) * COPIES))


def fetch_stable(app: str) -> OffsetFetchRequest:
    group = OffsetFetchRequestGroup(app, None, -1, [OffsetFetchRequestTopics(IN, bytes(16), inputs(app))])
    return OffsetFetchRequest(groups=[group], require_stable=True)


def stable_offset(app: str, answer: Any) -> int | None:
    """The offset in an answer. None: ask again later."""
    group = answer.groups[0]
    rows = [row for topic in group.topics for row in topic.partitions]
    error = ErrorCode(group.error_code or max(row.error_code for row in rows))
    if error:
        assert error in COME_AGAIN, error
        return None
    offsets: list[int] = [max(row.committed_offset, 0) for row in rows]
    assert len(set(offsets)) == 1, f"a transaction has committed some of its offsets: {offsets} of {app}"
    return offsets[0]
