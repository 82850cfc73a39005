"""Time travel: whoever is alive lives on, whoever died is expired, and what has a term ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from threading import Event

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from kohort.testing import Broker
from tests.testing.workers import ConfluentWorker, PythonWorker, Worker, working

every = pytest.mark.parametrize("member", ["confluent", "kafka-python", "KIP-848"])

VICTIM = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({
    "bootstrap.servers": sys.argv[1], "group.id": "billing", "client.id": "victim", "session.timeout.ms": 45000,
    "heartbeat.interval.ms": 100, "enable.auto.commit": False,
})
consumer.subscribe(["orders"])
while True:
    consumer.poll(0.05)
"""


def a_worker(kafka: Broker, member: str, client_id: str) -> Worker:
    if member == "kafka-python":
        return PythonWorker(kafka, client_id)
    return ConfluentWorker(kafka, client_id, group_protocol="classic" if member == "confluent" else "consumer")


@contextmanager
def a_victim(kafka: Broker) -> Iterator[subprocess.Popen[bytes]]:
    """A member in a process of its own, with a session of 45 s."""
    process = subprocess.Popen([sys.executable, "-c", VICTIM, kafka.bootstrap_servers])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("member", ["confluent", "kafka-python"])
def test_a_member_that_was_killed_is_replaced_at_once_when_its_session_is_over(kafka: Broker, member: str) -> None:
    worker = a_worker(kafka, member, "worker")
    with a_victim(kafka) as victim, working(worker):
        group = kafka.group("billing").wait_until("Stable", members=2, timeout=20)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        kafka.clock.advance(seconds=46)
        group.wait_until("Stable", members=1, timeout=20)
        assert {each.client_id for each in group.members} == {"worker"}
        assert len(group.owners) == 4
    assert "session expired" in [each.cause for each in group.rebalances]


@every
def test_nobody_alive_is_lost_in_200_advances(kafka: Broker, member: str) -> None:
    with working(a_worker(kafka, member, "one"), a_worker(kafka, member, "other")):
        group = kafka.group("billing").wait_until("Stable", members=2, timeout=20)
        before = {each.member_id for each in group.members}
        for _ in range(200):
            kafka.clock.advance(minutes=10)
        assert {each.member_id for each in group.members} == before


def test_advances_in_the_middle_of_rebalances_lose_nobody_who_rejoins(kafka: Broker) -> None:
    with working(ConfluentWorker(kafka, "one"), PythonWorker(kafka, "other")):
        group = kafka.group("billing").wait_until("Stable", members=2, timeout=20)
        before = {each.member_id for each in group.members}
        for _ in range(5):
            group.rebalance()
            kafka.clock.advance(minutes=10)
        group.wait_until("Stable", members=2)
        assert {each.member_id for each in group.members} == before


def test_offsets_expire_after_eight_days_without_members(kafka: Broker) -> None:
    worker = ConfluentWorker(kafka, "worker")
    with working(worker):
        group = kafka.group("billing").wait_until("Stable", members=1)
        worker.commit(3)
        kafka.clock.advance(days=8)
        assert group.committed == {("orders", 0): 3}  # its member is alive, and subscribed to the topic
    group.wait_until("Empty")
    kafka.clock.advance(days=6)
    assert group.committed == {("orders", 0): 3}
    kafka.clock.advance(days=2)
    assert group.committed == {}
    assert group.state == "Dead"


async def test_offsets_of_aiokafka_expire_too() -> None:
    async with Broker() as kafka:
        kafka.create_topic("orders")
        async with AIOKafkaConsumer(
            "orders", bootstrap_servers=kafka.bootstrap_servers, group_id="billing", heartbeat_interval_ms=100
        ) as consumer:
            await consumer.commit({TopicPartition("orders", 0): 3})
            await kafka.clock.advance_async(hours=1)
            assert len(kafka.group("billing").members) == 1
        await kafka.clock.advance_async(days=8)
        assert kafka.group("billing").committed == {}


def test_records_are_removed_when_their_retention_is_over(kafka: Broker) -> None:
    kafka.create_topic("short", config={"retention.ms": 60_000, "segment.ms": 1_000})
    kafka.produce("short", b"old")
    kafka.clock.advance(seconds=10)
    kafka.produce("short", b"newer")
    kafka.clock.advance(hours=1)
    assert b"old" not in [each.value for each in kafka.topic("short").records()]


def test_the_first_delay_of_a_group_passes_with_the_clock() -> None:
    with Broker(settings={"group.initial.rebalance.delay.ms": 240_000}) as kafka:
        kafka.create_topic("orders")
        worker = ConfluentWorker(kafka, "worker")
        worker.start()
        try:
            kafka.group("billing").wait_until("PreparingRebalance", members=1)
            kafka.clock.advance(minutes=4)
            kafka.group("billing").wait_until("Stable", members=1)
        finally:
            worker.stop()


@pytest.mark.parametrize("member", ["confluent", "kafka-python"])
def test_a_member_that_does_not_rejoin_is_left_out_when_its_time_is_up(kafka: Broker, member: str) -> None:
    """It polls no more, and its heartbeats go on. Real consumers have five minutes (max.poll.interval.ms)."""
    busy, other = a_worker(kafka, member, "busy"), a_worker(kafka, member, "other")
    begun, done = Event(), Event()

    def work_long(_: object) -> None:
        begun.set()
        done.wait(60)

    with working(busy, other), ThreadPoolExecutor() as beside:
        group = kafka.group("billing").wait_until("Stable", members=2, timeout=20)
        working_long = beside.submit(busy.do, work_long)
        assert begun.wait(20)
        try:
            group.rebalance()
            kafka.clock.advance(minutes=6)
            group.wait_until("Stable", members=1, timeout=20)
            assert {each.client_id for each in group.members} == {"other"}
            assert len(group.owners) == 4
        finally:
            done.set()
        working_long.result()


@pytest.mark.parametrize("member", ["confluent", "kafka-python"])
def test_members_work_on_while_the_clock_stands_still(kafka: Broker, member: str) -> None:
    worker = a_worker(kafka, member, "worker")
    with working(worker):
        group = kafka.group("billing").wait_until("Stable", members=1, timeout=20)
        kafka.clock.freeze()
        frozen = kafka.clock.now
        worker.commit(1)
        beats = len(kafka.requests("Heartbeat"))
        kafka.wait_for_request("Heartbeat", times=beats + 2)
        worker.commit(2)
        assert {each.time_ms for each in kafka.commits("billing")} == {int(frozen.timestamp() * 1000)}
        kafka.clock.resume()
        assert len(group.members) == 1


def test_a_frozen_clock_stands_still_until_it_is_advanced_or_resumed(kafka: Broker) -> None:
    kafka.clock.freeze()
    before = kafka.clock.now
    kafka.produce("orders", b"1")
    assert kafka.clock.now == before
    kafka.clock.advance(hours=1)
    assert kafka.clock.now - before == timedelta(hours=1)
    kafka.produce("orders", b"2")
    first, second = (each.timestamp_ms for each in kafka.topic("orders").records())
    assert second - first == 3_600_000
    kafka.clock.resume()
    assert kafka.clock.now >= before + timedelta(hours=1)


def test_a_restart_keeps_the_time(kafka: Broker) -> None:
    kafka.clock.advance(days=30)
    before = kafka.clock.now
    kafka.restart()
    assert kafka.clock.now >= before


def test_time_does_not_go_back(kafka: Broker) -> None:
    with pytest.raises(ValueError, match="does not go back"):
        kafka.clock.advance(minutes=-1)
