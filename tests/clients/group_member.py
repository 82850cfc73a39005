"""What the member programs written in Python share: their arguments, and how they tell what happens to them.

    python -m tests.clients.group_member_CLIENT BOOTSTRAP TOPIC SESSION_MS GROUP=ASSIGNOR[=INSTANCE] ...

One process is a member of each group named. It says one JSON object per line on standard output: `assigned`,
`revoked` and `lost` with partitions, `consumed` with [partition, first, last] offsets, `committed` with the offsets
that the broker acknowledged, `commit_failed`, `problem`, and `closed`. `at` is the time in seconds on the machine's
monotonic clock, which is the same for all processes. A member leaves its groups when standard input says `close` or
ends. The programs in Java, Go and JavaScript take and say the same; a line without `at` gets the time at which the
test reads it.

Three assignors mean the protocol of KIP-848, in which the broker assigns: `consumer` (the broker's default assignor),
`consumer-range` (its range assignor) and `consumer-regex` (a regular expression, which the broker resolves, instead of
the topic's name). All others are assignors of the client in the classic protocol.

In the programs for confluent-kafka, Java and franz-go the variable KOHORT_TEST_WORK_MS says how long the member works
on what one poll returned, before it commits and polls again.

Members are processes, and not threads of the test, because confluent-kafka can hang for ever in close (docs/clients.md,
known client problems) while it holds the GIL: nothing but SIGKILL from outside ends that.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

_output = threading.Lock()

HEARTBEAT_INTERVAL_MS = 500
POLL_MS = 100
CLOSE_DEADLINE_S = 30.0  # a member that has not closed by then is killed; mostly it takes less than a second
STACKS_AFTER_S = 20.0
WORK_S = int(os.environ.get("KOHORT_TEST_WORK_MS", "0")) / 1000
SERVER_SIDE = ("consumer", "consumer-range", "consumer-regex")


class Membership(NamedTuple):
    group: str
    assignor: str
    instance: str | None

    def say(self, event: str, **more: Any) -> None:
        line = json.dumps({"group": self.group, "event": event, "at": time.monotonic(), **more})
        with _output:
            print(line, flush=True)

    def consumed(self, records: Iterable[tuple[int, int, bytes | None]]) -> dict[int, int]:
        """Tells of (partition, offset, value); a value is its offset in digits. The offsets to commit."""
        runs: dict[int, list[list[int]]] = {}
        for partition, offset, value in records:
            if value != b"%d" % offset:
                self.say("problem", text=f"partition {partition} has {value!r} at {offset}")
            of_partition = runs.setdefault(partition, [])
            if of_partition and of_partition[-1][1] == offset - 1:
                of_partition[-1][1] = offset
            else:
                of_partition.append([offset, offset])
        if runs:
            self.say("consumed", ranges=[[p, first, last] for p, run in runs.items() for first, last in run])
        return {partition: run[-1][1] + 1 for partition, run in runs.items()}


class Arguments(NamedTuple):
    bootstrap: str
    topic: str
    session_ms: int
    memberships: list[Membership]


def pattern_of(topic: str) -> str:
    """A regular expression in RE2's syntax that matches the topic's name."""
    return f"{topic[:-1]}[a-z]"


def arguments() -> Arguments:
    bootstrap, topic, session_ms, *specs = sys.argv[1:]
    memberships = []
    for spec in specs:
        group, assignor, *instance = spec.split("=")
        memberships.append(Membership(group, assignor, instance[0] if instance else None))
    return Arguments(bootstrap, topic, int(session_ms), memberships)


def wait_for_close() -> None:
    """Until the driver says `close`, or is gone. If closing then takes long, standard error says where it hangs."""
    for line in sys.stdin:
        if line.strip() == "close":
            break
    faulthandler.dump_traceback_later(STACKS_AFTER_S)
