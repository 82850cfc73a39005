"""Faults, each with clients of two libraries: the client behaves as docs/testing.md says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from confluent_kafka import KafkaException, Producer

from kohort.testing import Broker
from kohort.testing.broker import Refused
from kohort.testing.names import UnknownName
from tests.testing.workers import KINDS, ConfluentWorker, PythonWorker, working

Kind = type[ConfluentWorker] | type[PythonWorker]
both = pytest.mark.parametrize("kind", KINDS)


def stable(kafka: Broker, members: int = 1) -> None:
    kafka.group("billing").wait_until("Stable", members=members)


@both
def test_a_commit_that_fails_once_with_a_retriable_error_is_sent_again(kafka: Broker, kind: Kind) -> None:
    worker = kind(kafka, "worker")
    with working(worker), kafka.fail("OffsetCommit", error="COORDINATOR_LOAD_IN_PROGRESS", times=1) as fault:
        stable(kafka)
        worker.commit(3)
        assert fault.hits == 1
    first, second = kafka.requests("OffsetCommit")
    assert (first.errors, first.fault) == (("COORDINATOR_LOAD_IN_PROGRESS",), "answered COORDINATOR_LOAD_IN_PROGRESS")
    assert second.errors == ()
    assert [each.offset for each in kafka.commits("billing")] == [3]


@both
def test_a_commit_that_fails_with_another_error_is_told_to_the_application(kafka: Broker, kind: Kind) -> None:
    worker = kind(kafka, "worker")
    with working(worker), kafka.fail("OffsetCommit", error="ILLEGAL_GENERATION", group="billing"):
        stable(kafka)
        with pytest.raises(Exception, match=r"ILLEGAL_GENERATION|CommitFailed|generation"):
            worker.commit(3)
    assert kafka.commits("billing") == []


@both
def test_a_lost_answer_to_a_commit_leaves_the_commit_and_the_client_sends_it_again(kafka: Broker, kind: Kind) -> None:
    worker = kind(kafka, "worker")
    with working(worker), kafka.lose_answer("OffsetCommit", times=1) as fault:
        stable(kafka)
        worker.commit(3)
        assert fault.hits == 1
    assert [each.offset for each in kafka.commits("billing")] == [3, 3]
    assert [each.fault for each in kafka.requests("OffsetCommit")] == ["handled, and the answer lost", None]


@both
def test_a_connection_that_closes_before_a_commit_is_opened_again(kafka: Broker, kind: Kind) -> None:
    worker = kind(kafka, "worker")
    with working(worker), kafka.close_before("OffsetCommit", times=1) as fault:
        stable(kafka)
        worker.commit(3)
        assert fault.hits == 1
    first, second = kafka.requests("OffsetCommit")
    assert (first.errors, second.errors) == (None, ())
    assert first.port != second.port
    assert [each.offset for each in kafka.commits("billing")] == [3]


@both
def test_a_connection_that_closes_after_the_answer_costs_nothing(kafka: Broker, kind: Kind) -> None:
    worker = kind(kafka, "worker")
    with working(worker), kafka.close_after("OffsetCommit", times=1):
        stable(kafka)
        worker.commit(3)
        worker.commit(4)
    first, *_, last = kafka.requests("OffsetCommit")  # one more if the second was on its way when the connection closed
    assert first.port != last.port
    assert {each.offset for each in kafka.commits("billing")} == {3, 4}


@both
def test_a_delayed_commit_is_late_and_all_the_same_there(kafka: Broker, kind: Kind) -> None:
    worker = kind(kafka, "worker")
    with (
        working(worker),
        ThreadPoolExecutor() as threads,
        kafka.delay("OffsetCommit", seconds=2, client_id="worker") as fault,
    ):
        stable(kafka)
        commit = threads.submit(worker.commit, 3)
        fault.wait_until_hit()
        assert [each.errors for each in kafka.requests("OffsetCommit")] == [None]  # it waits
        assert kafka.commits("billing") == []
        commit.result()
    (request,) = kafka.requests("OffsetCommit")
    assert (request.errors, request.fault) == ((), "delayed by 2 s")
    assert [each.offset for each in kafka.commits("billing")] == [3]


@both
def test_a_dropped_heartbeat_falls_silent_and_the_client_comes_over_another_connection(
    kafka: Broker, kind: Kind
) -> None:
    worker = kind(kafka, "worker", session_timeout_ms=1000)
    with working(worker):
        stable(kafka)
        with kafka.drop("Heartbeat", times=1) as fault:
            fault.wait_until_hit()
            kafka.group("billing").wait_until("Empty", timeout=20)  # its session is over, and it is not heard
        kafka.group("billing").wait_until("Stable", members=1, timeout=30)


@both
def test_a_coordinator_that_is_loading_or_has_moved_is_asked_again(kafka: Broker, kind: Kind) -> None:
    worker = kind(kafka, "worker")
    kafka.coordinator_loading(group="billing", times=2)
    kafka.not_coordinator(group="billing", times=2)
    with working(worker):
        stable(kafka)
    refused = [each.errors for each in kafka.requests() if each.fault]
    assert {("COORDINATOR_LOAD_IN_PROGRESS",), ("NOT_COORDINATOR",)} >= set(refused)
    assert len(refused) == 4


@both
def test_what_was_committed_to_a_full_disk_is_there_when_there_is_room(kafka: Broker, kind: Kind) -> None:
    worker = kind(kafka, "worker")
    with working(worker), ThreadPoolExecutor() as beside:
        stable(kafka)
        worker.commit(1)
        with kafka.full_disk():
            commit = beside.submit(worker.commit, 2)
            kafka.wait_for_request("OffsetCommit", error="NOT_COORDINATOR")
        with suppress(KafkaException):  # librdkafka gives up after two tries
            commit.result(30)
        kafka.group("billing").wait_until(committed={("orders", 0): 2})


@both
def test_a_slow_disk_makes_commits_wait(kafka: Broker, kind: Kind) -> None:
    worker = kind(kafka, "worker")
    with working(worker):
        stable(kafka)
        worker.commit(1)
        with kafka.slow_disk(seconds=0.3):
            worker.commit(2)
    _, slow = kafka.requests("OffsetCommit")[:2]
    assert slow.duration_ms is not None
    assert slow.duration_ms >= 300
    assert kafka.group("billing").committed == {("orders", 0): 2}


@both
def test_a_throttled_consumer_is_told_so_and_goes_on(kafka: Broker, kind: Kind) -> None:
    worker = kind(kafka, "worker")
    with working(worker), kafka.throttle("OffsetCommit", milliseconds=50, times=1) as fault:
        stable(kafka)
        worker.commit(1)
        worker.commit(2)
        assert fault.hits == 1
    assert [each.fault for each in kafka.requests("OffsetCommit")] == ["throttled by 50 ms", None]


@both
def test_a_disk_can_be_full_for_one_topic_and_slow_for_one_group(kafka: Broker, kind: Kind) -> None:
    worker = kind(kafka, "worker")
    with working(worker):
        stable(kafka)
        with kafka.full_disk(topic="orders") as full, pytest.raises(Refused, match="KAFKA_STORAGE_ERROR"):
            kafka.produce("orders", b"1")
        with kafka.full_disk(topic="orders"):
            worker.commit(1)  # is in another log
        with kafka.slow_disk(seconds=0.001, group="billing", times=1) as slow:
            worker.commit(2)
            worker.commit(3)
        assert (full.hits > 0, slow.hits) == (True, 1)
        with kafka.slow_disk(seconds=60, topic="orders"):
            worker.commit(4)  # does not wait
    assert kafka.group("billing").committed == {("orders", 0): 4}


def test_a_refused_produce_is_tried_again_by_a_confluent_producer(kafka: Broker) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "retry.backoff.ms": 10})
    with kafka.refuse_produce(topic="orders", times=2) as fault:
        producer.produce("orders", b"1", partition=0)
        assert producer.flush(10) == 0
        assert fault.hits == 2
    assert [each.value for each in kafka.topic("orders").records()] == [b"1"]


async def test_a_refused_produce_is_tried_again_or_told_by_an_aiokafka_producer() -> None:
    async with Broker() as kafka:
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers, retry_backoff_ms=10) as producer:
            with kafka.refuse_produce(topic="orders", times=1) as fault:
                await producer.send_and_wait("orders", b"1")
                assert fault.hits == 1
            with kafka.refuse_produce(error="TOPIC_AUTHORIZATION_FAILED"), pytest.raises(KafkaError):
                await producer.send_and_wait("orders", b"2")
        assert [each.value for each in kafka.topic("orders").records()] == [b"1"]


async def test_a_lost_answer_to_a_commit_of_aiokafka_leaves_the_commit() -> None:
    async with Broker() as kafka:
        kafka.create_topic("orders")
        async with AIOKafkaConsumer(
            "orders", bootstrap_servers=kafka.bootstrap_servers, group_id="billing", enable_auto_commit=False,
            retry_backoff_ms=10,
        ) as consumer:  # fmt: skip
            await kafka.group("billing").wait_until_async("Stable", members=1)
            with kafka.lose_answer("OffsetCommit", times=1):
                await consumer.commit({TopicPartition("orders", 0): 3})
        assert {each.offset for each in kafka.commits("billing")} == {3}


def test_names_that_kafka_does_not_have_are_refused_with_what_was_meant(kafka: Broker) -> None:
    with pytest.raises(UnknownName, match="did you mean OffsetCommit"):
        kafka.fail("OffsetComit", error="NOT_COORDINATOR")
    with pytest.raises(UnknownName, match="did you mean REBALANCE_IN_PROGRESS"):
        kafka.fail("OffsetCommit", error="REBALANCING_IN_PROGRESS")
    with pytest.raises(ValueError, match="never happens"):
        kafka.drop("OffsetCommit", times=0)


def test_a_fault_is_over_when_it_is_stopped_and_says_if_it_was_never_met(kafka: Broker) -> None:
    fault = kafka.fail("OffsetCommit", error="UNKNOWN_MEMBER_ID", topic="other")
    with working(ConfluentWorker(kafka, "worker")), pytest.raises(TimeoutError, match="met 0 requests"):
        fault.wait_until_hit(timeout=0.01)
    fault.stop()
    fault.stop()
    assert repr(fault) == "<answered UNKNOWN_MEMBER_ID: api=OffsetCommit, topic=other>"
