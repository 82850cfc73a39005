"""kafka-python."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from tests.clients import story

TIMEOUT_S = 30


def create(bootstrap: str, topic: str) -> Any:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, story.PARTITIONS, 1)])
    return admin


def produce(bootstrap: str, topic: str, count: int = story.RECORDS, **settings: Any) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, **settings)
    sent = [
        producer.send(
            topic,
            story.value(index),
            story.key(index),
            partition=story.partition_of(index),
            timestamp_ms=story.timestamp_ms(index),
        )
        for index in range(count)
    ]
    producer.flush(TIMEOUT_S)
    for future in sent:
        future.get(TIMEOUT_S)
    producer.close()


def read(consumer: Any, count: int) -> dict[int, list[story.Row]]:
    rows: dict[int, list[story.Row]] = {}
    while count:
        polled = consumer.poll(timeout_ms=TIMEOUT_S * 1000, max_records=min(count, 1000))
        assert polled, f"{count} records are missing"
        for place, records in polled.items():
            rows.setdefault(place.partition, []).extend((r.offset, r.timestamp, r.key, r.value) for r in records)
            count -= len(records)
    return rows


@pytest.mark.parametrize("compression", story.COMPRESSIONS)
def test_ten_thousand_records_come_back_in_order(bootstrap: str, compression: str) -> None:
    topic = f"kafka-python-{compression}"
    admin = create(bootstrap, topic)
    produce(bootstrap, topic, compression_type=None if compression == "none" else compression)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest")
    places = [TopicPartition(topic, partition) for partition in range(story.PARTITIONS)]
    consumer.assign(places)
    consumer.seek_to_beginning()
    story.check_rows(read(consumer, story.RECORDS))

    found = consumer.offsets_for_times(dict.fromkeys(places, story.timestamp_ms(story.SEEK_RECORD)))
    assert [found[place].offset for place in places] == [
        story.expected_seek_offset(partition) for partition in range(story.PARTITIONS)
    ]
    for place in places:
        consumer.seek(place, found[place].offset)
    for partition, rows in read(consumer, story.RECORDS - story.SEEK_RECORD).items():
        assert rows == story.expected_rows(partition)[story.expected_seek_offset(partition) :]
    assert consumer.end_offsets(places) == {place: len(story.expected_rows(place.partition)) for place in places}
    consumer.close()

    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    admin.close()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("idempotent", {"enable_idempotence": True}),
        ("acks-0", {"acks": 0, "enable_idempotence": False}),
        ("acks-1", {"acks": 1, "enable_idempotence": False}),
        ("acks-all", {"acks": "all", "enable_idempotence": False}),
    ],
)
def test_every_kind_of_producer(bootstrap: str, name: str, settings: dict[str, Any]) -> None:
    topic = f"kafka-python-{name}"
    admin = create(bootstrap, topic)
    produce(bootstrap, topic, 1500, **settings)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
    consumer.assign([TopicPartition(topic, partition) for partition in range(story.PARTITIONS)])
    consumer.seek_to_beginning()
    story.check_rows(read(consumer, 1500), 1500)
    consumer.close()
    admin.delete_topics([topic])
    admin.close()
