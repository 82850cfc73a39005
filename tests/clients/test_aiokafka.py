"""aiokafka."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.clients import story

TIMEOUT_MS = 30_000
PLACES = range(story.PARTITIONS)


async def create(bootstrap: str, topic: str) -> Any:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, story.PARTITIONS, 1)])
    return admin


async def produce(bootstrap: str, topic: str, count: int = story.RECORDS, **settings: Any) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, linger_ms=5, **settings) as producer:
        sent = [
            await producer.send(
                topic,
                story.value(index),
                story.key(index),
                partition=story.partition_of(index),
                timestamp_ms=story.timestamp_ms(index),
            )
            for index in range(count)
        ]
        await producer.flush()
        for future in sent:
            await future


async def read(consumer: Any, count: int) -> dict[int, list[story.Row]]:
    rows: dict[int, list[story.Row]] = {}
    while count:
        polled = await consumer.getmany(timeout_ms=TIMEOUT_MS, max_records=min(count, 1000))
        assert polled, f"{count} records are missing"
        for place, records in polled.items():
            rows.setdefault(place.partition, []).extend((r.offset, r.timestamp, r.key, r.value) for r in records)
            count -= len(records)
    return rows


@pytest.mark.parametrize("compression", story.COMPRESSIONS)
async def test_ten_thousand_records_come_back_in_order(bootstrap: str, compression: str) -> None:
    topic = f"aiokafka-{compression}"
    admin = await create(bootstrap, topic)
    await produce(bootstrap, topic, compression_type=None if compression == "none" else compression)
    places = [TopicPartition(topic, partition) for partition in PLACES]
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None) as consumer:
        consumer.assign(places)
        await consumer.seek_to_beginning()
        story.check_rows(await read(consumer, story.RECORDS))

        found = await consumer.offsets_for_times(dict.fromkeys(places, story.timestamp_ms(story.SEEK_RECORD)))
        assert [found[place].offset for place in places] == [story.expected_seek_offset(p) for p in PLACES]
        for place in places:
            consumer.seek(place, found[place].offset)
        for partition, rows in (await read(consumer, story.RECORDS - story.SEEK_RECORD)).items():
            assert rows == story.expected_rows(partition)[story.expected_seek_offset(partition) :]
        ends = await consumer.end_offsets(places)
        assert ends == {place: len(story.expected_rows(place.partition)) for place in places}

    await admin.delete_topics([topic])
    assert topic not in await admin.list_topics()
    await admin.close()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("idempotent", {"enable_idempotence": True}),
        ("acks-0", {"acks": 0}),
        ("acks-1", {"acks": 1}),
        ("acks-all", {"acks": "all"}),
    ],
)
async def test_every_kind_of_producer(bootstrap: str, name: str, settings: dict[str, Any]) -> None:
    topic = f"aiokafka-{name}"
    admin = await create(bootstrap, topic)
    await produce(bootstrap, topic, 3000, **settings)
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None) as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in PLACES])
        await consumer.seek_to_beginning()
        story.check_rows(await read(consumer, 3000), 3000)
    await admin.delete_topics([topic])
    await admin.close()
