"""One partition of the log as the checks see it: its tables, and views that several checks use.

All records of a group are in one log partition, so a check needs nothing else but the facts of World.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.checks.kit.check import Row
from kohort.audit.checks.kit.consumer_members import ConsumerMembers
from kohort.audit.checks.kit.intervals import Intervals
from kohort.audit.checks.kit.share import ShareSteps
from kohort.audit.checks.kit.steps import Steps
from kohort.audit.checks.kit.words import between
from kohort.audit.checks.kit.world import World
from kohort.audit.derive.patterns import patterns_in
from kohort.audit.tables import (
    COMMIT_STEPS,
    GROUP_GENERATIONS,
    LOG_BATCHES,
    MEMBER_ASSIGNMENTS,
    OTHER_RECORDS,
    OWNERSHIP_INTERVALS,
    PARTITION_FACTS,
    PENDING_OFFSETS,
    REBALANCES,
    SHARE_MEMBERS,
    SHARE_PARTITIONS,
    SHARE_STATES,
    SHARE_STEPS,
    TRANSACTION_STATES,
)
from kohort.protocol.log_records import CONSUMER_GROUP_METADATA, GROUP_METADATA, SHARE_GROUP_RECORDS

# The columns that the checks use. offset_commits is not among the tables: commit_steps has all of it and more.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    LOG_BATCHES.name: (
        "segment", "position", "size_bytes", "log_offset", "last_log_offset", "record_count", "max_time", "producer_id",
        "producer_epoch", "transactional", "marker", "problem", "detail",
    ),
    GROUP_GENERATIONS.name: (
        "log_offset", "record_time", "group_id", "record_type", "tombstone", "generation", "member_count", "state_time",
    ),
    MEMBER_ASSIGNMENTS.name: (
        "log_offset", "record_time", "group_id", "record_type", "tombstone", "generation", "member_id", "instance_id",
        "client_id", "subscribed_topics", "subscribed_regex", "server_assignor", "assigned", "revoking", "readable",
    ),
    OTHER_RECORDS.name: (
        "log_offset", "record_time", "record_type", "group_id", "tombstone", "key", "value", "problem", "detail",
    ),
    OWNERSHIP_INTERVALS.name: (
        "group_id", "group_type", "topic", "partition", "member_id", "first_generation", "start_time", "end_time",
        "start_log_offset", "end_log_offset", "ended_by",
    ),
    REBALANCES.name: (
        "group_id", "group_type", "generation", "log_offset", "time", "protocol", "cause", "trigger", "sync_ms",
        "duration_ms", "timeout_ms", "member_count", "joined", "left", "partition_count", "moved", "avoidable_moves",
        "max_load", "min_load", "idle_members",
    ),
    COMMIT_STEPS.name: (
        "log_offset", "group_id", "topic", "partition", "time", "tombstone", "offset", "previous_offset",
        "previous_time", "previous_topic_id", "topic_id", "step", "high", "member_id", "generation", "owner",
        "group_generation", "group_type",
    ),
    PARTITION_FACTS.name: (
        "group_id", "topic", "partition", "commits", "first_time", "last_time", "last_offset", "unregained",
        "median_step", "median_interval_ms", "owner", "owner_since",
    ),
    PENDING_OFFSETS.name: ("log_offset", "group_id", "topic", "partition", "producer_id", "since", "member_id"),
    TRANSACTION_STATES.name: (
        "log_offset", "record_time", "transactional_id", "tombstone", "producer_id", "producer_epoch", "state",
        "timeout_ms", "start_time", "partitions", "client_id",
    ),
    SHARE_MEMBERS.name: ("group_id", "member_id", "client_id"),
    SHARE_STATES.name: (
        "log_offset", "record_time", "group_id", "topic", "topic_id", "partition", "record_type", "tombstone",
        "start_offset", "batches", "cause", "member_id",
    ),
    SHARE_STEPS.name: (
        "log_offset", "group_id", "topic", "topic_id", "partition", "time", "snapshot", "tombstone", "start_offset",
        "step", "accepted", "archived", "returned", "cause", "member_id",
    ),
    SHARE_PARTITIONS.name: (
        "group_id", "topic", "topic_id", "partition", "deleted", "first_time", "last_time", "last_update", "updates",
        "start_offset", "timeouts", "finished", "waiting", "deliveries", "most_delivered", "start_deliveries",
    ),
}  # fmt: skip
UNNAMED = "its log partition knows only the ids of topics that it was assigned, not their names"
UNREADABLE = "assignments of its members cannot be read: it is no group of consumers, or they are damaged"

Place = tuple[str, str, int]  # group, topic, partition


class Part:
    """One log partition."""

    def __init__(self, log_partition: int, tables: Mapping[str, pa.Table], world: World) -> None:
        self.log_partition = log_partition
        self.world = world
        self._tables = tables

    def table(self, name: str) -> pa.Table:
        return self._tables[name]

    @cached_property
    def complete_from(self) -> int:
        """The log offset below which compaction may have removed records before they were read.

        What an earlier audit into the same store has read before compaction is complete.
        """
        lost_below = 0
        for run in self._runs:
            start, end = run.get("from_log_offset") or 0, run.get("end_log_offset") or 0
            cleaned_to = self._seems_cleaned_to if run["cleaned_to"] is None else run["cleaned_to"]
            if cleaned_to > start:
                lost_below = max(lost_below, min(cleaned_to, end))
        return lost_below

    @cached_property
    def cut_below(self) -> int:
        """The log offset below which the broker had removed records of share groups before they were read."""
        return max((run["first_log_offset"] or 0 for run in self._runs if _begins_late(run)), default=0)

    @property
    def is_cleaning_known(self) -> bool:
        """Whether there was a checkpoint of the log cleaner in every run."""
        return all(run["cleaned_to"] is not None for run in self._runs)

    @cached_property
    def _runs(self) -> list[Mapping[str, Any]]:
        return [run for run in self.world.runs if run["log_partition"] == self.log_partition and not run.get("problem")]

    @cached_property
    def _seems_cleaned_to(self) -> int:
        """Without a checkpoint: the end of the last batch that has missing offsets in it or before it."""
        batches = self.table(LOG_BATCHES.name)
        batches = batches.filter(batches["log_offset"].is_valid()).sort_by("log_offset")
        first, last = (batches[name].to_numpy() for name in ("log_offset", "last_log_offset"))
        holes = batches["record_count"].fill_null(0).to_numpy() < last - first + 1
        holes[1:] |= first[1:] > last[:-1] + 1
        return int(last[holes][-1]) + 1 if holes.any() else 0

    # --- views ----------------------------------------------------------------------------------------------------

    @cached_property
    def steps(self) -> Steps:
        """Sorted by place and log offset."""
        steps = Steps(self.table(COMMIT_STEPS.name), self.table(PARTITION_FACTS.name))
        return steps if steps.is_sorted else steps.sorted()

    @cached_property
    def rebalances(self) -> list[Row]:
        """In the order of the log. Columns are added: `until`, `until_log_offset` (None: still in force), `in_force_s`.

        An assignment is in force until the next rebalance, or until all members have left.
        """
        rows: list[Row] = self.table(REBALANCES.name).drop_columns(["joined", "left"]).to_pylist()
        in_force: dict[str, Row] = {}
        for row in sorted([*rows, *self._ends_of_groups], key=lambda row: int(row["log_offset"])):
            if (last := in_force.pop(row["group_id"], None)) is not None:
                last["until"], last["until_log_offset"] = row["time"], row["log_offset"]
            if "member_count" in row:  # it is a rebalance
                row["until"] = row["until_log_offset"] = None
                in_force[row["group_id"]] = row
        for row in rows:
            row["in_force_s"] = between(row["time"], row["until"] or self.world.end_time or row["time"])
        return sorted(rows, key=lambda row: int(row["log_offset"]))

    @property
    def _ends_of_groups(self) -> list[Row]:
        """Records after which a group has no members."""
        rows = self.table(GROUP_GENERATIONS.name)
        empty = pc.and_(
            pc.equal(rows["record_type"], GROUP_METADATA), pc.equal(pc.fill_null(rows["member_count"], 0), 0)
        )
        gone = pc.and_(pc.equal(rows["record_type"], CONSUMER_GROUP_METADATA), rows["tombstone"])
        ends = rows.filter(pc.or_(empty, gone)).select(["group_id", "log_offset", "record_time"])
        made: list[Row] = ends.rename_columns(["group_id", "log_offset", "time"]).to_pylist()
        return made + [
            {"group_id": row["group_id"], "log_offset": row["log_offset"], "time": row["record_time"]}
            for row in self.consumer_members.emptied()
        ]

    @cached_property
    def consumer_members(self) -> ConsumerMembers:
        return ConsumerMembers(self.table(MEMBER_ASSIGNMENTS.name), patterns_in(self.table(OTHER_RECORDS.name)))

    def named(self, group_id: str, member_id: str) -> str:
        """The member as findings name it. Member ids of KIP-848 are random, so the client stands beside them; those of
        the classic protocol begin with the client.
        """
        client = self.consumer_members.clients.get((group_id, member_id))
        return f"{member_id} ({client})" if client and not member_id.startswith(client) else member_id

    @cached_property
    def share_steps(self) -> ShareSteps:
        return ShareSteps(self.table(SHARE_STEPS.name))

    @cached_property
    def share_clients(self) -> dict[tuple[str, str], str]:
        """Group and member id -> the client id, of share groups."""
        rows = self.table(SHARE_MEMBERS.name).to_pylist()
        return {(row["group_id"], row["member_id"]): row["client_id"] for row in rows if row["client_id"]}

    @cached_property
    def share_partitions(self) -> list[Row]:
        rows: list[Row] = self.table(SHARE_PARTITIONS.name).to_pylist()
        return rows

    @cached_property
    def facts(self) -> dict[Place, Row]:
        """partition_facts by place."""
        rows = self.table(PARTITION_FACTS.name).to_pylist()
        return {(row["group_id"], row["topic"], row["partition"]): row for row in rows}

    @cached_property
    def intervals(self) -> Intervals:
        return Intervals(self.table(OWNERSHIP_INTERVALS.name))

    @cached_property
    def unclear_owners(self) -> dict[str, str]:
        """Groups whose owners are not known -> the reason."""
        members = self.table(MEMBER_ASSIGNMENTS.name)
        of_share = pa.array(sorted(SHARE_GROUP_RECORDS), pa.int32())  # they have no owners, so nothing is unclear
        members = members.filter(pc.invert(pc.is_in(members["record_type"], of_share)))
        if not len(members):
            return {}
        assigned = members["assigned"].combine_chunks()
        unnamed = pc.list_parent_indices(assigned).filter(assigned.flatten().field("topic").is_null()).unique()
        why = dict.fromkeys(members["group_id"].take(unnamed).to_pylist(), UNNAMED)
        unread = pc.invert(pc.fill_null(members["readable"], True))
        return why | dict.fromkeys(members["group_id"].filter(unread).to_pylist(), UNREADABLE)

    @cached_property
    def first_offsets(self) -> dict[str, int]:
        """The first log offset of each group."""
        first: dict[str, int] = {}
        commits = self.steps.table.filter(pa.array(self.steps.is_first))
        for table in (commits, self.table(GROUP_GENERATIONS.name), self.table(OTHER_RECORDS.name)):
            for group_id, offset in zip(table["group_id"].to_pylist(), table["log_offset"].to_pylist(), strict=True):
                if group_id is not None:
                    first[group_id] = min(offset, first.get(group_id, offset))
        return first


def _begins_late(run: Mapping[str, Any]) -> bool:
    """Whether the log began, when this run has read it, behind the place where the run before had ended."""
    return (run.get("first_log_offset") or 0) > (run.get("from_log_offset") or 0)
