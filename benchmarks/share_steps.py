"""How long does delivery to share groups hold the event loop? The CPU time of its longest callbacks.

    python -m benchmarks.share_steps [--partitions 1000] [--profile]

A broker runs in this process, with its data in memory, and a member on a socket of its own. Every callback of the
broker's event loop is timed for itself, with the CPU time of its thread, so a busy machine does not disturb the figures
much. 2,000 records are locked on each of 1,000 partitions: all locks expire at once, and a session ends that has all of
them. Then the same, on fewer partitions, with records that were told apart. At last one partition has 10,000 locked
records, as the settings allow, and one request acknowledges them in several ways.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import pstats
import threading
from asyncio import events
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from time import monotonic, sleep, thread_time, time
from typing import Any
from unittest import mock

from benchmarks.broker import Broker as Reached
from benchmarks.groups import connect, wait_for_coordinator
from benchmarks.share_groups import GOAL_MS, LOCKED, RECORDS, Member, id_of, produce
from kohort.broker.share.share_partitions import share_partitions_of
from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kohort.protocol.record_batch import build_batch
from kohort.testing import Broker, host

TOPIC, GROUP = "steps", "sharers"
MOST_LOCKED = 10_000
ACCEPT = 1  # a release is 2
LOCK_MS = 20_000
DEADLINE_S = 120.0
SETTLE_S = 2.0
SPLIT_PARTITIONS = 50  # with 1,000 pieces on each: a request of 100,000 elements is the largest one
SHOWN = 25  # lines of the profile


class Stopwatch:
    """Times the callbacks of the broker's thread."""

    def __init__(self, profile: cProfile.Profile | None) -> None:
        self._longest: list[tuple[float, str]] = []
        self._profile = profile
        self._run: Callable[[events.Handle], None] = events.Handle._run

    @contextmanager
    def watching(self) -> Iterator[None]:
        with mock.patch.object(events.Handle, "_run", lambda handle: self._timed(handle)):
            yield

    def _timed(self, handle: Any) -> None:
        if threading.current_thread().name != "kohort":
            self._run(handle)
            return
        if self._profile is not None:
            self._profile.enable()
        began = thread_time()
        self._run(handle)
        took = (thread_time() - began) * 1000
        if self._profile is not None:
            self._profile.disable()
        if took > 1:
            self._longest.append((took, str(handle)[:150]))

    def tell(self, event: str) -> None:
        longest, self._longest = sorted(self._longest, reverse=True), []
        most, where = longest[0] if longest else (0.0, "")
        mark = "" if most < GOAL_MS else f"   above the goal of {GOAL_MS} ms, in {where}"
        print(f"  {event + ':':<62} {most:5.1f} ms{mark}", flush=True)


@contextmanager
def running(watch: Stopwatch, **settings: str) -> Iterator[Broker]:
    """On an event loop whose callbacks can be timed."""
    lock = {"group.share.record.lock.duration.ms": str(LOCK_MS), "group.share.assignment.interval.ms": "0"}
    given = lock | {name.replace("_", "."): value for name, value in settings.items()}
    with mock.patch.object(host, "_new_event_loop", asyncio.new_event_loop), watch.watching(), Broker(given) as kafka:
        gc.freeze()  # as `kohort serve` does; otherwise each figure has a whole collection of garbage in it
        gc.set_threshold(25_000, 4, 250)
        yield kafka


