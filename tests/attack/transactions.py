"""Attacks on transactions that need a state: very large ones, very many, and what is asked about them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kohort.protocol.messages.end_txn import EndTxnRequest
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest
from kohort.protocol.messages.list_transactions import ListTransactionsRequest
from kohort.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kohort.protocol.wire import MAX_STRING_BYTES
from tests.attack.attacker import Attack
from tests.attack.extremes import GROUP, TOPIC
from tests.attack.story import one, several
from tests.transaction_requests import (
    Identity,
    add_partitions_request,
    describe_producers_request,
    txn_commit_request,
)

WIDE, PARTITIONS_OF_TOPIC = "wide", 9_000  # about as many as a request may ask for
MANY_PARTITIONS = 90_000
SOME_PARTITIONS = 2_000  # each of them has files when a marker has been written
MANY_PRODUCERS = 10_000
MANY_MARKERS = 33_000  # with a topic and a partition each they are 99,000 elements
AT_ONCE = 1_000  # requests that a client sends before it reads
TIMEOUT_MS = 600_000
NOBODY, NO_EPOCH = -1, -1

# A backtracking matcher takes 2^n steps to find that these do not match n times the letter a.
CATASTROPHES = ("(a+)+b", "(a|aa)+b", "(a|a?)+b", "(.*a){20}b")


def stories_of_transactions() -> Iterator[Attack]:
    yield from _of_large_ones()
    yield from _of_many()
    yield from _of_markers()


# --- one transaction with many partitions


def _partition(number: int) -> tuple[str, int]:
    topic, index = divmod(number, PARTITIONS_OF_TOPIC)
    return f"{WIDE}-{topic}", index


def _create(client: Client, partitions: int) -> None:
    for first in range(0, partitions, PARTITIONS_OF_TOPIC):
        topic = CreatableTopic(_partition(first)[0], min(PARTITIONS_OF_TOPIC, partitions - first), 1)
        answer = client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([topic], 100_000), 5)
        assert not answer.topics[0].error_code, answer


def _init_request(transactional_id: str) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id, TIMEOUT_MS, NOBODY, NO_EPOCH)


def _begin(client: Client, transactional_id: str) -> Identity:
    """The producer, when its coordinator has made itself ready."""
    client.send(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("", 1, [transactional_id]), 4)  # makes its topic
    answer = client.send(ApiKey.INIT_PRODUCER_ID, _init_request(transactional_id), 4)
    assert not answer.error_code, answer
    return Identity(transactional_id, answer.producer_id, answer.producer_epoch)


def _of_large_ones() -> Iterator[Attack]:
    who = Identity("", NOBODY, NO_EPOCH)  # that was made last

    def make(address: str, partitions: int, added: int) -> None:
        nonlocal who
        with Client(address, timeout_s=120) as client:
            _create(client, partitions)
            who = _begin(client, "large")
            if added:
                answer = client.send(ApiKey.ADD_PARTITIONS_TO_TXN, add(range(added)), 3)
                assert not answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

    def add(partitions: range) -> AddPartitionsToTxnRequest:
        return add_partitions_request(who, map(_partition, partitions), 3)

    def commit() -> Any:
        return txn_commit_request(who, GROUP, {_partition(number): 7 for number in range(MANY_PARTITIONS)})

    new, open_one = partial(make, added=0), partial(make, partitions=MANY_PARTITIONS, added=MANY_PARTITIONS - 100)
    yield one(
        ApiKey.ADD_PARTITIONS_TO_TXN, 3, f"{MANY_PARTITIONS:,} partitions in one transaction",
        lambda: add(range(MANY_PARTITIONS)), prepare=partial(new, partitions=MANY_PARTITIONS),
    )  # fmt: skip
    yield several(
        ApiKey.ADD_PARTITIONS_TO_TXN, 3, f"100 times at once, one more of {MANY_PARTITIONS:,} partitions",
        lambda: (add(range(index, index + 1)) for index in range(MANY_PARTITIONS - 100, MANY_PARTITIONS)),
        prepare=open_one, at_once=True, only_long=True,
    )  # fmt: skip
    yield one(
        ApiKey.TXN_OFFSET_COMMIT, 5, f"{MANY_PARTITIONS:,} partitions", commit,
        prepare=partial(new, partitions=MANY_PARTITIONS),
    )  # fmt: skip
    yield one(
        ApiKey.END_TXN, 3, f"commits {SOME_PARTITIONS:,} partitions",
        lambda: EndTxnRequest(*who, committed=True),
        prepare=partial(make, partitions=SOME_PARTITIONS, added=SOME_PARTITIONS),
    )  # fmt: skip
    yield one(
        ApiKey.DESCRIBE_TRANSACTIONS, 0, f"a transaction of {MANY_PARTITIONS:,} partitions 500 times",
        lambda: DescribeTransactionsRequest(["large"] * 500), prepare=open_one, only_long=True,
    )  # fmt: skip


# --- many transactions


def _names(count: int) -> list[str]:
    return [f"many-{number}" for number in range(count)]


def _of_many() -> Iterator[Attack]:
    producers: list[Identity] = []

    def make(address: str) -> None:
        with Client(address, timeout_s=120) as client:
            _begin(client, "first")
            producers[:] = _begin_all(client, _names(MANY_PRODUCERS))

    def make_open(address: str) -> None:
        make(address)
        with Client(address, timeout_s=120) as client:
            client.send(ApiKey.ADD_PARTITIONS_TO_TXN, open_all(), 4)

    def make_wide(address: str) -> None:
        make(address)
        with Client(address, timeout_s=120) as client:
            _create(client, MANY_PARTITIONS)

    def make_tempting(address: str) -> None:
        """Ids that take a backtracking matcher for ever."""
        with Client(address, timeout_s=120) as client:
            _begin(client, "first")
            _begin_all(client, ["a" * (MAX_STRING_BYTES - number) for number in range(100)])

    def open_all() -> AddPartitionsToTxnRequest:
        parts = [add_partitions_request(who, [(TOPIC, 0)], 4).transactions[0] for who in producers]
        return AddPartitionsToTxnRequest(parts)

    yield several(
        ApiKey.INIT_PRODUCER_ID, 4, f"{MANY_PRODUCERS:,} transactional ids at once",
        lambda: map(_init_request, _names(MANY_PRODUCERS)), at_once=True, only_long=True,
    )  # fmt: skip
    yield one(
        ApiKey.ADD_PARTITIONS_TO_TXN, 4, f"{MANY_PRODUCERS:,} transactions begin", open_all,
        prepare=make, only_long=True,
    )  # fmt: skip
    yield one(
        ApiKey.ADD_PARTITIONS_TO_TXN, 4, "one transaction 10,000 times, with another partition each time",
        lambda: _one_by_one(producers[0], 10_000), prepare=make_wide, only_long=True,
    )  # fmt: skip
    yield one(
        ApiKey.LIST_TRANSACTIONS, 2, f"50 times at once, {MANY_PRODUCERS:,} open transactions",
        lambda: ListTransactionsRequest([], [], -1, None), 50, prepare=make_open, at_once=True, only_long=True,
    )  # fmt: skip
    yield one(
        ApiKey.LIST_TRANSACTIONS, 2, f"with 99,000 producer ids, {MANY_PRODUCERS:,} open transactions",
        lambda: ListTransactionsRequest([], range(99_000), -1, None), prepare=make_open, only_long=True,
    )  # fmt: skip
    for pattern in (*CATASTROPHES, "a" * MAX_STRING_BYTES, "(a?){1000}" * 30):
        shape = pattern if len(pattern) < 20 else f"{pattern[:10]}..., {len(pattern):,} characters"
        yield one(
            ApiKey.LIST_TRANSACTIONS, 2, f"the pattern {shape} and 100 ids of 32 kB",
            partial(ListTransactionsRequest, transactional_id_pattern=pattern), prepare=make_tempting,
            only_long=pattern != CATASTROPHES[0],
        )  # fmt: skip
    yield one(
        ApiKey.DESCRIBE_TRANSACTIONS, 0, f"{MANY_PRODUCERS:,} open transactions",
        lambda: DescribeTransactionsRequest(_names(MANY_PRODUCERS)), prepare=make_open, only_long=True,
    )  # fmt: skip
    yield several(
        ApiKey.END_TXN, 3, f"{MANY_PRODUCERS:,} transactions at once",
        lambda: (EndTxnRequest(*who, committed=False) for who in producers), prepare=make_open, at_once=True,
        only_long=True,
    )  # fmt: skip


def _begin_all(client: Client, names: list[str]) -> list[Identity]:
    """Many producers: AT_ONCE requests leave before the first answer is read."""
    made = []
    for start in range(0, len(names), AT_ONCE):
        asked = names[start : start + AT_ONCE]
        sent = [client.post(ApiKey.INIT_PRODUCER_ID, _init_request(name), 4) for name in asked]
        for name, number in zip(asked, sent, strict=True):
            answer = client.receive(ApiKey.INIT_PRODUCER_ID, 4, number)
            made.append(Identity(name, answer.producer_id, answer.producer_epoch))
    return made


def _one_by_one(who: Identity, count: int) -> AddPartitionsToTxnRequest:
    parts: list[AddPartitionsToTxnTransaction] = []
    for index in range(count):
        parts += add_partitions_request(who, [_partition(index)], 4).transactions
    return AddPartitionsToTxnRequest(parts)


# --- markers that no coordinator has sent


def _markers(partitions: list[int]) -> WriteTxnMarkersRequest:
    """One for each of many producers, which the partition has never heard of before."""
    topics = [WritableTxnMarkerTopic(TOPIC, partitions)]
    return WriteTxnMarkersRequest([WritableTxnMarker(number, 0, False, topics, 0, 0) for number in range(MANY_MARKERS)])


def _of_markers() -> Iterator[Attack]:
    yield one(
        ApiKey.WRITE_TXN_MARKERS, 2, f"{MANY_MARKERS:,} markers of as many producers", partial(_markers, [0])
    )  # fmt: skip

    def write(address: str) -> None:
        with Client(address, timeout_s=120) as client:
            client.send(ApiKey.WRITE_TXN_MARKERS, _markers([0]), 2)

    yield one(
        ApiKey.DESCRIBE_PRODUCERS, 0, f"a partition with {MANY_MARKERS:,} producers 500 times",
        lambda: describe_producers_request(*[(TOPIC, 0)] * 500), prepare=write, only_long=True,
    )  # fmt: skip
