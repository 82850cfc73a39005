"""confluent-kafka, on librdkafka."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.clients import story

TIMEOUT_S = 30.0


def create(bootstrap: str, topic: str) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, story.PARTITIONS, 1)])[topic].result(TIMEOUT_S)
    return admin


def produce(bootstrap: str, topic: str, count: int = story.RECORDS, **settings: Any) -> None:
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            failures.append(error)

    named = {name.replace("_", "."): setting for name, setting in settings.items()}
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **named})
    for index in range(count):
        producer.produce(
            topic,
            story.value(index),
            story.key(index),
            story.partition_of(index),
            on_delivery=delivered,
            timestamp=story.timestamp_ms(index),
        )
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    assert failures == []


def consumer_of(bootstrap: str) -> Any:
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
    }
    return Consumer(settings)


def read(consumer: Any, count: int) -> dict[int, list[story.Row]]:
    rows: dict[int, list[story.Row]] = {}
    while count:
        messages = consumer.consume(min(count, 1000), TIMEOUT_S)
        assert messages, f"{count} records are missing"
        for message in messages:
            assert message.error() is None, message.error()
            row = (message.offset(), message.timestamp()[1], message.key(), message.value())
            rows.setdefault(message.partition(), []).append(row)
        count -= len(messages)
    return rows


@pytest.mark.parametrize("compression", story.COMPRESSIONS)
def test_ten_thousand_records_come_back_in_order(bootstrap: str, compression: str) -> None:
    topic = f"confluent-{compression}"
    admin = create(bootstrap, topic)
    produce(bootstrap, topic, compression_type=compression)
    consumer = consumer_of(bootstrap)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(story.PARTITIONS)])
    story.check_rows(read(consumer, story.RECORDS))

    wanted = [TopicPartition(topic, p, story.timestamp_ms(story.SEEK_RECORD)) for p in range(story.PARTITIONS)]
    found = consumer.offsets_for_times(wanted, TIMEOUT_S)
    assert [each.offset for each in found] == [story.expected_seek_offset(p) for p in range(story.PARTITIONS)]
    consumer.assign(found)
    rest = read(consumer, story.RECORDS - story.SEEK_RECORD)
    for partition, rows in rest.items():
        assert rows == story.expected_rows(partition)[story.expected_seek_offset(partition) :]
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT_S) == (0, len(story.expected_rows(0)))
    consumer.close()

    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("idempotent", {"enable_idempotence": True}),
        ("acks-0", {"acks": "0"}),
        ("acks-1", {"acks": "1"}),
        ("acks-all", {"acks": "all"}),
    ],
)
def test_every_kind_of_producer(bootstrap: str, name: str, settings: dict[str, Any]) -> None:
    topic = f"confluent-{name}"
    admin = create(bootstrap, topic)
    produce(bootstrap, topic, 3000, **settings)
    consumer = consumer_of(bootstrap)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(story.PARTITIONS)])
    story.check_rows(read(consumer, 3000), 3000)
    consumer.close()
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
