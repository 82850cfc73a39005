"""Members that got partitions of topics that they did not ask for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.checks.kit.check import ERROR, HISTORY, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import count
from kohort.audit.tables import MEMBER_ASSIGNMENTS
from kohort.protocol.log_records import (
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    GROUP_METADATA,
)

CHECK = Check(
    "assignment_outside_subscription",
    ERROR,
    "Assignments with partitions of a topic that the member does not subscribe to.",
    "A consumer may refuse such partitions, and then nobody reads them: look at the assignor, and at members with other"
    " subscriptions.",
    needs=(HISTORY,),
)


def find(part: Part, _: Limits) -> Iterator[Row]:
    members = part.table(MEMBER_ASSIGNMENTS.name)
    strangers = [*_classic(members), *_new(part)]
    strangers.sort(key=lambda pair: pair[0]["log_offset"])
    groups: dict[str, list[tuple[Row, Row]]] = {}
    for row, outside in strangers:
        groups.setdefault(row["group_id"], []).append((row, outside))
    for group_id, found in groups.items():
        first, outside = found[0]
        member = part.named(group_id, first["member_id"])
        yield finding(
            CHECK,
            f"{count(len(found), 'assignment')} outside of the subscription; first {member} got"
            f" {outside['topic']}-{outside['partition']}",
            group_id=group_id,
            topic=outside["topic"],
            partition=outside["partition"],
            member_id=first["member_id"],
            generation=first["generation"],
            log_offset=first["log_offset"],
            time=first["record_time"],
            until=found[-1][0]["record_time"],
            value=float(len(found)),
        )


def _classic(members: pa.Table) -> Iterator[tuple[Row, Row]]:
    """Classic groups: one record has both subscription and assignment. Vectorised, because there may be many rows."""
    rows = members.filter(
        pc.and_(pc.equal(members["record_type"], GROUP_METADATA), members["subscribed_topics"].is_valid())
    )
    got, wants = rows["assigned"].combine_chunks(), rows["subscribed_topics"].combine_chunks()
    topics = pa.concat_arrays([got.flatten().field("topic"), wants.flatten()]).dictionary_encode()
    codes = topics.indices.fill_null(-1).to_numpy().astype(np.int64)
    got_row, wants_row = (pc.list_parent_indices(lists).to_numpy() for lists in (got, wants))
    of_topic = len(topics.dictionary) + 1
    got_keys = got_row * of_topic + codes[: len(got_row)]
    outside = ~np.isin(got_keys, wants_row * of_topic + codes[len(got_row) :]) & (codes[: len(got_row)] >= 0)
    for number in np.unique(got_row[outside]).tolist():
        row = rows.slice(number, 1).to_pylist()[0]
        yield row, next(one for one in row["assigned"] if one["topic"] not in row["subscribed_topics"])


def _new(part: Part) -> Iterator[tuple[Row, Row]]:
    """New protocol: subscription and assignment are separate records."""
    members = part.table(MEMBER_ASSIGNMENTS.name)
    targets = members.filter(pc.equal(members["record_type"], CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER))
    groups: dict[str, list[Row]] = {}
    for row in targets.filter(pc.invert(targets["tombstone"])).sort_by("log_offset").to_pylist():
        groups.setdefault(row["group_id"], []).append(row)
    for group_id, rows in groups.items():
        each_there = part.consumer_members.at_each(group_id, [row["log_offset"] for row in rows])
        for row, there in zip(rows, each_there, strict=True):
            wants = there.topics_of(row["member_id"])
            outside = [
                one for one in row["assigned"] or () if one["topic"] is not None and one["topic"] not in (wants or ())
            ]
            if wants is not None and outside:
                yield row, outside[0]
