"""Ten thousand members that send a heartbeat every three seconds: does one fail, and what do they cost?

    python -m benchmarks.members [--members 10000] [--seconds 30] [--kafka | --peer HOST:PORT --peer-pid PID]
    python -m benchmarks.members --consumer

With --consumer they are groups of KIP-848, whose members send a heartbeat every five seconds.

Groups of ten. Members share connections, five to each, as members of different groups; while a group joins, each of
its members has a connection to itself, since a waiting JoinGroup holds back what follows. Heartbeats leave by the
clock, not when the last one was answered.
"""

from __future__ import annotations

import argparse
import resource
import selectors
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import perf_counter, sleep
from typing import NamedTuple

from benchmarks.broker import Broker, frame, own_broker
from benchmarks.groups import OVERRIDES, connect, wait_for_coordinator
from benchmarks.rebalance import Crew
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.heartbeat import HeartbeatRequest

GROUP_SIZE = 10
MEMBERS_PER_CONNECTION = 5
INTERVAL_S = 3.0
CONSUMER_INTERVAL_S = 5.0
PARTITIONS = 20
SESSION_MS = 45_000
HEARTBEAT_OK_BYTES = 4 + 4 + 1 + 4 + 2 + 1  # frame, correlation id, tags, throttle time, error code, tags


# frame, correlation id, tags, throttle time, error code, message, member id, epoch, interval, assignment, tags
CONSUMER_HEARTBEAT_OK_BYTES = 4 + 4 + 1 + 4 + 2 + 1 + 1 + len("member-00000000") + 4 + 4 + 1 + 1


class Sender(NamedTuple):
    connected: socket.socket
    heartbeat: bytes


class Kind(NamedTuple):
    """Of heartbeats: how often they come, and the size of an answer without an error."""

    interval_s: float
    answer_bytes: int


CLASSIC = Kind(INTERVAL_S, HEARTBEAT_OK_BYTES)
CONSUMER = Kind(CONSUMER_INTERVAL_S, CONSUMER_HEARTBEAT_OK_BYTES)


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) * 1024


def join_all(
    broker: Broker,
    count: int,
    opened: ExitStack,
    session_ms: int = SESSION_MS,
    members_per_connection: int = MEMBERS_PER_CONNECTION,
) -> list[Sender]:
    connections = [opened.enter_context(connect(broker)) for _ in range(count // members_per_connection)]
    senders = []
    for number in range(count // GROUP_SIZE):
        group, first = f"storm-{number}", number * GROUP_SIZE % len(connections)
        with Crew(group, connections[first : first + GROUP_SIZE], session_ms) as crew:
            crew.rebalance()
        for member in crew.members:
            request = HeartbeatRequest(group, member.generation, member.member_id, None)
            senders.append(Sender(member.connected, frame(ApiKey.HEARTBEAT, 4, request)))
    return senders


def join_consumers(broker: Broker, count: int, opened: ExitStack) -> list[Sender]:
    """The same for groups of KIP-848: each settles before the next one comes."""
    from benchmarks.consumer_groups import ASSIGNMENT_INTERVAL_S, Member, ask_at_once, settle, topics

    names = opened.enter_context(topics(broker, 1, PARTITIONS))
    connections = [opened.enter_context(connect(broker)) for _ in range(count // MEMBERS_PER_CONNECTION)]
    groups = []
    for number in range(count // GROUP_SIZE):
        first = number * GROUP_SIZE % len(connections)
        some = connections[first : first + GROUP_SIZE]
        members = [Member(each, f"{names[0]}-{number}", f"member-{place:08d}") for place, each in enumerate(some)]
        ask_at_once(members, [member.join(names) for member in members])
        groups.append(members)
    sleep(ASSIGNMENT_INTERVAL_S)
    for members in groups:
        settle(members, PARTITIONS)
    return [Sender(member.connected, member.heartbeat()) for members in groups for member in members]


def heartbeats(senders: list[Sender], seconds: float, kind: Kind = CLASSIC) -> Iterator[tuple[int, int]]:
    """(sent, failed) once per second or so."""
    selector = selectors.DefaultSelector()
    for connected in {sender.connected for sender in senders}:
        selector.register(connected, selectors.EVENT_READ)
    started, sent, answered, failed, told = perf_counter(), 0, 0, 0, 0.0
    total = int(seconds / kind.interval_s * len(senders))
    while answered < total:
        now = perf_counter() - started
        due = min(total, int(now / kind.interval_s * len(senders)))
        while sent < due:
            sender = senders[sent % len(senders)]
            sender.connected.sendall(sender.heartbeat)
            sent += 1
        for key, _ in selector.select(0.001):
            assert isinstance(key.fileobj, socket.socket)
            data = key.fileobj.recv(65_536)
            assert data, "the broker closed a connection"
            assert len(data) % kind.answer_bytes == 0, data
            for at in range(0, len(data), kind.answer_bytes):
                answered += 1
                failed += data[at + 13 : at + 15] != b"\0\0"
        if now - told > 1:
            told = now
            yield sent, failed
    yield sent, failed


def measure(broker: Broker, count: int, seconds: float, kind: Kind = CLASSIC) -> None:
    wait_for_coordinator(broker, "storm-0")
    with ExitStack() as opened:
        started = perf_counter()
        senders = (join_all if kind is CLASSIC else join_consumers)(broker, count, opened)
        joined_s, cpu_s, began, peak_bytes = perf_counter() - started, broker.cpu_s(), perf_counter(), 0
        sent = failed = 0
        for sent, failed in heartbeats(senders, seconds, kind):  # noqa: B007
            peak_bytes = max(peak_bytes, resident_bytes(broker.pid))
        took = perf_counter() - began
        cpu_s = broker.cpu_s() - cpu_s
    print(f"{broker.name}: {count} members joined in {joined_s:.1f} s")
    print(
        f"  {sent} heartbeats in {took:.1f} s, {failed} failed; "
        f"{cpu_s / sent * 1e6:.1f} us of CPU each, {cpu_s / took:.1%} of a core; {peak_bytes / 1e6:.0f} MB resident"
    )


@contextmanager
def peers(options: argparse.Namespace) -> Iterator[list[Broker]]:
    if options.peer:
        yield [Broker("peer", options.peer, options.peer_pid)]
    elif options.kafka:
        from tests.kafka.server import KafkaServer

        with tempfile.TemporaryDirectory() as folder, KafkaServer(Path(folder)) as kafka:
            yield [Broker("Kafka", kafka.address, kafka.process.pid)]
    else:
        yield []


def main() -> None:
    parser = argparse.ArgumentParser(description="Many members, each heartbeating every three seconds.")
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--consumer", action="store_true", help="members of groups of KIP-848")
    parser.add_argument("--kafka", action="store_true", help="Apache Kafka too, if Java and Maven are here")
    parser.add_argument("--peer", metavar="HOST:PORT")
    parser.add_argument("--peer-pid", type=int)
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with own_broker(OVERRIDES) as broker, peers(options) as others:
        for each in (broker, *others):
            measure(each, options.members, options.seconds, CONSUMER if options.consumer else CLASSIC)


if __name__ == "__main__":
    main()
