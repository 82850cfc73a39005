"""Transactions in the test kit: what a test sees of them, and how it takes a producer its transaction away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaProducer
from kafka.errors import KafkaError as PythonError

from kohort.testing import Broker
from kohort.testing.check import CheckFailed
from kohort.testing.names import UnknownName
from kohort.testing.transaction import NoTransaction, UnknownTransaction

PLACE = ("orders", 0)


@pytest.fixture
def kafka() -> Iterator[Broker]:
    with Broker({"num.partitions": 1}) as broker:
        broker.create_topic("orders")
        broker.create_topic("bills")
        yield broker


def a_producer(kafka: Broker, transactional_id: str = "shop", *, timeout_ms: int = 60_000) -> Producer:
    made = Producer({
        "bootstrap.servers": kafka.bootstrap_servers, "transactional.id": transactional_id, "log_level": 0,
        "transaction.timeout.ms": timeout_ms,
    })  # fmt: skip
    made.init_transactions(30)
    return made


def begin(producer: Producer, topic: str = "bills") -> None:
    producer.begin_transaction()
    producer.produce(topic, b"1")
    producer.flush(30)


def send_offset(kafka: Broker, producer: Producer, offset: int) -> None:
    """How far group `billing` has come with `orders`, as a part of the transaction."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "billing", "log_level": 0})
    producer.send_offsets_to_transaction([TopicPartition("orders", 0, offset)], consumer.consumer_group_metadata(), 30)
    consumer.close()


def test_a_test_sees_open_transactions_and_pending_offsets(kafka: Broker) -> None:
    shop = kafka.transaction("shop")
    assert (shop.state, shop.producer_id, shop.epoch, shop.partitions, kafka.transactions) == (
        "Dead",
        None,
        None,
        [],
        [],
    )
    producer = a_producer(kafka)
    assert (shop.state, shop.is_open, shop.epoch) == ("Empty", False, 0)
    begin(producer)
    send_offset(kafka, producer, 7)
    assert (shop.state, shop.is_open) == ("Ongoing", True)
    assert [topic for topic, _ in shop.partitions] == ["__consumer_offsets", "bills"]
    billing = kafka.group("billing")
    assert (billing.pending, billing.committed, billing.state) == ({PLACE: 7}, {}, "Empty")
    assert "transaction 'shop': it is Ongoing, producer 0 in epoch 0" in kafka.story()
    producer.commit_transaction(30)
    shop.wait_until("CompleteCommit")
    assert (billing.pending, billing.committed) == ({}, {PLACE: 7})
    assert [each.transactional_id for each in kafka.transactions] == ["shop"]


def test_a_transaction_that_times_out_is_aborted_and_its_offsets_are_not_committed(kafka: Broker) -> None:
    producer = a_producer(kafka)
    begin(producer)
    send_offset(kafka, producer, 7)
    shop = kafka.transaction("shop")
    shop.time_out()
    assert (shop.state, shop.epoch) == ("CompleteAbort", 1)
    assert (kafka.group("billing").pending, kafka.group("billing").committed) == ({}, {})
    with pytest.raises(KafkaException) as told:
        producer.commit_transaction(30)
    error: KafkaError = told.value.args[0]
    assert error.fatal()
    assert error.code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)


def test_a_producer_that_is_fenced_cannot_go_on(kafka: Broker) -> None:
    producer = a_producer(kafka)
    begin(producer)
    shop = kafka.transaction("shop")
    shop.fence()
    assert (shop.state, shop.epoch) == ("Empty", 2)
    with pytest.raises(KafkaException) as told:
        producer.commit_transaction(30)
    error: KafkaError = told.value.args[0]
    assert error.fatal()
    shop.fence()  # also while no transaction is open
    assert shop.epoch == 3


@pytest.mark.parametrize("way", ["time_out", "fence"])
def test_kafka_python_learns_it_as_well(kafka: Broker, way: str) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, transactional_id="shop")
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("bills", b"1").get(timeout=30)
        getattr(kafka.transaction("shop"), way)()
        with pytest.raises(PythonError):
            producer.commit_transaction()
    finally:
        producer.close(timeout=5)
    assert kafka.transaction("shop").state == ("CompleteAbort" if way == "time_out" else "Empty")


def test_time_lets_a_transaction_time_out_too(kafka: Broker) -> None:
    producer = a_producer(kafka)
    begin(producer)
    kafka.clock.advance(minutes=2)
    assert kafka.transaction("shop").wait_until("CompleteAbort").epoch == 1


def test_what_is_not_there_cannot_be_ended(kafka: Broker) -> None:
    a_producer(kafka)
    with pytest.raises(UnknownTransaction, match="did you mean shop"):
        kafka.transaction("shpo").time_out()
    with pytest.raises(UnknownTransaction):
        kafka.transaction("nobody").fence()
    with pytest.raises(NoTransaction, match="'shop' is Empty"):
        kafka.transaction("shop").time_out()
    with pytest.raises(UnknownName, match="did you mean Ongoing"):
        kafka.transaction("shop").wait_until("ongoing")
    with pytest.raises(TimeoutError, match="it is Empty, producer 0 in epoch 0"):
        kafka.transaction("shop").wait_until("Ongoing", timeout=0.01)


def test_transactions_outlive_a_restart_and_a_crash(kafka: Broker) -> None:
    producer = a_producer(kafka)
    begin(producer)
    kafka.restart()
    assert kafka.transaction("shop").is_open
    kafka.crash()
    assert kafka.transaction("shop").is_open
    producer.commit_transaction(30)
    kafka.transaction("shop").wait_until("CompleteCommit")


def test_chaos_times_transactions_out_if_a_test_wants_that(kafka: Broker) -> None:
    producer = a_producer(kafka)
    begin(producer)
    with kafka.chaos(seed=3, every=1, kinds="time_out") as chaos, pytest.raises(KafkaException):
        producer.commit_transaction(30)
    assert chaos.troubles[0].what.startswith("transaction 'shop' has timed out")
    assert kafka.transaction("shop").wait_until("CompleteAbort")


def test_the_check_knows_transactions_and_offsets_that_nobody_ends(kafka: Broker) -> None:
    producer = a_producer(kafka, timeout_ms=1_000)
    begin(producer)
    send_offset(kafka, producer, 7)
    kafka.clock.advance(seconds=2)  # the coordinator looks for late transactions every ten seconds
    assert kafka.check().findings == ()
    at_once = {"hanging_transaction.minutes": 0.0, "pending_offsets.minutes": 0.0}
    with pytest.raises(CheckFailed) as told:
        kafka.check(thresholds=at_once)
    assert "error: hanging_transaction, bills-0" in str(told.value)
    assert "warning: pending_offsets, group billing, orders-0" in str(told.value)
    producer.abort_transaction(30)
    kafka.transaction("shop").wait_until("CompleteAbort")
    assert kafka.check(thresholds=at_once).findings == ()
