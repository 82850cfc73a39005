"""Ids can be 32 kB long, and anybody can send new ones for ever: nothing of them stays behind."""

import tracemalloc
from collections.abc import Callable

from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from tests.coordinator.members import commit
from tests.coordinator.support import Host

COUNT = 200
ID_BYTES = 30_000
MB = 1_000_000


def kept_bytes(host: Host, send: Callable[[str], object]) -> int:
    """What is left in memory of many requests, each with an id of its own; the log is not in memory."""
    send("x" * ID_BYTES)
    tracemalloc.start()
    try:
        for number in range(COUNT):
            send(f"{number} " + "x" * ID_BYTES)
            host.disk.batches.clear()
            host.runtime.shards[0].next_offset = 0
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_groups_that_do_not_exist_are_not_remembered() -> None:
    host = Host()

    def beat(group_id: str) -> None:
        assert host.send(HeartbeatRequest(group_id, 1, "m", None), 4).error is ErrorCode.UNKNOWN_MEMBER_ID

    assert kept_bytes(host, beat) < MB < COUNT * ID_BYTES


def test_members_that_nobody_knows_are_not_remembered_for_what_they_commit() -> None:
    host = Host(partition_count=1)
    assert kept_bytes(host, lambda member: commit(host, "g", {("orders", 0): 1}, member_id=member)) < MB
