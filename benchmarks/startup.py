"""Seconds from starting the process to the first ApiVersions answer, and its memory then.

    .venv/bin/python -m benchmarks.startup [rounds] [--peer OTHER/.venv/bin/kohort]

With an empty data folder each time. Wall time, so it means something on a quiet machine only; the load is printed. With
a peer, the `kohort` of another working tree, both start in turns, and the one that begins changes each time. Then the
first JoinGroup is sent, which imports what the group APIs need. A bystander tells how long it held the event loop.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from kohort.client.client import Client
from kohort.client.errors import ClientError
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages.api_versions import ApiVersionsRequest
from kohort.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.attack.bystander import Bystander


class Start(NamedTuple):
    took_s: float
    cpu_s: float
    resident_bytes: int
    join_held_ms: float


def main() -> None:
    parser = argparse.ArgumentParser(description="How long the broker takes to its first answer.")
    parser.add_argument("rounds", nargs="?", type=int, default=10)
    parser.add_argument("--peer", metavar="COMMAND", help="the kohort of another working tree, to compare with")
    options = parser.parse_args()
    commands = [str(Path(sys.executable).with_name("kohort"))] + ([options.peer] if options.peer else [])
    starts: dict[str, list[Start]] = {command: [] for command in commands}
    for command in commands:
        _one_start(command)  # not counted: it writes what Python keeps of compiled modules
    for number in range(options.rounds):
        for command in commands if number % 2 else reversed(commands):
            starts[command].append(_one_start(command))
    print(f"load {os.getloadavg()[0]:.1f}, {options.rounds} starts")
    for command in commands:
        _tell(command, starts[command])
    if options.peer:
        own, others = ([each.took_s for each in starts[command]] for command in commands)
        median, least = statistics.median(own) / statistics.median(others), min(own) / min(others)
        print(f"ratio of the medians {median:.2f}, of the least {least:.2f}")


def _tell(command: str, starts: list[Start]) -> None:
    print(command)
    took_s = [each.took_s for each in starts]
    print(f"  first answer after: least {min(took_s):.3f} s, median {statistics.median(took_s):.3f} s")
    cpu_s = [each.cpu_s for each in starts]
    print(f"  CPU: least {min(cpu_s):.3f} s, median {statistics.median(cpu_s):.3f} s")
    print(f"  resident memory {max(each.resident_bytes for each in starts) / 1e6:.0f} MB")
    held_ms = [each.join_held_ms for each in starts]
    least, median, most = min(held_ms), statistics.median(held_ms), max(held_ms)
    print(f"  event loop held by the first JoinGroup: least {least:.1f} ms, median {median:.1f} ms, most {most:.1f} ms")


def _one_start(command: str) -> Start:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    # Users let Python keep compiled modules. Without them every start compiles them anew.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        settings = [f"listeners=PLAINTEXT://{address}", f"log.dirs={folder}/data"]
        words = [command, "serve"]
        for setting in settings:
            words += ["--override", setting]
        began = time.perf_counter()
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        try:
            _first_answer(address)
            took_s = time.perf_counter() - began
            cpu_s, resident_bytes = _cpu_s(process.pid), _resident_bytes(process.pid)
            return Start(took_s, cpu_s, resident_bytes, _first_join_held_ms(address, process.pid))
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
    return time.clock_gettime(~pid << 3 | 2)  # the CPU clock of another process: clock_getcpuclockid(3)


if __name__ == "__main__":
    main()
