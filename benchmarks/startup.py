"""Seconds from starting the process to the first ApiVersions answer, and its memory then.

    .venv/bin/python -m benchmarks.startup [rounds]

With an empty data folder each time. Wall time, so it means something on a quiet machine only; the load is printed. Then
the first JoinGroup is sent, which imports what the group APIs need. A bystander tells how long it held the event loop.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kohort.broker.client import Client, ClientError
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.attack.bystander import Bystander


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    results = [_one_start() for _ in range(rounds)]
    seconds = sorted(each[0] for each in results)
    print(f"load {os.getloadavg()[0]:.1f}, {rounds} starts")
    best, median, worst = seconds[0], statistics.median(seconds), seconds[-1]
    print(f"first answer after: best {best:.3f} s, median {median:.3f} s, worst {worst:.3f} s")
    held_ms = sorted(each[3] for each in results)
    best, median, worst = held_ms[0], statistics.median(held_ms), held_ms[-1]
    print(f"event loop held by the first JoinGroup: best {best:.1f} ms, median {median:.1f} ms, worst {worst:.1f} ms")
    print(
        f"resident memory {max(each[1] for each in results) / 1e6:.0f} MB, CPU {min(each[2] for each in results):.2f} s"
    )


def _one_start() -> tuple[float, int, float, float]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        settings = [f"listeners=PLAINTEXT://127.0.0.1:{port}", f"log.dirs={folder}/data"]
        command = [str(Path(sys.executable).with_name("kohort")), "serve"]
        for setting in settings:
            command += ["--override", setting]
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _first_answer(f"127.0.0.1:{port}")
            took = time.perf_counter() - began
            resident_bytes, cpu_s = _resident_bytes(process.pid), _cpu_s(process.pid)
            return took, resident_bytes, cpu_s, _first_join_held_ms(f"127.0.0.1:{port}", process.pid)
        finally:
            process.terminate()
            process.wait()


def _first_answer(address: str) -> None:
    while True:
        try:
            with Client(address) as client:
                client.send(ApiKey.API_VERSIONS, ApiVersionsRequest("bench", "1"), 3)
                return
        except ClientError:
            time.sleep(0.001)


def _first_join_held_ms(address: str, pid: int) -> float:
    protocols = [JoinGroupRequestProtocol("range", bytes(10))]
    with Bystander(address, pid) as bystander, Client(address) as client:
        bystander.longest_wait()
        client.send(ApiKey.JOIN_GROUP, JoinGroupRequest("g", 10_000, 10_000, "", None, "consumer", protocols), 5)
        return bystander.longest_wait().held_ms


def _resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
