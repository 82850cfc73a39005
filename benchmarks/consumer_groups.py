"""What groups of KIP-848 cost the coordinator: CPU time of its process per ConsumerGroupHeartbeat, and per convergence.

    python -m benchmarks.consumer_groups [--seconds 2] [--kafka | --peer HOST:PORT --peer-pid PID]

As benchmarks.groups, with 50 connections. A convergence: 50 members of a new group join at once, wait until the broker
may compute a target for all of them, and heartbeat until each has its share. The wait itself is not measured, because
a JVM that does nothing still takes some CPU.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import perf_counter, sleep, time
from typing import Any

from benchmarks.broker import Broker, Figure, Loop, frame, run_report
from benchmarks.groups import CONNECTIONS, OVERRIDES, connect, wait_for_coordinator
from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import response_decoder
from kohort.protocol.headers import read_response_header
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.wire import NO_UUID

VERSION = 1
PARTITIONS = 100
MEMBERS = 50
GROUPS_AT_ONCE = 10
REBALANCE_MS = 300_000
SILENCE_S = 0.05
ASSIGNMENT_INTERVAL_S = 1.05  # group.consumer.assignment.interval.ms, and a little


class Member:
    """A member whose requests may leave before those of others are answered."""

    def __init__(self, connected: socket.socket, group: str, member_id: str) -> None:
        self.connected = connected
        self.group, self.member_id = group, member_id
        self.epoch = 0
        self.has: list[TopicPartitions] = []
        self._told = self.has

    def join(self, topics: list[str]) -> bytes:
        self.epoch, self.has = 0, []
        self._told = self.has
        return self._frame(rebalance_timeout_ms=REBALANCE_MS, subscribed_topic_names=topics, topic_partitions=[])

    def heartbeat(self) -> bytes:
        """It says what the member has if that is news, as those of real clients do."""
        news = None if self.has == self._told else self.has
        self._told = self.has
        return self._frame(topic_partitions=news)

    def leave(self) -> bytes:
        self.epoch = -1
        return self._frame()

    def _frame(self, **said: Any) -> bytes:
        asked = ConsumerGroupHeartbeatRequest(self.group, self.member_id, self.epoch, **said)
        return frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, VERSION, asked)

    def ask(self, request: bytes) -> bool:
        self.connected.sendall(request)
        return self.receive()

    def receive(self) -> bool:
        """Whether the answer told another epoch or assignment."""
        answer = receive(self.connected)
        before = self.epoch, self.has
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.has = list(answer.assignment.topic_partitions)
        return (self.epoch, self.has) != before


def ask_at_once(members: list[Member], requests: list[bytes]) -> int:
    """All requests are ready before the first one leaves. Returns how many answers told something new."""
    for member, request in zip(members, requests, strict=True):
        member.connected.sendall(request)
    return sum([member.receive() for member in members])


def receive(connected: socket.socket) -> Any:
    data = _exactly(connected, int.from_bytes(_exactly(connected, 4), "big"))
    _, pos = read_response_header(data, ApiKey.CONSUMER_GROUP_HEARTBEAT, VERSION)
    answer = response_decoder(ApiKey.CONSUMER_GROUP_HEARTBEAT, VERSION)(data, pos)
    assert answer.error_code == 0, answer
    return answer


def _exactly(connected: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = connected.recv(size)
        assert part, "the broker closed a connection"
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


@contextmanager
def topics(broker: Broker, count: int, partitions: int) -> Iterator[list[str]]:
    """New topics, once the broker knows them."""
    names = [f"bench-consumer-{int(time() * 1000)}-{number}" for number in range(count)]
    with Client(broker.address, timeout_s=300) as client:
        for name in names:
            made = CreateTopicsRequest([CreatableTopic(name, partitions, 1)], 120_000)
            client.send(ApiKey.CREATE_TOPICS, made, 5)
            asked = MetadataRequest([MetadataRequestTopic(NO_UUID, name)], False)
            while len(client.send(ApiKey.METADATA, asked, 9).topics[0].partitions) < partitions:
                pass
        try:
            yield names
        finally:
            client.send(ApiKey.DELETE_TOPICS, DeleteTopicsRequest([], names, 120_000), 5)


def wait_for_group(broker: Broker, group: str) -> None:
    """Until the log of the group's shard is loaded: classic and consumer groups have the same shards."""
    wait_for_coordinator(broker, group)


