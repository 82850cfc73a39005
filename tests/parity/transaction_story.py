"""Transactions as scenarios: producers with transactional ids, each on a connection of its own.

Producer ids are a counter of the broker, and markers have the broker's clock: transaction_names.py makes both alike
when the story is over. All other bytes are compared as they are.

EndTxn is answered before the markers are written: `end` waits until the transaction is complete, `end_at_once` does
not. `get_stuck` makes a transaction that never leaves PrepareCommit or PrepareAbort.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from kohort.coordinator.partitioner import partition_of
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kohort.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kohort.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.protocol.messages.list_transactions import ListTransactionsRequest
from tests.clients.group_broker import NOT_READY
from tests.parity.batches import batch
from tests.parity.compare import read_batches
from tests.parity.consumer_story import ConsumerStory
from tests.parity.pairs import TRANSACTIONS
from tests.parity.peer import Peer
from tests.parity.story import VERSIONS, Member, Register, story_of
from tests.parity.transaction_log import TRANSACTION_STATE, states_in
from tests.parity.transaction_names import name_producers, without_leader_epoch
from tests.transaction_requests import (
    Identity,
    Offsets,
    Partition,
    add_offsets_request,
    add_partitions_request,
    describe_producers_request,
    markers_request,
    produce_request,
    txn_commit_request,
)

TRANSACTION_KEY = 1  # of FindCoordinator
TIMEOUT_MS = 60_000
AT_ONCE_MS = 100  # a fetch that is to find nothing waits this long
FIRST_PRODUCE_WITH_IDS = 13
FIRST_FETCH_WITH_IDS = 13
MB = 1 << 20
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
PARTITIONS = 50  # of __transaction_state
PREPARING = ("PrepareCommit", "PrepareAbort")
TV0 = {
    ApiKey.PRODUCE: 11,
    ApiKey.END_TXN: 4,
    ApiKey.TXN_OFFSET_COMMIT: 4,
}  # versions of a client without KIP-890's second part
# By version of EndTxn: what old clients spoke beside it.
OF_ITS_TIME: dict[int, dict[ApiKey, int]] = {
    end: {
        ApiKey.PRODUCE: produce,
        ApiKey.INIT_PRODUCER_ID: end,
        ApiKey.ADD_PARTITIONS_TO_TXN: min(end, 3),
        ApiKey.ADD_OFFSETS_TO_TXN: end,
        ApiKey.TXN_OFFSET_COMMIT: end,
    }
    for end, produce in enumerate((3, 7, 8, 9, 11))
}

VERSIONS.update({
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.INIT_PRODUCER_ID: 5,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.ADD_OFFSETS_TO_TXN: 4,
    ApiKey.END_TXN: 5,
    ApiKey.WRITE_TXN_MARKERS: 2,
    ApiKey.TXN_OFFSET_COMMIT: 5,
    ApiKey.DESCRIBE_PRODUCERS: 0,
    ApiKey.DESCRIBE_TRANSACTIONS: 0,
    ApiKey.LIST_TRANSACTIONS: 2,
    ApiKey.DELETE_RECORDS: 2,
})  # fmt: skip


def transaction_story(
    api_key: ApiKey = ApiKey.END_TXN, versions: Iterable[int] | None = (5,), *, pair: str = TRANSACTIONS
) -> Register[TransactionStory]:
    """Registers a story, for the given versions of the API or (None) for all of them."""
    return story_of(TransactionStory, api_key, versions, pair)


class TransactionStory(ConsumerStory):
    def __init__(self, peer: Peer, api_key: ApiKey) -> None:
        super().__init__(peer, api_key)
        self._log_began = -1
        self.peer.wait_until(self._has_coordinators, "a transaction coordinator")

    def _has_coordinators(self) -> bool:
        request = FindCoordinatorRequest("", TRANSACTION_KEY, [self.group])
        answer = self.peer.quietly(ApiKey.FIND_COORDINATOR, request, 6)
        if answer.coordinators[0].error_code:
            return False
        if self.peer.quietly(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(None, TIMEOUT_MS), 5).error_code:
            return False  # just after a start there are no producer ids
        asked = DescribeTransactionsRequest([self.group])
        (state,) = self.peer.quietly(ApiKey.DESCRIBE_TRANSACTIONS, asked, 0).transaction_states
        return bool(state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)

    def producer(self, suffix: str = "", versions: Mapping[ApiKey, int] | None = None) -> TransactionalProducer:
        """Its transactional id is the group's name and `suffix`. `versions`: which it speaks beside the tested one."""
        producer = TransactionalProducer(self, self.group + suffix, versions or {})
        self._members.append(producer)
        return producer

    def begun(
        self, suffix: str = "", versions: Mapping[ApiKey, int] | None = None, timeout_ms: int = TIMEOUT_MS
    ) -> TransactionalProducer:
        """A producer with an id."""
        producer = self.producer(suffix, versions)
        producer.init(timeout_ms)
        return producer

    def of_its_time(self) -> Mapping[ApiKey, int]:
        """What a client speaks whose newest EndTxn is the tested one."""
        assert self.api_key is ApiKey.END_TXN
        return OF_ITS_TIME.get(self.version, {})

    # --- looking

    def describe_transactions(self, *transactional_ids: str) -> Any:
        request = DescribeTransactionsRequest(list(transactional_ids) or [self.group])
        return self.ask(ApiKey.DESCRIBE_TRANSACTIONS, request)

    def list_transactions(
        self,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        duration_ms: int = -1,
        pattern: str | None = None,
    ) -> Any:
        """The transactions of this story; others are there too."""
        request = ListTransactionsRequest(list(states), list(producer_ids), duration_ms, pattern)
        answer = self.ask(ApiKey.LIST_TRANSACTIONS, request)
        answer.transaction_states = [
            each for each in answer.transaction_states if each.transactional_id.startswith(self.group)
        ]
        return answer

    def describe_producers(self, *partitions: Partition) -> Any:
        return self.ask(ApiKey.DESCRIBE_PRODUCERS, describe_producers_request(*partitions))

    def look_at(self, transactional_id: str) -> Any:
        """The described transaction, without a line in the transcript."""
        request = DescribeTransactionsRequest([transactional_id])
        return self.peer.quietly(ApiKey.DESCRIBE_TRANSACTIONS, request, 0).transaction_states[0]

    def until_state(self, state: str, transactional_id: str | None = None) -> None:
        name = self.group if transactional_id is None else transactional_id
        self.peer.wait_until(lambda: self.look_at(name).transaction_state == state, f"the transaction to be {state}")

    def until_complete(self, transactional_id: str) -> None:
        """Waits until no markers are on their way."""

        def complete() -> bool:
            return self.look_at(transactional_id).transaction_state not in PREPARING

        self.peer.wait_until(complete, "all markers to be written")

    def read(
        self,
        *partitions: Partition,
        offset: int = 0,
        isolation: int = READ_COMMITTED,
        max_bytes: int = MB,
        max_wait_ms: int = AT_ONCE_MS,
        session: tuple[int, int] = (0, -1),
    ) -> Any:
        return self.ask(
            ApiKey.FETCH, self.fetch_records(partitions, offset, isolation, max_bytes, max_wait_ms, session)
        )

    def read_all(self, *partitions: Partition) -> None:
        """With both isolation levels, from the start."""
        for isolation in (READ_UNCOMMITTED, READ_COMMITTED):
            self.read(*partitions, isolation=isolation)

    def fetch_records(
        self,
        partitions: Iterable[Partition],
        offset: int,
        isolation: int,
        max_bytes: int = MB,
        max_wait_ms: int = AT_ONCE_MS,
        session: tuple[int, int] = (0, -1),
    ) -> FetchRequest:
        with_ids = self.version_of(ApiKey.FETCH) >= FIRST_FETCH_WITH_IDS
        topics: dict[str, FetchTopic] = {}
        for topic, index in partitions:
            row = FetchTopic(topic, self.peer.topic_id(topic) if with_ids else bytes(16), [])
            wanted = FetchPartition(index, -1, offset, -1, partition_max_bytes=max_bytes)
            cast(list[FetchPartition], topics.setdefault(topic, row).partitions).append(wanted)
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=50 * MB,
            isolation_level=isolation,
            session_id=session[0],
            session_epoch=session[1],
            topics=list(topics.values()),
        )

    def list_offsets(self, at: Partition, *times: int, isolation: int = READ_COMMITTED) -> None:
        for time in times:
            asked = ListOffsetsTopic(at[0], [ListOffsetsPartition(at[1], -1, time)])
            self.ask(ApiKey.LIST_OFFSETS, ListOffsetsRequest(-1, isolation, [asked], 10_000))

    def end_of(self, at: Partition) -> int:
        """The end of a partition's log, without a line in the transcript."""
        asked = ListOffsetsTopic(at[0], [ListOffsetsPartition(at[1], -1, -1)])
        answer = self.peer.quietly(ApiKey.LIST_OFFSETS, ListOffsetsRequest(-1, READ_UNCOMMITTED, [asked]), 7)
        return int(answer.topics[0].partitions[0].offset)

    def until_end_is_behind(self, at: Partition, offset: int) -> None:
        self.peer.wait_until(lambda: self.end_of(at) > offset, f"something behind offset {offset} of {at}")

    # --- what the coordinator has written

    def watch_log(self) -> None:
        """From here on; for `note_log`."""
        self._log_began = self.end_of((TRANSACTION_STATE, self._log_partition))

    @property
    def _log_partition(self) -> int:
        return partition_of(self.group, PARTITIONS)

    def note_log(self) -> None:
        """The records of this story's transactional id, byte by byte but for ids and times."""
        asked = [FetchPartition(self._log_partition, fetch_offset=self._log_began, partition_max_bytes=MB)]
        request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[FetchTopic(TRANSACTION_STATE, partitions=asked)])
        answer = self.peer.quietly(ApiKey.FETCH, request, 12)
        records = bytes(answer.responses[0].partitions[0].records or b"")
        for header, record in states_in(records, self.group):
            self.peer.note("header of a record of __transaction_state", header)
            self.peer.note("record of __transaction_state", record)

    # --- crashes, after which Kafka has other leader epochs

    def crash(self) -> None:
        """Returns when the coordinators have read what they had written."""
        assert self.peer.crash is not None, "brokers that run already are not killed"
        for member in [self._admin, *self._members]:
            member.hang_up()
        self.peer.hang_up()
        self.peer.crash()
        self.peer.wait_until(self._has_loaded, "the coordinators to load")

    def _has_loaded(self) -> bool:
        transaction = self.look_at(self.group).error_code
        request = self.fetch_request([(self.group, None)])
        group = self.peer.quietly(ApiKey.OFFSET_FETCH, request, self.version_of(ApiKey.OFFSET_FETCH)).groups[0]
        return not {transaction, group.error_code} & {*NOT_READY}

    def note_records(self, *partitions: Partition) -> None:
        """What both kinds of readers get from the start, without leader epochs and times."""
        for at in partitions:
            for isolation in (READ_UNCOMMITTED, READ_COMMITTED):
                found = self._fetched(at, isolation)
                if isolation == READ_COMMITTED:  # after a start others are not told by Kohort, until somebody asks
                    self.peer.note("last stable offset", found.last_stable_offset)
                # Kafka also names some that begin behind the last stable offset.
                aborted = sorted(
                    (each.first_offset, each.producer_id)
                    for each in found.aborted_transactions or ()
                    if each.first_offset < found.last_stable_offset
                )
                self.peer.note("aborted", [{"first_offset": o, "producer_id": each} for o, each in aborted])
                self.peer.note("batches", [without_leader_epoch(each) for each in read_batches(found.records)])

    def note_stable(self, at: Partition) -> None:
        """That all of it is stable. How many markers there are depends on when exactly the broker was killed."""
        found = self._fetched(at, READ_COMMITTED)
        self.peer.note("stable", found.high_watermark == found.last_stable_offset)

    def _fetched(self, at: Partition, isolation: int) -> Any:
        request = self.fetch_records([at], 0, isolation, max_wait_ms=1)
        found: list[Any] = []

        def fetched() -> bool:
            found[:] = self.peer.quietly(ApiKey.FETCH, request, VERSIONS[ApiKey.FETCH]).responses[0].partitions
            return bool(found[0].error_code == 0)

        self.peer.wait_until(fetched, "the partition to have a leader")
        return found[0]

    # --- markers by hand

    def write_markers(
        self, producer: TransactionalProducer, *partitions: Partition, commit: bool = True, **fields: Any
    ) -> Any:
        fields = {"producer_id": producer.producer_id, "epoch": producer.epoch} | fields
        request = markers_request(partitions=partitions, commit=commit, **fields)
        return self.ask(ApiKey.WRITE_TXN_MARKERS, request)

    def close(self) -> None:
        super().close()
        name_producers(self.peer.exchanges)


