"""What readers with isolation.level=read_committed need besides the log: stable offsets, and what was aborted."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from kohort.broker.topics.stable_offset import finding_stable_offset, is_known
from kohort.broker.topics.while_there import TopicDeleted, while_there
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kohort.storage.errors import StorageError

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.steps import Steps
    from kohort.broker.topics.catalog import Partition
    from kohort.storage.open_files import LogSlice
    from kohort.storage.partition_log import PartitionLog
    from kohort.storage.txn_index import AbortedLookup

logger = logging.getLogger(__name__)

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
FIRST_VERSION_WITH_ONE_ERROR = 13  # before, each partition has it, too
ISOLATION_LEVELS = (READ_UNCOMMITTED, READ_COMMITTED)
PER_STEP = 50
BLOCKS_AT_ONCE = 8  # of storage/txn_index.py: some 2,000 transactions, which take 2 ms
MAX_BLOCKS = 400  # some 100,000 transactions in one answer
Failures = dict["Partition", ErrorCode]


def must_look(broker: Broker, partitions: Iterable[Partition | None]) -> bool:
    """Whether the last stable offset of one of them is not known yet: only after a start of the broker."""
    return broker.had_transactions and any(each is not None and not is_known(broker, each) for each in partitions)


def look(broker: Broker, partitions: Iterable[Partition | None], now: int) -> Steps[Failures]:
    """Find the last stable offsets of these partitions. Returns those whose logs could not be read, with the reason."""
    failures: Failures = {}
    for number, partition in enumerate(partitions):
        if number % PER_STEP == 0:
            yield
        if partition is None or is_known(broker, partition):
            continue
        try:
            yield from while_there(broker, partition, finding_stable_offset(broker, partition, now))
        except TopicDeleted:
            continue
        except (StorageError, OSError) as problem:
            logger.error("the last stable offset of %s could not be found: %s", partition, problem)
            failures[partition] = ErrorCode.KAFKA_STORAGE_ERROR
        except MalformedMessage as problem:
            logger.error("the last stable offset of %s lies behind damaged data: %s", partition, problem)
            failures[partition] = ErrorCode.CORRUPT_MESSAGE
    return failures


class AbortedLists:
    """What was aborted in the slices of one answer: looked up when all slices are read, in steps if that is much."""

    __slots__ = ("_count", "_lookups")

    def __init__(self) -> None:
        self._lookups: list[tuple[PartitionData, AbortedLookup]] = []
        self._count = 0  # blocks that have to be read

    def add(self, answer: PartitionData, log: PartitionLog, offset: int, found: LogSlice, stable_offset: int) -> None:
        """`found` was read from `offset` on."""
        answer.aborted_transactions = []
        if offset <= log.last_aborted_offset:  # seldom
            lookup = log.find_aborted(offset, found, stable_offset)
            if lookup.blocks:
                self._lookups.append((answer, lookup))
                self._count += len(lookup.blocks)

    @property
    def is_long(self) -> bool:
        return self._count > BLOCKS_AT_ONCE

    @property
    def is_full(self) -> bool:
        """The answer gets no more slices: the client asks again for the other partitions."""
        return self._count > MAX_BLOCKS

    def fill(self) -> Steps[None]:
        """Put the lists into the answers of the partitions."""
        for answer, lookup in self._lookups:
            aborted: list[AbortedTransaction] = []
            try:
                for block in lookup.blocks:
                    aborted += [AbortedTransaction(each[0], each[1]) for each in lookup.read(block)]
                    yield
            except (StorageError, OSError) as problem:
                logger.error("a fetch could not read what was aborted: %s", problem)
                _take_back(answer)
            else:
                answer.aborted_transactions = aborted

    def fill_now(self) -> None:
        for _ in self.fill():
            pass


def _take_back(answer: PartitionData) -> None:
    """Without knowing what was aborted nobody may read the records."""
    cast(Any, answer.records).close()
    answer.records, answer.aborted_transactions = None, None
    answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = -1


def unknown_isolation_level(request: FetchRequest, version: int) -> FetchResponse:
    """The answer to a level that does not exist: Kafka raises an exception when it begins to read."""
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    topics = []
    if version < FIRST_VERSION_WITH_ONE_ERROR:
        for topic in request.topics:
            refused = [PartitionData(each.partition, error, -1, aborted_transactions=()) for each in topic.partitions]
            topics.append(FetchableTopicResponse(topic.topic, partitions=refused))
    return FetchResponse(0, error, request.session_id, topics)
