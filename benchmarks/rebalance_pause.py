"""Who stops reading, and for how long, when a group's members change: eager, cooperative and server-side rebalancing.

    python -m benchmarks.rebalance_pause [--clients java confluent franz-go] [--kafka] [--save FOLDER]

The same happens to a group of each way, one after another: a fourth member joins, one leaves, one is killed. A
producer writes to all twelve partitions all the time. Member 1 is busy: it works for a second on what a poll returned,
before it polls again. The others poll at once. A gap is the time between two polls that returned records of one
partition. Gaps of partitions that stay with their member are shown apart from those of partitions that move; the busy
member's own ones are left out, because they wait for its work and not for the group. --kafka does the same on Apache
Kafka; --save keeps the recordings, of which benchmarks.rebalance_pictures makes the pictures of docs/rebalancing.md.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.clients import group_programs as programs
from tests.clients.group_broker import AnyBroker, GroupBroker, KafkaBroker
from tests.clients.group_checks import PARTITIONS, MemberProcess, NumberProducer, Scenario
from tests.clients.server_side import HEARTBEAT_MS, SETTINGS, abandoned_at_the_end

WAYS = {"eager": "range", "cooperative": "cooperative-sticky", "server-side": "consumer"}
CLIENTS = {"java": programs.java, "confluent": programs.confluent, "franz-go": programs.franz_go}
STEADY_S = 3.0  # read in peace before each event: it shows what is no pause
PRODUCE_EVERY_S = 0.05
BUSY, WORK_MS = 1, 1000
NOTHING = "nothing happens"
JOINS, LEAVES, IS_KILLED = EVENTS = ("a fourth member joins", "a member leaves", "a member is killed")
NOT_A_PAUSE_S = 0.25  # with a record every 50 ms, what a busy machine adds stays below that


class Delivery(NamedTuple):
    """Some records of one partition that one poll returned."""

    at: float
    member: str
    partition: int


class Change(NamedTuple):
    """A member was given a partition, or gave it up."""

    at: float
    member: str
    partition: int
    is_gain: bool


class Event(NamedTuple):
    at: float
    what: str


class Gap(NamedTuple):
    """A time in which nobody read a partition."""

    partition: int
    before: Delivery
    after: Delivery

    @property
    def seconds(self) -> float:
        return self.after.at - self.before.at

    @property
    def is_move(self) -> bool:
        return self.before.member != self.after.member


@dataclass
class Run:
    """What the members of one group said, and what was done to them."""

    broker: str
    client: str
    way: str
    events: list[Event] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    failed_commits: list[float] = field(default_factory=list)
    end: float = 0.0

    def save(self, folder: Path) -> None:
        name = f"{self.broker}-{self.client}-{self.way}.json".lower()
        (folder / name).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Run:
        told = json.loads(path.read_text(encoding="utf-8"))
        told["events"] = [Event(*each) for each in told["events"]]
        told["deliveries"] = [Delivery(*each) for each in told["deliveries"]]
        told["changes"] = [Change(*each) for each in told["changes"]]
        return cls(**told)

    def window(self, what: str) -> tuple[float, float]:
        """From this event to the next one."""
        index = next(index for index, event in enumerate(self.events) if event.what == what)
        following = self.events[index + 1].at if index + 1 < len(self.events) else self.end
        return self.events[index].at, following

    def gaps(self, start: float, end: float) -> list[Gap]:
        """The times between two deliveries of a partition that end in this window."""
        found = []
        last: dict[int, Delivery] = {}
        for delivery in sorted(self.deliveries):
            before = last.get(delivery.partition)
            last[delivery.partition] = delivery
            if before is not None and start <= delivery.at < end:
                found.append(Gap(delivery.partition, before, delivery))
        return found

    def moved(self, start: float, end: float) -> frozenset[int]:
        """Partitions that another member read at the end than at the start."""
        readers: dict[float, dict[int, str]] = {}
        for moment in (start, end):
            readers[moment] = {each.partition: each.member for each in sorted(self.deliveries) if each.at < moment}
        return frozenset(each for each in range(PARTITIONS) if readers[start].get(each) != readers[end].get(each))

    def given_up(self, start: float, end: float) -> frozenset[int]:
        return frozenset(each.partition for each in self.changes if start <= each.at < end and not each.is_gain)


class Recorder(Scenario):
    def __init__(self, broker: AnyBroker, run: Run, folder: Path) -> None:
        super().__init__(broker, [run.way], folder)
        self.run = run
        self.started: dict[int, MemberProcess] = {}

    def make_producer(self) -> NumberProducer:
        return NumberProducer(self.broker.address, PRODUCE_EVERY_S)

    def _take(self, member: MemberProcess, event: dict[str, Any]) -> None:
        super()._take(member, event)
        at = event["at"]
        match event["event"]:
            case "consumed":
                partitions = dict.fromkeys(partition for partition, _, _ in event["ranges"])
                self.run.deliveries += [Delivery(at, member.name, partition) for partition in partitions]
            case "assigned" | "revoked" | "lost":
                is_gain = event["event"] == "assigned"
                self.run.changes += [Change(at, member.name, each, is_gain) for each in event["partitions"]]
            case "commit_failed":
                self.run.failed_commits.append(at)

    def begin(self, number: int) -> None:
        command = CLIENTS[self.run.client](self.broker.address, [f"{self.run.way}={WAYS[self.run.way]}"])
        if number == BUSY:
            command = ["env", f"KOHORT_TEST_WORK_MS={WORK_MS}", *command]
        self.started[number] = self.start(f"member {number}", command, self.groups)

    def note(self, what: str) -> None:
        self.run.events.append(Event(time.monotonic(), what))

    def steady(self) -> None:
        until = time.monotonic() + STEADY_S
        while time.monotonic() < until:
            self._listen()

    def settle(self, what: str) -> None:
        super().settle(what)
        self.steady()


def record(run: Run, broker: AnyBroker, folder: Path) -> None:
    with abandoned_at_the_end(Recorder(broker, run, folder)) as recorder:
        for number in (1, 2, 3):
            recorder.begin(number)
        recorder.settle("three members")
        recorder.note(NOTHING)
        recorder.steady()
        recorder.note(JOINS)
        recorder.begin(4)
        recorder.settle(JOINS)
        recorder.note(LEAVES)
        recorder.close(recorder.started[2])
        recorder.settle(LEAVES)
        recorder.note(IS_KILLED)
        recorder.kill(recorder.started[3])
        recorder.settle(IS_KILLED)
        run.end = time.monotonic()
        recorder.finish()


def longest(gaps: Iterable[Gap]) -> str:
    return f"{max((gap.seconds for gap in gaps), default=0.0):.2f} s"


def show(runs: Sequence[Run]) -> None:
    print(f"\n{runs[0].client} on {runs[0].broker}")
    titles = ("kept", "paused", "longest", "given up", "moved", "longest", "failed commits")
    print(" " * 38 + in_columns(titles))
    for what in (NOTHING, *EVENTS):
        for run in runs:
            start, end = run.window(what)
            moved = run.moved(start, end)
            gaps = run.gaps(start, end)
            kept = [gap for gap in gaps if gap.partition not in moved and gap.after.member != f"member {BUSY}"]
            partitions = {gap.partition for gap in kept}
            figures = (
                len(partitions),
                len({gap.partition for gap in kept if gap.seconds > NOT_A_PAUSE_S}),
                longest(kept),
                len(run.given_up(start, end) & partitions),
                len(moved),
                longest(gap for gap in gaps if gap.partition in moved),
                sum(start <= at < end for at in run.failed_commits),
            )
            print(f"{what:25}{run.way:13}" + in_columns(figures))


def in_columns(cells: Iterable[object]) -> str:
    return "".join(f"{cell!s:>{width}}" for cell, width in zip(cells, (5, 8, 10, 10, 8, 10, 16), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description="Who stops reading, and how long, when a group's members change.")
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka too, if Java and Maven are here")
    parser.add_argument("--only-kafka", action="store_true")
    parser.add_argument("--save", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    brokers: dict[str, type[GroupBroker] | type[KafkaBroker]] = {"Kohort": GroupBroker, "Kafka": KafkaBroker}
    chosen = ["Kafka"] if options.only_kafka else ["Kohort", "Kafka"] if options.kafka else ["Kohort"]
    if options.save:
        options.save.mkdir(parents=True, exist_ok=True)
    print(f"heartbeats every {HEARTBEAT_MS} ms; a record for each partition every {PRODUCE_EVERY_S * 1000:.0f} ms")
    for name in chosen:
        for client in options.clients:
            runs = [Run(name, client, way) for way in WAYS]
            for run in runs:
                with tempfile.TemporaryDirectory() as folder, brokers[name](Path(folder), **SETTINGS) as broker:
                    record(run, broker, Path(folder))
                if options.save:
                    run.save(options.save)
            show(runs)


if __name__ == "__main__":
    main()
