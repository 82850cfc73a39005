"""Two members that own the same partition at the same time.

Intervals are told apart by the names of topics. If a topic was deleted and created again, an owner of the old one and
an owner of the new one are no two owners: records of consumer groups have the ids of topics, which are different then.
Records of classic groups have names only.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from kohort.audit.checks.kit.check import CRITICAL, HISTORY, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part, Place
from kohort.audit.derive.records import CURRENT
from kohort.audit.tables import MEMBER_ASSIGNMENTS

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
    for place in part.intervals.shared():
        group_id, topic, partition = place
        intervals = part.intervals.of(place)
        longest, shared = intervals[0], []
        for interval in intervals[1:]:
            overlaps = interval["start_log_offset"] < longest["ends"] and interval["member_id"] != longest["member_id"]
            if overlaps and _is_same_topic(part, place, longest, interval):
                shared.append((interval, longest))
            longest = max(longest, interval, key=lambda one: one["ends"])
        if shared:
            second, first = shared[0]
            both = " and ".join(part.named(group_id, one["member_id"]) for one in (first, second))
            times = f"; {len(shared):,} times" if len(shared) > 1 else ""
            yield finding(
                CHECK,
                f"{both} both owned {topic}-{partition} from generation {second['first_generation']} on{times}",
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


def _is_same_topic(part: Part, place: Place, first: Row, second: Row) -> bool:
    """Whether both had the partition of one topic at a time while they shared its name; True if that is not known."""
    begin, end = second["start_log_offset"], min(first["ends"], second["ends"])
    told = [(*each, who) for who, one in enumerate((first, second)) for each in _topic_ids(part, place, one, end)]
    ids: list[frozenset[str] | None] = [None, None]
    for log_offset, named, who in sorted(told, key=lambda each: each[0]):
        if log_offset > begin and ids[0] is not None and ids[1] is not None and ids[0] & ids[1]:
            return True
        ids[who] = named
    return ids[0] is None or ids[1] is None or bool(ids[0] & ids[1])


def _topic_ids(part: Part, place: Place, interval: Row, end: int) -> Iterator[tuple[int, frozenset[str]]]:
    """Each record about what the member has, up to `end`, with the ids of the topic that it names. Classic: none."""
    group_id, topic, partition = place
    rows = part.table(MEMBER_ASSIGNMENTS.name)
    is_its = pc.and_(pc.equal(rows["group_id"], group_id), pc.equal(rows["member_id"], interval["member_id"]))
    rows = rows.filter(pc.and_(is_its, pc.equal(rows["record_type"], CURRENT)))
    for row in rows.filter(pc.less(rows["log_offset"], end)).to_pylist():
        has = [*(row["assigned"] or ()), *(row["revoking"] or ())]
        named = (one["topic_id"] for one in has if (one["topic"], one["partition"]) == (topic, partition))
        yield row["log_offset"], frozenset(filter(None, named))
