"""Offsets that should have expired."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.checks.kit.check import WARNING, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import between, count, duration
from kohort.audit.tables import GROUP_GENERATIONS, MEMBER_ASSIGNMENTS, PARTITION_FACTS
from kohort.protocol.log_records import CONSUMER_GROUP_METADATA, GROUP_METADATA

CHECK = Check(
    "orphaned_offsets",
    WARNING,
    "Offsets that are still there though their group had no use for them for longer than the retention.",
    "Delete the group, or the offsets of topics that it no longer reads; if there are many, see that the broker expires"
    " offsets (offsets.retention.minutes).",
    {"retention_hours": 7 * 24, "grace_hours": 1},
)


class LastState(NamedTuple):
    """The state of a group at the end of the log."""

    empty_since: datetime | None  # None: the group has members, or never had any
    topics: frozenset[str] | None  # subscribed to by members; None: the log does not say


def find(part: Part, limits: Limits) -> Iterator[Row]:
    """Offsets expire by the rules of KIP-211.

    In an empty group, time counts from when it became empty. In a group with members, only offsets of topics without a
    subscriber expire, and time counts from the commit. In a group without generations, whose consumers assign
    partitions themselves, time counts from the commit, too.
    """
    end_time = part.world.end_time
    if end_time is None:
        return
    states = _last_states(part)
    limit_s = (limits["retention_hours"] + limits["grace_hours"]) * 3600
    orphans: dict[str, list[tuple[datetime, str, int]]] = {}
    facts = part.table(PARTITION_FACTS.name)
    for row in facts.filter(pc.and_(facts["last_offset"].is_valid(), facts["owner"].is_null())).to_pylist():
        state = states.get(row["group_id"], LastState(None, frozenset()))
        if state.empty_since is None and (state.topics is None or row["topic"] in state.topics):
            continue
        since = state.empty_since or row["last_time"]
        if between(since, end_time) > limit_s:
            orphans.setdefault(row["group_id"], []).append((since, row["topic"], row["partition"]))
    for group_id, places in orphans.items():
        since, topic, partition = min(places)
        age_s = between(since, end_time)
        yield finding(
            CHECK,
            f"{count(len(places), 'offset')} without use, such as {topic}-{partition} for {duration(age_s)}",
            group_id=group_id,
            topic=topic,
            partition=partition,
            time=since,
            value=age_s,
        )


def _last_states(part: Part) -> dict[str, LastState]:
    """The state of every group that has or had members."""
    generations, members = part.table(GROUP_GENERATIONS.name), part.table(MEMBER_ASSIGNMENTS.name)
    generations = generations.filter(
        pc.is_in(generations["record_type"], pa.array([GROUP_METADATA, CONSUMER_GROUP_METADATA], pa.int32()))
    )
    last = {row["group_id"]: row for row in _last_of_each(generations, ["group_id"])}
    wants = _wants(members, {row["log_offset"] for row in last.values()})
    states = {}
    for group_id, row in last.items():
        if row["tombstone"] or not row["generation"]:
            continue
        if row["record_type"] == GROUP_METADATA:
            has_members, topics = bool(row["member_count"]), wants.get(group_id, frozenset())
        else:
            there = part.consumer_members.at(group_id)
            has_members, topics = bool(there), _together(there.values())
        states[group_id] = LastState(None if has_members else row["state_time"] or row["record_time"], topics)
    return states


def _last_of_each(rows: pa.Table, keys: list[str]) -> list[Row]:
    last = rows.group_by(keys).aggregate([("log_offset", "max")])
    made: list[Row] = rows.filter(pc.is_in(rows["log_offset"], last["log_offset_max"])).to_pylist()
    return made


def _wants(members: pa.Table, generations: set[int]) -> dict[str, frozenset[str] | None]:
    """Classic group -> topics of the members in these records."""
    in_force = pc.and_(
        pc.equal(members["record_type"], GROUP_METADATA),
        pc.is_in(members["log_offset"], pa.array(sorted(generations), pa.int64())),
    )
    wants: dict[str, list[frozenset[str] | None]] = {}
    for row in members.filter(in_force).to_pylist():
        topics = row["subscribed_topics"]
        wants.setdefault(row["group_id"], []).append(None if topics is None else frozenset(topics))
    return {group_id: _together(each) for group_id, each in wants.items()}


def _together(wants: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    """All topics of all members; None if the log does not say what one of them wants."""
    topics: frozenset[str] = frozenset()
    for each in wants:
        if each is None:
            return None
        topics |= each
    return topics
