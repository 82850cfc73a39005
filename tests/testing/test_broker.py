"""A broker inside this process: it starts, serves real clients, stops, and leaves the process as it was."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from kohort.testing import Broker
from kohort.testing.broker import Refused
from kohort.testing.host import NotRunning
from kohort.testing.settings import WrongSettings


def read(consumer: Consumer, count: int) -> list[bytes]:
    """The values of the next `count` records."""
    found: list[bytes] = []
    while len(found) < count:
        message = consumer.poll(10)
        assert message is not None, f"only {len(found)} of {count} records came"
        assert message.error() is None, message.error()
        found.append(message.value() or b"")
    return found


def a_consumer(kafka: Broker, group: str = "billing", *, commits: bool = True) -> Consumer:
    consumer = Consumer({
        "bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest",
        "enable.auto.commit": commits,
    })  # fmt: skip
    consumer.subscribe(["orders"])
    return consumer


def test_a_client_reads_what_was_produced_without_a_client_library() -> None:
    with Broker() as kafka:
        kafka.create_topic("orders", partitions=3)
        assert kafka.produce("orders", b"order 1", b"order 2", key=b"7", partition=2) == 0
        consumer = a_consumer(kafka)
        assert read(consumer, 2) == [b"order 1", b"order 2"]
        consumer.close()


def test_what_a_client_produces_can_be_read_without_a_client_library() -> None:
    with Broker() as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        producer.produce("orders", b"order 1", b"7", headers={"shop": b"Bern"})
        assert producer.flush(10) == 0
        (record,) = kafka.topic("orders").records()
    assert (record.key, record.value, record.headers, record.offset) == (b"7", b"order 1", (("shop", b"Bern"),), 0)


async def test_it_serves_clients_on_the_event_loop_of_the_test() -> None:
    async with Broker(settings={"num.partitions": 2}) as kafka:
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            await producer.send_and_wait("orders", b"order 1", partition=1)
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=kafka.bootstrap_servers, group_id="billing", auto_offset_reset="earliest"
        )
        async with consumer:
            assert (await consumer.getone()).value == b"order 1"
            group = await kafka.group("billing").wait_until_async("Stable", members=1)
            assert set(group.owners) == {("orders", 0), ("orders", 1)}
        await group.wait_until_async("Empty")


def test_several_brokers_stand_side_by_side() -> None:
    with Broker() as one, Broker() as other:
        one.produce("orders", b"one")
        other.produce("orders", b"other")
        assert one.bootstrap_servers != other.bootstrap_servers
        assert [each.value for each in one.topic("orders").records()] == [b"one"]
        assert [each.value for each in other.topic("orders").records()] == [b"other"]


def test_any_setting_of_kafka_overrides_the_defaults_of_tests() -> None:
    with Broker(settings={"auto.create.topics.enable": False, "num.partitions": 6, "node.id": 7}) as kafka:
        with pytest.raises(Refused, match="INVALID_PARTITIONS"):
            kafka.create_topic("none", partitions=0)
        kafka.produce("orders", b"")
        assert kafka.topic("orders").partitions == 6


def test_a_setting_that_does_not_exist_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(WrongSettings, match=r"^num\.partitons=6: .*did you mean num\.partitions\?"):
        Broker(settings={"num.partitons": 6})


def test_data_in_a_folder_outlives_the_broker(tmp_path: Path) -> None:
    with Broker(data=tmp_path / "data") as kafka:
        kafka.produce("orders", b"order 1")
    with Broker(data=tmp_path / "data") as kafka:
        assert [each.value for each in kafka.topic("orders").records()] == [b"order 1"]


def test_a_restart_keeps_address_data_and_committed_offsets() -> None:
    with Broker() as kafka:
        kafka.produce("orders", b"1", b"2", b"3")
        consumer = a_consumer(kafka, commits=False)
        read(consumer, 2)
        consumer.commit(asynchronous=False)
        before = kafka.bootstrap_servers
        kafka.restart()
        assert kafka.bootstrap_servers == before
        assert kafka.group("billing").committed == {("orders", 0): 2}
        kafka.produce("orders", b"4")
        assert read(consumer, 2) == [b"3", b"4"]
        consumer.close()


def test_a_crash_loses_what_was_not_synced_and_keeps_committed_offsets() -> None:
    """Produce is answered when the records are in the page cache, as with Kafka; a commit when it is synced."""
    with Broker() as kafka:
        kafka.create_topic("synced", config={"flush.messages": 1})
        kafka.produce("synced", b"1")
        kafka.produce("orders", b"1", b"2")
        consumer = a_consumer(kafka, commits=False)
        read(consumer, 2)
        consumer.commit(asynchronous=False)
        consumer.close()
        kafka.crash()
        assert [each.value for each in kafka.topic("synced").records()] == [b"1"]
        assert kafka.topic("orders").records() == []
        assert kafka.group("billing").committed == {("orders", 0): 2}


def test_a_crash_of_a_broker_with_a_folder_is_a_kill(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as kafka:
        kafka.produce("orders", b"1")
        kafka.crash()
        assert [each.value for each in kafka.topic("orders").records()] == [b"1"]


def test_a_broker_that_is_stopped_says_so() -> None:
    kafka = Broker()
    with pytest.raises(NotRunning, match="with Broker"):
        kafka.topic("orders").records()
    kafka.start()
    kafka.stop()
    kafka.stop()
    with pytest.raises(NotRunning):
        kafka.group("billing").wait_until("Stable")


FIRST_IN_THE_PROCESS = """
from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.testing import Broker

with Broker() as kafka, Client(kafka.bootstrap_servers, client_id="me") as client:
    kafka.clock.advance(days=3)
    for _ in range(3):
        client.send(ApiKey.HEARTBEAT, HeartbeatRequest("billing", 1, "nobody"))
    first, *others = kafka.requests("Heartbeat")
    assert len(others) == 2, "only the first was seen"
"""


def test_requests_are_seen_also_in_a_process_whose_broker_imports_their_handler_with_the_first() -> None:
    done = subprocess.run([sys.executable, "-W", "error", "-c", FIRST_IN_THE_PROCESS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_process_around_it_is_left_alone() -> None:
    def look() -> tuple[object, ...]:
        import resource

        root = logging.getLogger()
        return (
            [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)], root.level, list(root.handlers),
            gc.get_threshold(), gc.get_freeze_count(), gc.isenabled(), sys.getswitchinterval(),
            resource.getrlimit(resource.RLIMIT_NOFILE), asyncio.get_event_loop_policy().__class__,
        )  # fmt: skip

    before = look()
    with Broker() as kafka:
        kafka.produce("orders", b"1")
        consumer = a_consumer(kafka)
        read(consumer, 1)
        assert look() == before
        consumer.close()
    assert look() == before


def test_a_stop_with_members_connected_leaves_no_thread(recwarn: pytest.WarningsRecorder) -> None:
    before = {each.ident for each in threading.enumerate()}
    with Broker() as kafka:
        kafka.produce("orders", b"1")
        consumer = a_consumer(kafka, commits=False)
        read(consumer, 1)
    left = [each.name for each in threading.enumerate() if each.ident not in before and each.name.startswith("kohort")]
    assert left == []
    consumer.close()
    gc.collect()
    assert list(recwarn) == []
