"""The broker under attack: where it listens, and what its process takes.

Kohort starts from a prepared data folder: a topic with records, a group with offsets. The folder is made once and
copied for each broker, so that each attack finds the same.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from kohort.broker.call import holds_error
from kohort.client.client import Client
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from kohort.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.protocol.record_batch import build_batch
from tests.attack.extremes import GROUP, TOPIC
from tests.clients.kohort import KohortProcess

PARTITIONS = 4
BATCHES = 50
KB_PER_RECORD = 10
RECORDS_PER_BATCH = 10
READY_TIMEOUT_S = 60
IDLE_CPU_S = 0.005  # what the bystander's questions may cost between two looks


class Target(NamedTuple):
    """A running broker."""

    address: str
    pid: int
    has_event_loop: bool = False  # its main thread answers all clients, as Kohort's does
    process: subprocess.Popen[str] | subprocess.Popen[bytes] | None = None  # if we started it
    log_tail: Callable[[], str] = str  # the end of its log

    def kill(self) -> None:
        """End a broker that no longer answers."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def cpu_s(self) -> float:
        """CPU time of all threads, in nanoseconds' resolution: the clock that clock_getcpuclockid(3) names."""
        return time.clock_gettime(~self.pid << 3 | 2)

    def is_busy(self) -> bool:
        """Whether a thread runs, wants to run, or waits for the disk."""
        return any(state in b"RD" for state in self._thread_states())

    def _thread_states(self) -> Iterator[bytes]:
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            try:
                yield (task / "stat").read_bytes().rpartition(b") ")[2][:1]
            except OSError:
                continue  # the thread has ended

    def memory_bytes(self) -> tuple[int, int]:
        """(resident now, at most since `forget_peak`)"""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii", errors="replace")
        found = {line.split(":")[0]: line.split() for line in status.splitlines() if line.startswith("Vm")}
        return int(found["VmRSS"][1]) * 1024, int(found["VmHWM"][1]) * 1024

    def forget_peak(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5", encoding="ascii")

    def wait_until_idle(self, *, for_s: float = 0.04, at_most_s: float = 60.0) -> bool:
        """Wait until the process has done nothing for `for_s`, apart from answering the bystander."""
        end = time.monotonic() + at_most_s
        idle_since, used = time.monotonic(), self.cpu_s()
        while time.monotonic() < end:
            time.sleep(0.01)
            now_used = self.cpu_s()
            if now_used - used > IDLE_CPU_S or (self.is_busy() and self.is_busy()):
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since > for_s:
                return True
            used = now_used
        return False


def prepare(address: str) -> None:
    """What the generated requests name: a topic with records, a group with offsets."""
    value = b"v" * (KB_PER_RECORD * 1000)
    batch = build_batch([(None, value)] * RECORDS_PER_BATCH, timestamp=int(time.time() * 1000))
    partitions = [OffsetCommitRequestPartition(number, 1, -1, "") for number in range(PARTITIONS)]
    commit = OffsetCommitRequest(GROUP, topics=[OffsetCommitRequestTopic(TOPIC, partitions=partitions)])
    with Client(address) as client:
        client.send(ApiKey.CREATE_TOPICS, CreateTopicsRequest([CreatableTopic(TOPIC, PARTITIONS, 1)], 10_000), 5)
        for number in range(BATCHES):
            data = TopicProduceData(TOPIC, partition_data=[PartitionProduceData(number % PARTITIONS, batch)])
            _until_taken(client, ApiKey.PRODUCE, ProduceRequest(None, -1, 10_000, [data]), 9)
        client.send(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("", 0, [GROUP]), 4)  # makes the offsets topic
        _until_taken(client, ApiKey.OFFSET_COMMIT, commit, 8)


def _until_taken(client: Client, api_key: ApiKey, request: object, version: int) -> None:
    """A real Kafka needs a moment to elect the leaders of new partitions."""
    end = time.monotonic() + READY_TIMEOUT_S
    while holds_error(response := client.send(api_key, request, version)):
        assert time.monotonic() < end, response
        time.sleep(0.1)


def topic_id(address: str) -> bytes:
    with Client(address) as client:
        asked = MetadataRequest([MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
        found: bytes = client.send(ApiKey.METADATA, asked, 12).topics[0].topic_id
        return found


def prepared_folder(folder: Path) -> Path:
    """The data folder of a Kohort that was prepared and stopped."""
    with KohortProcess(folder) as broker:
        prepare(broker.address)
    return broker.data


# The defaults, apart from the wait of a new group's first member, which would only make the attacks on groups slower.
MAX_BROKER_BYTES = 6_000_000_000  # an attack that succeeds must not take the machine's memory
SETTINGS = {"group_initial_rebalance_delay_ms": "0"}


def start_kohort(folder: Path, prepared: Path, stack: ExitStack) -> Target:
    """A Kohort on a copy of the prepared folder."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(prepared, folder / "data")
    broker = KohortProcess(folder, **SETTINGS)
    stack.callback(broker.stop)
    resource.prlimit(broker.process.pid, resource.RLIMIT_AS, (MAX_BROKER_BYTES, MAX_BROKER_BYTES))
    return Target(broker.address, broker.process.pid, True, broker.process, broker.log_tail)


def start_kafka(folder: Path, stack: ExitStack) -> Target:
    """An Apache Kafka from Maven."""
    from tests.kafka.server import KafkaServer

    shutil.rmtree(folder, ignore_errors=True)
    server = KafkaServer(folder)
    stack.callback(server.stop)
    prepare(server.address)
    return Target(server.address, server.process.pid, False, server.process)
