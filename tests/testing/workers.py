"""Members of groups, each with a thread of its own that polls and does what a test asks for.

A consumer of librdkafka must not be used by two threads: one that polls without end keeps the other waiting.
"""

from __future__ import annotations

import gc
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from kafka import KafkaConsumer

from kohort.testing import Broker

Result = TypeVar("Result")
Place = tuple[str, int]
TIMEOUT_S = 20.0


class Worker:
    """Polls a consumer in the background. What was read is in `values`, what it was told in `assigned`."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.values: list[bytes | None] = []
        self.problems: list[str] = []
        self.assigned: set[Place] = set()
        self.news: SimpleQueue[str] = SimpleQueue()  # "assigned" and "revoked", in their order
        self._asked: SimpleQueue[tuple[Callable[[Any], object], Future[Any]]] = SimpleQueue()
        self._stop = threading.Event()
        self._is_blocked = threading.Event()
        self.consumer: Any = None
        self._thread = threading.Thread(target=self._run, name=client_id, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive(), f"{self.client_id} does not stop"

    def do(self, work: Callable[[Any], Result]) -> Result:
        """Call `work(consumer)` in the thread of the consumer."""
        done: Future[Result] = Future()
        self._asked.put((work, done))
        return done.result(TIMEOUT_S)

    def hears(self, news: str) -> None:
        """Wait until the consumer was told of an assignment ("assigned") or of a revocation ("revoked")."""
        while self.news.get(timeout=TIMEOUT_S) != news:
            pass

    def reads(self, count: int) -> None:
        """Wait until the consumer has read so many records."""
        while len(self.values) < count:
            self.do(lambda _: None)  # comes back after the next poll

    def _run(self) -> None:
        self.consumer = self._make()
        try:
            while not self._stop.is_set():
                try:
                    work, done = self._asked.get_nowait()
                except Empty:
                    self._poll()
                    continue
                try:
                    done.set_result(work(self.consumer))
                except BaseException as problem:
                    done.set_exception(problem)
        finally:
            self._close()

    def _make(self) -> Any:
        raise NotImplementedError

    def _poll(self) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        self.consumer.close()

    def commit(self, offset: int, partition: int = 0) -> None:
        """Commit an offset of `orders`, and wait for the answer. Raises what the client raises."""
        raise NotImplementedError


class ConfluentWorker(Worker):
    def __init__(self, kafka: Broker, client_id: str, group: str = "billing", **settings: object) -> None:
        super().__init__(client_id)
        self._settings = {
            "bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "client.id": client_id,
            "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }  # fmt: skip
        if settings.get("group_protocol", "classic") == "classic":
            self._settings.setdefault("heartbeat.interval.ms", 100)

    def _make(self) -> Consumer:
        made = Consumer(self._settings)
        made.subscribe(["orders"], on_assign=self._told, on_revoke=self._revoked, on_lost=self._revoked)
        return made

    def _told(self, _: Consumer, places: list[TopicPartition]) -> None:
        self.assigned |= {(each.topic, each.partition) for each in places}
        self.news.put("assigned")

    def _revoked(self, _: Consumer, places: list[TopicPartition]) -> None:
        self.assigned -= {(each.topic, each.partition) for each in places}
        self.news.put("revoked")

    def _poll(self) -> None:
        message: Message | None = self.consumer.poll(0.02)
        if message is None:
            return
        error: KafkaError | None = message.error()
        if error is None:
            self.values.append(message.value())
        else:
            self.problems.append(error.name())

    def commit(self, offset: int, partition: int = 0) -> None:
        places = [TopicPartition("orders", partition, offset)]
        for each in self.do(lambda consumer: consumer.commit(offsets=places, asynchronous=False)):
            if each.error is not None:
                raise RuntimeError(each.error.name())


class PythonWorker(Worker):
    """A member of kafka-python.

    On a busy machine, with polls that end before its requests are answered, it may join without knowing the topic, or
    not find its coordinator again.
    """

    poll_ms = 200

    def __init__(self, kafka: Broker, client_id: str, group: str = "billing", **settings: Any) -> None:
        super().__init__(client_id)
        self._settings = {
            "bootstrap_servers": kafka.bootstrap_servers, "group_id": group, "client_id": client_id,
            "auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": 100,
            "session_timeout_ms": 45_000, "retry_backoff_ms": 20, "reconnect_backoff_ms": 20,
            "reconnect_backoff_max_ms": 100, **settings,
        }  # fmt: skip

    def _make(self) -> Any:
        from kafka import ConsumerRebalanceListener

        worker = self

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            def on_partitions_assigned(self, assigned: Any) -> None:
                worker.assigned |= {(each.topic, each.partition) for each in assigned}
                worker.news.put("assigned")

            def on_partitions_revoked(self, revoked: Any) -> None:
                worker.assigned -= {(each.topic, each.partition) for each in revoked}
                worker.news.put("revoked")

        made = KafkaConsumer(**self._settings)
        made.subscribe(["orders"], listener=Listener())
        return made

    def _poll(self) -> None:
        for records in self.consumer.poll(timeout_ms=self.poll_ms).values():
            self.values += [each.value for each in records]

    def _close(self) -> None:
        self.consumer.close(autocommit=False)
        _close_refused_sockets()
        with warnings.catch_warnings():  # connections that it gave up and forgot, which is not the next test's affair
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()

    def commit(self, offset: int, partition: int = 0) -> None:
        from kafka import OffsetAndMetadata
        from kafka import TopicPartition as Partition

        offsets = {Partition("orders", partition): OffsetAndMetadata(offset, "", -1)}
        self.do(lambda consumer: consumer.commit(offsets))


def _close_refused_sockets() -> None:
    """kafka-python leaves sockets open whose connection was refused, while the broker restarted. They have no peer."""
    for each in gc.get_objects():
        is_open = isinstance(each, socket.socket) and each.fileno() >= 0 and each.family == socket.AF_INET
        if is_open and each.getsockname()[0] == "0.0.0.0":
            each.close()


KINDS = (ConfluentWorker, PythonWorker)


@contextmanager
def working(*workers: Worker) -> Iterator[None]:
    """Start the workers, wait until each was told its partitions, and stop them at the end.

    kafka-python may join before it knows the topic, and is told at first that it has no partitions.
    """
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            while not worker.assigned:
                worker.hears("assigned")
        yield
    finally:
        for worker in workers:
            worker.stop()
