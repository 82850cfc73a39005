"""Starts and stops many brokers in one process, with members connected at each stop: what do they leave behind?

    python -W error -m tests.testing.leaks [--brokers 1000]

Each broker has a classic member and a KIP-848 member, which hold their connections when it stops; every tenth also has
a consumer of confluent-kafka and one of aiokafka. Threads, open files, sockets and objects of Kohort must be as many as
after the first brokers, and the memory of the process must not grow: see ALLOWED_BYTES. A warning is an error.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import threading
from collections import Counter
from functools import _lru_cache_wrapper
from pathlib import Path
from typing import NamedTuple

from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer

from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.testing import Broker

FIRST = 20  # brokers; only then is counted: modules, caches and the allocator's arenas are in place
REAL_CLIENTS = 10  # one broker of so many has them
ALLOWED_BYTES = 8_000_000, 5_000  # at all, which the allocator may take, and for each broker; a broker itself has 2 MB
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Held(NamedTuple):
    """What the process holds."""

    threads: int
    files: Counter[str]  # by kind
    objects: int  # of classes of Kohort
    resident_bytes: int

    def problems(self, before: Held, brokers: int) -> list[str]:
        found = []
        if self.threads != before.threads:
            found.append(f"{self.threads} threads, before {before.threads}: {[t.name for t in threading.enumerate()]}")
        if self.files != before.files:
            found.append(f"open files {dict(self.files)}, before {dict(before.files)}")
        if self.objects > before.objects:
            found.append(f"{self.objects} objects of Kohort, before {before.objects}")
        at_all, for_each = ALLOWED_BYTES
        if self.resident_bytes - before.resident_bytes > at_all + brokers * for_each:
            found.append(f"{self.resident_bytes:,} bytes of memory, before {before.resident_bytes:,}")
        return found


def held() -> Held:
    _empty_caches()
    gc.collect()
    files: Counter[str] = Counter()
    for each in Path("/proc/self/fd").iterdir():
        try:
            files[os.readlink(each).partition("[")[0]] += 1  # "socket:", "anon_inode:", "pipe:", or a path
        except FileNotFoundError:
            continue  # the folder that is being listed
    objects = sum(str(type(each).__module__).startswith("kohort.") for each in gc.get_objects())
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
    return Held(threading.active_count(), files, objects, resident)


def _empty_caches() -> None:
    """Caches of functions are bounded, and stay: they are no leak."""
    for each in gc.get_objects():
        if isinstance(each, _lru_cache_wrapper) and str(each.__module__).startswith("kohort."):
            each.cache_clear()


def one_broker(number: int) -> None:
    """Start a broker, let members join, and stop it while they are connected."""
    clients: list[Client] = []
    consumer = None
    with Broker() as kafka:
        kafka.produce("orders", b"order 1")
        clients = [Client(kafka.bootstrap_servers, client_id="member") for _ in range(2)]
        protocols = [JoinGroupRequestProtocol("range", bytes(10))]
        join = JoinGroupRequest("classic", 30_000, 30_000, "", None, "consumer", protocols)
        assert clients[0].send(ApiKey.JOIN_GROUP, join, 3).error_code == 0
        beat = ConsumerGroupHeartbeatRequest("consumer", "member", 0, None, None, 30_000, ["orders"], None, None, [])
        assert clients[1].send(ApiKey.CONSUMER_GROUP_HEARTBEAT, beat, 0).error_code == 0
        if number % REAL_CLIENTS == 0:
            consumer = joined_consumer(kafka)
            asyncio.run(join_with_aiokafka(kafka))
        assert {len(kafka.group(name).members) for name in ("classic", "consumer")} == {1}
    if consumer is not None:
        consumer.close()
    for each in clients:
        each.close()


def joined_consumer(kafka: Broker) -> Consumer:
    consumer = Consumer({
        "bootstrap.servers": kafka.bootstrap_servers, "group.id": "billing", "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "log_level": 0,
    })  # fmt: skip
    consumer.subscribe(["orders"])
    assert consumer.poll(30) is not None
    return consumer


async def join_with_aiokafka(kafka: Broker) -> None:
    async with AIOKafkaConsumer(
        "orders", bootstrap_servers=kafka.bootstrap_servers, group_id="shipping", auto_offset_reset="earliest"
    ) as consumer:
        await consumer.getone()


def main() -> int:
    parser = argparse.ArgumentParser(description="What brokers in one process leave behind.")
    parser.add_argument("--brokers", type=int, default=1000)
    brokers = parser.parse_args().brokers
    for number in range(FIRST):
        one_broker(number)
    before = held()
    tell("after the first", FIRST, before)
    for number in range(1, brokers + 1):
        one_broker(number)
        if number % 100 == 0:
            tell("after", number, held())
    after = held()
    problems = after.problems(before, brokers)
    grown = (after.resident_bytes - before.resident_bytes) / brokers
    print(f"{brokers} brokers: {grown:,.0f} bytes more for each; {'; '.join(problems) or 'nothing was left behind'}")
    return bool(problems)


def tell(when: str, number: int, seen: Held) -> None:
    files = ", ".join(f"{count} {kind}" for kind, count in sorted(seen.files.items()))
    print(
        f"{when} {number}: {seen.threads} threads, {seen.objects} objects, {seen.resident_bytes / 1e6:.1f} MB; {files}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
