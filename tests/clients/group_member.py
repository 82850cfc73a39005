"""What the member programs written in Python share: their arguments, and how they tell what happens to them.

    python -m tests.clients.group_member_CLIENT BOOTSTRAP TOPIC SESSION_MS GROUP=ASSIGNOR[=INSTANCE] ...

One process is a member of each group named. It says one JSON object per line on standard output: `assigned` and
`revoked` with partitions, `consumed` with [partition, first, last] offsets, `committed` with the offsets that the
broker acknowledged, `commit_failed`, `problem`, and `closed`. It leaves its groups when standard input says `close` or
ends. The programs in Java, Go and JavaScript take and say the same.

Members are processes, and not threads of the test, because confluent-kafka can hang for ever in close (docs/clients.md,
known client problems) while it holds the GIL: nothing but SIGKILL from outside ends that.
"""

from __future__ import annotations

import faulthandler
import json
import sys
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

_output = threading.Lock()

HEARTBEAT_INTERVAL_MS = 500
POLL_MS = 100
CLOSE_DEADLINE_S = 30.0  # a member that has not closed by then is killed; mostly it takes less than a second
STACKS_AFTER_S = 20.0


class Membership(NamedTuple):
    group: str
    assignor: str
    instance: str | None

    def say(self, event: str, **more: Any) -> None:
        line = json.dumps({"group": self.group, "event": event, **more})
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
