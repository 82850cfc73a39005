"""Workers commit when they have finished, in any order

Each worker commits its own record. A quick worker commits order 2 while a slow one still works on order 1: if the
process dies now, order 1 is lost. If it lives, the slow worker then commits a lower offset: the group goes back, and
whoever takes over processes order 2 again. The right consumer commits in the order of the records.
"""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from threading import Event

from confluent_kafka import Message

from kohort.testing import Broker
from tests.testing.mistakes.service import Consume, Handler, new_consumer, polls, records, running

CAUGHT = "offset_rewind, group billing, orders-0"


def wrong(servers: str, handle: Handler, stop: Event) -> None:
    with closing(new_consumer(servers)) as consumer, ThreadPoolExecutor(4) as workers:

        def work(message: Message) -> None:
            handle(message.value())
            consumer.commit(message=message, asynchronous=False)

        consumer.subscribe(["orders"])
        for message in records(consumer, stop):
            workers.submit(work, message)


def right(servers: str, handle: Handler, stop: Event) -> None:
    in_progress: deque[tuple[Message, Future[None]]] = deque()  # the oldest first

    def commit_finished(wait: bool) -> None:
        while in_progress and (wait or in_progress[0][1].done()):
            message, work = in_progress.popleft()
            work.result()
            consumer.commit(message=message, asynchronous=False)

    with closing(new_consumer(servers)) as consumer, ThreadPoolExecutor(4) as workers:
        consumer.subscribe(
            ["orders"], on_revoke=lambda *_: commit_finished(wait=True), on_lost=lambda *_: in_progress.clear()
        )
        for message in polls(consumer, stop):
            if message is not None:
                in_progress.append((message, workers.submit(handle, message.value())))
            commit_finished(wait=False)


class SlowFirst(Handler):
    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = Event()

    def __call__(self, value: bytes | None) -> None:
        if value == b"order 1":
            self.may_go_on.wait(10)
        super().__call__(value)


def test(kafka: Broker, consume: Consume) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", b"order 1", b"order 2")
    handle = SlowFirst()
    with running(consume, kafka.bootstrap_servers, handle):
        handle.wait_for(1)  # order 2 is done, order 1 is not
        with suppress(TimeoutError):
            kafka.group("billing").wait_until(committed={("orders", 0): 2}, timeout=2)
        handle.may_go_on.set()
        handle.wait_for(2)
    kafka.check()