class TransactionalProducer(Member):
    """A producer as its client sees it: the answers to InitProducerId and EndTxn tell it who it is."""

    story: TransactionStory

    def __init__(self, story: TransactionStory, transactional_id: str, versions: Mapping[ApiKey, int]) -> None:
        super().__init__(story, story.group)
        self.transactional_id = transactional_id
        self.producer_id, self.epoch = -1, -1
        self._versions = versions
        self._sequences: dict[Partition, int] = {}

    def version_of(self, api_key: ApiKey) -> int:
        if api_key is not self.story.api_key and api_key in self._versions:
            return self._versions[api_key]
        return self.story.version_of(api_key)

    def identity(
        self, producer_id: int | None = None, epoch: int | None = None, transactional_id: str | None = None
    ) -> Identity:
        """Its own, but for what is given."""
        return Identity(
            self.transactional_id if transactional_id is None else transactional_id,
            self.producer_id if producer_id is None else producer_id,
            self.epoch if epoch is None else epoch,
        )

    def ask(self, api_key: ApiKey, request: Any) -> Any:
        self.send(api_key, request)
        return self.take()

    def _learn(self, answer: Any) -> None:
        super()._learn(answer)
        if isinstance(answer, (InitProducerIdResponse, EndTxnResponse)) and not answer.error_code:
            if answer.producer_id < 0:  # EndTxn before version 5 does not tell
                return
            if (answer.producer_id, answer.producer_epoch) != (self.producer_id, self.epoch):
                self._sequences.clear()
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    # --- requests

    def init(self, timeout_ms: int = TIMEOUT_MS, producer_id: int = -1, epoch: int = -1) -> Any:
        request = InitProducerIdRequest(self.transactional_id, timeout_ms, producer_id, epoch)
        return self.ask(ApiKey.INIT_PRODUCER_ID, request)

    def init_again(self) -> Any:
        """With the ids that it has (KIP-360)."""
        return self.init(producer_id=self.producer_id, epoch=self.epoch)

    def add(self, *partitions: Partition, verify: bool = False, **other: Any) -> Any:
        version = self.version_of(ApiKey.ADD_PARTITIONS_TO_TXN)
        request = add_partitions_request(self.identity(**other), partitions, version, verify=verify)
        return self.ask(ApiKey.ADD_PARTITIONS_TO_TXN, request)

    def add_offsets(self, group: str | None = None, **other: Any) -> Any:
        name = self.group if group is None else group
        return self.ask(ApiKey.ADD_OFFSETS_TO_TXN, add_offsets_request(self.identity(**other), name))

    def commit_offsets(
        self,
        offsets: Offsets,
        group: str | None = None,
        *,
        generation: int = -1,
        member_id: str = "",
        instance: str | None = None,
        metadata: str | None = "",
        **other: Any,
    ) -> Any:
        name = self.group if group is None else group
        request = txn_commit_request(
            self.identity(**other), name, offsets, generation, member_id, instance, metadata=metadata
        )
        return self.ask(ApiKey.TXN_OFFSET_COMMIT, request)

    def batch(
        self,
        at: Partition,
        records: int = 1,
        *,
        sequence: int | None = None,
        transactional: bool = True,
        producer_id: int | None = None,
        epoch: int | None = None,
        **options: Any,
    ) -> bytes:
        _, own_id, own_epoch = self.identity(producer_id, epoch)
        first = self._sequences.get(at, 0) if sequence is None else sequence
        return batch(records, producer=(own_id, own_epoch, first), transactional=transactional, **options)

    def send_records(self, batches: Mapping[Partition, bytes], transactional_id: str | None = "its own") -> None:
        ids = None
        if self.version_of(ApiKey.PRODUCE) >= FIRST_PRODUCE_WITH_IDS:
            ids = {topic: self.story.peer.topic_id(topic) for topic, _ in batches}
        name = self.transactional_id if transactional_id == "its own" else transactional_id
        self.send(ApiKey.PRODUCE, produce_request(name, batches, ids=ids))

    def produce(
        self, at: Partition, records: int = 1, *, transactional_id: str | None = "its own", **options: Any
    ) -> Any:
        """A batch with the next sequence; sequences go on if it was taken and none was given."""
        self.send_records({at: self.batch(at, records, **options)}, transactional_id)
        answer = self.take()
        taken = answer is not None and answer.responses[0].partition_responses[0].error_code == 0
        if taken and options.get("sequence") is None:
            self._sequences[at] = self._sequences.get(at, 0) + records
        return answer

    def begin(self, *partitions: Partition, records: int = 1) -> None:
        """Writes to the partitions, having added them if its version of Produce does not."""
        if self.version_of(ApiKey.PRODUCE) < VERSIONS[ApiKey.PRODUCE]:
            self.add(*partitions)
        for each in partitions:
            self.produce(each, records)

    def end_at_once(self, commit: bool = True, **other: Any) -> Any:
        return self.ask(ApiKey.END_TXN, EndTxnRequest(*self.identity(**other), commit))

    def end(self, commit: bool = True, **other: Any) -> Any:
        answer = self.end_at_once(commit, **other)
        self.story.until_complete(self.transactional_id)
        return answer

    def commit_it(self, **other: Any) -> Any:
        return self.end(True, **other)

    def abort(self, **other: Any) -> Any:
        return self.end(False, **other)

    # --- transactions in hard states

    def get_stuck(self, at: Partition, *, commit: bool = True) -> None:
        """Ends a transaction whose marker the partition refuses for ever: it has heard of a newer coordinator."""
        self.begin(at)
        self.story.write_markers(self, at, commit=False, coordinator_epoch=1_000)
        self.end_at_once(commit)
        self.story.until_state(PREPARING[0] if commit else PREPARING[1], self.transactional_id)

    def go_on_to_epoch(self, last: int, first: int | None = None) -> None:
        """Ends empty transactions, without a line in the transcript, until its epoch is `last`."""
        kept = len(self.story.peer.exchanges)
        while self.epoch < last:
            answer = self.init(producer_id=self.producer_id, epoch=self.epoch)
            assert answer.error_code == 0, f"{self.story.peer.name}: {answer} at epoch {self.epoch}"
        del self.story.peer.exchanges[kept:]
