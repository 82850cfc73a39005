"""`kohort groups` on a real Kafka: one that is fresh, and groups of kinds that Kohort does not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.metadata import MetadataRequest, MetadataResponseBroker
from tests.broker.test_groups_command import Operator
from tests.clients.remote_consumer import RemoteConsumer
from tests.kafka.server import KafkaServer

pytestmark = pytest.mark.kafka

ASSIGN_TIMEOUT_S = 60


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[Operator]:
    with KafkaServer(tmp_path) as kafka:
        yield Operator(kafka.address)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (("describe", "nobody"), "group nobody does not exist"),
        (("delete", "nobody"), "nobody: there is no such group"),
        (("reset-offsets", "nobody", "--to-latest"), "group nobody has no committed offsets; name a --topic"),
    ],
)
def test_the_first_question_waits_until_kafka_has_made_its_offsets_topic(
    operator: Operator, question: tuple[str, ...], answer: str
) -> None:
    assert operator.refused(*question) == answer


def test_any_broker_of_several_is_asked_about_the_groups_of_all(tmp_path: Path) -> None:
    with KafkaServer(tmp_path / "first") as first, KafkaServer(tmp_path / "second", second_of=first) as second:
        operator = Operator(second.address)
        operator.peer.wait_until(lambda: len(brokers_of(second.address)) == 2, "two brokers")
        admin = AdminClient({"bootstrap.servers": first.address})
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(ASSIGN_TIMEOUT_S)
        groups = [f"group-{number}" for number in range(4)]  # some coordinated by the first broker, some by the second
        for group in groups:
            operator.peer.wait_until(partial(has_committed, first.address, group), "a loaded coordinator")
        listed = operator.groups("list").stdout
        assert [group for group in groups if group not in listed] == []
        assert operator.refused("describe", "any") == "group any does not exist"


def has_committed(address: str, group: str) -> bool:
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
    except KafkaException:  # the coordinator is still loading
        return False
    finally:
        consumer.close()
    return True


def brokers_of(address: str) -> Sequence[MetadataResponseBroker]:
    with Client(address) as client:
        brokers: Sequence[MetadataResponseBroker] = client.send(ApiKey.METADATA, MetadataRequest([], False)).brokers
        return brokers


def test_a_group_of_the_newer_protocol_keeps_its_offsets_while_it_has_members(operator: Operator) -> None:
    admin = AdminClient({"bootstrap.servers": operator.address})
    admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(ASSIGN_TIMEOUT_S)
    settings = {"bootstrap.servers": operator.address, "group.id": "newer", "group.protocol": "consumer"}
    consumer = RemoteConsumer(settings, ["orders"])
    while not consumer.assignment():
        consumer.poll(0.1)
    said = operator.refused("reset-offsets", "newer", "--topic", "orders", "--to-earliest")
    assert said == "group newer is Stable: stop its members first"
    said = operator.refused("delete-offsets", "newer", "--topic", "orders")
    assert said == "orders-0: the group consumes this topic; stop its members first"
    consumer.close()
    assert operator.groups("reset-offsets", "newer", "--topic", "orders", "--to-earliest", "--execute").returncode == 0
    assert operator.offsets("newer") == {("orders", 0): 0}
