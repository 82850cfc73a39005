"""Drives groups of real clients through joins, leaves, crashes and broker restarts, and checks what they did.

Members are processes (group_member.py says how they speak); one process may be a member of several groups, which then
go through the same steps together. A producer writes numbered records to every partition all the time. A group has
settled when the broker says that it is Stable, every partition has exactly one owner, and each member believes
to own what the broker says. At the end every record must have been consumed at least once; more than once is counted.
"""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.clients.group_broker import AnyBroker
from tests.clients.group_member import CLOSE_DEADLINE_S
from tests.clients.ownership import Ownership

TOPIC = "numbers"
PARTITIONS = 12
SESSION_MS = 6000
DEADLINE_S = 180.0  # for a busy machine; nothing is measured by it
LIBRDKAFKA_MEMBERS = ("tests.clients.group_member_confluent", "tests.clients.group_committer")
PRODUCE_EVERY_S = 0.1
ROOT = Path(__file__).parents[2]


def translated(event: dict[str, Any], group: str) -> dict[str, Any]:
    """A line of Kafka's VerifiableConsumer in the words of our own member programs."""
    match event["name"]:
        case "partitions_assigned" | "partitions_revoked":
            partitions = [each["partition"] for each in event["partitions"]]
            said = {"event": event["name"].removeprefix("partitions_"), "partitions": partitions}
        case "records_consumed":
            ranges = [[each["partition"], each["minOffset"], each["maxOffset"]] for each in event["partitions"]]
            said = {"event": "consumed", "ranges": ranges}
        case "offsets_committed" if event["success"]:
            said = {"event": "committed", "offsets": {each["partition"]: each["offset"] for each in event["offsets"]}}
        case "offsets_committed":
            said = {"event": "commit_failed"}
        case "shutdown_complete":
            said = {"event": "closed"}
        case _:
            said = {"event": event["name"]}
    return {"group": group, **said}


class MemberProcess:
    """A client program, and the thread that reads what it says."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        groups: Iterable[str],
        said: queue.Queue[tuple[MemberProcess, dict[str, Any]]],
        folder: Path,
    ) -> None:
        self.name = name
        self.groups = frozenset(groups)
        self.owned: dict[str, frozenset[int]] = dict.fromkeys(self.groups, frozenset())
        self.closed: set[str] = set()
        self.leaves_by_signal = "org.apache.kafka.tools.VerifiableConsumer" in command
        self._may_hang_in_close = any(module in command for module in LIBRDKAFKA_MEMBERS)
        self._said = said
        self.errors = folder / f"{name}.err"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                try:
                    event = json.loads(line)
                except ValueError:
                    continue  # the half line of a process that was killed
                if "name" in event:
                    (group,) = self.groups
                    event = translated(event, group)
                event.setdefault("at", time.monotonic())
                self._said.put((self, event))

    def ask_to_close(self) -> None:
        if self.leaves_by_signal:
            self.process.terminate()
            return
        assert self.process.stdin is not None
        self.process.stdin.write("close\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Send SIGKILL: the member's connections close, but its sessions go on until they expire."""
        self.process.kill()
        self._reap()

    def wait_until_closed(self, deadline_s: float = CLOSE_DEADLINE_S) -> None:
        """Wait until the member has left its groups and ended. One that hangs in librdkafka's close is killed.

        What such a member was told before still counts. Its session ends by time, as after a crash.
        """
        try:
            status = self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            self.kill()
            told = self.errors.read_text(errors="replace")
            assert self._may_hang_in_close, f"{self.name} did not close within {deadline_s:g} s: {told[-2000:]}"
            print(f"{self.name} hung in close and was killed (docs/clients.md, known client problems)\n{told[-4000:]}")
        else:
            self._reap()
            told = self.errors.read_text(errors="replace")
            assert status in (0, 143), f"{self.name} ended with {status}: {told[-2000:]}"

    def _reap(self) -> None:
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


