"""A group of KIP-848 with 1,000 members and 10,000 partitions: how long does one target take, and who waits meanwhile?

    python -m benchmarks.large_consumer_group [--members 1000] [--topics 10] [--partitions 1000] [--kafka]

Somebody joins the group, so that there must be a new target, and the answer comes when there is one. A bystander in a
process of its own asks ApiVersions every 5 ms meanwhile. Its longest wait is how long the event loop was held; the time
in which the kernel let the broker or the bystander wait for a core is told apart.
"""

from __future__ import annotations

import argparse
import resource
from contextlib import ExitStack
from statistics import median
from time import perf_counter, sleep

from benchmarks.broker import Broker, own_broker
from benchmarks.consumer_groups import ASSIGNMENT_INTERVAL_S, Member, ask_at_once, settle, topics, wait_for_group
from benchmarks.groups import OVERRIDES, connect
from benchmarks.members import peers
from tests.attack.bystander import Bystander

CONNECTIONS = 50
GOAL_MS = 20


def measure(broker: Broker, options: argparse.Namespace) -> None:
    with ExitStack() as opened:
        names = opened.enter_context(topics(broker, options.topics, options.partitions))
        connections = [opened.enter_context(connect(broker)) for _ in range(CONNECTIONS)]
        group = f"{names[0]}-large"
        wait_for_group(broker, group)
        members = [
            Member(connections[number % CONNECTIONS], group, f"member-{number:015d}")
            for number in range(options.members)
        ]
        bystander = opened.enter_context(Bystander(broker.address, broker.pid))
        started = perf_counter()
        for first in range(0, len(members), CONNECTIONS):
            some = members[first : first + CONNECTIONS]
            ask_at_once(some, [member.join(names) for member in some])
        sleep(ASSIGNMENT_INTERVAL_S)
        settle(members, options.topics * options.partitions, CONNECTIONS)
        joined_s, joining = perf_counter() - started, bystander.longest_wait()
        total = options.topics * options.partitions
        took_ms, cpu_ms = [], []
        for number in range(options.rounds):
            sleep(ASSIGNMENT_INTERVAL_S)
            bystander.longest_wait()
            newcomer = Member(connections[0], group, f"newcomer-{number:013d}")
            cpu_s, began = broker.cpu_s(), perf_counter()
            newcomer.ask(newcomer.join(names))
            took_ms.append((perf_counter() - began) * 1000)
            cpu_ms.append((broker.cpu_s() - cpu_s) * 1000)
            wait = bystander.longest_wait()
            print(f"  {broker.name}: target in {took_ms[-1]:.0f} ms, the bystander waited {wait.wall_ms:.1f} ms "
                  f"(held for {wait.held_ms:.1f} ms)")  # fmt: skip
            members.append(newcomer)
        print(f"{broker.name}: {options.members} members, {total} partitions: reconciled in {joined_s:.1f} s, "
              f"the bystander waited at most {joining.wall_ms:.1f} ms (held for {joining.held_ms:.1f} ms)")  # fmt: skip
        print(f"  a target in {median(took_ms):.0f} ms (median), {median(cpu_ms):.0f} ms of CPU; "
              f"goal: the event loop is held for less than {GOAL_MS} ms")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="One large consumer group: the time of a target, and who waits.")
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--topics", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=1_000, help="of each topic")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peer", metavar="HOST:PORT")
    parser.add_argument("--peer-pid", type=int)
    parser.add_argument("--kafka", action="store_true", help="the same with Apache Kafka")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with own_broker(OVERRIDES) as broker, peers(options) as others:
        for each in (broker, *others):
            measure(each, options)


if __name__ == "__main__":
    main()
