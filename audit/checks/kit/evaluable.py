"""Says which check cannot be evaluated for which groups, and why.

Compaction keeps the last record of each key. What is left is true, but it is not the whole history. The checks run on
what is left, and this file says for which groups that is not enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kohort.audit.checks.kit.check import (
    BASELINE,
    CAUSES,
    CLEANER_CHECKPOINT,
    COMMITTERS,
    HISTORY,
    JOIN_STARTS,
    OWNERS,
    PARTITION_COUNTS,
    SHARE_HISTORY,
)
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.world import World
from kohort.audit.tables import keeps_share_state

NOT_EVALUABLE = "not evaluable"
PLACES_NAMED = 5


class Missing(NamedTuple):
    """Something that checks need and that the log does not have."""

    need: str
    group_id: str | None  # None: it is missing for all groups
    reason: str


def missing_overall(world: World) -> Iterator[Missing]:
    if world.baseline is None:
        yield Missing(BASELINE, None, "needs a broker to compare with: --baseline")
        reason = (
            "how many partitions a topic has is not in the log: only those that somebody has owned or committed were"
            " looked for; --baseline tells all"
        )
        yield Missing(PARTITION_COUNTS, None, reason)
    unknown = sorted(
        {run["log_partition"] for run in world.runs if run["cleaned_to"] is None and not run.get("problem")}
    )
    if unknown:
        more = f" and {len(unknown) - PLACES_NAMED} more" if len(unknown) > PLACES_NAMED else ""
        where = ", ".join(map(str, unknown[:PLACES_NAMED])) + more
        reason = f"no cleaner-offset-checkpoint came with log partition {where}: what is missing may be compaction's"
        yield Missing(CLEANER_CHECKPOINT, None, reason)


def missing_in(part: Part) -> Iterator[Missing]:
    """What is missing for single groups."""
    yield from _cut_by_compaction(part)
    yield from _no_committers(part)
    yield from _no_join_starts(part)
    yield from _no_share_history(part)
    yield from _no_causes(part)
    yield from (Missing(OWNERS, group_id, why) for group_id, why in part.unclear_owners.items())


def _cut_by_compaction(part: Part) -> Iterator[Missing]:
    if part.complete_from:
        reason = (
            f"compaction has removed records from before log offset {part.complete_from}; what is left was looked at"
        )
        for group_id, first in part.first_offsets.items():
            if first < part.complete_from:
                yield Missing(HISTORY, group_id, reason)


def _no_committers(part: Part) -> Iterator[Missing]:
    """Groups with members whose commits do not name the member. In groups without members, commits never do."""
    with_members = {row["group_id"] for row in part.rebalances}
    unsaid = ~part.steps.known("member_id") & ~part.steps.tombstone
    for group_id, count in part.steps.count_by_group(unsaid).items() if unsaid.any() else ():
        if count and group_id in with_members:
            reason = f"the log does not say who made {count:,} commits (Kafka writes no such header)"
            yield Missing(COMMITTERS, group_id, reason)


def _no_join_starts(part: Part) -> Iterator[Missing]:
    """Of a consumer group, the record of its new epoch says when a rebalance began."""
    counts: dict[str, int] = {}
    for row in part.rebalances:
        if row["duration_ms"] is None and row["group_type"] == "classic":
            counts[row["group_id"]] = counts.get(row["group_id"], 0) + 1
    for group_id, count in counts.items():
        reason = (
            f"the log does not say when {count:,} rebalances began (Kafka writes no such header); only the time from"
            " the end of the join phase on was looked at"
        )
        yield Missing(JOIN_STARTS, group_id, reason)


def _no_share_history(part: Part) -> Iterator[Missing]:
    """A broker keeps the last snapshot of each share partition, and what came after it."""
    if part.cut_below and keeps_share_state(part.log_partition):
        reason = (
            f"the broker has removed what was before log offset {part.cut_below}, as it does all the time with states"
            " of share groups; what is left was looked at: audit more often, into the same --out"
        )
        for group_id in dict.fromkeys(row["group_id"] for row in part.share_partitions):
            yield Missing(SHARE_HISTORY, group_id, reason)


def _no_causes(part: Part) -> Iterator[Missing]:
    updates: dict[str, int] = {}
    for row in part.share_partitions:
        if row["updates"] and row["timeouts"] is None:  # no record says why
            updates[row["group_id"]] = updates.get(row["group_id"], 0) + row["updates"]
    for group_id, count in updates.items():
        reason = (
            f"the log does not say why states changed {count:,} times (Kafka writes no such header): expired locks"
            " cannot be told from released records, and records that were given up only by the number of deliveries"
        )
        yield Missing(CAUSES, group_id, reason)
