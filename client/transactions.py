"""What is asked of a cluster about transactions: which there are, how far they have come, and how one is aborted.

A transactional id is its coordinator's affair. What a transaction has written to a partition, and how far readers of
committed records get there, the partition's leader knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import monotonic, sleep, time
from typing import NamedTuple

from kohort.client import ask
from kohort.client.answers import NOT_READY, READY_PAUSE_S, READY_TIMEOUT_S, error_name, fail_on, once_ready, why
from kohort.client.client import Client
from kohort.client.cluster import TRANSACTION, Cluster, TopicPartition
from kohort.client.errors import AccessDenied, ClientError
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from kohort.protocol.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest
from kohort.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kohort.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

ONGOING = "Ongoing"
PREPARED = ("PrepareCommit", "PrepareAbort")  # decided; the markers are being written
COMPLETE_ABORT = "CompleteAbort"
STATES = ("Empty", ONGOING, *PREPARED, "CompleteCommit", COMPLETE_ABORT)

FIRST_LIST_WITH_DURATION, FIRST_LIST_WITH_PATTERN = 1, 2  # versions of ListTransactions
IDS_AT_ONCE = 500
ANY_TIMEOUT_MS = 1  # the producer that goes on with the transactional id names its own
NO_TRANSACTION = -1


class Listed(NamedTuple):
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class Described(NamedTuple):
    coordinator: int
    told: TransactionState

    @property
    def partitions(self) -> list[TopicPartition]:
        return sorted((topic.topic, index) for topic in self.told.topics for index in topic.partitions)


class PartitionRow(NamedTuple):
    """A partition of a transaction: a line of `kohort transactions describe`."""

    topic: str
    partition: int
    first_offset: int | None  # that the transaction has written; None: nothing yet, or not told
    stable_offset: int | None  # readers of committed records get what lies below
    log_end_offset: int | None


class Hanging(NamedTuple):
    """A transaction in a partition that no coordinator is going to end."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    first_offset: int
    last_written_ms: int
    transactional_id: str | None  # of the producer, if it still has one


# --- transactional ids


def list_transactions(
    cluster: Cluster,
    states: Iterable[str] = (),
    producer_ids: Iterable[int] = (),
    open_for_ms: int | None = None,
    pattern: str | None = None,
) -> list[Listed]:
    """All transactional ids that fit, in order."""
    duration_ms = -1 if open_for_ms is None else open_for_ms
    request = ListTransactionsRequest(list(states), list(producer_ids), duration_ms, pattern)
    found: dict[str, Listed] = {}
    for node_id, address in cluster.brokers():
        broker = cluster.at(address)
        _must_filter(broker, open_for_ms, pattern)
        for each in _listed(broker, request).transaction_states:
            found[each.transactional_id] = Listed(
                each.transactional_id, node_id, each.producer_id, each.transaction_state
            )
    return [found[transactional_id] for transactional_id in sorted(found)]


def _must_filter(broker: Client, open_for_ms: int | None, pattern: str | None) -> None:
    version = broker.newest_version(ApiKey.LIST_TRANSACTIONS)
    if open_for_ms is not None and version < FIRST_LIST_WITH_DURATION:
        raise ClientError(f"{broker.address} is too old to find transactions by how long they are open")
    if pattern is not None and version < FIRST_LIST_WITH_PATTERN:
        raise ClientError(f"{broker.address} is too old to find transactional ids by a pattern")


def _listed(broker: Client, request: ListTransactionsRequest) -> ListTransactionsResponse:
    def listed() -> list[ListTransactionsResponse]:
        return [broker.send(ApiKey.LIST_TRANSACTIONS, request)]

    return once_ready(listed, f"transactions of {broker.address}")[0]


def describe(cluster: Cluster, transactional_ids: Iterable[str]) -> list[Described]:
    """One for each id, in the same order; for an unknown one its error is TRANSACTIONAL_ID_NOT_FOUND."""
    wanted = list(dict.fromkeys(transactional_ids))
    deadline = monotonic() + READY_TIMEOUT_S
    found: dict[str, Described] = {}
    while missing := [each for each in wanted if each not in found]:
        for node_id, some in cluster.coordinators(missing, TRANSACTION).items():
            for start in range(0, len(some), IDS_AT_ONCE):
                _describe_some(cluster, node_id, some[start : start + IDS_AT_ONCE], found)
        if len(found) < len(wanted):
            if monotonic() > deadline:
                raise ClientError(f"transactional id {missing[0]}: its coordinator is still not ready")
            sleep(READY_PAUSE_S)
    return [found[each] for each in wanted]


def _describe_some(cluster: Cluster, node_id: int, some: Sequence[str], found: dict[str, Described]) -> None:
    answer = cluster.broker(node_id).send(ApiKey.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest(some))
    for each in answer.transaction_states:
        if each.error_code in NOT_READY:
            cluster.forget_coordinator(each.transactional_id, TRANSACTION)
            continue
        if each.error_code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            fail_on(each.error_code, f"transactional id {each.transactional_id}")
        found[each.transactional_id] = Described(node_id, each)


def abort(cluster: Cluster, transactional_id: str) -> str | None:
    """Abort the open transaction, and wait until all its markers are written. Returns why that cannot be, if so.

    The broker is asked as a new producer would ask it. It aborts the transaction, and tells the producer to come again.
    """
    (found,) = describe(cluster, [transactional_id])
    if found.told.error_code:
        return why(found.told.error_code)
    if found.told.transaction_state in PREPARED:
        return f"it is {found.told.transaction_state}: its markers are being written already"
    if found.told.transaction_state != ONGOING:
        return f"it has no open transaction; it is {found.told.transaction_state}"
    error = _begin_to_use(cluster, transactional_id)
    if error not in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS):
        return why(error)
    return _wait_for_abort(cluster, transactional_id, found.told)


