"""Records of __transaction_state, as a coordinator would have written them."""

from __future__ import annotations

from collections.abc import Iterable

from kohort.protocol.messages.log_transaction_log import TransactionLogKey, TransactionLogValue, TransactionPartitions
from kohort.protocol.record_batch import Headers, build_batch
from kohort.protocol.transaction_records import TRANSACTION_LOG, TRANSACTION_STATE
from tests.audit.logs import STEP_MS, Logs, by_topic

TOPIC = "__transaction_state"
EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)


class TransactionalId:
    """One transactional id in a log partition."""

    def __init__(
        self, logs: Logs, name: str, *, log_partition: int = 0, producer_id: int = 4000, timeout_ms: int = 60_000
    ) -> None:
        self.logs = logs
        self.name = name
        self.log_partition = log_partition
        self.producer_id = producer_id
        self.epoch = 0
        self.timeout_ms = timeout_ms
        self.now = logs.start
        self.started = -1
        self.partitions: list[str] = []

    def write(
        self, state: int, partitions: Iterable[str] = (), *, version: int | None = None, headers: Headers = ()
    ) -> int:  # fmt: skip
        """Partitions are added to those of the transaction, which begins with the first Ongoing. The log offset."""
        if state == ONGOING and self.started < 0:
            self.started = self.now
        elif state == EMPTY:
            self.started = -1
        self.partitions += partitions
        places = [TransactionPartitions(topic, numbers) for topic, numbers in by_topic(self.partitions)]
        value = TransactionLogValue(
            self.producer_id, self.producer_id, -1, self.epoch, self.timeout_ms, state,
            None if state == EMPTY else places, self.now, self.started, 2,
        )  # fmt: skip
        return self._append(TRANSACTION_STATE.encode_value(TRANSACTION_LOG, value, version), headers)

    def end(self, *, commit: bool, complete: bool = True) -> int:
        """The decision, and when all markers are written, the end. The log offset of the last record."""
        self.epoch += 1
        at = self.write(PREPARE_COMMIT if commit else PREPARE_ABORT)
        if complete:
            self.partitions = []
            at = self.write(COMPLETE_COMMIT if commit else COMPLETE_ABORT)
            self.started = -1
        return at

    def expire(self) -> int:
        return self._append(None, ())

    def _append(self, value: bytes | None, headers: Headers) -> int:
        return self.raw(TRANSACTION_STATE.encode_key(TRANSACTION_LOG, TransactionLogKey(self.name)), value, headers)

    def raw(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> int:
        """A record of any bytes, in the same log."""
        batch = build_batch([(key, value, headers)], timestamp=self.now)
        offset = self.logs.append(self.log_partition, batch, self.now, topic=TOPIC)
        self.now += STEP_MS
        return offset
