"""What delivery to share groups costs: CPU time of the broker per record, memory, and the longest stall.

    python -m benchmarks.share_groups [--seconds 2] [--kafka | --peer HOST:PORT --peer-pid PID]

CPU per cycle, of one member and of 100 members of one group on one partition: ShareFetch acquires the records of one
batch, ShareAcknowledge accepts them. The records are produced beforehand, and that is not measured.

Memory per record in flight is measured in this process. The longest stall is that of a Kohort with 2,000 locked records
on each of 1,000 partitions: while they are acquired, while all locks expire at once, and while a session ends that has
all of them. A bystander asks ApiVersions every 5 ms meanwhile (see benchmarks.large_consumer_group).
"""

from __future__ import annotations

import argparse
import os
import resource
import selectors
import socket
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from time import perf_counter, sleep, time

from benchmarks.broker import RECORD_BYTES, Broker, Figure, frame, own_broker, report, warm_kafka
from benchmarks.consumer_groups import topics
from benchmarks.groups import OVERRIDES, connect, wait_for_coordinator
from kohort.client.client import Client
from kohort.coordinator.config import ShareGroupSettings
from kohort.coordinator.delivery.share_partition import SharePartition
from kohort.coordinator.delivery.states import Acknowledgement, LogBatch, Wish
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import response_decoder
from kohort.protocol.headers import read_response_header
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kohort.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from kohort.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kohort.protocol.record_batch import build_batch
from kohort.protocol.wire import NO_UUID
from tests.attack.bystander import Bystander

VERSION = 2
RECORDS = 500  # of a batch
MEMBERS = 100
RECORDS_OF_MANY = 20  # of a batch, with many members
LOCKED_PARTITIONS = 1_000
LOCKED = 2_000  # records on each of them
LOCK_MS = 15_000
LOADING_MS = 3_000
BYTES_AT_ONCE = 8_000_000
BATCHES_AT_ONCE = 300
IN_FLIGHT = 20  # Produce requests
ACCEPT = 1
GOAL_MS = 20
HEARTBEATS_S = 0.2


class Member:
    """A member with one request in flight. It knows what to send next."""

    def __init__(self, connected: socket.socket, group: str, member_id: str, topic_id: bytes) -> None:
        self.connected = connected
        self.group, self.member_id, self.topic_id = group, member_id, topic_id
        self.epoch = 0
        self.acquired: list[AcknowledgementBatch] = []
        self.records = 0  # acquired so far
        self.data = bytearray()  # of the answer that is arriving
        self.asked = ApiKey.SHARE_FETCH

    def ask(self, api_key: ApiKey, request: object, version: int = VERSION):  # type: ignore[no-untyped-def]
        self.connected.sendall(frame(api_key, version, request))
        size = int.from_bytes(self._exactly(4), "big")
        return decoded(self._exactly(size), api_key, version)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self.connected.recv(size - len(data))
        return data

    def join(self, topic: str, partitions: int = 1) -> None:
        """Until the group has all partitions of the topic."""
        epoch, has = 0, 0
        while has < partitions:
            names = [topic] if epoch == 0 else None
            asked = ShareGroupHeartbeatRequest(self.group, self.member_id, epoch, None, names)
            answer = self.ask(ApiKey.SHARE_GROUP_HEARTBEAT, asked, 1)
            assert answer.error_code == 0, answer
            epoch = answer.member_epoch
            if answer.assignment is not None:
                has = sum(len(each.partitions) for each in answer.assignment.topic_partitions)
            sleep(HEARTBEATS_S)

    def fetch(self, max_records: int, partitions: int = 1, *, wait_ms: int = 10_000) -> ShareFetchRequest:
        named = [FetchPartition(index) for index in range(partitions)] if self.epoch == 0 else []
        request = ShareFetchRequest(
            self.group, self.member_id, self.epoch, wait_ms, 1, 52_428_800, max_records, max_records,
            topics=[FetchTopic(self.topic_id, named)] if named else (),
        )  # fmt: skip
        self.epoch += 1
        return request

    def acknowledge(self) -> ShareAcknowledgeRequest:
        topic = AcknowledgeTopic(self.topic_id, [AcknowledgePartition(0, self.acquired)])
        request = ShareAcknowledgeRequest(self.group, self.member_id, self.epoch, topics=[topic])
        self.acquired = []
        self.epoch += 1
        return request

    def take(self, answer) -> None:  # type: ignore[no-untyped-def]
        assert answer.error_code == 0, answer
        for topic in answer.responses:
            for each in topic.partitions:
                assert each.error_code == 0, answer
                for got in each.acquired_records:
                    self.acquired.append(AcknowledgementBatch(got.first_offset, got.last_offset, [ACCEPT]))
                    self.records += got.last_offset - got.first_offset + 1


