"""A member of each of its groups with confluent-kafka; see group_member.py."""

from __future__ import annotations

import threading
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.clients.group_member import HEARTBEAT_INTERVAL_MS, POLL_MS, Arguments, Membership, arguments, wait_for_close

MAX_RECORDS = 500


def consumer_of(told: Arguments, membership: Membership) -> Any:
    settings = {
        "bootstrap.servers": told.bootstrap,
        "client.id": "confluent",
        "group.id": membership.group,
        "partition.assignment.strategy": membership.assignor,
        "session.timeout.ms": told.session_ms,
        "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "reconnect.backoff.max.ms": 500,
        "fetch.wait.max.ms": 200,
        "log_level": 0,
    }
    if membership.instance is not None:
        settings["group.instance.id"] = membership.instance
    return Consumer(settings)


def poll(consumer: Any) -> list[Any]:
    """The messages that have arrived; waits a moment for the first one."""
    messages = []
    message = consumer.poll(POLL_MS / 1000)
    while message is not None:
        if message.error() is None:  # else the broker is away; librdkafka goes on by itself
            messages.append(message)
        if len(messages) == MAX_RECORDS:
            break
        message = consumer.poll(0)
    return messages


def run(told: Arguments, membership: Membership, closing: threading.Event) -> None:
    consumer = consumer_of(told, membership)
    to_commit: dict[int, int] = {}

    def assigned(_consumer: Any, partitions: list[Any]) -> None:
        membership.say("assigned", partitions=[each.partition for each in partitions])

    def revoked(_consumer: Any, partitions: list[Any]) -> None:
        for each in partitions:
            to_commit.pop(each.partition, None)
        membership.say("revoked", partitions=[each.partition for each in partitions])

    consumer.subscribe([told.topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    while not closing.is_set():
        messages = poll(consumer)
        to_commit |= membership.consumed((m.partition(), m.offset(), m.value()) for m in messages)
        if to_commit:
            offsets = [TopicPartition(told.topic, partition, offset) for partition, offset in to_commit.items()]
            try:
                consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException as problem:
                membership.say("commit_failed", text=str(problem))
            else:
                membership.say("committed", offsets=to_commit)
                to_commit.clear()
    consumer.close()
    membership.say("closed")


def main() -> None:
    told = arguments()
    closing = threading.Event()
    threads = [threading.Thread(target=run, args=(told, each, closing)) for each in told.memberships]
    for thread in threads:
        thread.start()
    wait_for_close()
    closing.set()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
