"""Partitions of subscribed topics that no member owns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.checks.kit.check import ERROR, HISTORY, PARTITION_COUNTS, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import count, duration
from kohort.audit.tables import MEMBER_ASSIGNMENTS
from kohort.protocol.log_records import GROUP_METADATA

CHECK = Check(
    "subscribed_partition_without_owner",
    ERROR,
    "Partitions of a topic that members of a classic group subscribe to, and that none of them got.",
    "Nobody reads these partitions: look at the assignor, at members that run different versions of it, and at"
    " assignments made by hand.",
    {"seconds": 60},
    needs=(HISTORY, PARTITION_COUNTS),
)

LONG_AGO = datetime.min.replace(tzinfo=UTC)
Known = Mapping[str, Mapping[int, datetime | None]]  # topic -> partition -> its first time in the log


def find(part: Part, limits: Limits) -> Iterator[Row]:
    """A cooperative rebalance leaves partitions without an owner for one generation, so only long generations count.

    Most generations assign as many partitions as were known at that time; only the others are examined.
    """
    known = _known(part)
    topics_of: dict[str, set[str]] = {}
    for group_id, topic, _ in part.facts:
        topics_of.setdefault(group_id, set()).add(topic)
    since_when = {
        group_id: sorted(since or LONG_AGO for topic in topics for since in known[topic].values())
        for group_id, topics in topics_of.items()
    }
    suspects = [
        row
        for row in part.rebalances
        if row["group_type"] == "classic"
        and row["in_force_s"] >= limits["seconds"]
        and row["partition_count"] is not None
        and row["partition_count"] < bisect_right(since_when.get(row["group_id"], ()), row["time"])
    ]
    if suspects:
        yield from _findings(part, suspects, known)


def _findings(part: Part, suspects: list[Row], known: Known) -> Iterator[Row]:
    subscribed = _subscriptions(part.table(MEMBER_ASSIGNMENTS.name), [row["log_offset"] for row in suspects])
    unread: dict[tuple[str, str], list[tuple[int, Row]]] = {}
    for row in suspects:
        for topic in sorted(subscribed.get(row["log_offset"], ())):
            for partition, since in sorted(known.get(topic, {}).items()):
                if (since is None or since <= row["time"]) and not part.intervals.has_owner(
                    (row["group_id"], topic, partition), row["log_offset"]
                ):
                    unread.setdefault((row["group_id"], topic), []).append((partition, row))
    for (group_id, topic), places in unread.items():
        partition, first = places[0]
        longest = max(row["in_force_s"] for _, row in places)
        partitions = len({number for number, _ in places})
        yield finding(
            CHECK,
            f"{count(partitions, 'partition')} of {topic} had no owner, for up to {duration(longest)}; first"
            f" {topic}-{partition} in generation {first['generation']}",
            group_id=group_id,
            topic=topic,
            partition=partition,
            generation=first["generation"],
            log_offset=first["log_offset"],
            time=first["time"],
            until=first["until"],
            value=longest,
        )


def _known(part: Part) -> Known:
    """The partitions of topics: as the broker says, or else all that any group has owned or committed to."""
    if part.world.baseline is not None:
        return _Answered({topic: dict.fromkeys(range(n)) for topic, n in part.world.topic_partitions.items()})
    known: dict[str, dict[int, datetime | None]] = {}
    first = [(topic, partition, row["first_time"]) for (_, topic, partition), row in part.facts.items()]
    first += [(topic, partition, time) for (_, topic, partition), time in part.intervals.first_times()]
    for topic, partition, time in first:
        times = known.setdefault(topic, {})
        before = times.get(partition)
        times[partition] = time if before is None or (time is not None and time < before) else before
    return known


class _Answered(dict[str, Mapping[int, datetime | None]]):
    """For answers of a broker: a topic that it does not know has no partitions."""

    def __missing__(self, topic: str) -> Mapping[int, datetime | None]:
        return {}


def _subscriptions(members: pa.Table, log_offsets: list[int]) -> dict[int, set[str]]:
    """Log offset of a generation -> topics that its members subscribe to."""
    of_them = pc.and_(
        pc.equal(members["record_type"], GROUP_METADATA), pc.is_in(members["log_offset"], pa.array(log_offsets))
    )
    wanted: dict[int, set[str]] = {}
    rows = members.filter(of_them)
    for offset, topics in zip(rows["log_offset"].to_pylist(), rows["subscribed_topics"].to_pylist(), strict=True):
        wanted.setdefault(offset, set()).update(topics or ())
    return wanted
