"""What must hold of transactions after each event, by rules of its own that read the logs from the disk.

`TxnWatch` follows all logs. A coordinator's record counts when it is durable, a record of a partition when it is
written: so a marker that was written before its decision is durable is seen, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kohort.broker.topics.catalog import CONSUMER_OFFSETS, TRANSACTION_STATE
from kohort.broker.topics.stable_offset import is_known, last_stable_offset
from kohort.coordinator.shard import Status
from kohort.protocol import log_records, transaction_records
from kohort.protocol.record_batch import parse_marker
from tests.simulation.log_reader import Batch, LogReader, is_durable
from tests.simulation.txn_client import OUT, Fate

if TYPE_CHECKING:
    from tests.simulation.txn_world import TxnWorld

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)
PREPARED, COMPLETED = (PREPARE_COMMIT, PREPARE_ABORT), (COMPLETE_COMMIT, COMPLETE_ABORT)
NAMES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
MAY_FOLLOW = {
    EMPTY: (EMPTY, ONGOING, PREPARE_ABORT),
    ONGOING: (ONGOING, PREPARE_COMMIT, PREPARE_ABORT),
    PREPARE_COMMIT: (COMPLETE_COMMIT,),
    PREPARE_ABORT: (COMPLETE_ABORT,),
    COMPLETE_COMMIT: (EMPTY, ONGOING, PREPARE_ABORT),
    COMPLETE_ABORT: (EMPTY, ONGOING, PREPARE_ABORT),
}

Place = tuple[str, int]


class IdInLog:
    """A transactional id, as the durable part of __transaction_state has it."""

    def __init__(self) -> None:
        self.value: Any = None

    def read(self, transactional_id: str, value: Any) -> None:
        before, self.value = self.value, value
        if before is None or value is None:
            return
        old, new = before.transaction_status, value.transaction_status
        assert new in MAY_FOLLOW[old], f"{transactional_id}: {NAMES[new]} comes after {NAMES[old]}"
        if value.producer_id == before.producer_id:
            assert value.producer_epoch >= before.producer_epoch, f"the epoch of {transactional_id} falls"
            if new in PREPARED and value.client_transaction_version >= 2:
                assert value.producer_epoch > before.producer_epoch, f"{transactional_id} ends without a new epoch"
        if new == EMPTY:
            begins_anew = value.producer_id != before.producer_id or value.producer_epoch > before.producer_epoch
            assert begins_anew or old == EMPTY or before.client_transaction_version >= 2, "a producer keeps its epoch"
        if new in PREPARED and old == ONGOING:
            assert places(value) == places(before), f"{transactional_id} ends other partitions than it has"


def places(value: Any) -> set[Place]:
    return {(topic.topic, each) for topic in value.transaction_partitions or () for each in topic.partition_ids}


class TransactionLog:
    def __init__(self, partition_count: int) -> None:
        self._logs = [LogReader(TRANSACTION_STATE, each) for each in range(partition_count)]
        self.ids: dict[str, IdInLog] = {}
        self.decisions: dict[tuple[int, int], bool] = {}  # by id and epoch of the producer: whether to commit, the last
        self.by_producer: dict[int, IdInLog] = {}

    def forget(self) -> None:
        """After a loss of power nothing that was durable may have changed, so what is known stays."""
        self.ids = {}
        for log in self._logs:
            log.forget()

    def read(self, disk: Any) -> list[tuple[str, Any]]:
        """The transactional ids that were written, with what was written."""
        found: list[tuple[str, Any]] = []
        for log in self._logs:
            batches = log.read(disk, only_durable=True)
            if batches is None:
                self.forget()
                return self.read(disk)
            for batch in batches:
                for record in batch.records:
                    assert record.key is not None
                    kind, key = transaction_records.TRANSACTION_STATE.decode_key(record.key)
                    value: Any = (
                        None if record.value is None
                        else transaction_records.TRANSACTION_STATE.decode_value(kind, record.value)
                    )  # fmt: skip
                    self._take(key.transactional_id, value)
                    found.append((key.transactional_id, value))
        return found

    def _take(self, transactional_id: str, value: Any) -> None:
        known = self.ids.setdefault(transactional_id, IdInLog())
        known.read(transactional_id, value)
        if value is not None:
            self.by_producer[value.producer_id] = known
            if value.transaction_status in PREPARED:
                self.decisions[value.producer_id, value.producer_epoch] = value.transaction_status == PREPARE_COMMIT


class PartitionInLog:
    """A partition with records of transactions, as its log has it."""

    def __init__(self, topic: str, index: int) -> None:
        self.place = topic, index
        self._log = LogReader(topic, index)
        self.forget()

    def __str__(self) -> str:
        return "{}-{}".format(*self.place)

    def forget(self) -> None:
        self._log.forget()
        self._is_new = False  # what is read first was written before
        self.end = 0
        self.epochs: dict[int, int] = {}
        self.open: dict[int, int] = {}  # first offset, by producer
        self.markers: dict[int, Batch] = {}  # the last one of each producer
        self.pending: dict[int, dict[Any, tuple[int, int]]] = {}
        self.committed: dict[Any, tuple[int, int]] = {}  # of groups: the offset, and that of the record

    def read(self, disk: Any, log: TransactionLog) -> None:
        batches = self._log.read(disk)
        if batches is None:
            self.forget()
            batches = self._log.read(disk) or []
        for batch in batches:
            self._take(batch, log)
        self._is_new = True

    def _take(self, batch: Batch, log: TransactionLog) -> None:
        header = batch.header
        assert header.base_offset == self.end, f"{self} goes on at {header.base_offset}, not {self.end}"
        self.end = header.next_offset
        producer_id, epoch = header.producer_id, header.producer_epoch
        if producer_id < 0:
            self._take_offsets(self.committed, batch)
            return
        before = self.epochs.get(producer_id, -1)
        assert epoch >= before, f"{self}: a fenced producer has written: epoch {epoch} of {producer_id} after {before}"
        self.epochs[producer_id] = epoch
        if header.is_control:
            self._take_marker(batch, log)
        else:
            self._take_data(batch, log)

    def _take_data(self, batch: Batch, log: TransactionLog) -> None:
        header = batch.header
        first = self.open.setdefault(header.producer_id, header.base_offset)
        if first == header.base_offset and self._is_new:
            known = log.by_producer.get(header.producer_id)
            is_added = known is not None and known.value is not None and self.place in places(known.value)
            assert is_added, f"{self}: producer {header.producer_id} has written, and nobody would end that"
        self._take_offsets(self.pending.setdefault(header.producer_id, {}), batch)

    def _take_marker(self, batch: Batch, log: TransactionLog) -> None:
        header = batch.header
        marker = parse_marker(batch.records[0].key, batch.records[0].value)
        assert marker is not None
        key = header.producer_id, header.producer_epoch
        decision = log.decisions.get(key)
        assert decision is not None, f"{self} has a marker of {key} before the decision is durable"
        is_right = decision == marker.commit or not self._is_new
        assert is_right, f"{self} has a marker of {key} that says the contrary of the decision"
        self.markers[header.producer_id] = batch
        self.open.pop(header.producer_id, None)
        pending = self.pending.pop(header.producer_id, {})
        if marker.commit:
            for place, offset in pending.items():
                if place not in self.committed or self.committed[place][1] < offset[1]:
                    self.committed[place] = offset

    def _take_offsets(self, into: dict[Any, tuple[int, int]], batch: Batch) -> None:
        if self.place[0] != CONSUMER_OFFSETS:
            return
        for record in batch.records:
            assert record.key is not None
            kind, key = log_records.decode_key(record.key)
            if record.value is not None and hasattr(key, "partition"):
                value: Any = log_records.decode_value(kind, record.value)
                into[key.group, key.topic, key.partition] = value.offset, record.offset

    @property
    def stable_offset(self) -> int:
        return min(self.open.values(), default=self.end)


class TxnWatch:
    def __init__(self, world: TxnWorld) -> None:
        self._world = world
        self.log = TransactionLog(world.coordinator_partitions)
        self.data = [PartitionInLog(OUT, each) for each in range(world.partition_count)]
        self.offsets = [PartitionInLog(CONSUMER_OFFSETS, each) for each in range(world.coordinator_partitions)]
        self._seen: tuple[Any, int] | None = None
        self._owners: dict[tuple[int, int], str] = {}
        self._committed: dict[str, int] = {}  # by application: what a client was told, or has had acknowledged

    # --- what clients were told

    def got_epoch(self, process: str, producer_id: int, epoch: int) -> None:
        owner = self._owners.setdefault((producer_id, epoch), process)
        assert owner == process, f"{process} and {owner} have the same epoch {epoch} of {producer_id}"

    def has_committed(self, app: str, offset: int) -> None:
        self._committed[app] = max(offset, self.committed(app))

    def committed(self, app: str) -> int:
        """At least so far every process must be told from now on that the group has come."""
        return self._committed.get(app, 0)

    def told_offset(self, app: str, offset: int, least: int) -> None:
        assert offset >= least, f"{app} is told offset {offset}, but {least} was committed"

    # --- after each event

    @property
    def every(self) -> Iterable[PartitionInLog]:
        return (*self.data, *self.offsets)

    def forget(self) -> None:
        """The machine has stopped: something may have gone."""
        self.log.forget()
        for partition in self.every:
            partition.forget()

    def check(self) -> None:
        machine = self._world.machine
        if machine.broker is None:
            return  # the next start mends what was torn
        seen = machine.disk, machine.disk.steps
        if seen == self._seen:
            return  # nothing was written
        self._seen = seen
        written = self.log.read(machine.disk)
        for partition in self.every:
            partition.read(machine.disk, self.log)
        for transactional_id, value in written:
            if value is not None and value.transaction_status in COMPLETED:
                self._check_markers(transactional_id)
        self._check_stable_offsets(machine.broker)
        self._check_offsets(machine.broker)

    def _check_markers(self, transactional_id: str) -> None:
        """The transaction is over, so all its partitions have their markers."""
        value = self.log.ids[transactional_id].value
        if value is None or value.transaction_status not in COMPLETED:
            return  # the next one has begun
        told = "committed" if value.transaction_status == COMPLETE_COMMIT else "aborted"
        for partition in self.every:
            for producer_id in (value.producer_id, value.previous_producer_id):
                assert producer_id not in partition.open, f"{transactional_id} is {told}, but not in {partition}"
                marker = partition.markers.get(producer_id)
                is_sure = marker is None or is_durable(self._world.machine.disk, marker)
                assert is_sure, f"{transactional_id} is {told}, but its marker in {partition} is not durable"

    def _check_stable_offsets(self, broker: Any) -> None:
        for partition in self.data:
            place = broker.catalog.partition(*partition.place)
            if place is None or place.log.failed is not None or not is_known(broker, place):
                continue
            found, expected = last_stable_offset(broker, place), partition.stable_offset
            assert found == expected, f"the stable offset of {partition} is {found}, and should be {expected}"

    def _check_offsets(self, broker: Any) -> None:
        """What the group coordinator knows is what the log says."""
        shards = broker.coordinator.runtime.shards
        for partition, shard in zip(self.offsets, shards, strict=True):
            place = broker.catalog.partition(*partition.place)
            if shard.status is not Status.ACTIVE or shard.has_pending_writes or place is None or place.log.failed:
                continue
            store = shard.state.offsets
            for key, (offset, _) in partition.committed.items():
                known = store.get(*key)
                found = None if known is None else known.offset
                assert found == offset, f"offset {offset} of {key} is not what is known"
            pending = {key for offsets in partition.pending.values() for key in offsets}
            for key in pending:
                assert store.pending.has(*key), f"the pending offset of {key} is lost"
            count = sum(1 for _ in store.all_offsets())
            expected = len(partition.committed) + sum(map(len, partition.pending.values()))
            assert count == expected, f"{count} offsets are known of {partition}, and {expected} in its log"

    # --- what readers see

    def is_read(self, value: str) -> None:
        """A reader of committed records has got it."""
        attempt = self._world.attempts.get(value)
        if attempt is not None:
            assert attempt.fate in (Fate.ASKED, Fate.COMMITTED), f"{value} of {attempt}, {attempt.fate.value}, is read"

    def check_end(self, seen: dict[str, int], offsets: dict[str, int]) -> None:
        """`seen`: what a reader of committed records gets of all partitions, and how often; `offsets` of groups."""
        again = [value for value, count in seen.items() if count > 1]
        assert not again, f"{again} are read more than once"
        for attempt in self._world.all_attempts:
            visible = [value for value in attempt.values if value in seen]
            if attempt.fate is Fate.COMMITTED:
                missing = [value for value in attempt.values if value not in seen]
                assert not missing, f"{missing} of {attempt} are lost, which is committed"
            elif attempt.fate is not Fate.ASKED:
                assert not visible, f"{visible} of {attempt} are read, which is {attempt.fate.value}"
            else:
                whole = len(visible) in (0, len(attempt.values))
                assert whole, f"{visible} of {attempt} are read, and the others are not"
        for app, offset in offsets.items():
            numbers = sorted(
                int(value.split(":")[1]) for value in seen if value.startswith(f"{app}:") and ":x" not in value
            )
            assert numbers == list(range(offset)), f"{app} has committed {offset}, and made {numbers}"
