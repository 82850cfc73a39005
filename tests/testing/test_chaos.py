"""Chaos: lawful trouble from a seed, which a good consumer gets through."""

from __future__ import annotations

import asyncio
from threading import Event
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError
from confluent_kafka import Consumer, KafkaException

from kohort.client.client import Client
from kohort.client.errors import ClientError
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kohort.testing import Broker
from kohort.testing.chaos import KINDS
from kohort.testing.names import UnknownName
from tests.testing.workers import ConfluentWorker, PythonWorker, working

ORDERS = [b"order %d" % number for number in range(60)]


class Scripted:
    """A static member that asks one thing after the other, and connects again when the broker hangs up."""

    def __init__(self, kafka: Broker) -> None:
        self._kafka = kafka
        self._client: Client | None = None
        self.member_id = ""
        self.generation = -1

    def ask(self, api: ApiKey, request: object, version: int) -> Any:
        """The answer. The request is sent until it is answered."""
        while True:
            try:
                if self._client is None:
                    self._client = Client(self._kafka.bootstrap_servers, client_id="scripted", timeout_s=10)
                return self._client.send(api, request, version)
            except ClientError:
                self.close()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def live(self, heartbeats: int) -> list[int]:
        """Join, beat, and join again when told to; the errors of the heartbeats."""
        codes = []
        for _ in range(heartbeats):
            beat = HeartbeatRequest("billing", self.generation, self.member_id, "one")
            codes.append(self.ask(ApiKey.HEARTBEAT, beat, 3).error_code)
            if codes[-1]:
                self.join()
        return codes

    def join(self) -> None:
        protocols = [JoinGroupRequestProtocol("range", bytes(10))]
        joins = JoinGroupRequest("billing", 30_000, 30_000, "", "one", "consumer", protocols)
        answer = self.ask(ApiKey.JOIN_GROUP, joins, 5)
        self.member_id, self.generation = answer.member_id, answer.generation_id
        assigned = [SyncGroupRequestAssignment(self.member_id, b"")]
        syncs = SyncGroupRequest("billing", self.generation, self.member_id, "one", None, None, assigned)
        self.ask(ApiKey.SYNC_GROUP, syncs, 3)


def trouble_of(seed: int) -> tuple[list[str], list[int]]:
    """What chaos does to a member that asks the same each time, and the errors that the member sees."""
    with Broker() as kafka, kafka.chaos(seed, every=4) as chaos:
        member = Scripted(kafka)
        codes = member.live(60)
        member.close()
    return [str(each) for each in chaos.troubles], codes


def test_the_same_requests_meet_the_same_trouble_with_the_same_seed() -> None:
    first, second = trouble_of(5), trouble_of(5)
    assert first == second
    assert len(first[0]) >= 10
    assert trouble_of(6) != first


def run_confluent(kafka: Broker, done: Event) -> list[bytes]:
    """A consumer that does it right: what it could not commit, it gets again."""
    seen: list[bytes] = []
    consumer = Consumer({
        "bootstrap.servers": kafka.bootstrap_servers, "group.id": "billing", "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "heartbeat.interval.ms": 100, "log_level": 0,
    })  # fmt: skip
    consumer.subscribe(["orders"], on_revoke=lambda *_: None)
    while not done.is_set():
        message = consumer.poll(0.05)
        if message is None or message.error():
            continue
        seen.append(message.value() or b"")
        try:
            consumer.commit(message=message, asynchronous=False)
        except KafkaException:
            continue
    consumer.close()
    return seen


async def run_aiokafka(kafka: Broker, done: asyncio.Event) -> list[bytes]:
    seen: list[bytes] = []
    async with AIOKafkaConsumer(
        "orders", bootstrap_servers=kafka.bootstrap_servers, group_id="billing", auto_offset_reset="earliest",
        enable_auto_commit=False, heartbeat_interval_ms=100, retry_backoff_ms=20,
    ) as consumer:  # fmt: skip
        while not done.is_set():
            for place, records in (await consumer.getmany(timeout_ms=50, max_records=1)).items():
                seen += [each.value for each in records]
                try:
                    await consumer.commit({place: records[-1].offset + 1})
                except KafkaError:
                    continue
    return seen


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_confluent_consumer_gets_all_its_work_done(kafka: Broker, seed: int) -> None:
    kafka.produce("orders", *ORDERS)
    done = Event()
    with kafka.chaos(seed, every=10) as chaos:
        running = asyncio.create_task(asyncio.to_thread(run_confluent, kafka, done))
        await kafka.group("billing").wait_until_async(committed={("orders", 0): len(ORDERS)}, timeout=120)
    done.set()
    assert set(await running) == set(ORDERS), chaos
    assert chaos.troubles


