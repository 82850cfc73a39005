"""What all of these tests share: a consumer, a handler that remembers what it got, and a thread to consume in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Event, Thread
from typing import Any, TypeAlias

from confluent_kafka import Consumer, KafkaException, Message

PATIENCE_S = 20.0

Consume: TypeAlias = Callable[..., None]  # a service: its last argument is an event, and it ends when that is set


def new_consumer(servers: str, **settings: Any) -> Consumer:
    """A member of the group billing. The setting session_timeout_ms is Kafka's session.timeout.ms, and so on."""
    usual = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    quick = {"heartbeat.interval.ms": 100}  # so that members hear of a rebalance soon
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return Consumer({"bootstrap.servers": servers, **usual, **quick, **given})


def polls(consumer: Consumer, stop: Event) -> Iterator[Message | None]:
    """What each poll brings, until `stop` is set. None: no record has come within 50 ms."""
    while not stop.is_set():
        message = consumer.poll(0.05)
        if message is not None and message.error():
            raise KafkaException(message.error())
        yield message


def records(consumer: Consumer, stop: Event) -> Iterator[Message]:
    """The records that poll brings, until `stop` is set."""
    return (message for message in polls(consumer, stop) if message is not None)


def position(message: Message) -> tuple[str, int, int]:
    """Topic, partition and offset of a record."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    assert topic is not None
    assert partition is not None
    assert offset is not None
    return topic, partition, offset


class Handler:
    """Stands for the work of the service. It remembers what it was given."""

    def __init__(self) -> None:
        self.seen: list[bytes | None] = []
        self._changed = Condition()

    def __call__(self, value: bytes | None) -> None:
        with self._changed:
            self.seen.append(value)
            self._changed.notify_all()

    def has(self, count: int, timeout_s: float) -> bool:
        """Whether so many records have come, or come within this time."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.seen) >= count, timeout_s)

    def wait_for(self, count: int, timeout_s: float = PATIENCE_S) -> None:
        assert self.has(count, timeout_s), f"only {len(self.seen)} of {count} records came: {self.seen}"


@contextmanager
def running(consume: Consume, *arguments: Any) -> Iterator[None]:
    """Call `consume(*arguments, stop)` in a thread. At the end of the block `stop` is set, and the thread ends."""
    stop = Event()
    problems: list[Exception] = []

    def run() -> None:
        try:
            consume(*arguments, stop)
        except Exception as problem:
            problems.append(problem)

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE_S)
    if problems:
        raise problems[0]