@contextmanager
def member_of(kafka: Broker, partitions: int, records: int) -> Iterator[Member]:
    """One member of a group that reads all partitions, each with so many records."""
    kafka.create_topic(TOPIC, partitions)
    with ExitStack() as opened:
        client = opened.enter_context(Client(kafka.bootstrap_servers))
        reached = Reached("this process", kafka.bootstrap_servers, 0)
        wait_for_coordinator(reached, GROUP)
        member = Member(opened.enter_context(connect(reached)), GROUP, "member-0", id_of(client, TOPIC))
        member.join(TOPIC, partitions)
        member.take(member.ask(ApiKey.SHARE_FETCH, member.fetch(1, partitions, wait_ms=0)))
        batch = build_batch([(None, b"x" * 20)] * RECORDS, timestamp=int(time() * 1000))
        for partition in range(partitions):
            produce(client, TOPIC, batch, records // RECORDS, partition)
        yield member


def acquire(member: Member, count: int) -> None:
    member.records = 0
    while member.records < count:
        before = member.records
        member.take(member.ask(ApiKey.SHARE_FETCH, member.fetch(count, wait_ms=0)))
        assert member.records > before, f"{before} records were acquired, and then no more"


def acknowledge(member: Member, batches: Sequence[AcknowledgementBatch], partitions: int) -> None:
    rows = [AcknowledgePartition(partition, batches) for partition in range(partitions)]
    topic = AcknowledgeTopic(member.topic_id, rows)
    request = ShareAcknowledgeRequest(member.group, member.member_id, member.epoch, topics=[topic])
    member.epoch += 1
    answer = member.ask(ApiKey.SHARE_ACKNOWLEDGE, request)
    errors = {row.error_code for each in answer.responses for row in each.partitions}
    assert (answer.error_code, errors) == (0, {0}), (answer.error_code, errors)


def wait_until(kafka: Broker, condition: Callable[[], bool], what: str) -> None:
    deadline = monotonic() + DEADLINE_S
    while not kafka._host.run(condition):
        assert monotonic() < deadline, f"waited in vain for {what}"
        sleep(0.2)


def let_locks_expire(kafka: Broker, expected: int) -> None:
    def have_expired() -> bool:
        led = share_partitions_of(kafka._host.broker)
        return sum(each.share.counts.timed_out for each in led if each.share is not None) >= expected

    wait_until(kafka, have_expired, f"{expected} expired locks")


def end_session(member: Member) -> None:
    member.connected.close()
    sleep(SETTLE_S)


def measure_many(watch: Stopwatch, partitions: int) -> None:
    print(f"{LOCKED:,} records locked on each of {partitions:,} partitions")
    with running(watch) as kafka, member_of(kafka, partitions, LOCKED) as member:
        watch.tell("they are assigned, and produced to")
        acquire(member, LOCKED * partitions)
        watch.tell("all are acquired")
        let_locks_expire(kafka, LOCKED * partitions)
        watch.tell("all locks expire")
        acquire(member, LOCKED * partitions)
        watch.tell("all are acquired again")
        end_session(member)
        watch.tell("the session ends")


def measure_split(watch: Stopwatch, partitions: int) -> None:
    """A whole lot of runs on each partition."""
    print(f"{LOCKED:,} records locked on each of {partitions:,} partitions, every other one accepted alone")
    said = [AcknowledgementBatch(at, at, [ACCEPT]) for at in range(1, LOCKED, 2)]
    with running(watch) as kafka, member_of(kafka, partitions, LOCKED) as member:
        acquire(member, LOCKED * partitions)
        watch.tell("all are acquired")
        acknowledge(member, said, partitions)
        watch.tell("every other one is accepted")
        let_locks_expire(kafka, LOCKED // 2 * partitions)
        watch.tell("all locks expire")
        acquire(member, LOCKED // 2 * partitions)
        watch.tell("they are acquired again")
        end_session(member)
        watch.tell("the session ends")


def types_of(count: int) -> list[int]:
    """Every other record is released."""
    return [at % 2 + 1 for at in range(count)]


WAYS = {
    "a type for each record": [AcknowledgementBatch(0, MOST_LOCKED - 1, types_of(MOST_LOCKED))],
    "each record for itself": [AcknowledgementBatch(at, at, [kind]) for at, kind in enumerate(types_of(MOST_LOCKED))],
    "one range": [AcknowledgementBatch(0, MOST_LOCKED - 1, [ACCEPT])],
}


def measure_one(watch: Stopwatch) -> None:
    print(f"{MOST_LOCKED:,} records locked on one partition; acknowledged in one request, with")
    names = "group_share_partition_max_record_locks", "group_share_max_partition_max_record_locks"
    settings = dict.fromkeys(names, str(MOST_LOCKED))
    for way, said in WAYS.items():
        with running(watch, **settings) as kafka, member_of(kafka, 1, MOST_LOCKED) as member:
            acquire(member, MOST_LOCKED)
            watch.tell("(acquired)")
            acknowledge(member, said, 1)
            watch.tell(way)
            if way != "one range":
                acquire(member, MOST_LOCKED // 2)
                watch.tell("(those that were released are acquired again)")
                let_locks_expire(kafka, MOST_LOCKED // 2)
                watch.tell("(their locks expire)")


def main() -> None:
    parser = argparse.ArgumentParser(description="The longest callbacks of delivery to share groups.")
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--only", choices=["many", "split", "one"])
    parser.add_argument("--profile", action="store_true", help="what takes the time")
    options = parser.parse_args()
    profile = cProfile.Profile() if options.profile else None
    watch = Stopwatch(profile)
    if options.only in (None, "many"):
        measure_many(watch, options.partitions)
    if options.only in (None, "split"):
        measure_split(watch, min(SPLIT_PARTITIONS, options.partitions))
    if options.only in (None, "one"):
        measure_one(watch)
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(SHOWN)


if __name__ == "__main__":
    main()
