"""A start with a million committed offsets in the log: how long until groups are served, and in how much memory?

    python -m benchmarks.replay [records]

The log is written by the coordinator's own code, a thousand groups with a hundred partitions each, committed over and
over; then `kohort serve` is started on it, and asked for the offsets of every group until all are served.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, time

from benchmarks.broker import Broker
from kohort.client.client import Client
from kohort.coordinator.outcome import CommitRecords
from kohort.coordinator.partitioner import partition_of
from kohort.coordinator.record_codec import batches
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.offset_commit import OffsetCommitRequestPartition
from kohort.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kohort.protocol.record_batch import encode_headers
from kohort.storage.disk import RealDisk
from kohort.storage.log_directory import LogDirectory

GROUPS = 1000
PARTITIONS = 100
COORDINATORS = 50
TOPIC = "a-topic-of-usual-length"
HEADERS = encode_headers(((b"kohort.member", b"consumer-1-" + bytes(36)), (b"kohort.generation", b"7")))


def write_log(folder: str, records: int) -> None:
    now = int(time() * 1000)
    os.makedirs(folder)
    logs = LogDirectory.open(RealDisk(), folder, now=now)
    next_offset = [0] * COORDINATORS
    for number in range(records // PARTITIONS):
        group = f"group-{number % GROUPS}"
        partition = partition_of(group, COORDINATORS)
        rows = [OffsetCommitRequestPartition(index, number, -1, "") for index in range(PARTITIONS)]
        commit = CommitRecords(group, TOPIC, b"t" * 16, rows, True, now, HEADERS)
        for batch in batches([commit], next_offset[partition], now):
            logs.log("__consumer_offsets", partition).append(batch, now=now, verify=False)
        next_offset[partition] += PARTITIONS
    logs.close(now)


def main() -> None:
    records = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        write_log(f"{folder}/data", records)
        size = sum(file.stat().st_size for file in Path(folder).rglob("*.log"))
        command = [str(Path(sys.executable).with_name("kohort")), "serve", "--log-level", "error"]
        for setting in ("listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={folder}/data"):
            command += ["--override", setting]
        started = perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            broker = Broker("Kohort", process.stdout.readline().split("listens on ")[1].split(",")[0], process.pid)
            listening_s = perf_counter() - started
            found = _wait_for_all(broker)
            took, cpu_s = perf_counter() - started, broker.cpu_s()
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak_bytes = int(status.split("VmHWM:")[1].split()[0]) * 1024
        finally:
            process.terminate()
            process.wait()
    print(f"load {os.getloadavg()[0]:.1f}; {records} records, {size / 1e6:.0f} MB of log, {found} offsets remain")
    print(f"listens after {listening_s:.2f} s, serves every group after {took:.2f} s ({cpu_s:.2f} s of CPU)")
    print(f"at most {peak_bytes / 1e6:.0f} MB resident")


def _wait_for_all(broker: Broker) -> int:
    """How many offsets there are, once every group answers."""
    found = 0
    with Client(broker.address) as client:
        for number in range(GROUPS):
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(f"group-{number}", None, -1, None)])
            while (answer := client.send(ApiKey.OFFSET_FETCH, request, 8).groups[0]).error_code:
                pass
            found += sum(len(topic.partitions) for topic in answer.topics)
    return found


if __name__ == "__main__":
    main()
