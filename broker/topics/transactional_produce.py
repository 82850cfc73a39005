"""The part of Produce that is about transactions: may these batches be written in the producer's transaction? (KIP-890)

A producer writes to a partition only inside a transaction that its coordinator knows, or nobody would end the
transaction there. If the partition has an open transaction of the producer, that is known. Otherwise the coordinator is
asked before the batch is appended: requests of v12 and later add the partition to the transaction, earlier ones must
have added it before. The coordinator's refusals become errors that producers of each version know what to do with:

    CONCURRENT_TRANSACTIONS   the markers of the transaction before are still being written. v12 waits for them a little
    the coordinator is away   NOT_ENOUGH_REPLICAS, which every producer tries again without asking for metadata
    not in the transaction    TRANSACTION_ABORTABLE; up to v10 INVALID_TXN_STATE

With transaction.partition.verification.enable=false, requests before v12 are appended unseen, as in Kafka.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, TypeAlias

from kohort.broker.steps import Pause, WaitingSteps
from kohort.broker.topics.append_checks import Refusal
from kohort.broker.topics.producer_snapshots import recover_producers
from kohort.broker.topics.producer_state import PRODUCERS, Producers, Verification
from kohort.broker.topics.while_there import TopicDeleted, while_there
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.record_batch import PRODUCER_ID_AT, TRANSACTIONAL, CorruptBatch
from kohort.storage.errors import StorageError

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.topics.catalog import Partition
    from kohort.protocol.wire import Records

FIRST_VERSION_THAT_ADDS: Final = 12
FIRST_VERSION_WITH_ABORTABLE: Final = 11
ATTRIBUTES_LOW_BYTE: Final = 22

TRANSACTIONAL_ID_MISSING: Final = Refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
SEVERAL_PRODUCERS: Final = Refusal(
    ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID"
)
UNKNOWN_TOPIC_OR_PARTITION: Final = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
FENCED: Final = Refusal(ErrorCode.INVALID_PRODUCER_EPOCH)
NOT_ADDED: Final = Refusal(ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction")
COORDINATOR_IS_AWAY: Final = frozenset((
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR,
))  # fmt: skip

Entry: TypeAlias = Verification | Refusal  # a refusal, or what the coordinator was asked

_unpack_producer = Struct(">qhi").unpack_from


def is_transactional(records: Records) -> bool:
    """Whether the batch that `records` begin with says so."""
    return len(records) > ATTRIBUTES_LOW_BYTE and records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL != 0


class Transaction:
    """The batches of one request that want to be written in a transaction. `end` must be called in any case."""

    def __init__(self, broker: Broker, transactional_id: str, version: int, now: int) -> None:
        self._broker = broker
        self._transactional_id = transactional_id
        self._version = version
        self._now = now
        self._producers: dict[tuple[int, int], None] = {}  # (id, epoch), all that the batches name
        self._partitions: list[tuple[Partition, int]] = []  # with the first sequence of the batch
        self._asked: list[tuple[Partition, Verification]] = []
        # What was found out about partitions in which the producer has no open transaction yet.
        self.entries: dict[Partition, Entry] = {}

    def add(self, partition: Partition, batch: Records) -> None:
        """A whole batch with the transactional flag, for a partition that there is."""
        producer_id, epoch, first_sequence = _unpack_producer(batch, PRODUCER_ID_AT)
        if producer_id >= 0:  # as in Kafka, one without an id is no part of a transaction
            self._producers[producer_id, epoch] = None
            self._partitions.append((partition, first_sequence))

    def prepare(self) -> WaitingSteps[Refusal | None]:
        """Find out which of the batches may be written. A refusal is one of the whole request."""
        if not self._producers:
            return None
        if len(self._producers) > 1:
            return SEVERAL_PRODUCERS
        ((producer_id, epoch),) = self._producers
        adds = self._version >= FIRST_VERSION_THAT_ADDS
        for partition, first_sequence in self._partitions:
            yield from self._look_at(partition, producer_id, epoch, first_sequence, adds)
        if adds:
            yield from self._ask(self._asked, producer_id, epoch, adds=True)
        else:
            for each in self._asked:  # one by one: some may be in the transaction, and others not
                yield from self._ask([each], producer_id, epoch, adds=False)
        return None

    def _look_at(
        self, partition: Partition, producer_id: int, epoch: int, first_sequence: int, adds: bool
    ) -> WaitingSteps[None]:
        """Note the partition if the coordinator has to be asked about it."""
        broker = self._broker
        if PRODUCERS not in partition.extra:
            try:
                yield from while_there(broker, partition, recover_producers(broker, partition, self._now))
            except TopicDeleted:
                self.entries[partition] = UNKNOWN_TOPIC_OR_PARTITION
                return
            except (StorageError, OSError, CorruptBatch) as problem:
                self.entries[partition] = Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(problem))
                return
        producers: Producers = partition.extra[PRODUCERS]
        if producers.is_in_transaction(producer_id, epoch):
            return
        if adds or broker.config.transaction_partition_verification_enable:
            verification = producers.begin_verification(
                producer_id, epoch, first_sequence, self._now, starts_at_zero=adds
            )
            self._asked.append((partition, verification))
        else:
            verification = Verification(producer_id, epoch, first_sequence)
        self.entries[partition] = verification
        yield None

    def _ask(
        self, asked: list[tuple[Partition, Verification]], producer_id: int, epoch: int, *, adds: bool
    ) -> WaitingSteps[None]:
        if not asked:
            return
        config, clock = self._broker.config, self._broker.clock
        give_up_at = clock.steady_ms() + config.add_partitions_to_txn_retry_backoff_max_ms
        while True:
            error = yield from self._ask_once(asked, producer_id, epoch, adds)
            if error != ErrorCode.CONCURRENT_TRANSACTIONS or not adds or clock.steady_ms() >= give_up_at:
                break
            pause = Pause()
            self._broker.call_later(config.add_partitions_to_txn_retry_backoff_ms / 1000, pause.end)
            yield pause
            for partition, verification in asked:
                if (producers := partition.extra.get(PRODUCERS)) is not None:
                    producers.begin_verification_again(verification, self._now)
        if error:
            refusal = _refusal(error, self._version)
            for partition, _ in asked:
                self.entries[partition] = refusal

    def _ask_once(
        self, asked: list[tuple[Partition, Verification]], producer_id: int, epoch: int, adds: bool
    ) -> WaitingSteps[ErrorCode]:
        answers: list[ErrorCode] = []
        pause = Pause()

        def done(error: ErrorCode) -> None:
            answers.append(error)
            pause.end()

        partitions = [partition.key for partition, _ in asked]
        self._broker.transactions.verify_or_add(
            self._transactional_id, producer_id, epoch, partitions, add=adds, done=done
        )
        if not answers:
            yield pause
        return answers[0]

    def end(self) -> None:
        """The batches were appended, or will not be."""
        for partition, verification in self._asked:
            if (producers := partition.extra.get(PRODUCERS)) is not None:
                producers.end_verification(verification)
        self._asked.clear()


def _refusal(error: ErrorCode, version: int) -> Refusal:
    """What the answer says if the coordinator has answered `error`."""
    if error == ErrorCode.PRODUCER_FENCED:
        return FENCED
    if error == ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_VERSION_WITH_ABORTABLE:
        return NOT_ADDED
    adds = version >= FIRST_VERSION_THAT_ADDS
    if error in COORDINATOR_IS_AWAY or (error == ErrorCode.CONCURRENT_TRANSACTIONS and not adds):
        return Refusal(
            ErrorCode.NOT_ENOUGH_REPLICAS,
            f"Unable to verify the partition has been added to the transaction. Underlying error: {error.name}",
        )
    return Refusal(error)
