"""`kohort groups` on a real Kafka: one that is fresh, and groups of kinds that Kohort does not have. And a Kafka of two
brokers, both of which are asked: by `kohort transactions`, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.metadata import MetadataRequest, MetadataResponseBroker
from tests.broker.test_groups_command import KOHORT, Operator, run
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
        pytest.param(("delete", "nobody"), "nobody: there is no such group", marks=pytest.mark.story),
        pytest.param(
            ("reset-offsets", "nobody", "--to-latest"),
            "group nobody has no committed offsets; name a --topic",
            marks=pytest.mark.story,
        ),
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
        transactions_of_all_brokers_are_shown_and_aborted(first.address, second.address)


def transactions_of_all_brokers_are_shown_and_aborted(one: str, other: str) -> None:
    admin = AdminClient({"bootstrap.servers": one})
    admin.create_topics([NewTopic("paid", 4, 1)])["paid"].result(ASSIGN_TIMEOUT_S)
    producers = {f"till-{number}": begun(one, f"till-{number}") for number in range(4)}
    listed = [line.split() for line in transactions(other, "list").splitlines()[1:]]
    assert [(row[0], row[3]) for row in listed] == [(name, "Ongoing") for name in producers]
    assert {row[1] for row in listed} == {"1", "2"}, "both brokers coordinate some"
    (told,) = json.loads(transactions(other, "describe", "till-0", "--json"))
    assert [row["partition"] for row in told["partitions"]] == [0, 1, 2, 3]
    assert all(row["stable_offset"] <= row["first_offset"] < row["log_end_offset"] for row in told["partitions"])
    assert transactions(other, "abort", "till-1", "till-3") == "aborted till-1\naborted till-3\n"
    for name, producer in producers.items():
        if name in ("till-1", "till-3"):
            with pytest.raises(KafkaException):
                producer.commit_transaction(ASSIGN_TIMEOUT_S)
        else:
            producer.commit_transaction(ASSIGN_TIMEOUT_S)
    states = {line.split()[0]: line.split()[3] for line in transactions(other, "list").splitlines()[1:]}
    assert states["till-1"] == states["till-3"] == "CompleteAbort"
    assert transactions(other, "find-hanging", "--older-than", "0s") == ""


def begun(address: str, transactional_id: str) -> Producer:
    """A producer with a transaction that has a record in each partition."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": transactional_id})
    producer.init_transactions(ASSIGN_TIMEOUT_S)
    producer.begin_transaction()
    for partition in range(4):
        producer.produce("paid", b"10", partition=partition)
    assert producer.flush(ASSIGN_TIMEOUT_S) == 0
    return producer


def transactions(address: str, *arguments: str) -> str:
    done = run([KOHORT, "transactions", *arguments, "--bootstrap-server", address])
    assert done.returncode == 0, done
    return done.stdout


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