def settle(members: list[Member], partition_count: int, at_once: int = MEMBERS) -> None:
    """Everybody heartbeats, so many at once, again and again, until all partitions have an owner in one epoch."""
    while True:
        news = 0
        for first in range(0, len(members), at_once):
            some = members[first : first + at_once]
            news += ask_at_once(some, [member.heartbeat() for member in some])
        if not news and len({member.epoch for member in members}) == 1 and owned_count(members) == partition_count:
            return
        if not news:
            sleep(SILENCE_S)  # the broker has just heard of the topic, and may not compute another target yet


def owned_count(members: list[Member]) -> int:
    owned = [(topic.topic_id, one) for member in members for topic in member.has for one in topic.partitions]
    assert len(set(owned)) == len(owned), "a partition has two owners"
    return len(owned)


def measure_heartbeat(broker: Broker, seconds: float) -> Figure:
    def check(data: bytes, size: int) -> None:  # noqa: ARG001
        _, pos = read_response_header(data, ApiKey.CONSUMER_GROUP_HEARTBEAT, VERSION)
        assert response_decoder(ApiKey.CONSUMER_GROUP_HEARTBEAT, VERSION)(data, pos).error_code == 0

    with topics(broker, 1, PARTITIONS) as names, connect(broker) as connected:
        group = f"{names[0]}-group"
        wait_for_group(broker, group)
        member = Member(connected, group, "member-of-22-characters")
        member.ask(member.join(names))
        settle([member], PARTITIONS)  # a topic that Kafka's coordinator has just heard of changes the epoch
        figure = Loop(broker, [member.heartbeat()], check, CONNECTIONS).measure(seconds, seconds)
        member.ask(member.leave())
        return figure


def measure_convergence(broker: Broker, seconds: float) -> Figure:
    done, cpu_s, took_s = 0, 0.0, 0.0
    with ExitStack() as opened:
        names = opened.enter_context(topics(broker, 1, PARTITIONS))
        connections = [opened.enter_context(connect(broker)) for _ in range(MEMBERS)]
        _converge(broker, connections, names, 0)  # a warm-up
        while took_s < seconds:
            used_s, busy_s = _converge(broker, connections, names, done + 1)
            done, cpu_s, took_s = done + GROUPS_AT_ONCE, cpu_s + used_s, took_s + busy_s
    return Figure(done, took_s, cpu_s, 0)


def _converge(broker: Broker, connections: list[socket.socket], names: list[str], number: int) -> tuple[float, float]:
    """The CPU and wall time of as many convergences as are done at once, without the time in which all wait."""
    groups = [
        [Member(each, f"{names[0]}-{number}-{group}", f"member-{place:015d}") for place, each in enumerate(connections)]
        for group in range(GROUPS_AT_ONCE)
    ]
    for members in groups:
        wait_for_group(broker, members[0].group)
    cpu_s, started = broker.cpu_s(), perf_counter()
    for members in groups:
        ask_at_once(members, [member.join(names) for member in members])
    cpu_s, took_s = broker.cpu_s() - cpu_s, perf_counter() - started
    sleep(ASSIGNMENT_INTERVAL_S)
    cpu_before, started = broker.cpu_s(), perf_counter()
    for members in groups:
        settle(members, PARTITIONS)
    cpu_s, took_s = cpu_s + broker.cpu_s() - cpu_before, took_s + perf_counter() - started
    for members in groups:
        ask_at_once(members, [member.leave() for member in members])
    return cpu_s, took_s


SCENARIOS = (
    ("ConsumerGroupHeartbeat", measure_heartbeat, 0.35),
    (f"{MEMBERS} members join at once, until all have their share", measure_convergence, 0.7),
)


if __name__ == "__main__":
    run_report(SCENARIOS, OVERRIDES)