@pytest.mark.parametrize("seed", [1, 2])
async def test_an_aiokafka_consumer_gets_all_its_work_done(kafka: Broker, seed: int) -> None:
    kafka.produce("orders", *ORDERS)
    done = asyncio.Event()
    with kafka.chaos(seed, every=10) as chaos:
        running = asyncio.create_task(run_aiokafka(kafka, done))
        await kafka.group("billing").wait_until_async(committed={("orders", 0): len(ORDERS)}, timeout=120)
    done.set()
    assert set(await running) == set(ORDERS), chaos
    assert chaos.troubles


@pytest.mark.parametrize("kind", KINDS)
def test_members_of_two_libraries_outlive_each_kind_of_trouble(kafka: Broker, kind: str) -> None:
    with working(ConfluentWorker(kafka, "one"), PythonWorker(kafka, "other")):
        group = kafka.group("billing").wait_until("Stable", members=2, timeout=20)
        with kafka.chaos(3, every=20, kinds=[kind], group="billing") as chaos:
            chaos.wait_until_hit(2, timeout=60)
        assert {each.kind for each in chaos.troubles} == {kind}
        group.wait_until("Stable", members=2, matches=lambda found: len(found.owners) == 4, timeout=60)


def test_members_of_kip_848_outlive_all_of_it(kafka: Broker) -> None:
    members = [ConfluentWorker(kafka, name, group_protocol="consumer") for name in ("one", "other")]
    with working(*members):
        group = kafka.group("billing").wait_until("Stable", members=2, timeout=20)
        with kafka.chaos(4, every=5, group="billing") as chaos:
            chaos.wait_until_hit(8, timeout=60)
        assert len({each.kind for each in chaos.troubles}) > 2
        group.wait_until("Stable", members=2, matches=lambda found: len(found.owners) == 4, timeout=60)


def test_who_waits_for_something_waits_on_over_a_restart(kafka: Broker) -> None:
    with working(ConfluentWorker(kafka, "worker")):
        kafka.group("billing").wait_until("Stable", members=1)
        with kafka.chaos(1, every=2, kinds="restart") as chaos:
            for _ in range(5):  # looks and requests of the test itself, while the broker goes down again and again
                kafka.produce("orders", b"order")
                kafka.group("billing").wait_until(matches=lambda found: found.generation is not None, timeout=60)
            chaos.wait_until_hit(3, timeout=60)
        kafka.group("billing").wait_until("Stable", members=1, timeout=60)
        assert len(kafka.topic("orders").records()) == 5


def test_a_test_that_fails_tells_the_seed_and_what_was_done(kafka: Broker) -> None:
    member = Scripted(kafka)

    def fail() -> None:
        with kafka.chaos(5, every=1, kinds="rebalance"):
            member.live(10)
            raise AssertionError

    with pytest.raises(AssertionError) as failed:
        fail()
    member.close()
    (note,) = failed.value.__notes__
    assert note.startswith("chaos with seed 5, ")
    assert "group 'billing' rebalances (Heartbeat of scripted)" in note
    assert "chaos with seed 5: group 'billing' rebalances" in kafka.story()


def test_chaos_concerns_only_the_requests_that_it_is_told_about(kafka: Broker) -> None:
    with kafka.chaos(5, every=1, group="shipping") as chaos:
        member = Scripted(kafka)
        member.live(20)
        member.close()
    assert chaos.troubles == []


def test_what_chaos_does_not_have_is_refused(kafka: Broker) -> None:
    with pytest.raises(UnknownName, match="did you mean restart"):
        kafka.chaos(1, kinds=["restarts"])
    with pytest.raises(ValueError, match="without any kind"):
        kafka.chaos(1, kinds=[])
    with pytest.raises(ValueError, match="at least one request"):
        kafka.chaos(1, every=0)
