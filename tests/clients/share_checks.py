"""Drives a share group of real clients through kills and restarts, and counts what became of every record.

Members are processes (share_member.py says how they speak). At the end every record was delivered, and it was accepted
once, or rejected, or delivered as often as the limit allows and archived. What nobody knows is counted, too: an
acknowledgement that was sent to a broker that died before it answered.

Two members may both be told that they have accepted a record, by Kafka as well. One has lost its lock because the
broker has ended since. It does not know that, finds the record among those that it has fetched before, and
acknowledges it in its next session. If somebody has finished the record meanwhile, and everything before it, the answer
is NONE: what lies before the start offset is not looked at (two parity stories tell it: share_sessions.py). It may be
the member itself that has fetched the record once more, as docs/clients.md explains. So the judge is the log of the
share coordinator (share_log.py). Members are asked about records that were produced after the last end of the broker.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.clients.cache import made_from, need
from tests.clients.group_broker import AnyBroker
from tests.clients.group_checks import DEADLINE_S, MemberProcess
from tests.group_requests import group_settings_request
from tests.kafka.jars import kafka_jars
from tests.share_requests import alter_offsets_request, describe_offsets_request

TOPIC, GROUP = "numbers", "sharers"
HERE = Path(__file__).parent
DELIVERY_LIMIT = 5
LAST_SEEN = DELIVERY_LIMIT - 1  # the last delivery may be lost on its way, when the broker or the member goes away
COORDINATOR_KEYS = {0: GROUP, 2: f"{GROUP}:AAAAAAAAAAAAAAAAAAAAAQ:0"}  # by type

Place = tuple[int, int]  # partition and offset


# --- the programs


def java(bootstrap: str, *members: str) -> list[str]:
    """Members are NAME=KIND."""
    need("javac", "a JDK of version 17 or newer")
    source = HERE / "java" / "ShareMember.java"
    jars = f"{kafka_jars()}/*"

    def compile_to(folder: Path) -> None:
        command = ["javac", "-d", str(folder), "-cp", jars, str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr

    classes = made_from("java-share-member", [source], compile_to)
    flags = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
    return ["java", *flags, "-cp", f"{classes}:{jars}", "ShareMember", bootstrap, TOPIC, GROUP, *members]


def franz_go(bootstrap: str, *members: str) -> list[str]:
    need("go", "Go of version 1.26 or newer")
    sources = HERE / "go"

    def build(folder: Path) -> None:
        command = ["go", "build", "-o", str(folder / "member"), "./share"]
        done = subprocess.run(command, cwd=sources, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr

    files = [sources / "go.mod", sources / "go.sum", *sorted((sources / "share").iterdir())]
    program = made_from("franz-go-share-member", files, build) / "member"
    return [str(program), bootstrap, TOPIC, GROUP, *members]


def confluent(bootstrap: str, *members: str) -> list[str]:
    return [sys.executable, "-m", "tests.clients.share_member", bootstrap, TOPIC, GROUP, *members]


# --- what was said


def places_of(ranges: Sequence[Sequence[int]]) -> list[Place]:
    return [(partition, offset) for partition, first, last, _ in ranges for offset in range(first, last + 1)]


@dataclass
class Ledger:
    deliveries: Counter[Place] = field(default_factory=Counter)
    most: dict[Place, int] = field(default_factory=dict)  # the highest delivery count
    decided_by: dict[Place, list[str]] = field(default_factory=dict)  # by whom it was accepted or rejected
    old: dict[int, int] = field(default_factory=dict)  # by partition: where it ended when the broker did
    said: dict[str, Counter[Place]] = field(default_factory=dict)  # by kind: what the broker has confirmed
    unsure: dict[str, set[Place]] = field(default_factory=dict)  # by kind: what was answered with an error, or not

    def got(self, ranges: Sequence[Sequence[int]]) -> None:
        self.deliveries.update(places_of(ranges))
        for each in ranges:
            for place in places_of([each]):
                self.most[place] = max(self.most.get(place, 0), each[3])

    def decided(self, kind: str, places: Sequence[Place], member: str, at: float) -> None:
        """The broker has told the member that the records are accepted, or rejected."""
        for place in places:
            self.decided_by.setdefault(place, []).append(f"{kind} by {member} at {at:.3f}")

    def add(self, kind: str, places: Iterable[Place], *, sure: bool) -> None:
        if sure:
            self.said.setdefault(kind, Counter()).update(places)
        else:
            self.unsure.setdefault(kind, set()).update(places)

    def confirmed(self, kind: str) -> Counter[Place]:
        return self.said.get(kind, Counter())

    def unexplained(self) -> list[Place]:
        """Without a decision that anybody heard of, and not delivered as often as allowed."""
        known: set[Place] = set(self.confirmed("accept")) | set(self.confirmed("reject"))
        known.update(*(self.unsure.get(kind, ()) for kind in ("accept", "reject")))
        return [place for place in self.deliveries if place not in known and self.most[place] < LAST_SEEN]

    def twice(self) -> list[Place]:
        """Records of which members were told more than once that they are accepted or rejected."""
        return sorted(place for place, decisions in self.decided_by.items() if len(decisions) > 1)

    def summary(self, records: int) -> dict[str, int]:
        accepted, rejected = self.confirmed("accept"), self.confirmed("reject")
        unsure = set().union(*(self.unsure.get(kind, set()) for kind in ("accept", "reject")))
        decided = set(accepted) | set(rejected)
        open_ones = {place for place in self.deliveries if place not in decided}
        return {
            "records": records,
            "delivered": len(self.deliveries),
            "accepted": len(accepted),
            "rejected": len(rejected),
            "decided twice": sum(1 for place in self.twice() if place[1] >= self.old.get(place[0], 0)),
            "decided late": sum(1 for place in self.twice() if place[1] < self.old.get(place[0], 0)),
            "delivered as often as allowed": sum(1 for each in open_ones - unsure if self.most[each] >= LAST_SEEN),
            "answer lost": len(open_ones & unsure),
            "unexplained": len(self.unexplained()),
            "delivered again": sum(times - 1 for times in self.deliveries.values()),
            "released": sum(self.confirmed("release").values()),
            "renewed": sum(self.confirmed("renew").values()),
        }


class ShareScenario:
    """One broker, one topic whose records have their offsets as values, one share group and its members."""

    def __init__(self, broker: AnyBroker, folder: Path, partitions: int) -> None:
        self.broker, self._folder = broker, folder
        self.ends = dict.fromkeys(range(partitions), 0)
        self.ledger = Ledger()
        self.members: list[MemberProcess] = []
        self._open: dict[str, set[Place]] = {}  # by process: what it got, until the broker has answered
        self.troubles: Counter[str] = Counter()
        self._problems: list[str] = []
        self._said: queue.Queue[tuple[MemberProcess, dict[str, Any]]] = queue.Queue()
        self._began = time.monotonic()
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic(TOPIC, partitions, 1)])[TOPIC].result(DEADLINE_S)
        self.set_group(share_auto_offset_reset="earliest")
        self.until(self._has_coordinators, "coordinators")

    def set_group(self, **settings: str) -> None:
        request = group_settings_request(GROUP, {name.replace("_", "."): value for name, value in settings.items()})
        answer = self.broker.client.send(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, 1)
        assert answer.responses[0].error_code == 0, answer.responses[0]

    def begin_at_the_start(self) -> None:
        """Written to the state of each partition, which stays when another broker takes over; settings do not."""
        request = alter_offsets_request(GROUP, {(TOPIC, partition): 0 for partition in self.ends})

        def begun() -> bool:
            answer = self.broker.client.send(ApiKey.ALTER_SHARE_GROUP_OFFSETS, request, 0)
            rows = [each.error_code for topic in answer.responses for each in topic.partitions]
            return rows == [0] * len(self.ends)

        self.until(begun, "the group to begin")

    def _has_coordinators(self) -> bool:
        """Of the group, and of the states: asking makes the topics behind them."""
        requests = [FindCoordinatorRequest("", kind, [key]) for kind, key in COORDINATOR_KEYS.items()]
        answers = [self.broker.client.send(ApiKey.FIND_COORDINATOR, request, 6) for request in requests]
        return all(answer.coordinators[0].error_code == 0 for answer in answers)

    # --- steps

    def produce(self, count: int) -> None:
        """So many records more, spread over all partitions."""
        failures: list[KafkaError] = []
        producer = Producer({
            "bootstrap.servers": self.broker.address, "enable.idempotence": True, "linger.ms": 5,
            "batch.num.messages": 100, "queue.buffering.max.messages": 1_000_000,
        })  # fmt: skip

        def told(error: KafkaError | None, message: Any) -> None:
            if error is not None or message.offset() != int(message.value()):
                failures.append(error or KafkaError(KafkaError._FAIL, f"{message.value()} got {message.offset()}"))

        for _ in range(count // len(self.ends)):
            for partition in self.ends:
                producer.produce(TOPIC, b"%d" % self.ends[partition], partition=partition, on_delivery=told)
                self.ends[partition] += 1
            producer.poll(0)
        assert producer.flush(DEADLINE_S) == 0
        assert failures == []

    def start(self, name: str, command: Sequence[str]) -> MemberProcess:
        member = MemberProcess(name, command, [GROUP], self._said, self._folder)
        self.members.append(member)
        return member

    def kill(self, member: MemberProcess) -> None:
        """What it had sent last, the broker may have taken, and nobody knows."""
        member.kill()
        self._drain()
        self.members.remove(member)
        self.ledger.add("accept", self._open.get(member.name, ()), sure=False)

    def end_broker(self, end: Callable[[], object]) -> None:
        """Locks end with it. `end` lets it begin again."""
        end()
        self.ledger.old = dict(self.ends)

    def kill_broker(self) -> None:
        self.broker.kill()
        self.broker.start_again()

    def until_delivered(self, count: int) -> None:
        self.until(lambda: len(self.ledger.deliveries) >= count, f"{count} delivered records")

    def finish(self) -> dict[str, int]:
        """Waits until the broker says that nothing is left to be delivered, and everyone has left; what happened."""
        self.until(self._is_done, "every record to be accepted or archived")
        for member in self.members:
            member.ask_to_close()
        for member in self.members:
            member.wait_until_closed()
        self.members.clear()
        self._drain()
        assert self._problems == []
        summary = self.ledger.summary(sum(self.ends.values()))
        print(f"{time.monotonic() - self._began:.1f} s", summary, "troubles:", dict(self.troubles))
        twice = [(place, self.ledger.decided_by[place]) for place in self.ledger.twice()]
        print(f"decided twice, {len(twice)}:", twice[:3], twice[-3:])
        for place in self.ledger.unexplained():
            said = [kind for kind, places in self.ledger.said.items() if place in places]
            print(place, "delivered", self.ledger.deliveries[place], "highest count", self.ledger.most[place], said)
        return summary

    def _is_done(self) -> bool:
        return set(self.lags().values()) == {0}

    def lags(self) -> dict[int, int]:
        request = describe_offsets_request((GROUP, {TOPIC: list(self.ends)}))
        (group,) = self.broker.client.send(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, request, 1).groups
        return {each.partition_index: each.lag for topic in group.topics for each in topic.partitions}

    def abandon(self) -> None:
        """After a failure: leave no process behind."""
        for member in self.members:
            member.kill()

    # --- events of the members

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain for {what}\n{self._story()}"
            self._listen()

    def _listen(self) -> None:
        with contextlib.suppress(queue.Empty):
            self._take(*self._said.get(timeout=0.1))
        self._drain()
        assert self._problems == []
        for each in self.members:
            status = each.process.poll()
            assert status is None, f"{each.name} ended with {status}: {each.errors.read_text()[-2000:]}"

    def _drain(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._take(*self._said.get_nowait())

    def _take(self, member: MemberProcess, event: dict[str, Any]) -> None:
        match event["event"]:
            case "got":
                self.ledger.got(event["ranges"])
                self._open.setdefault(member.name, set()).update(places_of(event["ranges"]))
            case "said" | "failed":
                places = places_of(event["ranges"])
                self.ledger.add(event["kind"], places, sure=event["event"] == "said")
                if event["event"] == "said" and event["kind"] in ("accept", "reject"):
                    self.ledger.decided(event["kind"], places, event["member"], event["at"])
                self._open[member.name].difference_update(places)
                if event["event"] == "failed":
                    self.troubles[f"{member.name}: {event['kind']}: {event['text'][:80]}"] += 1
            case "trouble":
                self.troubles[f"{member.name}: {event['text'][:80]}"] += 1
            case "problem":
                self._problems.append(f"{member.name}: {event}")

    def _story(self) -> str:
        lines = [f"lags {self.lags()}", f"{self.ledger.summary(sum(self.ends.values()))}", f"{dict(self.troubles)}"]
        lines += [f"{each.name}: {each.errors.read_text(errors='replace')[-1500:]}" for each in self.members]
        return "\n".join(lines)
