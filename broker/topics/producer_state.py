"""What a partition remembers of its producers: their last batches, to recognise repetitions, and their transactions.

A producer numbers its records per partition (KIP-98). A batch must go on where the last one ended
(OUT_OF_ORDER_SEQUENCE_NUMBER otherwise); one that is among the last five of its producer is a retry, and is answered
with the offset it got the first time. A higher epoch starts again at 0, a lower one is fenced. A producer that nobody
remembers may start anywhere: its records may have been deleted.

The first transactional batch of a producer opens a transaction in the partition, and a marker ends it. Only the
coordinator knows which partitions will get a marker, so it is asked before a transaction is opened
(`transactional_produce.py`). A marker may come while it is asked: its answer is then of no use any more, and the batch
must not open a transaction that nobody would end. `Verification` notices that. And the coordinator may let a later
batch pass after it has refused an earlier one, which the producer will send again. So the lowest sequence of those that
it was asked about must be written first.

A marker with a higher epoch (transaction.version 2) makes the producer start again at 0; one with the same epoch does
not touch the sequences.

`producer_snapshots.py` has how the memory survives a restart.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from kohort.broker.topics.append_checks import Refusal
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.record_batch import (
    CONTROL,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
)
from kohort.protocol.txn_marker import TxnMarker

if TYPE_CHECKING:
    from kohort.broker.topics.catalog import Partition

PRODUCERS: Final = "producers"  # in Partition.extra
REMEMBERED_BATCHES: Final = 5
MAX_PRODUCERS: Final = 100_000  # of a partition; ids cost nothing, and somebody may use a new one for each batch
LOOKED_AT: Final = 4
MAX_UNWRITTEN: Final = 1_000  # producers of a partition that wait for the coordinator, or were refused by it
MAX_SEQUENCE: Final = 2**31 - 1
NO_COORDINATOR_EPOCH: Final = -1
FIRST_VERSION_WITH_EPOCH_BUMP: Final = 2  # of transaction.version

FENCED: Final = Refusal(ErrorCode.INVALID_PRODUCER_EPOCH, by_log=True)
OUT_OF_ORDER: Final = Refusal(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, by_log=True)
WRONG_FOR_TRANSACTION: Final = Refusal(ErrorCode.INVALID_TXN_STATE, by_log=True)


class PastBatch(NamedTuple):
    """A batch of a producer that is in the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class Producer:
    __slots__ = ("batches", "coordinator_epoch", "epoch", "timestamp")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        # The last ones of this epoch. Empty behind a marker that has begun the epoch. A deque would take ten times the
        # memory.
        self.batches: list[PastBatch] = []
        self.coordinator_epoch = NO_COORDINATOR_EPOCH  # of the last marker
        self.timestamp = -1  # of the last batch or marker


class Verification:
    """A question to the coordinator: whether a partition is part of a producer's transaction."""

    __slots__ = ("epoch", "first_sequence", "is_void", "producer_id", "starts_at_zero")

    def __init__(self, producer_id: int, epoch: int, first_sequence: int, *, starts_at_zero: bool = False) -> None:
        """`starts_at_zero`: the client has transaction.version 2, where each transaction has sequences of its own."""
        self.producer_id = producer_id
        self.epoch = epoch
        self.first_sequence = first_sequence
        self.starts_at_zero = starts_at_zero
        self.is_void = False  # a marker has come since the question


class Unwritten(NamedTuple):
    """Batches of a producer about which the coordinator was asked, and of which none has been written yet."""

    epoch: int
    lowest_sequence: int
    timestamp: int  # of the last question


