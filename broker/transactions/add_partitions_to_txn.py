"""AddPartitionsToTxn (24), v0-5: partitions that a producer is going to write to become part of its transaction.

This file checks that the partitions exist; if one of them does not, nothing is added. The transaction coordinator
decides the rest (coordinator/transactions/add_partitions_to_txn.py). Clients may not add partitions of internal topics.
Versions from 4 on are for brokers, and name several transactions.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, TypeAlias

from kohort.broker.steps import Pause, WaitingSteps
from kohort.broker.topics.catalog import INTERNAL_TOPICS
from kohort.coordinator.api import Steps, all_steps, in_slices
from kohort.coordinator.outcome import Parked
from kohort.coordinator.transactions.add_partitions_to_txn import (
    ADD_PARTITIONS_TO_TXN,
    Added,
    AddOrVerify,
    for_version,
)
from kohort.coordinator.transactions.transaction import NEW_CLIENTS, OLD_CLIENTS
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kohort.broker.broker import Broker
    from kohort.broker.call import Call
    from kohort.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTopic

    Topics: TypeAlias = Sequence[AddPartitionsToTxnTopic]

FIRST_VERSION_OF_BROKERS = 4
NOT_ATTEMPTED = ErrorCode.OPERATION_NOT_ATTEMPTED  # of partitions that exist, if another one does not
UNKNOWN_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def add_partitions_to_txn(
    broker: Broker, request: AddPartitionsToTxnRequest, call: Call
) -> AddPartitionsToTxnResponse | Parked | WaitingSteps[AddPartitionsToTxnResponse]:
    if call.version >= FIRST_VERSION_OF_BROKERS:
        return _add_to_several(broker, request)
    if call.is_long:
        return _add_many(broker, request, call.version)
    topics = request.v3_and_below_topics
    errors = all_steps(_problems(broker, topics, is_client=True))
    if errors is not None:
        return AddPartitionsToTxnResponse(0, 0, (), all_steps(_results(topics, errors)))
    return broker.transactions.submit(request.v3_and_below_transactional_id, ADD_PARTITIONS_TO_TXN, request, call)


def _problems(broker: Broker, topics: Topics, *, is_client: bool) -> Steps[list[ErrorCode] | None]:
    """An error for each partition if one of them cannot be added."""
    errors: list[ErrorCode] = []
    for topic in topics:
        count = broker.catalog.partition_count(topic.name)
        is_forbidden = is_client and topic.name in INTERNAL_TOPICS
        for partitions in in_slices(topic.partitions):
            if is_forbidden:
                errors += [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * len(partitions)
            else:
                errors += [NOT_ATTEMPTED if 0 <= each < count else UNKNOWN_PARTITION for each in partitions]
            yield
    return None if errors.count(NOT_ATTEMPTED) == len(errors) else errors


def _results(topics: Topics, errors: Iterable[ErrorCode]) -> Steps[list[AddPartitionsToTxnTopicResult]]:
    rest = iter(errors)
    results = []
    for topic in topics:
        rows: list[AddPartitionsToTxnPartitionResult] = []
        for partitions in in_slices(topic.partitions):
            rows += [AddPartitionsToTxnPartitionResult(partition, next(rest)) for partition in partitions]
            yield
        results.append(AddPartitionsToTxnTopicResult(topic.name, rows))
    return results


class Part:
    """The partitions of one transaction, and their errors."""

    __slots__ = ("errors", "topics", "transactional_id")

    def __init__(self, transactional_id: str, topics: Topics) -> None:
        self.transactional_id = transactional_id
        self.topics = topics
        self.errors: Iterable[ErrorCode] = ()


class Answers:
    """Counts the answers that are missing, and pauses the request until the last of them has come."""

    def __init__(self) -> None:
        self.all_are_here = Pause()
        self._missing = 1  # one more than was asked, so that early answers do not end the pause; `wait` takes it away

    def expect(self, *parts: Part) -> Callable[[Added], None]:
        """The parts are asked about together. The answer has an error for each partition, in the order of the parts."""
        self._missing += 1

        def answered(added: Added) -> None:
            errors = iter(added.errors or repeat(added.error))
            for part in parts:
                part.errors = errors  # shared: each part takes its own from the front, when its result is made
            self.one_less()

        return answered

    def one_less(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            self.all_are_here.end()

    def wait(self) -> WaitingSteps[None]:
        self.one_less()
        if not self.all_are_here.is_over:
            yield self.all_are_here


def _add_to_several(broker: Broker, request: AddPartitionsToTxnRequest) -> WaitingSteps[AddPartitionsToTxnResponse]:
    """A transaction that is named many times is asked about once: each record of the log has all of its partitions."""
    parts: list[Part] = []
    together: dict[tuple[str, int, int, bool], tuple[list[tuple[str, int]], list[Part]]] = {}
    for each in request.transactions:
        part = Part(each.transactional_id, each.topics)
        parts.append(part)
        problems = yield from _problems(broker, part.topics, is_client=False)
        if problems is not None:
            part.errors = problems
            continue
        key = (each.transactional_id, each.producer_id, each.producer_epoch, not each.verify_only)
        partitions, its_parts = together.setdefault(key, ([], []))
        partitions += yield from _partitions(part.topics)
        its_parts.append(part)
    answers = Answers()
    for (transactional_id, producer_id, epoch, is_added), (partitions, its_parts) in together.items():
        asked = AddOrVerify(
            transactional_id, producer_id, epoch, partitions, is_added=is_added, client_version=NEW_CLIENTS
        )
        broker.transactions.ask(asked, answers.expect(*its_parts))
        yield None
    yield from answers.wait()
    results = []
    for part in parts:
        topics = yield from _results(part.topics, part.errors)
        results.append(AddPartitionsToTxnResult(part.transactional_id, topics))
    return AddPartitionsToTxnResponse(0, 0, results)


def _add_many(
    broker: Broker, request: AddPartitionsToTxnRequest, version: int
) -> WaitingSteps[AddPartitionsToTxnResponse]:
    """A long request of a client, in steps; the result is that of ADD_PARTITIONS_TO_TXN for a short one."""
    part = Part(request.v3_and_below_transactional_id, request.v3_and_below_topics)
    problems = yield from _problems(broker, part.topics, is_client=True)
    if problems is not None:
        part.errors = problems
    else:
        partitions = yield from _partitions(part.topics)
        answers = Answers()
        asked = AddOrVerify(
            part.transactional_id, request.v3_and_below_producer_id, request.v3_and_below_producer_epoch,
            list(dict.fromkeys(partitions)), is_added=True, client_version=OLD_CLIENTS,
        )  # fmt: skip
        answered = answers.expect(part)
        broker.transactions.ask(asked, lambda added: answered(Added(for_version(added.error, version))))
        yield from answers.wait()
    return AddPartitionsToTxnResponse(0, 0, (), (yield from _results(part.topics, part.errors)))


def _partitions(topics: Topics) -> Steps[list[tuple[str, int]]]:
    found: list[tuple[str, int]] = []
    for topic in topics:
        name = topic.name
        for partitions in in_slices(topic.partitions):
            found += [(name, partition) for partition in partitions]
            yield
    return found
