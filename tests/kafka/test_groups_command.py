"""`kohort groups` on a real Kafka: one that is fresh, and groups of kinds that Kohort does not have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.broker.test_groups_command import Operator
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


def test_a_group_of_the_newer_protocol_keeps_its_offsets_while_it_has_members(operator: Operator) -> None:
    admin = AdminClient({"bootstrap.servers": operator.address})
    admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(ASSIGN_TIMEOUT_S)
    consumer = Consumer({"bootstrap.servers": operator.address, "group.id": "newer", "group.protocol": "consumer"})
    consumer.subscribe(["orders"])
    while not consumer.assignment():
        consumer.poll(0.1)
    said = operator.refused("reset-offsets", "newer", "--topic", "orders", "--to-earliest")
    assert said == "group newer is Stable: stop its members first"
    said = operator.refused("delete-offsets", "newer", "--topic", "orders")
    assert said == "orders-0: the group consumes this topic; stop its members first"
    consumer.close()
    assert operator.groups("reset-offsets", "newer", "--topic", "orders", "--to-earliest", "--execute").returncode == 0
    assert operator.offsets("newer") == {("orders", 0): 0}