def _begin_to_use(cluster: Cluster, transactional_id: str) -> int:
    request = InitProducerIdRequest(transactional_id, ANY_TIMEOUT_MS, -1, -1)
    deadline = monotonic() + READY_TIMEOUT_S
    while True:
        (node_id,) = cluster.coordinators([transactional_id], TRANSACTION)
        error: int = cluster.broker(node_id).send(ApiKey.INIT_PRODUCER_ID, request).error_code
        if error not in NOT_READY or monotonic() > deadline:
            return error
        cluster.forget_coordinator(transactional_id, TRANSACTION)
        sleep(READY_PAUSE_S)


def _wait_for_abort(cluster: Cluster, transactional_id: str, before: TransactionState) -> str | None:
    deadline = monotonic() + READY_TIMEOUT_S
    while True:
        (found,) = describe(cluster, [transactional_id])
        now = found.told
        if now.error_code or now.transaction_state not in (ONGOING, *PREPARED):
            break
        if now.transaction_state == ONGOING and now.producer_epoch != before.producer_epoch:
            break  # the next transaction has begun already
        if monotonic() > deadline:
            return "it will be aborted, but not all its markers are written yet; the brokers' logs may say why"
        sleep(READY_PAUSE_S)
    if now.transaction_state == "CompleteCommit":
        return "its producer has committed it just before"
    return None


# --- partitions


def partition_rows(cluster: Cluster, described: Described) -> list[PartitionRow]:
    """The partitions of the transaction, with what it has written to each and what readers see there."""
    places = described.partitions
    stable = ask.offsets_at(cluster, places, ask.LATEST, committed=True)
    ends = ask.offsets_at(cluster, places, ask.LATEST)
    begun = _begun_by(cluster, described.told.producer_id, places)
    return [PartitionRow(*place, begun.get(place), stable.get(place), ends.get(place)) for place in places]


def _begun_by(cluster: Cluster, producer_id: int, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Where the producer's transaction begins in each partition. Nothing, if the user may not read the topics."""
    try:
        known = producers(cluster, places)
    except AccessDenied:
        return {}
    return {
        place: each.current_txn_start_offset
        for place, some in known.items()
        for each in some
        if each.producer_id == producer_id and each.current_txn_start_offset != NO_TRANSACTION
    }


def producers(cluster: Cluster, places: Iterable[TopicPartition]) -> dict[TopicPartition, list[ProducerState]]:
    """Who has written to each partition lately. Partitions that are offline or do not exist are left out."""
    found: dict[TopicPartition, list[ProducerState]] = {}
    left = set(places)
    for number in range(ask.LEADER_TRIES):
        if number:
            sleep(READY_PAUSE_S)
        moved = set()
        for client, some in ask.by_leader(cluster, left):
            topics = [TopicRequest(topic, indexes) for topic, indexes in ask.by_topic(some).items()]
            for topic in client.send(ApiKey.DESCRIBE_PRODUCERS, DescribeProducersRequest(topics)).topics:
                for each in topic.partitions:
                    if each.error_code in ask.LED_BY_ANOTHER:
                        moved.add((topic.name, each.partition_index))
                        continue
                    fail_on(each.error_code, f"{topic.name}-{each.partition_index}")
                    found[topic.name, each.partition_index] = list(each.active_producers)
        left = moved
        if not left:
            break
    return found


def find_hanging(cluster: Cluster, places: Iterable[TopicPartition], older_than_ms: int) -> list[Hanging]:
    """Open transactions to which nothing was written for so long, and which no coordinator knows of."""
    written_before = round(time() * 1000) - older_than_ms
    late = [
        (place, each)
        for place, some in sorted(producers(cluster, places).items())
        for each in some
        if each.current_txn_start_offset != NO_TRANSACTION and each.last_timestamp < written_before
    ]
    owners = _owners(cluster, sorted({each.producer_id for _, each in late}))
    found = []
    for place, each in late:
        owner = owners.get(each.producer_id)
        if owner is None or place not in owner.partitions:
            found.append(Hanging(
                *place, each.producer_id, each.producer_epoch, each.coordinator_epoch, each.current_txn_start_offset,
                each.last_timestamp, None if owner is None else owner.told.transactional_id,
            ))  # fmt: skip
    return found


def _owners(cluster: Cluster, producer_ids: Sequence[int]) -> dict[int, Described]:
    """The transactional ids of these producers, by producer id."""
    if not producer_ids:
        return {}
    listed = list_transactions(cluster, producer_ids=producer_ids)
    return {each.told.producer_id: each for each in describe(cluster, [one.transactional_id for one in listed])}


def abort_hanging(cluster: Cluster, place: TopicPartition, first_offset: int) -> str | None:
    """Write an abort marker behind the transaction that begins at this offset. Returns why that cannot be, if so."""
    found = [
        each
        for some in producers(cluster, [place]).values()
        for each in some
        if each.current_txn_start_offset == first_offset
    ]
    if not found:
        return f"no open transaction begins at offset {first_offset}"
    (producer,) = found
    topics = [WritableTxnMarkerTopic(place[0], [place[1]])]
    marker = WritableTxnMarker(
        producer.producer_id, producer.producer_epoch, False, topics, max(0, producer.coordinator_epoch)
    )
    ((leader, _),) = ask.by_leader(cluster, [place])
    answer = leader.send(ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest([marker]))
    (error,) = (p.error_code for m in answer.markers for t in m.topics for p in t.partitions)
    return error_name(error) if error else None
