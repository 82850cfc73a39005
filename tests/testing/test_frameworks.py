"""A broker inside tests of unittest, of anyio on both of its event loops, of pytest-asyncio, and with pytest-xdist.

Each runs in a process of its own, where warnings are errors; pytest-xdist has four workers.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

UNITTEST = """
import unittest

from confluent_kafka import Consumer

from kohort.testing import Broker


def read(kafka):
    consumer = Consumer({
        "bootstrap.servers": kafka.bootstrap_servers, "group.id": "billing", "auto.offset.reset": "earliest",
    })
    consumer.subscribe(["orders"])
    try:
        return consumer.poll(30).value()
    finally:
        consumer.close()


class TestBilling(unittest.TestCase):
    def setUp(self):
        self.kafka = self.enterContext(Broker())

    def test_an_order_is_read(self):
        self.kafka.produce("orders", b"order 1")
        self.assertEqual(read(self.kafka), b"order 1")

    def test_another_test_has_another_broker(self):
        self.assertEqual(self.kafka.groups, [])


class TestOnAnEventLoop(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.kafka = await self.enterAsyncContext(Broker())

    async def test_time_passes(self):
        before = self.kafka.clock.now
        await self.kafka.clock.advance_async(hours=1)
        self.assertGreaterEqual((self.kafka.clock.now - before).total_seconds(), 3600)
"""

ANYIO = """
import anyio
import pytest
import sniffio

from kohort.testing import Broker

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


async def test_a_broker_serves_while_the_loop_of_the_test_goes_on(anyio_backend):
    assert sniffio.current_async_library() == anyio_backend
    turns = 0

    async def count():
        nonlocal turns
        while True:
            turns += 1
            await anyio.sleep(0)

    async with Broker() as kafka:
        kafka.produce("orders", b"order 1")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(count)
            before = turns
            with pytest.raises(TimeoutError, match="it is Dead"):
                await kafka.group("billing").wait_until_async("Stable", timeout=0.05)
            assert turns > before
            tasks.cancel_scope.cancel()
        await kafka.clock.advance_async(days=1)
    with pytest.raises(RuntimeError, match="not running"):
        kafka.groups


async def test_the_fixture_works_too(kafka):
    kafka.produce("orders", b"order 1")
    assert len(kafka.topic("orders").records()) == 1
"""

ASYNCIO = """
import pytest
from aiokafka import AIOKafkaConsumer


@pytest.mark.asyncio
async def test_a_client_on_the_loop_of_the_test(kafka):
    kafka.produce("orders", b"order 1")
    async with AIOKafkaConsumer(
        "orders", bootstrap_servers=kafka.bootstrap_servers, group_id="billing", auto_offset_reset="earliest"
    ) as consumer:
        assert (await consumer.getone()).value == b"order 1"
        await kafka.group("billing").wait_until_async("Stable", members=1)
"""

XDIST = """
import pytest
from confluent_kafka import Consumer


@pytest.mark.parametrize("number", range(12))
def test_an_order_is_read(kafka, kafka_session, number, worker_id):
    assert worker_id in ("gw0", "gw1", "gw2", "gw3")
    kafka.produce("orders", b"order %d" % number)
    kafka_session.produce("all", b"order %d" % number)
    consumer = Consumer({
        "bootstrap.servers": kafka.bootstrap_servers, "group.id": "billing", "auto.offset.reset": "earliest",
    })
    consumer.subscribe(["orders"])
    assert consumer.poll(30).value() == b"order %d" % number
    kafka.group("billing").wait_until("Stable", members=1)
    consumer.close()
"""

INTERRUPTED = """
import os, signal, sys
from kohort.testing import Broker

try:
    with Broker() as kafka:
        kafka.produce("orders", b"order 1")
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()
except KeyboardInterrupt:
    print("interrupted")
with Broker() as kafka:
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()
"""


def run(folder: Path, code: str, *command: str) -> str:
    (folder / "test_it.py").write_text(code)
    words = [sys.executable, "-W", "error", "-m", *command]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=200)
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    return told


def test_unittest(tmp_path: Path) -> None:
    assert "Ran 3 tests" in run(tmp_path, UNITTEST, "unittest", "test_it")


@pytest.mark.parametrize(
    ("code", "passed", "options"),
    [
        (ANYIO, "4 passed", ["-p", "no:asyncio"]),
        (ASYNCIO, "1 passed", ["-o", "asyncio_default_fixture_loop_scope=function"]),
        (XDIST, "12 passed", ["-p", "no:asyncio", "-n", "4"]),
    ],
    ids=["anyio", "pytest-asyncio", "xdist"],
)
def test_pytest_with(tmp_path: Path, code: str, passed: str, options: list[str]) -> None:
    assert passed in run(tmp_path, code, "pytest", "-p", "no:cacheprovider", "-q", *options, "test_it.py")


def test_signals_go_to_the_process_and_not_to_the_broker() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", INTERRUPTED], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "interrupted\n")
