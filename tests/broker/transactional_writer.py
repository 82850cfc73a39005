"""A transactional producer of its own thread, which writes through ends of the broker and remembers what it was told.

Each transaction writes its name to several partitions and its number as the committed offset of the writer's group.
Writers speak as clients of transaction version 2 (Produce 12, TxnOffsetCommit 5, EndTxn 5) or as older ones. When the
broker is away, a writer waits for it. Then it sends the same request again, as clients do that live on, or it begins
anew with InitProducerId, as one that crashed itself.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from enum import Enum
from typing import Any

from kohort.client.client import Client
from kohort.client.errors import ClientError, ConnectionLost
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.end_txn import EndTxnRequest
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kohort.protocol.record_batch import build_batch
from tests.transaction_requests import (
    Identity,
    Partition,
    add_offsets_request,
    add_partitions_request,
    produce_request,
    txn_commit_request,
)

TOPIC = "ids"
INPUT = ("input", 0)  # what the groups commit offsets of; nobody writes there
RETRY_S = 0.005
MAX_PADDING_BYTES = 3_000  # so that segments fill up
GROUP, TRANSACTION = 0, 1  # kinds of coordinators
COMES_AGAIN = frozenset((
    ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
))  # fmt: skip
TOO_LATE = frozenset((
    ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED,
    ErrorCode.TRANSACTION_ABORTABLE,
))  # fmt: skip


class Fate(Enum):
    """What a writer knows about a transaction."""

    COMMITTED = "committed"  # the broker has said so
    ABORTED = "aborted"  # it never asked for a commit, or the broker has confirmed the abort
    UNKNOWN = "unknown"  # it has asked for the commit and was not answered


class Stopped(Exception):
    """The story is over: leave the transaction as it is."""


class Restarted(Exception):
    """The writer shall do as if it had crashed together with the broker."""


class Refused(Exception):
    """An answer that nothing explains."""


class Writer:
    def __init__(self, number: int, seed: int, partitions: int, timeout_ms: int) -> None:
        self.name = f"writer-{number}"
        self.group = f"group-{number}"
        self.is_new = number % 3 != 0  # of transaction version 2
        self.fates: dict[int, Fate] = {}
        self.copies: dict[int, Counter[int]] = {}  # by transaction: how many records it has written to each partition
        self.retries: Counter[str] = Counter()
        self.resumed = self.restarted = self.timed_out = 0
        self._random = random.Random(seed * 1000 + number)
        self._partitions = partitions
        self._timeout_ms = timeout_ms
        self._who = Identity(self.name, -1, -1)
        self._sequences: Counter[int] = Counter()
        self._client: Client | None = None
        self.number = 0
        self._began = 0.0
        self._offset_before = -1  # what the group had committed when the transaction began

    # --- the life of a writer

    def run(self, broker: Any, stop: threading.Event, problems: list[BaseException]) -> None:
        self._address, self._stop = broker.address, stop
        try:
            while True:
                with contextlib.suppress(Restarted):
                    self._begin_anew()
                    while True:
                        self._one_transaction()
        except Stopped:
            pass
        except BaseException as problem:
            problems.append(problem)
        finally:
            self._disconnect()

    def _begin_anew(self) -> None:
        """InitProducerId ends what a former life has left open; then the group's offset tells how that ended."""
        for kind, key in ((TRANSACTION, self.name), (GROUP, self.group)):
            while self._ask(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(key, kind), 3).error_code:
                self._pause("FindCoordinator")
        request = InitProducerIdRequest(self.name, self._timeout_ms)
        answer = self._until_done(ApiKey.INIT_PRODUCER_ID, request, 4, lambda answer: [answer.error_code])
        self._take_identity(answer)
        self.check_offset()

    def look_back(self, address: str) -> None:
        """When the story is over, and no transaction is open any more."""
        self._address, self._stop = address, threading.Event()
        self.check_offset()
        self._disconnect()

    def check_offset(self) -> None:
        """The group's committed offset is the last transaction that was committed. It decides about an unknown one."""
        found = self._committed_offset()
        last = max(self.fates, default=-1)
        if self.fates.get(last) is Fate.UNKNOWN:
            if found not in (last, self._offset_before):
                raise Refused(f"{self.name} found {found}, not {last} or {self._offset_before}")
            self.fates[last] = Fate.COMMITTED if found == last else Fate.ABORTED
        elif found != self.last_committed():
            raise Refused(f"{self.name} has committed {self.last_committed()}, and its group says {found}")

    def last_committed(self) -> int:
        return max((number for number, fate in self.fates.items() if fate is Fate.COMMITTED), default=-1)

    def _committed_offset(self) -> int:
        topic, index = INPUT
        asked = OffsetFetchRequestGroup(
            self.group, None, -1, [OffsetFetchRequestTopics(topic, partition_indexes=[index])]
        )
        request = OffsetFetchRequest(groups=[asked], require_stable=True)

        def errors(answer: Any) -> list[int]:
            (group,) = answer.groups
            return [group.error_code, *(each.error_code for row in group.topics for each in row.partitions)]

        answer = self._until_done(ApiKey.OFFSET_FETCH, request, 8, errors)
        offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
        return offset

    # --- a transaction

    def _one_transaction(self) -> None:
        self.number += 1
        number = self.number
        chosen = frozenset(self._random.sample(range(self._partitions), self._random.randint(2, 4)))
        self.copies[number], self.fates[number] = Counter(), Fate.ABORTED
        self._offset_before, self._began = self.last_committed(), time.monotonic()
        places = [(TOPIC, index) for index in sorted(chosen)]
        if not self.is_new:
            self._add(places)
        parts = [places[:1], places[1:]] if self._random.random() < 0.5 else [places]
        for part in parts:
            self._write(number, part)
        self._commit_offset(number)
        if self._random.random() < 0.3:  # a later offset counts, and a second record in the same partitions
            self._write(number, places)
            self._commit_offset(number)
        self._end(number)

    def _add(self, places: list[Partition]) -> None:
        self._until_done(
            ApiKey.ADD_PARTITIONS_TO_TXN, add_partitions_request(self._who, places, 3), 3,
            lambda answer: [p.partition_error_code for t in answer.results_by_topic_v3_and_below
                            for p in t.results_by_partition],
        )  # fmt: skip

    def _write(self, number: int, places: list[Partition]) -> None:
        batches = {(topic, index): self._batch(number, index) for topic, index in places}
        request = produce_request(self.name, batches)
        self._until_done(
            ApiKey.PRODUCE, request, 12 if self.is_new else 9,
            lambda answer: [p.error_code for t in answer.responses for p in t.partition_responses],
        )  # fmt: skip
        self._sequences.update(index for _, index in places)
        self.copies[number].update(index for _, index in places)

    def _batch(self, number: int, partition: int) -> bytes:
        padding = b"." * self._random.randrange(MAX_PADDING_BYTES)
        value = b"%s:%d %s" % (self.name.encode(), number, padding)
        _, producer_id, epoch = self._who
        return build_batch(
            [(None, value)], timestamp=int(time.time() * 1000), producer_id=producer_id, producer_epoch=epoch,
            base_sequence=self._sequences[partition], transactional=True,
        )  # fmt: skip

    def _commit_offset(self, number: int) -> None:
        if not self.is_new:
            self._until_done(
                ApiKey.ADD_OFFSETS_TO_TXN, add_offsets_request(self._who, self.group), 3, lambda a: [a.error_code]
            )
        request = txn_commit_request(self._who, self.group, {INPUT: number})
        self._until_done(
            ApiKey.TXN_OFFSET_COMMIT, request, 5 if self.is_new else 3,
            lambda answer: [p.error_code for t in answer.topics for p in t.partitions],
        )  # fmt: skip

    def _end(self, number: int) -> None:
        choice = self._random.random()
        if choice < 0.1:
            raise Restarted  # leaves it open: InitProducerId will abort it
        if choice < 0.12:
            self._stop.wait(self._timeout_ms / 1000 + 0.5)  # then the broker has aborted it, or will soon
        commit = choice < 0.8
        if commit:
            self.fates[number] = Fate.UNKNOWN
        request = EndTxnRequest(*self._who, commit)
        version = 5 if self.is_new else 3
        answer = self._until_done(ApiKey.END_TXN, request, version, lambda answer: [answer.error_code])
        self.fates[number] = Fate.COMMITTED if commit else Fate.ABORTED
        if self.is_new:
            self._take_identity(answer)

    def _take_identity(self, answer: Any) -> None:
        self._who = Identity(self.name, answer.producer_id, answer.producer_epoch)
        self._sequences.clear()

    # --- requests

    def _until_done(self, api_key: ApiKey, request: Any, version: int, errors: Any) -> Any:
        """The first answer without an error that passes by itself."""
        while True:
            answer = self._ask(api_key, request, version)
            found = {ErrorCode(code) for code in errors(answer)} - {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}
            if not found:
                return answer
            if found <= TOO_LATE and time.monotonic() - self._began > self._timeout_ms / 1000:
                self.timed_out += 1
                raise Restarted
            if found - COMES_AGAIN:
                raise Refused(f"{self.name} {self._who} {api_key.name} v{version}: {found} {answer}")
            self._pause(f"{api_key.name} {'/'.join(each.name for each in found)}")

    def _ask(self, api_key: ApiKey, request: Any, version: int) -> Any:
        """Sends it until there is an answer. A writer that is told to crash does so when the connection is lost."""
        while True:
            try:
                return self._connected().send(api_key, request, version)
            except ConnectionLost:
                self._disconnect()
                if self._random.random() < 0.5:
                    self.restarted += 1
                    raise Restarted from None
                self.resumed += 1

    def _connected(self) -> Client:
        while self._client is None:
            if self._stop.is_set():
                raise Stopped
            try:
                self._client = Client(self._address, timeout_s=60)
            except ClientError:
                self._stop.wait(RETRY_S)
        if self._stop.is_set():
            raise Stopped
        return self._client

    def _disconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _pause(self, why: str) -> None:
        self.retries[why] += 1
        if self._stop.wait(RETRY_S):
            raise Stopped