class Ledger:
    """What all members of one group together have consumed and committed."""

    def __init__(self) -> None:
        self.consumed: dict[int, Counter[int]] = {partition: Counter() for partition in range(PARTITIONS)}
        self.next_offset = dict.fromkeys(range(PARTITIONS), 0)  # up to here everything was consumed
        self.committed = dict.fromkeys(range(PARTITIONS), 0)  # the highest that a member was told is committed
        self.failed_commits = 0

    def add_range(self, partition: int, first: int, last: int) -> None:
        counts = self.consumed[partition]
        counts.update(range(first, last + 1))
        while self.next_offset[partition] in counts:
            self.next_offset[partition] += 1

    def duplicates(self) -> int:
        return sum(times - 1 for counts in self.consumed.values() for times in counts.values())


class NumberProducer:
    """Writes 0, 1, 2 ... to each partition, so that a record's value is its offset, until it is stopped."""

    def __init__(self, bootstrap: str, every_s: float = PRODUCE_EVERY_S) -> None:
        self._every_s = every_s
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        self._producer = Producer({**settings, "reconnect.backoff.max.ms": 500, "linger.ms": 5})
        self.delivered = dict.fromkeys(range(PARTITIONS), 0)
        self._failures: list[KafkaError] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(self._every_s):
            for partition in range(PARTITIONS):
                self._producer.produce(TOPIC, b"%d" % number, partition=partition, on_delivery=self._told)
            number += 1
            self._producer.poll(0)

    def _told(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self._failures.append(error)
        elif message.offset() != int(message.value()):
            self._failures.append(error or KafkaError(KafkaError._FAIL, f"{message.value()} got {message.offset()}"))
        else:
            self.delivered[message.partition()] = message.offset() + 1

    def check(self) -> None:
        assert self._failures == []

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(DEADLINE_S) == 0
        self.check()


class Scenario:
    """One broker, one topic, some groups and their members."""

    def __init__(self, broker: AnyBroker, groups: Iterable[str], folder: Path) -> None:
        self.broker = broker
        self._folder = folder
        self.groups = list(groups)
        self.ledgers = {group: Ledger() for group in self.groups}
        self.ownership = {group: Ownership() for group in self.groups}
        self.members: list[MemberProcess] = []
        self.problems: list[str] = []
        self._said: queue.Queue[tuple[MemberProcess, dict[str, Any]]] = queue.Queue()
        self._started = time.monotonic()
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(DEADLINE_S)
        self.producer = self.make_producer()

    def make_producer(self) -> NumberProducer:
        return NumberProducer(self.broker.address)

    # --- steps

    def start(self, name: str, command: Sequence[str], groups: Iterable[str]) -> MemberProcess:
        member = MemberProcess(name, command, groups, self._said, self._folder)
        self.members.append(member)
        return member

    def kill(self, *members: MemberProcess) -> None:
        for member in members:
            member.kill()
            self._gone(member)

    def close(self, *members: MemberProcess) -> None:
        """Ask them to leave, and wait until they are gone."""
        for member in members:
            member.ask_to_close()
        for member in members:
            member.wait_until_closed()
            self._gone(member)

    def _gone(self, member: MemberProcess) -> None:
        """Its process has ended, and everything that it said waits to be read."""
        at = time.monotonic()
        self._drain()
        for group in member.groups:
            self.ownership[group].ended(member.name, at)
        self.members.remove(member)

    def settle(self, what: str) -> None:
        """Wait until all groups have settled and go on consuming and committing; nothing acknowledged is lost."""
        self.until(lambda: all(self._has_settled(group) for group in self.groups), what)
        self._progress(what)
        self.say(what)

    def say(self, what: str) -> None:
        duplicates = ", ".join(f"{group} {self.ledgers[group].duplicates()}" for group in self.groups)
        print(f"{time.monotonic() - self._started:6.1f} s  {what:30s} duplicates so far: {duplicates}")

    def finish(self) -> None:
        """Stop the producer. Everything that was written must be consumed and committed."""
        self.producer.stop()
        ends = self.producer.delivered
        self.until(lambda: all(self._has_reached(group, ends) for group in self.groups), "everything is consumed")
        for group in self.groups:
            ledger = self.ledgers[group]
            for partition, end in ends.items():
                assert sorted(ledger.consumed[partition]) == list(range(end)), (group, partition)
            committed = self.broker.committed(group)
            assert committed == {(TOPIC, partition): end for partition, end in ends.items()}, group
        self.say(f"{sum(ends.values())} records consumed")
        self.close(*self.members)
        assert self.problems == []

    def abandon(self) -> None:
        """After a failure: leave no process behind."""
        for member in self.members:
            member.kill()

    # --- events of the members

    def until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, f"{what}: still not so\n{self._story()}"
            self._listen()

    def _listen(self) -> None:
        """Take in the events of the members, for a moment."""
        with contextlib.suppress(queue.Empty):
            self._take(*self._said.get(timeout=0.1))
        self._drain()
        assert self.problems == []
        self.producer.check()
        for each in self.members:
            assert each.process.poll() is None, f"{each.name} ended: {each.errors.read_text()[-2000:]}"

    def _drain(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._take(*self._said.get_nowait())

    def _take(self, member: MemberProcess, event: dict[str, Any]) -> None:
        group = event["group"]
        ledger = self.ledgers[group]
        match event["event"]:
            case "assigned":
                member.owned[group] |= frozenset(event["partitions"])
                self.ownership[group].gained(member.name, event["partitions"], event["at"])
            case "revoked" | "lost":
                member.owned[group] -= frozenset(event["partitions"])
                self.ownership[group].gave_up(member.name, event["partitions"], event["at"])
            case "owns":
                member.owned[group] = frozenset(event["partitions"])
            case "consumed":
                for partition, first, last in event["ranges"]:
                    ledger.add_range(partition, first, last)
            case "committed":
                for partition, offset in event["offsets"].items():
                    ledger.committed[int(partition)] = max(ledger.committed[int(partition)], offset)
            case "commit_failed":
                ledger.failed_commits += 1
            case "closed":
                member.closed.add(group)
            case "problem":
                self.problems.append(f"{member.name}: {event}")

    # --- conditions

    def _has_settled(self, group: str) -> bool:
        members = [member for member in self.members if group in member.groups]
        believed = [member.owned[group] for member in members]
        if sorted(p for owned in believed for p in owned) != list(range(PARTITIONS)):
            return False
        described = self.broker.describe(group)
        owned = list(described.owned.values())
        places = [place for each in owned for place in each]
        assert len(places) == len(set(places)), f"the broker says that {group} owns a partition twice: {described}"
        said = Counter(frozenset(partition for _, partition in each) for each in owned)
        return described.state == "Stable" and said == Counter(believed)

    def _progress(self, what: str) -> None:
        before = dict(self.producer.delivered)
        produced = lambda: all(end > before[p] for p, end in self.producer.delivered.items())  # noqa: E731
        self.until(produced, f"{what}: records are produced")
        ends = dict(self.producer.delivered)
        self.until(
            lambda: all(self._has_reached(group, ends) for group in self.groups), f"{what}: records are consumed"
        )
        for group in self.groups:
            committed = self.broker.committed(group)
            for partition, acknowledged in self.ledgers[group].committed.items():
                assert committed[TOPIC, partition] >= acknowledged, (what, group, partition, acknowledged, committed)

    def _has_reached(self, group: str, ends: dict[int, int]) -> bool:
        ledger = self.ledgers[group]
        return all(ledger.next_offset[p] >= end and ledger.committed[p] >= end for p, end in ends.items())

    def _story(self) -> str:
        lines = [f"produced {self.producer.delivered}"]
        for group in self.groups:
            lines.append(f"{group}: consumed {self.ledgers[group].next_offset}")
            lines.append(f"{group}: committed {self.ledgers[group].committed}")
            lines.append(f"{group}: {self.broker.describe(group)}")
        for member in self.members:
            lines.append(f"{member.name} believes to own { {g: sorted(o) for g, o in member.owned.items()} }")
            lines.append(member.errors.read_text(errors="replace")[-1000:])
        return "\n".join(lines)