class Producers:
    """The producers of one partition, by id."""

    __slots__ = ("_unwritten", "_verifications", "by_id", "open")

    def __init__(self) -> None:
        self.by_id: dict[int, Producer] = {}
        # First offset of each open transaction by its producer's id, in ascending order. In a dict, finding the first
        # key would take long after many others before it were removed.
        self.open: OrderedDict[int, int] = OrderedDict()
        self._verifications: dict[int, list[Verification]] = {}
        self._unwritten: dict[int, Unwritten] = {}

    # --- data

    def check(self, header: BatchHeader, verification: Verification | None = None) -> PastBatch | Refusal | None:
        """None if the batch may be appended; else the earlier batch that it repeats, or the reason to refuse it."""
        producer_id, epoch, first = header[9], header[10], header[11]
        producer = self.by_id.get(producer_id)
        if producer is None:
            return self._check_unknown(header, verification) if header[5] & TRANSACTIONAL else None
        is_next = False
        if epoch == producer.epoch:
            newest = producer.batches[-1][1] if producer.batches else NO_SEQUENCE
            is_next = first == newest + 1
            if not is_next:
                last = sequence_after(first, header[6])
                for batch in producer.batches:
                    if batch[0] == first and batch[1] == last:
                        return batch
                is_next = first == 0 and newest == MAX_SEQUENCE
        if (
            header[5] & TRANSACTIONAL
            and not (producer_id in self.open and epoch == producer.epoch)
            and (verification is None or verification.is_void)
        ):
            return WRONG_FOR_TRANSACTION
        if epoch != producer.epoch:
            if epoch < producer.epoch:
                return FENCED
            is_next = first == 0 or producer.epoch == NO_PRODUCER_EPOCH
        if not is_next or self._skips_one(producer_id, epoch, first):
            return OUT_OF_ORDER
        return WRONG_FOR_TRANSACTION if producer_id in self.open and not header[5] & TRANSACTIONAL else None

    def _check_unknown(self, header: BatchHeader, verification: Verification | None) -> Refusal | None:
        """The same for a transactional batch of a producer that nobody remembers."""
        if verification is None or verification.is_void:
            return WRONG_FOR_TRANSACTION
        is_wrong = verification.starts_at_zero and header[11] != 0
        return OUT_OF_ORDER if is_wrong or self._skips_one(header[9], header[10], header[11]) else None

    def _skips_one(self, producer_id: int, epoch: int, first: int) -> bool:
        """Whether the coordinator was asked about an earlier batch of this epoch, which is not written yet.

        One of another epoch is that of a producer that has been fenced.
        """
        unwritten = self._unwritten.get(producer_id) if self._unwritten else None
        return unwritten is not None and unwritten.epoch == epoch and first > unwritten.lowest_sequence

    def appended(self, header: BatchHeader, first_offset: int, timestamp: int) -> None:
        """A batch entered the log at `first_offset`."""
        producer_id, delta = header[9], header[6]
        if producer_id < 0 or header[5] & CONTROL:
            return
        last = sequence_after(header[11], delta)
        producer = self._seen(producer_id, header[10], timestamp)
        batches = producer.batches
        if len(batches) == REMEMBERED_BATCHES:
            del batches[0]
        batches.append(PastBatch(header[11], last, first_offset, first_offset + delta, timestamp))
        if header[5] & TRANSACTIONAL:
            self.open.setdefault(producer_id, first_offset)
            self._unwritten.pop(producer_id, None)

    def _seen(self, producer_id: int, epoch: int, timestamp: int) -> Producer:
        """The producer, which has written something now."""
        producer = self.by_id.pop(producer_id, None)
        if producer is None:
            producer = Producer(epoch)
            self._make_room()
        elif producer.epoch != epoch:
            producer.epoch = epoch
            producer.batches = []
        producer.timestamp = timestamp
        self.by_id[producer_id] = producer  # the last one: the first one has been silent for the longest time
        return producer

    def _make_room(self) -> None:
        """If there are too many, forget those that have been silent for the longest time and have no open transaction.

        A few of them are looked at, so that one more producer costs little, also if most have open transactions.
        """
        for _ in range(LOOKED_AT):
            if len(self.by_id) < MAX_PRODUCERS:
                return
            producer_id = next(iter(self.by_id))
            producer = self.by_id.pop(producer_id)
            if producer_id in self.open:
                self.by_id[producer_id] = producer  # the next producer looks at another one

    # --- transactions

    def begin_verification(
        self, producer_id: int, epoch: int, first_sequence: int, now: int, *, starts_at_zero: bool
    ) -> Verification:
        """To be called before the coordinator is asked. `end_verification` must follow."""
        verification = Verification(producer_id, epoch, first_sequence, starts_at_zero=starts_at_zero)
        self._note_unwritten(verification, now)
        self._verifications.setdefault(producer_id, []).append(verification)
        return verification

    def begin_verification_again(self, verification: Verification, now: int) -> None:
        """To be called before the coordinator is asked once more: markers until now were of earlier transactions."""
        if verification in self._verifications.get(verification.producer_id, ()):
            verification.is_void = False
            self._note_unwritten(verification, now)

    def _note_unwritten(self, verification: Verification, now: int) -> None:
        producer_id, epoch, first_sequence = verification.producer_id, verification.epoch, verification.first_sequence
        known = self._unwritten.get(producer_id)
        if known is None or epoch > known.epoch or (epoch == known.epoch and first_sequence < known.lowest_sequence):
            if known is None and len(self._unwritten) >= MAX_UNWRITTEN:
                del self._unwritten[next(iter(self._unwritten))]
            self._unwritten[producer_id] = Unwritten(epoch, first_sequence, now)

    def end_verification(self, verification: Verification) -> None:
        waiting = self._verifications.get(verification.producer_id, [])
        if verification in waiting:  # it is not if the log was opened anew meanwhile
            waiting.remove(verification)
            if not waiting:
                del self._verifications[verification.producer_id]

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has written to the partition in this transaction already."""
        return producer_id in self.open and self.by_id[producer_id].epoch == epoch

    def check_marker(self, marker: TxnMarker) -> ErrorCode:
        producer = self.by_id.get(marker.producer_id)
        if producer is None:
            return ErrorCode.NONE
        # From version 2 on a marker has a higher epoch than the data. One that comes again finds no open transaction.
        is_late = (
            marker.transaction_version >= FIRST_VERSION_WITH_EPOCH_BUMP
            and marker.producer_epoch == producer.epoch
            and marker.producer_id in self.open
        )
        if is_late or marker.producer_epoch < producer.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < producer.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    def ended(self, producer_id: int, epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        """A marker entered the log."""
        for verification in self._verifications.get(producer_id, ()):
            verification.is_void = True
        self._seen(producer_id, epoch, timestamp).coordinator_epoch = coordinator_epoch
        self.open.pop(producer_id, None)
        self._unwritten.pop(producer_id, None)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the oldest open transaction begins."""
        return next(iter(self.open.values())) if self.open else None

    def first_unstable_offset_without(self, without: int) -> int | None:
        """The same, leaving out that of the producer `without`."""
        return next((offset for producer_id, offset in self.open.items() if producer_id != without), None)

    # --- all of them

    def restore(self, producer_id: int, producer: Producer, transaction_start: int) -> None:
        """Take over a producer from a snapshot. `sort_transactions` must follow the last one."""
        self._make_room()
        self.by_id[producer_id] = producer
        if transaction_start >= 0:
            self.open[producer_id] = transaction_start

    def sort_transactions(self) -> None:
        self.open = OrderedDict(sorted(self.open.items(), key=lambda each: each[1]))

    def expire(self, timestamp: int) -> None:
        """Forget producers whose last batch is not younger than `timestamp`. A transaction may be open for longer."""
        is_open = self.open
        for producer_id in [
            key for key, each in self.by_id.items() if each.timestamp <= timestamp and key not in is_open
        ]:
            del self.by_id[producer_id]
        for producer_id in [key for key, each in self._unwritten.items() if each.timestamp <= timestamp]:
            del self._unwritten[producer_id]

    def last_offsets(self) -> dict[int, int]:
        """The last offset of each producer's last batch. Compaction keeps that batch."""
        return {key: each.batches[-1].last_offset for key, each in self.by_id.items() if each.batches}

    def marker_epochs(self) -> dict[int, int]:
        """The epochs of producers that have written nothing since a marker began them. Compaction keeps that marker."""
        return {key: each.epoch for key, each in self.by_id.items() if not each.batches}


def first_unstable_offset(partition: Partition) -> int | None:
    """Where the oldest open transaction of the partition begins, as far as its producers are known."""
    producers: Producers | None = partition.extra.get(PRODUCERS)
    return producers.first_unstable_offset if producers is not None else None


def sequence_after(sequence: int, delta: int) -> int:
    """The sequence number that comes `delta` after `sequence`. After the greatest one they start again at 0."""
    return (sequence + delta) & MAX_SEQUENCE