def decoded(data: bytes, api_key: ApiKey, version: int = VERSION):  # type: ignore[no-untyped-def]
    _, pos = read_response_header(data, api_key, version)
    return response_decoder(api_key, version)(data, pos)


class Crew:
    """Members of one group on one partition, each with one request in flight."""

    def __init__(self, broker: Broker, members: list[Member], max_records: int) -> None:
        self._broker = broker
        self._max_records = max_records
        self._selector = selectors.DefaultSelector()
        self.cpu_s = self.took_s = 0.0
        self.cycles = self.answer_bytes = 0
        for member in members:
            self._selector.register(member.connected, selectors.EVENT_READ, member)
            self._send(member, ApiKey.SHARE_FETCH)

    def _send(self, member: Member, api_key: ApiKey) -> None:
        request = member.fetch(self._max_records) if api_key is ApiKey.SHARE_FETCH else member.acknowledge()
        member.connected.sendall(frame(api_key, VERSION, request))
        member.data = bytearray()
        member.asked = api_key

    def consume(self, count: int) -> None:
        """Records that were just produced: until all are accepted."""
        cpu_s, started = self._broker.cpu_s(), perf_counter()
        accepted = 0
        while accepted < count:
            for key, _ in self._selector.select(1.0):
                accepted += self._receive(key.data)
        self.cpu_s += self._broker.cpu_s() - cpu_s
        self.took_s += perf_counter() - started

    def _receive(self, member: Member) -> int:
        member.data += member.connected.recv(1 << 20)
        data = member.data
        if len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            return 0
        answer = decoded(bytes(data[4:]), member.asked)
        self.answer_bytes += len(data)
        if member.asked is ApiKey.SHARE_FETCH:
            member.take(answer)
            self._send(member, ApiKey.SHARE_ACKNOWLEDGE if member.acquired else ApiKey.SHARE_FETCH)
            return 0
        assert answer.responses[0].partitions[0].error_code == 0, answer
        accepted, member.records = member.records, 0
        self.cycles += 1
        self._send(member, ApiKey.SHARE_FETCH)
        return accepted


def measure_delivery(member_count: int, batch_records: int, broker: Broker, seconds: float) -> Figure:
    """CPU per cycle: a ShareFetch, and the ShareAcknowledge of what it got."""
    with ExitStack() as opened:
        (topic,) = opened.enter_context(topics(broker, 1, 1))
        client = opened.enter_context(Client(broker.address))
        topic_id = id_of(client, topic)
        connections = [opened.enter_context(connect(broker)) for _ in range(member_count)]
        members = [
            Member(each, f"{topic}-group", f"member-{number:015d}", topic_id) for number, each in enumerate(connections)
        ]
        wait_for_coordinator(broker, members[0].group)
        members[0].join(topic)
        first = members[0]
        # The group begins with new records. Kafka needs a moment until it knows where that is.
        first.take(first.ask(ApiKey.SHARE_FETCH, first.fetch(1, wait_ms=LOADING_MS)))
        crew = Crew(broker, members, batch_records)
        batch = build_batch(
            [(None, os.urandom(RECORD_BYTES)) for _ in range(batch_records)], timestamp=int(time() * 1000)
        )
        at_once = min(BYTES_AT_ONCE // len(batch), BATCHES_AT_ONCE)
        produce(client, topic, batch, at_once)
        crew.consume(at_once * batch_records)  # a warm-up
        crew.cpu_s = crew.took_s = 0.0
        crew.cycles = crew.answer_bytes = 0
        while crew.took_s < seconds:
            produce(client, topic, batch, at_once * 10)
            crew.consume(at_once * 10 * batch_records)
        return Figure(crew.cycles, crew.took_s, crew.cpu_s, crew.answer_bytes)


def produce(client: Client, topic: str, batch: bytes, count: int, partition: int = 0) -> None:
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(partition, batch)])
    request = ProduceRequest(None, -1, 10_000, [data])
    for first in range(0, count, IN_FLIGHT):
        sent = [client.post(ApiKey.PRODUCE, request, 9) for _ in range(min(IN_FLIGHT, count - first))]
        for each in sent:
            answer = client.receive(ApiKey.PRODUCE, 9, each)
            assert answer.responses[0].partition_responses[0].error_code == 0, answer


def id_of(client: Client, topic: str) -> bytes:
    answer = client.send(ApiKey.METADATA, MetadataRequest([MetadataRequestTopic(NO_UUID, topic)], False), 12)
    found: bytes = answer.topics[0].topic_id
    return found


