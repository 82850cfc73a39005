"""AddPartitionsToTxn and AddOffsetsToTxn: what may become part of a transaction, and when."""

from __future__ import annotations

from collections.abc import Callable

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.parity.transaction_log import TRANSACTION_STATE
from tests.parity.transaction_story import TV0, TransactionalProducer, TransactionStory, transaction_story

ADD = ApiKey.ADD_PARTITIONS_TO_TXN
ADD_OFFSETS = ApiKey.ADD_OFFSETS_TO_TXN
OF_BROKERS = (4, 5)
OFFSETS_TOPIC = "__consumer_offsets"


@transaction_story(ADD, None)
def partitions_are_added_once(s: TransactionStory) -> None:
    topic = s.topic("", 3)
    p = s.begun(versions=TV0)
    p.add((topic, 2), (topic, 0))
    p.add((topic, 0))
    s.describe_transactions()
    p.add((topic, 1), (topic, 2))
    s.describe_transactions()
    p.commit_it()
    s.describe_transactions()


@transaction_story(ADD, None)
def partitions_of_two_topics_and_the_same_one_twice(s: TransactionStory) -> None:
    a, b = s.topic("-a", 2), s.topic("-b", 2)
    p = s.begun(versions=TV0)
    p.add((b, 1), (a, 0), (b, 0), (b, 1))
    s.describe_transactions()
    p.abort()


@transaction_story(ADD, None)
def who_is_not_the_producer_adds_nothing(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p, other = s.begun(versions=TV0), s.begun("-other")
    p.init()
    refused(p, other, lambda **who: p.add(at, **who))
    p.add(at)
    refused(p, other, lambda **who: p.add(at, **who))
    s.describe_transactions()


@transaction_story(ADD_OFFSETS, None)
def who_is_not_the_producer_adds_no_offsets(s: TransactionStory) -> None:
    p, other = s.begun(versions=TV0), s.begun("-other")
    p.init()
    refused(p, other, lambda **who: p.add_offsets(**who))
    p.add_offsets()
    refused(p, other, lambda **who: p.add_offsets(**who))
    s.describe_transactions()


def refused(p: TransactionalProducer, other: TransactionalProducer, ask: Callable[..., object]) -> None:
    for epoch in (p.epoch - 1, p.epoch + 1, -1, 32_767):
        ask(epoch=epoch)
    for producer_id in (other.producer_id, 77_777, -1):
        ask(producer_id=producer_id)
    ask(transactional_id="")
    ask(transactional_id=p.transactional_id + "-nobody")
    ask(transactional_id=other.transactional_id)


@transaction_story(ADD, None)
def one_unknown_partition_refuses_all(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    p = s.begun(versions=TV0)
    p.add((topic, 0), (topic + "-unknown", 0), (topic, 1))
    p.add((topic, 0), (topic, 2))
    p.add((topic, -1))
    p.add(("bad name", 0))
    p.add(("", 0))
    s.describe_transactions()


@transaction_story(ADD, None)
def internal_topics_are_not_for_producers(s: TransactionStory) -> None:
    topic = s.topic("", 1)
    p = s.begun(versions=TV0)
    p.add((OFFSETS_TOPIC, 0))
    p.add((TRANSACTION_STATE, 3), (topic, 0))
    p.add((topic, 0), (OFFSETS_TOPIC, 77), (topic, 9))
    s.describe_transactions()


@transaction_story(ADD, None)
def nothing_to_add_opens_a_transaction_all_the_same(s: TransactionStory) -> None:
    p = s.begun(versions=TV0)
    s.watch_log()
    p.add()
    s.describe_transactions()
    p.add()
    p.commit_it()
    s.describe_transactions()
    s.note_log()


@transaction_story(ADD, None)
def nothing_is_added_while_markers_are_on_their_way(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.get_stuck(at)
    p.add(at)
    p.add(at, epoch=p.epoch - 1)
    p.add(at, producer_id=77_777)
    p.add((at[0] + "-unknown", 0))


@transaction_story(ADD_OFFSETS, None)
def no_offsets_are_added_while_markers_are_on_their_way(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.get_stuck(at, commit=False)
    p.add_offsets()
    p.add_offsets(epoch=p.epoch + 1)
    p.add_offsets(producer_id=77_777)


@transaction_story(ADD_OFFSETS, None)
def offsets_are_added_as_a_partition_of_their_topic(s: TransactionStory) -> None:
    p = s.begun(versions=TV0)
    p.add_offsets("a group")
    s.describe_transactions()
    p.add_offsets("a group")
    p.add_offsets("ü")
    p.add_offsets("")
    s.describe_transactions()
    p.commit_it()
    s.describe_transactions()


@transaction_story(ADD, OF_BROKERS)
def brokers_ask_whether_a_partition_is_added(s: TransactionStory) -> None:
    topic = s.topic("", 3)
    p, other = s.begun(versions=TV0), s.begun("-other")
    p.add((topic, 0), verify=True)
    p.add((topic, 0), (topic, 2))
    p.add((topic, 0), (topic, 1), (topic, 2), (topic, 9), (topic + "-unknown", 0), verify=True)
    refused(p, other, lambda **who: p.add((topic, 0), verify=True, **who))
    p.add(verify=True)
    p.commit_it()
    p.add((topic, 0), verify=True)


@transaction_story(ADD, OF_BROKERS)
def brokers_that_ask_while_markers_are_on_their_way(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.get_stuck(at)
    p.add(at, verify=True)
    p.add(at, epoch=p.epoch + 1, verify=True)
    p.add(at, producer_id=77_777, verify=True)


@transaction_story(ADD, OF_BROKERS)
def several_transactions_in_one_request(s: TransactionStory) -> None:
    """Not none at all: that Kafka never answers."""
    topic = s.topic("", 2)
    one, other, third = s.begun("-1"), s.begun("-2"), s.begun("-3")
    third.begin((topic, 1))

    def rows(p: TransactionalProducer, *indexes: int, verify: bool = False) -> AddPartitionsToTxnTransaction:
        topics = [AddPartitionsToTxnTopic(topic, list(indexes))]
        return AddPartitionsToTxnTransaction(*p.identity(), verify, topics)

    nobody = AddPartitionsToTxnTransaction(s.group + "-nobody", 5, 0, False, [AddPartitionsToTxnTopic(topic, [0])])
    asked = [rows(one, 0), rows(third, 0, 1, verify=True), nobody, rows(other, 0, 5)]
    s.ask(ADD, AddPartitionsToTxnRequest(asked))
    s.describe_transactions(*(s.group + suffix for suffix in ("-1", "-2", "-3")))
