"""Three tests of an application. `kafka` is the fixture of Kohort's pytest plugin: a broker for each test.

The application runs on the event loop of the test, so the test waits with `wait_until_async`, which lets that loop go
on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from billing import make_billing
from faststream.kafka import KafkaBroker

from kohort.testing import Broker

Start = Callable[[Callable[[str], Awaitable[None]]], Awaitable[None]]


@pytest_asyncio.fixture
async def start(kafka: Broker) -> AsyncIterator[Start]:
    """Starts the application, and stops it when the test ends."""
    running: list[KafkaBroker] = []

    async def start_one(charge: Callable[[str], Awaitable[None]]) -> None:
        running.append(make_billing(kafka.bootstrap_servers, charge))
        await running[-1].start()

    yield start_one
    for each in running:
        await each.stop()


@pytest.mark.asyncio
async def test_a_rebalance_during_processing_bills_nothing_twice(kafka: Broker, start: Start) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", b"order 1", b"order 2", b"order 3")
    billed = []

    async def charge(order: str) -> None:
        billed.append(order)
        if order == "order 2":
            kafka.group("billing").rebalance("somebody deploys")

    await start(charge)
    await kafka.group("billing").wait_until_async("Stable", rebalances=2)
    kafka.produce("orders", b"order 4")
    await kafka.group("billing").wait_until_async(committed={("orders", 0): 4})
    assert billed == ["order 1", "order 2", "order 3", "order 4"]
    kafka.check()


@pytest.mark.asyncio
async def test_a_commit_of_a_zombie_is_refused(kafka: Broker, start: Start) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", b"order 1")
    is_billing, pause = asyncio.Event(), asyncio.Event()

    async def charge(order: str) -> None:
        is_billing.set()
        await pause.wait()

    async def charge_at_once(order: str) -> None:
        pass

    await start(charge)
    await asyncio.wait_for(is_billing.wait(), 30)
    group = kafka.group("billing")
    (zombie,) = group.members

    # The broker has not heard from the zombie for too long. Another consumer takes over, and goes on.
    group.expire(zombie)
    await start(charge_at_once)
    kafka.produce("orders", b"order 2")
    await group.wait_until_async(committed={("orders", 0): 2})

    # Now the zombie goes on where it was. Its commit of order 1 would take the group back to order 2.
    pause.set()
    await asyncio.to_thread(kafka.wait_for_request, "OffsetCommit", error="UNKNOWN_MEMBER_ID")
    assert group.committed == {("orders", 0): 2}
    assert zombie.member_id not in {each.member_id for each in kafka.commits("billing")}
    kafka.check()


@pytest.mark.asyncio
async def test_a_lost_answer_to_a_commit_bills_nothing_twice(kafka: Broker, start: Start) -> None:
    kafka.create_topic("orders")
    kafka.produce("orders", b"order 1", b"order 2")
    billed = []

    async def charge(order: str) -> None:
        billed.append(order)

    with kafka.lose_answer("OffsetCommit", group="billing", times=1):
        await start(charge)
        await kafka.group("billing").wait_until_async(committed={("orders", 0): 2})
    assert billed == ["order 1", "order 2"]
    # The first commit was done, its answer lost, and the client sent it again.
    assert [each.offset for each in kafka.commits("billing")] == [1, 1, 2]
    kafka.check()
