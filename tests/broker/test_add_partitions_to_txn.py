"""AddPartitionsToTxn at the broker: which partitions there are, in short and in long requests, for one transaction or
for several.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.clients.kohort import KohortProcess
from tests.parity.peer import Peer
from tests.parity.transaction_story import TransactionalProducer, TransactionStory

MANY = 2_500  # elements; the broker takes such a request in steps
OF_BROKERS = (4, 5)
NUMBERS = count()
Told = dict[tuple[str, int], str]


class Adding:
    def __init__(self, address: str, name: str) -> None:
        self.peer = Peer("broker", address)
        self.peer.begin(name, 5)
        self.story = TransactionStory(self.peer, ApiKey.END_TXN)
        self.topic = self.peer.create(partitions=3)

    def add(self, who: TransactionalProducer, *partitions: tuple[str, int], version: int = 3, **changed: Any) -> Told:
        self.story.api_key, self.story.version = ApiKey.ADD_PARTITIONS_TO_TXN, version
        answer = who.add(*partitions, **changed)
        topics = answer.results_by_topic_v3_and_below
        if version in OF_BROKERS:
            (transaction,) = answer.results_by_transaction
            topics = transaction.topic_results
        return told(topics)

    def partitions(self, who: TransactionalProducer) -> list[int]:
        return [index for topic in self.story.look_at(who.transactional_id).topics for index in topic.partitions]

    def state(self, who: TransactionalProducer) -> str:
        state: str = self.story.look_at(who.transactional_id).transaction_state
        return state


def told(topics: Any) -> Told:
    return {
        (topic.name, each.partition_index): ErrorCode(each.partition_error_code).name
        for topic in topics
        for each in topic.results_by_partition
    }


def bytes_of_log(broker: KohortProcess) -> int:
    """What the transaction coordinator has written."""
    return sum(path.stat().st_size for path in broker.data.glob("__transaction_state-*/*.log"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KohortProcess]:
    with KohortProcess(tmp_path_factory.mktemp("adding")) as running:
        yield running


@pytest.fixture
def adding(broker: KohortProcess) -> Iterator[Adding]:
    made = Adding(broker.address, f"adding {next(NUMBERS)}")
    yield made
    made.story.close()
    made.peer.end()
    made.peer.hang_up()


@pytest.mark.parametrize("version", range(6))
def test_one_unknown_partition_refuses_all(adding: Adding, version: int) -> None:
    who, topic = adding.story.begun(), adding.topic
    for unknown in ((topic, 3), (topic, -1), ("nowhere", 0)):
        assert adding.add(who, (topic, 0), unknown, (topic, 1), version=version) == {
            (topic, 0): "OPERATION_NOT_ATTEMPTED", unknown: "UNKNOWN_TOPIC_OR_PARTITION",
            (topic, 1): "OPERATION_NOT_ATTEMPTED",
        }  # fmt: skip
    assert adding.state(who) == "Empty"


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("internal", ["__consumer_offsets", "__transaction_state"])
def test_clients_may_not_add_internal_topics(adding: Adding, version: int, internal: str) -> None:
    who, topic = adding.story.begun(), adding.topic
    assert adding.add(who, (topic, 0), (internal, 0), (internal, 7_000), version=version) == {
        (topic, 0): "OPERATION_NOT_ATTEMPTED", (internal, 0): "TOPIC_AUTHORIZATION_FAILED",
        (internal, 7_000): "TOPIC_AUTHORIZATION_FAILED",
    }  # fmt: skip
    assert adding.state(who) == "Empty"


@pytest.mark.parametrize("version", range(6))
def test_a_long_request_is_answered_like_a_short_one(adding: Adding, version: int) -> None:
    who, topic = adding.story.begun(), adding.topic
    places = [(topic, index % 3) for index in range(MANY)]
    assert adding.add(who, *places, (topic, 3), version=version) == {
        **{(topic, index): "OPERATION_NOT_ATTEMPTED" for index in range(3)}, (topic, 3): "UNKNOWN_TOPIC_OR_PARTITION",
    }  # fmt: skip
    fenced = adding.add(who, *places, version=version, epoch=who.epoch + 1)
    assert set(fenced.values()) == {"INVALID_PRODUCER_EPOCH" if version < 2 else "PRODUCER_FENCED"}
    assert adding.state(who) == "Empty"
    assert set(adding.add(who, *places, version=version).values()) == {"NONE"}
    assert sorted(adding.partitions(who)) == [0, 1, 2]


@pytest.mark.parametrize("version", OF_BROKERS)
def test_a_transaction_that_is_named_many_times_is_written_once(
    adding: Adding, broker: KohortProcess, version: int
) -> None:
    """A record holds all partitions of the transaction: one for each time would grow with the square of the request."""
    who, topic, partitions = adding.story.begun(), adding.peer.create("-wide", partitions=500), 500
    rows = [
        AddPartitionsToTxnTransaction(*who.identity(), False, [AddPartitionsToTxnTopic(topic, [index, 0])])
        for index in range(partitions)
    ]
    rows[7] = AddPartitionsToTxnTransaction(*who.identity(), False, [AddPartitionsToTxnTopic(topic, [partitions])])
    before = bytes_of_log(broker)
    answer = adding.peer.quietly(ApiKey.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest(rows), version)
    results = [told(each.topic_results) for each in answer.results_by_transaction]
    assert results[7] == {(topic, partitions): "UNKNOWN_TOPIC_OR_PARTITION"}
    del results[7]
    indexes = [index for index in range(partitions) if index != 7]
    assert results == [{(topic, index): "NONE", (topic, 0): "NONE"} for index in indexes]
    assert adding.partitions(who) == indexes
    assert bytes_of_log(broker) - before < 3 * 4 * partitions


@pytest.mark.parametrize("version", OF_BROKERS)
def test_each_time_that_a_transaction_is_named_has_its_own_verdicts(adding: Adding, version: int) -> None:
    who, topic = adding.story.begun(), adding.topic
    adding.add(who, (topic, 1))
    rows = [
        AddPartitionsToTxnTransaction(*who.identity(), True, [AddPartitionsToTxnTopic(topic, indexes)])
        for indexes in ([0, 1], [1], [1, 2])
    ]
    answer = adding.peer.quietly(ApiKey.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest(rows), version)
    assert [told(each.topic_results) for each in answer.results_by_transaction] == [
        {(topic, 0): "TRANSACTION_ABORTABLE", (topic, 1): "NONE"},
        {(topic, 1): "NONE"},
        {(topic, 1): "NONE", (topic, 2): "TRANSACTION_ABORTABLE"},
    ]


@pytest.mark.parametrize("version", OF_BROKERS)
def test_brokers_ask_about_several_transactions_each_of_which_gets_its_own_answer(adding: Adding, version: int) -> None:
    topic = adding.topic
    good, bad, asked = (adding.story.begun(suffix) for suffix in ("-good", "-bad", "-asked"))
    adding.add(asked, (topic, 1))

    def part(
        who: TransactionalProducer, *indexes: int, verify: bool = False, epoch: int = 0
    ) -> AddPartitionsToTxnTransaction:
        topics = [AddPartitionsToTxnTopic(topic, list(indexes))]
        return AddPartitionsToTxnTransaction(who.transactional_id, who.producer_id, epoch, verify, topics)

    request = AddPartitionsToTxnRequest([part(good, 0, 2), part(bad, 0, epoch=9), part(asked, 0, 1, verify=True)])
    answer = adding.peer.quietly(ApiKey.ADD_PARTITIONS_TO_TXN, request, version)
    results = {each.transactional_id: told(each.topic_results) for each in answer.results_by_transaction}
    assert results == {
        good.transactional_id: {(topic, 0): "NONE", (topic, 2): "NONE"},
        bad.transactional_id: {(topic, 0): "PRODUCER_FENCED"},
        asked.transactional_id: {(topic, 0): "TRANSACTION_ABORTABLE", (topic, 1): "NONE"},
    }
    assert [adding.partitions(each) for each in (good, bad, asked)] == [[0, 2], [], [1]]
