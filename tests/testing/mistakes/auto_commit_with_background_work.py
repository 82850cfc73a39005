"""Auto-commit, and the work is done in the background

`enable.auto.commit` commits what poll has handed out, whether or not it was processed. With a thread that does the
work, poll hands out more than is done. When the process dies, all orders that were still waiting are committed and
lost. The right consumer tells the client which offsets it may commit.
"""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from threading import Event

from confluent_kafka import Message

from kohort.testing import Broker
from tests.testing.mistakes.service import Consume, Handler, new_consumer, polls, records, running

CAUGHT = "3 orders were committed when one was done"


def wrong(servers: str, handle: Handler, stop: Event) -> None:
    settings = {"enable_auto_commit": True, "auto_commit_interval_ms": 50}
    with closing(new_consumer(servers, **settings)) as consumer, ThreadPoolExecutor(1) as worker:
        consumer.subscribe(["orders"])
        for message in records(consumer, stop):
            worker.submit(handle, message.value())


def right(servers: str, handle: Handler, stop: Event) -> None:
    settings = {"enable_auto_commit": True, "auto_commit_interval_ms": 50, "enable_auto_offset_store": False}
    in_progress: deque[tuple[Message, Future[None]]] = deque()  # the oldest first

    def store_finished(wait: bool) -> None:
        while in_progress and (wait or in_progress[0][1].done()):
            message, work = in_progress.popleft()
            work.result()
            consumer.store_offsets(message=message)  # now the client may commit it

    with closing(new_consumer(servers, **settings)) as consumer, ThreadPoolExecutor(1) as worker:
        consumer.subscribe(
            ["orders"], on_revoke=lambda *_: store_finished(wait=True), on_lost=lambda *_: in_progress.clear()
        )
        for message in polls(consumer, stop):
            if message is not None:
                in_progress.append((message, worker.submit(handle, message.value())))
            store_finished(wait=False)


class SlowSecond(Handler):
    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = Event()

    def __call__(self, value: bytes | None) -> None:
        if value == b"order 2":
            self.may_go_on.wait(10)
        super().__call__(value)


def test(kafka: Broker, consume: Consume) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", b"order 1", b"order 2", b"order 3")
    handle, group = SlowSecond(), kafka.group("billing")
    with running(consume, kafka.bootstrap_servers, handle):
        group.wait_until(committed={("orders", 0): 1})
        with suppress(TimeoutError):
            group.wait_until(committed={("orders", 0): 3}, timeout=2)
        committed = group.committed["orders", 0]
        handle.may_go_on.set()
        handle.wait_for(3)
    assert committed == 1, f"{committed} orders were committed when one was done"
