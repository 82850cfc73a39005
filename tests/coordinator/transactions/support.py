"""A transaction coordinator with a host made for tests: time is a number, the disk a list of batches.

    host = TransactionTestHost()
    tx = host.producer()               a transactional id that has its producer id and epoch
    host.add(tx, ("orders", 0))        through the codec of the version, as a client would
    host.end(tx, commit=True)          markers are on their way now: host.markers
    host.markers_are_written()         the transaction is complete
    host.advance(10_000)               the check for late transactions runs every 10 s, the one for unused ids hourly
    host.is_slow = True                nothing is durable until host.disk_catches_up(), or host.disk_fails()
    host.crash()                       memory is gone; a new runtime loads what the disk holds

Answers are error names, or what the test asks for. Requests go through the real codecs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kohort.coordinator.api import Answer, Api, all_steps
from kohort.coordinator.events import SendMarkers, TransactionEnded
from kohort.coordinator.outcome import Headers, InPieces, Parked
from kohort.coordinator.partitioner import partition_of
from kohort.coordinator.runtime import Runtime
from kohort.coordinator.shard import Shard, Status, Write
from kohort.coordinator.transactions.add_offsets_to_txn import ADD_OFFSETS_TO_TXN
from kohort.coordinator.transactions.add_partitions_to_txn import ADD_OR_VERIFY, ADD_PARTITIONS_TO_TXN, AddOrVerify
from kohort.coordinator.transactions.describe_transactions import DESCRIBE_TRANSACTIONS
from kohort.coordinator.transactions.end_txn import END_TXN
from kohort.coordinator.transactions.ending import COMPLETE, Written
from kohort.coordinator.transactions.init_producer_id import INIT_PRODUCER_ID
from kohort.coordinator.transactions.list_transactions import LIST_TRANSACTIONS
from kohort.coordinator.transactions.state import TransactionConfig, TransactionsState
from kohort.coordinator.transactions.transaction import NEW_CLIENTS, Transaction
from kohort.coordinator.transactions.transaction_shard import TransactionShard
from kohort.coordinator.transactions.upkeep import abort_late_transactions, expire_transactional_ids
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import request_decoder, request_encoder, response_decoder, response_encoder
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kohort.protocol.messages.end_txn import EndTxnRequest
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest
from kohort.protocol.messages.list_transactions import ListTransactionsRequest
from kohort.protocol.record_batch import parse_header, read_records, verify_crc
from kohort.protocol.transaction_records import TRANSACTION_LOG, TRANSACTION_STATE
from tests.coordinator.support import START
from tests.transaction_requests import Identity, add_offsets_request, add_partitions_request

MAX_MESSAGE_BYTES = 1_048_588
TIMEOUT_MS = 60_000
CHECK_MS, EXPIRY_CHECK_MS = 10_000, 3_600_000


class Got(NamedTuple):
    """The answer to InitProducerId or EndTxn."""

    error: str
    producer_id: int = -1
    epoch: int = -1


class Call:
    def __init__(self, host: TransactionTestHost, version: int) -> None:
        self.version = version
        self.client_id, self.client_host = "app", "/10.0.0.7"
        self.now, self.steady_ms = host.now, host.now - START + 1_000
        self.api: Api[Any, Any, Any]
        self.answer: Any = None

    def reply(self, response: Any) -> None:
        assert self.answer is None, "a second answer"
        self.answer = response

    @property
    def is_answered(self) -> bool:
        return self.answer is not None


class TransactionTestHost:
    def __init__(self, **settings: Any) -> None:
        self.now = START
        self.config = TransactionConfig(**settings)
        self.next_producer_id = 1_000
        self.has_producer_ids = True
        self.batches: dict[int, list[bytes]] = {}
        self.is_slow = False
        self.on_the_way: list[Write[TransactionsState]] = []
        self.markers: list[SendMarkers] = []  # asked for
        self.ended: list[TransactionEnded] = []
        self.runtime = self._new_runtime()
        self._load()

    def _new_runtime(self) -> Runtime[TransactionsState]:
        return Runtime(self._new_shard, 50, MAX_MESSAGE_BYTES)

    def _new_shard(self, partition: int) -> TransactionShard:
        return TransactionShard(TransactionsState(partition, self.config, self))

    # --- surroundings

    def take_producer_id(self) -> int | None:
        if not self.has_producer_ids:
            return None
        self.next_producer_id += 1
        return self.next_producer_id - 1

    def offsets_partition(self, group_id: str) -> int:
        return partition_of(group_id, 50)

    # --- requests

    def send(
        self, key: str, api: Api[TransactionsState, Any, Any], api_key: ApiKey, version: int, request: Any
    ) -> Call:
        raw: Any = request_encoder(api_key, version)(request)
        decoded = request_decoder(api_key, version)(raw if type(raw) is bytes else b"".join(raw))
        return self.ask(key, api, decoded, version)

    def ask(self, key: str, api: Api[TransactionsState, Any, Any], request: Any, version: int = 0) -> Call:
        call = Call(self, version)
        answer: Answer[Any] = self.runtime.submit(key, api, request, call)
        if not isinstance(answer, Parked):
            call.reply(answer)
        self.settle()
        return call

    def init(
        self, transactional_id: str = "tx", producer_id: int = -1, epoch: int = -1, *, timeout_ms: int = TIMEOUT_MS,
        version: int = 5,
    ) -> Got:  # fmt: skip
        return _got(self.init_call(transactional_id, producer_id, epoch, timeout_ms=timeout_ms, version=version))

    def init_call(
        self, transactional_id: str, producer_id: int = -1, epoch: int = -1, *, timeout_ms: int = TIMEOUT_MS,
        version: int = 5,
    ) -> Call:  # fmt: skip
        request = InitProducerIdRequest(transactional_id, timeout_ms, producer_id, epoch)
        return self.send(transactional_id, INIT_PRODUCER_ID, ApiKey.INIT_PRODUCER_ID, version, request)

    def producer(self, transactional_id: str = "tx", **fields: Any) -> Identity:
        got = self.init(transactional_id, **fields)
        assert got.error == "NONE", got
        return Identity(transactional_id, got.producer_id, got.epoch)

    def add_call(self, who: Identity, *partitions: tuple[str, int], version: int = 3) -> Call:
        request = add_partitions_request(who, partitions, version)
        return self.send(who.transactional_id, ADD_PARTITIONS_TO_TXN, ApiKey.ADD_PARTITIONS_TO_TXN, version, request)

    def add(self, who: Identity, *partitions: tuple[str, int], version: int = 3) -> str:
        """AddPartitionsToTxn of a client."""
        return self.added(self.add_call(who, *partitions, version=version))

    def added(self, call: Call) -> str:
        topics = call.answer.results_by_topic_v3_and_below
        errors = {each.partition_error_code for topic in topics for each in topic.results_by_partition}
        assert len(errors) == 1, errors
        return ErrorCode(errors.pop()).name

    def produce(self, who: Identity, *partitions: tuple[str, int]) -> str:
        """What Produce of a new client asks for: it adds implicitly."""
        return self._add_or_verify(who, partitions, is_added=True)

    def verify(self, who: Identity, *partitions: tuple[str, int]) -> str:
        return self._add_or_verify(who, partitions, is_added=False)

    def _add_or_verify(self, who: Identity, partitions: Iterable[tuple[str, int]], *, is_added: bool) -> str:
        asked = AddOrVerify(*who, list(partitions), is_added=is_added, client_version=NEW_CLIENTS)
        error: ErrorCode = self.ask(who.transactional_id, ADD_OR_VERIFY, asked).answer.error
        return error.name

    def add_offsets(self, who: Identity, group: str, version: int = 4) -> str:
        request = add_offsets_request(who, group)
        call = self.send(who.transactional_id, ADD_OFFSETS_TO_TXN, ApiKey.ADD_OFFSETS_TO_TXN, version, request)
        return ErrorCode(call.answer.error_code).name

    def end_call(self, who: Identity, *, commit: bool, version: int = 5) -> Call:
        request = EndTxnRequest(*who, commit)
        return self.send(who.transactional_id, END_TXN, ApiKey.END_TXN, version, request)

    def end(self, who: Identity, *, commit: bool, version: int = 5) -> Got:
        return _got(self.end_call(who, commit=commit, version=version))

    def end_well(self, who: Identity, *, commit: bool = True, version: int = 5) -> Identity:
        """End the transaction, write its markers, and return who the producer is from now on."""
        got = self.end(who, commit=commit, version=version)
        assert got.error == "NONE", got
        self.markers_are_written()
        return who if version < 5 else Identity(who.transactional_id, got.producer_id, got.epoch)

    def describe(self, transactional_id: str) -> Any:
        request = DescribeTransactionsRequest([transactional_id])
        answer = self._finished(
            self.runtime.submit_several(DESCRIBE_TRANSACTIONS, request, call := Call(self, 0)), call, 65
        )  # fmt: skip
        return answer.transaction_states[0]

    def list(self, version: int = 2, **filters: Any) -> Any:
        raw: Any = request_encoder(66, version)(ListTransactionsRequest(**filters))
        decoded = request_decoder(66, version)(raw if type(raw) is bytes else b"".join(raw))
        return self._finished(
            self.runtime.submit_everywhere(LIST_TRANSACTIONS, decoded, call := Call(self, version)), call, 66
        )

    def _finished(self, steps: Any, call: Call, api_key: int) -> Any:
        answer = all_steps(steps)
        if not isinstance(answer, Parked):
            call.reply(answer)
        self.settle()
        raw: Any = response_encoder(api_key, call.version)(call.answer)
        return response_decoder(api_key, call.version)(raw if type(raw) is bytes else b"".join(raw))

    # --- markers

    def markers_are_written(self) -> None:
        asked, self.markers = self.markers, []
        for event in asked:
            self.written(event)

    def written(self, event: SendMarkers) -> str:
        error: ErrorCode = self.written_call(event).answer.error
        return error.name

    def written_call(self, event: SendMarkers) -> Call:
        return self.ask(event.transactional_id, COMPLETE, Written(event.transactional_id, event.transaction))

    # --- time

    def advance(self, ms: int) -> None:
        """Time goes by, and what is done from time to time is done."""
        end = self.now + ms
        while self.now < end:
            shards = [shard for shard in self.runtime.shards if shard.status is Status.ACTIVE]
            opened = [shard for shard in shards if shard.state.open]
            step = CHECK_MS if opened else EXPIRY_CHECK_MS
            self.now = min(end, self.now - (self.now - START) % step + step)
            if (self.now - START) % CHECK_MS == 0:
                self._begin(abort_late_transactions, opened)
            if (self.now - START) % EXPIRY_CHECK_MS == 0:
                self._begin(expire_transactional_ids, [shard for shard in shards if shard.state.transactions])

    def _begin(self, work: Any, shards: Iterable[Shard[TransactionsState]]) -> None:
        for shard in shards:
            shard.state.clock.set(self.now - START + 1_000, self.now)
            self.runtime.begin_later(shard, InPieces(work(shard.state)))
        self.settle()

    # --- the disk

    def settle(self) -> None:
        while True:
            for call, response in self.runtime.take_replies():
                call.reply(response)
            events, self.runtime.events = self.runtime.events, []
            for event in events:
                if isinstance(event, SendMarkers):
                    self.markers.append(event)
                else:
                    assert isinstance(event, TransactionEnded), event
                    self.ended.append(event)
            while self.runtime.go_on(self.now - START + 1_000, self.now):
                pass
            if self.runtime.replies or self.runtime.events:
                continue
            if not self.runtime.dirty:
                break
            self.on_the_way += self.runtime.take_writes(self.now, self.now)
            if not self.is_slow:
                self.disk_catches_up()

    def disk_catches_up(self) -> None:
        writes, self.on_the_way = self.on_the_way, []
        for write in writes:
            assert write.problem is None
            for batch in write.batches:
                verify_crc(batch, 0, parse_header(batch))
                self.batches.setdefault(write.partition, []).append(batch)
            self.runtime.written(write, self.now)
        self.is_slow = False
        self.settle()

    def disk_fails(self) -> None:
        """The writes that are on their way fail, and their shards are loaded from what is durable."""
        writes, self.on_the_way = self.on_the_way, []
        for write in writes:
            self.runtime.write_failed(write, ErrorCode.NOT_COORDINATOR)
        self.is_slow = False
        self._load()
        self.settle()

    def crash(self) -> None:
        """kill -9: what was on the way is lost, and memory is."""
        self.on_the_way, self.markers = [], []
        self.is_slow = False
        self.runtime = self._new_runtime()
        self._load()
        self.settle()

    def _load(self) -> None:
        for shard in self.runtime.shards:
            if shard.status is not Status.ACTIVE:
                for batch in self.batches.get(shard.partition, []):
                    list(shard.load_chunk(batch, len(batch)))
                list(self.runtime.loaded(shard, self.now - START + 1_000, self.now))

    # --- looking

    def shard_of(self, transactional_id: str = "tx") -> Shard[TransactionsState]:
        return self.runtime.shard_of(transactional_id)

    def transaction(self, transactional_id: str = "tx") -> Transaction:
        return self.shard_of(transactional_id).state.transactions[transactional_id]

    def state(self, transactional_id: str = "tx") -> str:
        return self.transaction(transactional_id).state.value

    def epoch(self, transactional_id: str = "tx") -> int:
        return self.transaction(transactional_id).epoch

    def log(self, transactional_id: str = "tx") -> Sequence[tuple[Any, Headers]]:
        """(value, headers) of the durable records of this transactional id."""
        found = []
        for batch in self.batches.get(self.shard_of(transactional_id).partition, []):
            for record in read_records(batch):
                assert record.key is not None
                _, key = TRANSACTION_STATE.decode_key(record.key)
                if key.transactional_id == transactional_id:
                    raw = record.value
                    value = None if raw is None else TRANSACTION_STATE.decode_value(TRANSACTION_LOG, raw)
                    found.append((value, tuple(record.headers)))
        return found

    def put_epoch(self, epoch: int, transactional_id: str = "tx") -> Identity:
        """As if the producer had come so far: epochs are many."""
        transaction = self.transaction(transactional_id)
        transaction.epoch = epoch
        return Identity(transactional_id, transaction.producer_id, epoch)


def _got(call: Call) -> Got:
    answer = call.answer
    return Got(ErrorCode(answer.error_code).name, answer.producer_id, answer.producer_epoch)
