"""Partitions of subscribed topics that no member owns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.checks.kit.check import ERROR, HISTORY, PARTITION_COUNTS, Check, Limits, Row, finding
from kohort.audit.checks.kit.intervals import FOREVER, Place
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import between, count, duration
from kohort.audit.tables import MEMBER_ASSIGNMENTS
from kohort.protocol.log_records import GROUP_METADATA

CHECK = Check(
    "subscribed_partition_without_owner",
    ERROR,
    "Partitions of a topic that members of a group subscribe to, and that none of them got.",
    "Nobody reads these partitions: look at the assignor, at members that run different versions of it, and at"
    " assignments made by hand; in a consumer group, at members that do not give up what they shall.",
    {"seconds": 60},
    needs=(HISTORY, PARTITION_COUNTS),
)

LONG_AGO = datetime.min.replace(tzinfo=UTC)
Known = Mapping[str, Mapping[int, datetime | None]]  # topic -> partition -> its first time in the log


def find(part: Part, limits: Limits) -> Iterator[Row]:
    """A cooperative rebalance leaves partitions without an owner for one generation, so only long generations count.

    Most generations assign as many partitions as were known at that time, and all members of most consumer groups get
    what they shall have; only the others are examined.
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
        if row["in_force_s"] >= limits["seconds"]
        and row["partition_count"] is not None
        and (
            row["partition_count"] < bisect_right(since_when.get(row["group_id"], ()), row["time"])
            or (row["group_type"] == "consumer" and row["duration_ms"] is None)
        )
    ]
    if suspects:
        yield from _findings(part, suspects, known, limits)


def _findings(part: Part, suspects: list[Row], known: Known, limits: Limits) -> Iterator[Row]:
    subscribed = _subscriptions(part.table(MEMBER_ASSIGNMENTS.name), [row["log_offset"] for row in suspects])
    subscribed |= _subscriptions_of_consumer_groups(part, suspects)
    unread: dict[tuple[str, str], list[tuple[int, Row, float]]] = {}
    for row in suspects:
        for topic in sorted(subscribed.get(row["log_offset"], ())):
            for partition, since in sorted(known.get(topic, {}).items()):
                if since is None or since <= row["time"]:
                    unowned_s = _unowned_s(part, row, (row["group_id"], topic, partition))
                    if unowned_s >= limits["seconds"]:
                        unread.setdefault((row["group_id"], topic), []).append((partition, row, unowned_s))
    for (group_id, topic), places in unread.items():
        partition, first, _ = places[0]
        longest = max(unowned_s for _, _, unowned_s in places)
        partitions = len({number for number, _, _ in places})
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


def _unowned_s(part: Part, row: Row, place: Place) -> float:
    """How long the partition had no owner while the assignment was in force.

    A classic generation owns its partitions at once. A member of a consumer group may get a partition later; what
    counts is the time without an owner until the next assignment.
    """
    if row["group_type"] == "classic":
        return 0.0 if part.intervals.has_owner(place, row["log_offset"]) else float(row["in_force_s"])
    end = FOREVER if row["until_log_offset"] is None else row["until_log_offset"]
    if part.intervals.has_owner(place, end - 1):
        return 0.0
    until = row["until"] or part.world.end_time or row["time"]
    ends = [interval["end_time"] for interval in part.intervals.of(place) if interval["ends"] < end]
    return between(max([row["time"], *ends]), until)


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


def _subscriptions_of_consumer_groups(part: Part, suspects: list[Row]) -> dict[int, set[str]]:
    """Log offset of a target assignment -> topics that the members subscribe to."""
    groups: dict[str, list[int]] = {}
    for row in suspects:
        if row["group_type"] == "consumer":
            groups.setdefault(row["group_id"], []).append(row["log_offset"])
    wanted: dict[int, set[str]] = {}
    for group_id, log_offsets in groups.items():
        for log_offset, there in zip(log_offsets, part.consumer_members.at_each(group_id, log_offsets), strict=True):
            wanted[log_offset] = {topic for topics in there.all().values() for topic in topics or ()}
    return wanted
