"""Damage to log partitions: each has one kind done to it, and one beside it has none."""

from __future__ import annotations

from typing import Any

from kohort.audit.checks.kit.check import CRITICAL, ERROR, WARNING
from tests.audit.checks.planted import HEALTHY_LOG_PARTITIONS, Where
from tests.audit.logs import Group, Logs

CRC, GAP, OVERLAP, TORN, GARBAGE, GARBAGE_AT_THE_END, LOST, HOT, COMPACTED, SOUND = range(HEALTHY_LOG_PARTITIONS, 50)
HOT_COMMITS = 105
PARTITIONS = 100


def busy(logs: Logs, log_partition: int, *, commits: int = 8) -> Group:
    """A consumer that assigns itself, so that nothing can be said of owners."""
    group = logs.group_in(log_partition, "busy")
    for number in range(commits):
        group.commit({"t-0": 100 * number}, by="")
    return group


def fill(logs: Logs, bad: bool) -> None:
    """What is written before the damage is done; a defect if it is one of writing."""
    for log_partition in range(HEALTHY_LOG_PARTITIONS, 50):
        if log_partition not in (LOST, COMPACTED):
            busy(logs, log_partition)
    stray = logs.group("a group that lives elsewhere", log_partition=LOST if bad else None)
    stray.commit({"t-0": 5}, by="")
    hot = logs.group_in(HOT, "hot")
    for number in range(HOT_COMMITS if bad else 1):
        hot.commit({f"t-{partition}": 100 * number for partition in range(PARTITIONS)}, by="")
    compacted = logs.group_in(COMPACTED, "compacted")
    for number in range(20):
        compacted.generation({"m1": ["t-0"]} if number % 2 else {"m1": ["t-0"], "m2": ["t-1"]})
        compacted.commit({"t-0": number}, by="m1")
    logs.roll(COMPACTED)
    assert logs.compact(COMPACTED) == 40
    compacted.empty()


def damage(logs: Logs) -> dict[str, Where]:
    """What is done to the closed files, and where it is to be found, by check."""
    logs.flip_a_byte(CRC, 3)
    logs.remove(GAP, 3)
    logs.renumber(OVERLAP, 4, by=-2)
    logs.cut_the_tail(TORN, by=7)
    path, data = logs.segments(GARBAGE)[0], logs.segments(GARBAGE)[0].read_bytes()
    middle = len(data) // 8 * 4
    path.write_bytes(data[:middle] + b"\0" * 50 + data[middle:])
    logs.add_to_the_tail(GARBAGE_AT_THE_END, b"\0" * 100)
    return {
        "crc_mismatch": Where(CRITICAL, "1 batch with a wrong checksum", _at(CRC, 3)),
        "offset_gap": Where(CRITICAL, "1 gap (1 offset missing); first a batch at 4 where 3", _at(GAP, 4)),
        "offset_overlap": Where(CRITICAL, "2 overlaps and 0 gaps", _at(OVERLAP, 2)),
        "torn_tail": Where(WARNING, "are no whole batch", _at(TORN, 7)),
        "garbage_at_the_end": Where(WARNING, "the last 100 bytes", _at(GARBAGE_AT_THE_END, 8)),
        "garbage": Where(ERROR, "1 place (garbage)", {"log_partition": GARBAGE}),
        "group_in_wrong_partition": Where(ERROR, "elsewhere belongs in log partition 2 of 50", _at(LOST, 0)),
        "hot_log_partition": Where(WARNING, "busiest is hot-", {"log_partition": HOT}),
    }  # fmt: skip


def _at(log_partition: int, log_offset: int) -> dict[str, Any]:
    return {"log_partition": log_partition, "log_offset": log_offset}
