"""A member of each of its groups with confluent-kafka; see group_member.py."""

from __future__ import annotations

import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.clients.group_member import (
    HEARTBEAT_INTERVAL_MS,
    POLL_MS,
    SERVER_SIDE,
    WORK_S,
    Arguments,
    Membership,
    arguments,
    pattern_of,
    wait_for_close,
)

MAX_RECORDS = 500


def consumer_of(told: Arguments, membership: Membership) -> Any:
    settings = {
        "bootstrap.servers": told.bootstrap,
        "client.id": "confluent",
        "group.id": membership.group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "reconnect.backoff.max.ms": 500,
        "fetch.wait.max.ms": 200,
        "log_level": 5,  # to standard error: that it gave up a heartbeat, for instance
    }
    if membership.assignor in SERVER_SIDE:  # then librdkafka refuses the other settings: the broker decides about them
        settings["group.protocol"] = "consumer"
        if membership.assignor == "consumer-range":
            settings["group.remote.assignor"] = "range"
    else:
        settings["partition.assignment.strategy"] = membership.assignor
        settings["session.timeout.ms"] = told.session_ms
        settings["heartbeat.interval.ms"] = HEARTBEAT_INTERVAL_MS
    if membership.instance is not None:
        settings["group.instance.id"] = membership.instance
    return Consumer(settings)


def poll(consumer: Any) -> list[Any]:
    """The messages that have arrived; waits a moment for the first one."""
    messages = []
    message = consumer.poll(POLL_MS / 1000)
    while message is not None:
        error = message.error()
        if error is None:
            messages.append(message)
        elif error.code() == KafkaError._FATAL:  # any other says that the broker is away: librdkafka goes on by itself
            raise KafkaException(error)
        if len(messages) == MAX_RECORDS:
            break
        message = consumer.poll(0)
    return messages


class Member:
    """One consumer, polled by one thread."""

    def __init__(self, told: Arguments, membership: Membership) -> None:
        self._membership = membership
        self._topic = told.topic
        self._consumer = consumer_of(told, membership)
        self._to_commit: dict[int, int] = {}
        subscribed = f"^{pattern_of(told.topic)}" if membership.assignor == "consumer-regex" else told.topic
        self._consumer.subscribe([subscribed], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)

    def run(self, closing: threading.Event) -> None:
        try:
            while not closing.is_set():
                self._consume()
        except KafkaException as problem:
            self._membership.say("problem", text=str(problem))
        self._consumer.close()
        self._membership.say("closed")

    def _consume(self) -> None:
        messages = poll(self._consumer)
        self._to_commit |= self._membership.consumed((m.partition(), m.offset(), m.value()) for m in messages)
        if messages:
            time.sleep(WORK_S)
        self._commit(dict(self._to_commit))

    def _commit(self, offsets: dict[int, int]) -> None:
        if not offsets:
            return
        places = [TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()]
        try:
            self._consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as problem:
            self._membership.say("commit_failed", text=str(problem))
            return
        self._membership.say("committed", offsets=offsets)
        for partition in offsets:
            self._to_commit.pop(partition, None)

    def _assigned(self, _: Any, partitions: list[Any]) -> None:
        self._membership.say("assigned", partitions=[each.partition for each in partitions])

    def _revoked(self, _: Any, partitions: list[Any]) -> None:
        """The next owner begins where this one has committed: commit what an earlier try could not."""
        given_up = [each.partition for each in partitions]
        self._commit({partition: self._to_commit[partition] for partition in given_up if partition in self._to_commit})
        self._forget(given_up)
        self._membership.say("revoked", partitions=given_up)

    def _lost(self, _: Any, partitions: list[Any]) -> None:
        self._forget([each.partition for each in partitions])
        self._membership.say("lost", partitions=[each.partition for each in partitions])

    def _forget(self, partitions: list[int]) -> None:
        for partition in partitions:
            self._to_commit.pop(partition, None)


def run(told: Arguments, membership: Membership, closing: threading.Event) -> None:
    Member(told, membership).run(closing)


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
