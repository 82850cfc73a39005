"""Two members that own the same partition at the same time."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.audit.checks.kit.check import CRITICAL, HISTORY, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part

CHECK = Check(
    "two_owners",
    CRITICAL,
    "Partitions that two members of a group own at a time.",
    "Both process the same records: look at the assignor of the group's leader (classic), or report a bug of the"
    " coordinator (new protocol).",
    needs=(HISTORY,),
)


def find(part: Part, _: Limits) -> Iterator[Row]:
    """Intervals are sorted by beginning: one that begins before all earlier ones have ended shares the partition."""
    for group_id, topic, partition in part.intervals.shared():
        intervals = part.intervals.of((group_id, topic, partition))
        longest, shared = intervals[0], []
        for interval in intervals[1:]:
            if interval["start_log_offset"] < longest["ends"] and interval["member_id"] != longest["member_id"]:
                shared.append((interval, longest))
            longest = max(longest, interval, key=lambda one: one["ends"])
        if shared:
            second, first = shared[0]
            times = f"; {len(shared):,} times" if len(shared) > 1 else ""
            yield finding(
                CHECK,
                f"{first['member_id']} and {second['member_id']} both owned {topic}-{partition} from generation"
                f" {second['first_generation']} on{times}",
                group_id=group_id,
                topic=topic,
                partition=partition,
                member_id=second["member_id"],
                generation=second["first_generation"],
                log_offset=second["start_log_offset"],
                time=second["start_time"],
                until=min(first, second, key=lambda one: one["ends"])["end_time"],
                value=float(len(shared)),
            )