SCENARIOS = (
    (
        f"ShareFetch + ShareAcknowledge, {RECORDS} records x {RECORD_BYTES} B",
        partial(measure_delivery, 1, RECORDS),
        1.0,
    ),
    (
        f"{MEMBERS} members on one partition, {RECORDS_OF_MANY} records each time",
        partial(measure_delivery, MEMBERS, RECORDS_OF_MANY),
        None,
    ),
)


# --- memory -----------------------------------------------------------------------------------------------------------


def report_memory() -> None:
    print("memory per record in flight")
    print(f"  acquired in batches of {RECORDS}: {_bytes_per_record(every=0):.1f} B")
    print(f"  every tenth one accepted:   {_bytes_per_record(every=10):.1f} B")
    print(f"  every other one accepted:   {_bytes_per_record(every=2):.1f} B")


def _bytes_per_record(every: int, partitions: int = 100) -> float:
    settings = ShareGroupSettings()
    log = [LogBatch(first, first + RECORDS - 1) for first in range(0, LOCKED, RECORDS)]
    tracemalloc.start()
    kept = []
    for _ in range(partitions):
        share = SharePartition(lambda: settings, 0)
        share.acquire(Wish("m", LOCKED, RECORDS), 0, log, 0)
        if every:
            told = [Acknowledgement(offset, offset, [ACCEPT]) for offset in range(1, LOCKED, every)]
            write = share.acknowledge("m", told, 0)
            share.written(write, 0)  # type: ignore[arg-type]
        kept.append(share)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / partitions / LOCKED


# --- stalls -----------------------------------------------------------------------------------------------------------


@contextmanager
def locked_records(broker: Broker) -> Iterator[tuple[Member, Bystander]]:
    with ExitStack() as opened:
        (topic,) = opened.enter_context(topics(broker, 1, LOCKED_PARTITIONS))
        client = opened.enter_context(Client(broker.address))
        member = Member(opened.enter_context(connect(broker)), f"{topic}-group", "member-0", id_of(client, topic))
        member.join(topic, LOCKED_PARTITIONS)
        member.take(member.ask(ApiKey.SHARE_FETCH, member.fetch(1, LOCKED_PARTITIONS, wait_ms=0)))
        batch = build_batch([(None, b"x" * 20)] * RECORDS, timestamp=int(time() * 1000))
        for partition in range(LOCKED_PARTITIONS):
            produce(client, topic, batch, LOCKED // RECORDS, partition)
        yield member, opened.enter_context(Bystander(broker.address, broker.pid))


def acquire_all(member: Member) -> None:
    while member.records < LOCKED * LOCKED_PARTITIONS:
        before = member.records
        member.take(member.ask(ApiKey.SHARE_FETCH, member.fetch(LOCKED * LOCKED_PARTITIONS, wait_ms=0)))
        assert member.records > before, f"{before} records were acquired, and then no more"


def report_stalls(broker: Broker) -> None:
    print(f"{LOCKED:,} records locked on each of {LOCKED_PARTITIONS:,} partitions (goal: held less than {GOAL_MS} ms)")
    with locked_records(broker) as (member, bystander):
        for event in ("all locks expire", "their session ends"):
            member.records = 0
            bystander.longest_wait()
            acquire_all(member)
            _tell("all are acquired", bystander)
            if event == "all locks expire":
                sleep(LOCK_MS / 1000 + 3)
            else:
                member.connected.close()
                sleep(3)
            _tell(event, bystander)


def _tell(event: str, bystander: Bystander) -> None:
    wait = bystander.longest_wait()
    print(f"  {event}: a bystander waited {wait.wall_ms:.1f} ms, held for {wait.held_ms:.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU per record of share groups, their memory, and stalls.")
    parser.add_argument("--peer", metavar="HOST:PORT", help="a broker to compare with")
    parser.add_argument("--peer-pid", type=int, help="its process")
    parser.add_argument("--kafka", action="store_true", help="start Apache Kafka as the peer")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3, help="how often each figure is taken; the best counts")
    parser.add_argument("--only", choices=["cpu", "memory", "stalls"])
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if options.only in (None, "cpu"):
        with ExitStack() as started:
            peers = [Broker("peer", options.peer, options.peer_pid)] if options.peer else []
            if options.kafka and not peers:
                peers = list(started.enter_context(warm_kafka(SCENARIOS)))
            broker = started.enter_context(own_broker(OVERRIDES))
            report(SCENARIOS, [broker, *peers], options.seconds, options.rounds)
    if options.only in (None, "memory"):
        report_memory()
    if options.only in (None, "stalls"):
        lock = (f"group.share.record.lock.duration.ms={LOCK_MS}",)
        with own_broker((*OVERRIDES, *lock)) as broker:
            report_stalls(broker)


if __name__ == "__main__":
    main()
