"""Three tests of a consumer. `kafka` is the fixture of Kohort's pytest plugin: a broker for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import pytest
from billing import Billing
from kafka.errors import CommitFailedError

from kohort.testing import Broker

Start = Callable[[Callable[[str], None]], Future[None]]


@pytest.fixture
def start(kafka: Broker) -> Iterator[Start]:
    """Starts consumers on threads, and stops them when the test ends."""
    running: list[Billing] = []
    with ThreadPoolExecutor() as threads:

        def start_one(charge: Callable[[str], None]) -> Future[None]:
            running.append(Billing(kafka.bootstrap_servers, charge))
            return threads.submit(running[-1].run)

        yield start_one
        for each in running:
            each.stopping.set()


def test_a_rebalance_during_processing_bills_nothing_twice(kafka: Broker, start: Start) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", b"order 1", b"order 2", b"order 3")
    billed = []

    def charge(order: str) -> None:
        billed.append(order)
        if order == "order 2":
            kafka.group("billing").rebalance("somebody deploys")

    start(charge)
    kafka.group("billing").wait_until("Stable", rebalances=2)
    kafka.produce("orders", b"order 4")
    kafka.group("billing").wait_until(committed={("orders", 0): 4})
    assert billed == ["order 1", "order 2", "order 3", "order 4"]
    kafka.check()


def test_a_commit_of_a_zombie_is_refused(kafka: Broker, start: Start) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", b"order 1")
    is_billing, pause = Event(), Event()

    def charge(order: str) -> None:
        is_billing.set()
        pause.wait(30)

    ended = start(charge)
    assert is_billing.wait(30)
    group = kafka.group("billing")
    (zombie,) = group.members

    # The broker has not heard from the zombie for too long. Another consumer takes over, and goes on.
    group.expire(zombie)
    start(lambda order: None)
    kafka.produce("orders", b"order 2")
    group.wait_until(committed={("orders", 0): 2})

    # Now the zombie goes on where it was. Its commit of order 1 would take the group back to order 2.
    pause.set()
    with pytest.raises(CommitFailedError):
        ended.result(timeout=30)
    assert group.committed == {("orders", 0): 2}
    assert zombie.member_id not in {each.member_id for each in kafka.commits("billing")}
    kafka.check()


def test_a_lost_answer_to_a_commit_bills_nothing_twice(kafka: Broker, start: Start) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", b"order 1", b"order 2")
    billed: list[str] = []
    with kafka.lose_answer("OffsetCommit", group="billing", times=1):
        start(billed.append)
        kafka.group("billing").wait_until(committed={("orders", 0): 2})
    assert billed == ["order 1", "order 2"]
    # The first commit was done, its answer lost, and the client sent it again.
    assert [each.offset for each in kafka.commits("billing")] == [1, 1, 2]
    kafka.check()
