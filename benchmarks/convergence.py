"""What a convergence of 50 members costs inside the process, without sockets and the kernel's TCP.

    python -m benchmarks.convergence [--groups 20] [--profile]

As the second figure of benchmarks.consumer_groups: 50 members of a new group join at once, wait until the broker may
compute a target for all of them, and heartbeat until each has its share. Records go to real files (page cache).
The best group counts, round by round: all join, and heartbeat until nothing is new. `--profile` prints where the time
goes.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import pstats
import tempfile
from dataclasses import dataclass, field
from time import process_time

import uvloop

from benchmarks.broker import frame
from benchmarks.consumer_groups import ASSIGNMENT_INTERVAL_S, MEMBERS, PARTITIONS, REBALANCE_MS, VERSION
from benchmarks.in_process import SETTINGS, TOPIC, Client
from kohort.broker.broker import Broker
from kohort.broker.config import load_config
from kohort.broker.server import Server
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import response_decoder
from kohort.protocol.headers import read_response_header
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.storage.disk import RealDisk

WARM_UP_GROUPS = 100  # so many that nearly all partitions of __consumer_offsets have a file


@dataclass(slots=True)
class Member:
    client: Client
    group: str
    member_id: str
    epoch: int = 0
    has: list[TopicPartitions] = field(default_factory=list)
    told: list[TopicPartitions] | None = None  # what the broker was told that the member has

    def request(self, topics: list[str] | None = None) -> bytes:
        """`topics`: join, with this subscription."""
        asked = ConsumerGroupHeartbeatRequest(self.group, self.member_id, self.epoch)
        if topics is not None:
            asked.rebalance_timeout_ms, asked.subscribed_topic_names = REBALANCE_MS, topics
        if self.has != self.told:
            asked.topic_partitions = self.told = self.has
        return frame(ApiKey.CONSUMER_GROUP_HEARTBEAT, VERSION, asked)

    def take_answer(self) -> bool:
        """Whether the answer told another epoch or assignment."""
        data = self.client.transport.last[4:]
        _, pos = read_response_header(data, ApiKey.CONSUMER_GROUP_HEARTBEAT, VERSION)
        answer = response_decoder(ApiKey.CONSUMER_GROUP_HEARTBEAT, VERSION)(data, pos)
        assert answer.error_code == 0, answer
        before = self.epoch, self.has
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.has = list(answer.assignment.topic_partitions)
        return (self.epoch, self.has) != before


class Meter:
    """CPU time of the broker's part alone: clients make and read their frames outside of it."""

    def __init__(self, profile: cProfile.Profile | None) -> None:
        self._profile = profile
        self.cpu_s: dict[int, list[float]] = {}  # of all groups, by the number of the round of requests
        self.requests = 0

    async def ask(self, number: int, members: list[Member], frames: list[bytes]) -> int:
        """Every member sends its request in the same turn. Returns how many answers told something new."""
        for member in members:
            member.client.transport.last = b""
        started = process_time()
        if self._profile is not None:
            self._profile.enable()
        for member, sent in zip(members, frames, strict=True):
            member.client.connection.data_received(sent)
        while not all(member.client.transport.last for member in members):
            await asyncio.sleep(0)
        if self._profile is not None:
            self._profile.disable()
        self.cpu_s.setdefault(number, []).append(process_time() - started)
        self.requests += len(members)
        return sum([member.take_answer() for member in members])


async def converge(clients: list[Client], meter: Meter, first: int, count: int) -> None:
    groups = [
        [Member(each, f"{TOPIC}-{number}", f"member-{place:015d}") for place, each in enumerate(clients)]
        for number in range(first, first + count)
    ]
    for members in groups:
        await meter.ask(0, members, [member.request([TOPIC]) for member in members])
    await asyncio.sleep(ASSIGNMENT_INTERVAL_S)
    for members in groups:
        number = 1
        while await meter.ask(number, members, [member.request() for member in members]):
            number += 1
        owned = [each for member in members for topic in member.has for each in topic.partitions]
        assert sorted(owned) == list(range(PARTITIONS)), "not every partition has one owner"


async def measure(folder: str, groups: int, profile: cProfile.Profile | None) -> Meter:
    server = Server(Broker(load_config(overrides=[*SETTINGS, f"log.dirs={folder}"]), RealDisk()))
    await server.start()
    clients = [Client(server) for _ in range(MEMBERS)]
    await clients[0].ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, 1)], 10_000))
    gc.freeze()
    gc.set_threshold(25_000, 20, 50)
    await converge(clients, Meter(None), 0, WARM_UP_GROUPS)
    meter = Meter(profile)
    await converge(clients, meter, WARM_UP_GROUPS, groups)
    await server.stop()
    return meter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    profile = cProfile.Profile() if options.profile else None
    with tempfile.TemporaryDirectory() as folder:
        meter = uvloop.run(measure(folder, options.groups, profile))
    rounds = [min(cpu_s) * 1e6 for cpu_s in meter.cpu_s.values()]
    told = f"{sum(rounds):8.0f} us per convergence, {meter.requests / options.groups:.0f} requests:"
    print(told, " + ".join(f"{cpu_us:.0f}" for cpu_us in rounds))
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(60)


if __name__ == "__main__":
    main()
