"""A dozen groups of real consumers that live, fail and are deployed, to look at on the live page; and pictures of it.

    python -m benchmarks.live_page_pictures docs      # docs/live-overview.png and docs/live-group.png, in two minutes
    python -m benchmarks.live_page_pictures --stay    # no pictures: says where the page is, and goes on until Ctrl-C

The consumers are those of librdkafka: classic ones, those of KIP-848, and share consumers. The members of `billing` are
processes, because one of them is killed.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread
from time import monotonic

from confluent_kafka import Consumer, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.browser.chromium import chromium
from tests.clients.kohort import KohortProcess
from tests.live.test_live_api import page_of

BUSY_GROUP = "billing"
TOPICS = {"orders": (12, 240), "payments": (6, 90), "clicks": (8, 420), "mails": (3, 12), "shipments": (6, 30)}
Settings = dict[str, str | int]

COOPERATIVE: Settings = {"partition.assignment.strategy": "cooperative-sticky"}
SERVER_SIDE: Settings = {"group.protocol": "consumer"}
QUICK: Settings = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}
SETTINGS = {
    "kohort.http.port": "0", "group.consumer.assignment.interval.ms": "0", "group.share.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "300", "group.consumer.heartbeat.interval.ms": "300",
}  # fmt: skip


class Member:
    """A consumer in a thread. It needs `work_s` for each record."""

    def __init__(self, broker: str, group: str, name: str, topics: list[str], work_s: float, more: Settings) -> None:
        self._leaving = Event()
        settings: Settings = {"bootstrap.servers": broker, "group.id": group, "client.id": name}
        settings |= {"auto.offset.reset": "earliest", "auto.commit.interval.ms": 700, "log_level": 0}
        settings |= more
        self._thread = Thread(target=self._live, args=(settings, topics, work_s), daemon=True)
        self._thread.start()

    def _live(self, settings: Settings, topics: list[str], work_s: float) -> None:
        consumer = Consumer(settings)
        consumer.subscribe(topics)
        while not self._leaving.is_set():
            message = consumer.poll(0.2)
            if message is not None and not message.error() and work_s:
                self._leaving.wait(work_s)
        consumer.close()

    def leave(self) -> None:
        self._leaving.set()

    def wait(self) -> None:
        self._thread.join(15)


class Process:
    """A member of the busy group, which can be killed."""

    def __init__(self, broker: str, name: str) -> None:
        command = [sys.executable, "-m", "benchmarks.live_page_pictures", "--member", json.dumps([broker, name])]
        self._process = subprocess.Popen(command)

    def leave(self) -> None:
        self._process.terminate()

    def wait(self) -> None:
        self._process.wait(15)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def be_a_member(broker: str, name: str) -> None:
    leaving = Event()
    signal.signal(signal.SIGTERM, lambda *_: leaving.set())
    member = Member(broker, BUSY_GROUP, name, ["orders"], 0.004, COOPERATIVE | QUICK)
    leaving.wait()
    member.leave()
    member.wait()


class ShareMember:
    def __init__(self, broker: str, group: str, name: str, topics: list[str]) -> None:
        self._leaving = Event()
        settings: Settings = {"bootstrap.servers": broker, "group.id": group, "client.id": name, "log_level": 0}
        self._thread = Thread(target=self._live, args=(settings, topics), daemon=True)
        self._thread.start()

    def _live(self, settings: Settings, topics: list[str]) -> None:
        consumer = ShareConsumer(settings)
        consumer.subscribe(topics)
        while not self._leaving.is_set():
            consumer.poll(0.2)
        consumer.close()

    def leave(self) -> None:
        self._leaving.set()

    def wait(self) -> None:
        self._thread.join(15)


class Traffic(Thread):
    """Records for all topics, so many a second."""

    def __init__(self, broker: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": broker, "log_level": 0})
        self._leaving = Event()

    def run(self) -> None:
        turns = 0
        while not self._leaving.wait(0.1):
            turns += 1
            for topic, (partitions, rate) in TOPICS.items():
                for number in range(rate * (turns - 1) // 10, rate * turns // 10):
                    self._producer.produce(topic, b"x" * 40, partition=number % partitions)
            self._producer.poll(0)

    def leave(self) -> None:
        self._leaving.set()

    def wait(self) -> None:
        self.join(5)


class Town:
    """All groups, and what happens to them. `events` come at so many seconds after the start."""

    def __init__(self, broker: str) -> None:
        self.broker = broker
        self.all: list[Member | Process | ShareMember | Traffic] = []
        self.named: dict[str, Member | Process | ShareMember | Traffic] = {}
        self.events: list[tuple[float, Callable[[], object]]] = [
            (12, partial(self.bill, 4)),
            (22, partial(self.leaves, "billing-3")),
            (25, partial(self.bill, 5)),
            (34, partial(self.bill, 6)),
            (44, partial(self.kill, "billing-2")),
            (18, partial(self.one, "search-indexer", "indexer-3", ["clicks"], 0.0, SERVER_SIDE)),
            (44, partial(self.leaves, "indexer-1")),
            (30, partial(self.share, "thumbnails", "thumb-4", ["shipments"])),
            (36, partial(self.leaves, "reports-1")),
        ]
        self.events += [(9.0 + 6 * number, partial(self.flap, number)) for number in range(8)]
        self.events.sort(key=lambda event: event[0])

    def begin(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker, "log_level": 0})
        for made in admin.create_topics([NewTopic(name, each) for name, (each, _) in TOPICS.items()]).values():
            made.result()
        traffic = Traffic(self.broker)
        traffic.start()
        self.all.append(traffic)
        self.commit_alone("nightly-export", "payments")
        for number in (1, 2, 3):
            self.bill(number)
            self.share("thumbnails", f"thumb-{number}", ["shipments"])
        for number in (1, 2):
            static: Settings = {"group.instance.id": f"ledger-{number}"}
            self.one("search-indexer", f"indexer-{number}", ["clicks"], 0.0, SERVER_SIDE)
            self.one("fraud-check", f"fraud-{number}", ["payments"], 0.08, SERVER_SIDE)
            self.one("ledger", f"ledger-{number}", ["payments"], 0.0, QUICK | static)
            self.share("push-messages", f"push-{number}", ["mails"])
        for number in (1, 2, 3, 4):
            self.one("recommendations", f"recs-{number}", ["clicks", "orders"], 0.0, COOPERATIVE)
        for number in (1, 2, 3):
            self.one("customer-360", f"profile-{number}", ["^(orders|payments|shipments)$"], 0.0, SERVER_SIDE)
        self.one("mail-sender", "mailer-1", ["mails"], 0.0, QUICK)
        self.one("warehouse", "warehouse-1", ["shipments", "orders"], 0.012, {})
        self.one("audit-trail", "trail-1", ["payments", "mails"], 0.0, SERVER_SIDE)
        self.one("weekly-report", "reports-1", ["orders"], 0.01, QUICK)

    def live(self, seconds: float) -> None:
        began = monotonic()
        pause = Event()
        for at, happens in [*self.events, (seconds, lambda: None)]:
            pause.wait(max(0.0, began + at - monotonic()))
            happens()

    def one(self, group: str, name: str, topics: list[str], work_s: float, more: Settings) -> None:
        self._add(name, Member(self.broker, group, name, topics, work_s, more))

    def share(self, group: str, name: str, topics: list[str]) -> None:
        self._add(name, ShareMember(self.broker, group, name, topics))

    def bill(self, number: int) -> None:
        self._add(f"billing-{number}", Process(self.broker, f"billing-{number}"))

    def flap(self, number: int) -> None:
        """A second mailer comes and goes."""
        if number % 2:
            self.leaves("mailer-2")
        else:
            self.one("mail-sender", "mailer-2", ["mails"], 0.0, QUICK)

    def _add(self, name: str, member: Member | Process | ShareMember) -> None:
        self.named[name] = member
        self.all.append(member)

    def leaves(self, name: str) -> None:
        self.named[name].leave()

    def kill(self, name: str) -> None:
        member = self.named[name]
        assert isinstance(member, Process)
        member.kill()

    def commit_alone(self, group: str, topic: str) -> None:
        """Somebody commits, and is no member."""
        consumer = Consumer({"bootstrap.servers": self.broker, "group.id": group, "log_level": 0})
        offsets = [TopicPartition(topic, number, 0) for number in range(TOPICS[topic][0])]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()

    def end(self) -> None:
        for each in self.all:
            each.leave()
        for each in self.all:
            each.wait()


def pictures(address: str, town: Town, folder: Path, opened: ExitStack) -> None:
    browser = opened.enter_context(chromium(Path(opened.enter_context(tempfile.TemporaryDirectory()))))
    group = opened.enter_context(browser.open(f"{address}/#/group/{BUSY_GROUP}", height=1_265))
    overview = opened.enter_context(browser.open(f"{address}/", height=800))
    town.live(60)
    group.run("document.querySelector('[data-window=\"120000\"]').click()")
    group.until("document.querySelectorAll('.timeline li .more').length > 4")
    group.run("document.querySelector('.timeline li').click()")
    group.screenshot(folder / "live-group.png", whole=False)
    overview.until("document.querySelectorAll('.list .row:not([hidden])').length >= 12")
    overview.run("document.querySelector('button.head.lag').click()")
    overview.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    overview.screenshot(folder / "live-overview.png", whole=False)


def main() -> None:
    parser = argparse.ArgumentParser(description="Pictures of the live page, with a dozen groups of real consumers.")
    parser.add_argument("folder", nargs="?", type=Path, help="where the pictures are written to")
    parser.add_argument("--stay", action="store_true", help="go on until Ctrl-C, to look at the page in a browser")
    parser.add_argument("--member", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.member:
        be_a_member(*json.loads(options.member))
        return
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        process = opened.enter_context(KohortProcess(folder, **SETTINGS))
        town = Town(process.address)
        opened.callback(town.end)
        town.begin()
        address = page_of(process)
        print(f"the live page: {address}", flush=True)
        if options.folder:
            pictures(address, town, options.folder, opened)
        if options.stay:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # also where it was started in the background
            with suppress(KeyboardInterrupt):
                town.live(70)
                signal.pause()


if __name__ == "__main__":
    main()
