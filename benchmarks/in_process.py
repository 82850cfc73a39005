"""What a request costs inside the process: from its bytes to the answer's, without sockets and the kernel's TCP.

    python -m benchmarks.in_process [--rounds 20] [--profile heartbeat]

50 connections with a group each take turns, as in benchmarks.groups and the rig's load generator; commits go to real
files (page cache). The best round counts. `--profile` prints where the time of one scenario goes.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import pstats
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from struct import Struct
from time import process_time
from typing import Any

import uvloop

from benchmarks.broker import equal_records, frame, varied_records
from benchmarks.groups import OVERRIDES
from kohort.broker.broker import Broker
from kohort.broker.config import load_config
from kohort.broker.connection import Connection
from kohort.broker.server import Server
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import response_decoder
from kohort.protocol.headers import read_response_header
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kohort.protocol.record_batch import build_batch
from kohort.storage.disk import RealDisk

GROUPS = 50
PARTITIONS = 100
TOPIC = "bench-topic-of-usual-length"
SETTINGS = ["listeners=PLAINTEXT://127.0.0.1:0", *OVERRIDES]
OFFSET = 0x7A7A7A7A7A7A7A7A  # stands for the offsets of a commit, to find their places in its frame

_int64 = Struct(">q").pack


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.last = b""
        self._socket = socket.socket()  # not connected: only its number is asked for

    def write(self, data: Any) -> None:
        self.last = data

    def close(self) -> None:
        pass

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 1), "socket": self._socket}.get(name, default)


class Client:
    """A connection without a socket."""

    def __init__(self, server: Server) -> None:
        self.transport = FakeTransport()
        self.connection = Connection(server, 0)
        self.connection.connection_made(self.transport)

    async def ask(self, api_key: ApiKey, version: int, request: object) -> Any:
        self.transport.last = b""
        self.connection.data_received(frame(api_key, version, request))
        while not self.transport.last:
            await asyncio.sleep(0)
        answer = self.transport.last[4:]
        _, pos = read_response_header(answer, api_key, version)
        return response_decoder(api_key, version)(answer, pos)


class Member(Client):
    """The only member of its group."""

    async def join(self, number: int) -> None:
        self.group = f"bench-group-{number:04d}"
        protocols = [JoinGroupRequestProtocol("range", bytes(10))]
        asked = JoinGroupRequest(self.group, 300_000, 300_000, "", None, "consumer", protocols)
        joined = await self.ask(ApiKey.JOIN_GROUP, 3, asked)
        self.member_id, self.generation = joined.member_id, joined.generation_id
        assignment = [SyncGroupRequestAssignment(self.member_id, bytes(100))]
        synced = SyncGroupRequest(self.group, self.generation, self.member_id, assignments=assignment)
        assert (await self.ask(ApiKey.SYNC_GROUP, 3, synced)).error_code == 0

    def heartbeats(self) -> Iterator[bytes]:
        asked = HeartbeatRequest(self.group, self.generation, self.member_id, None)
        return numbered([frame(ApiKey.HEARTBEAT, 4, asked)])

    def commits(self, partitions: int) -> Iterator[bytes]:
        rows = [OffsetCommitRequestPartition(index, OFFSET, 0, "") for index in range(partitions)]
        topics = [OffsetCommitRequestTopic(TOPIC, partitions=rows)]
        asked = OffsetCommitRequest(self.group, self.generation, self.member_id, None, -1, topics)
        pattern = frame(ApiKey.OFFSET_COMMIT, 9, asked)
        return numbered([pattern.replace(_int64(OFFSET), _int64(offset)) for offset in range(100)])

    def fetches(self, partitions: int) -> Iterator[bytes]:
        topics = [OffsetFetchRequestTopics(TOPIC, partition_indexes=list(range(partitions)))]
        groups = [OffsetFetchRequestGroup(self.group, self.member_id, self.generation, topics)]
        return numbered([frame(ApiKey.OFFSET_FETCH, 9, OffsetFetchRequest(groups=groups, require_stable=True))])

    def produces(self, values: Callable[[], list[bytes]]) -> Iterator[bytes]:
        batch = build_batch([(None, value) for value in values()], timestamp=1)
        data = TopicProduceData(TOPIC, partition_data=[PartitionProduceData(0, batch)])
        return numbered([frame(ApiKey.PRODUCE, 9, ProduceRequest(None, -1, 10_000, [data]))])


def numbered(frames: list[bytes]) -> Iterator[bytes]:
    """Over and over, each with a correlation id of its own."""
    pieces = [(each[:8], each[12:]) for each in frames]
    for number in count():
        start, rest = pieces[number % len(pieces)]
        yield start + number.to_bytes(4, "big") + rest


SCENARIOS: dict[str, tuple[Callable[[Member], Iterator[bytes]], int]] = {  # with requests per connection and round
    "heartbeat": (Member.heartbeats, 400),
    "commit-1": (lambda member: member.commits(1), 100),
    "commit-10": (lambda member: member.commits(10), 50),
    "commit-100": (lambda member: member.commits(100), 5),
    "fetch-10": (lambda member: member.fetches(10), 100),
    "produce-equal": (lambda member: member.produces(equal_records), 10),
    "produce-varied": (lambda member: member.produces(varied_records), 10),
}


async def play(members: list[Member], frames: list[list[bytes]]) -> float:
    """Every connection sends its next request in each turn; seconds of CPU for all of them."""
    started = process_time()
    for turn in frames:
        for member, sent in zip(members, turn, strict=True):
            member.connection.data_received(sent)
        await asyncio.sleep(0)
    for member in members:
        while member.connection._parked is not None:
            await asyncio.sleep(0)
    return process_time() - started


@contextmanager
def profiled(wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    with cProfile.Profile() as profile:
        yield
    pstats.Stats(profile).sort_stats("tottime").print_stats(30)


async def measure(folder: str, rounds: int, only: str | None, profile: str | None) -> None:
    server = Server(Broker(load_config(overrides=[*SETTINGS, f"log.dirs={folder}"]), RealDisk()))
    await server.start()
    admin = Client(server)
    await admin.ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, 1)], 10_000))
    members = [Member(server) for _ in range(GROUPS)]
    for number, member in enumerate(members):
        await member.join(number)
    gc.freeze()
    gc.set_threshold(25_000, 20, 50)
    for name, (requests, turns) in SCENARIOS.items():
        if only and only not in name:
            continue
        streams = [requests(member) for member in members]
        best = float("inf")
        for _ in range(rounds):
            frames = [[next(stream) for stream in streams] for _ in range(turns)]
            with profiled(name == profile):
                best = min(best, await play(members, frames))
        print(f"{name:16} {best / turns / GROUPS * 1e6:7.2f} us")
    await server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", metavar="NAME", help="part of a scenario's name")
    parser.add_argument("--profile", metavar="NAME", help="of a scenario")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        uvloop.run(measure(folder, options.rounds, options.only, options.profile))


if __name__ == "__main__":
    main()
