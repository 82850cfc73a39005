"""What each member of a share group was assigned from when to when: the table share_members.

A member has the partitions of its current assignment (type 14) until the next record that names others, or until its
tombstone. Partitions of share groups have no single owner: the members of a partition get records of it in turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.decode.schemas import schema
from kohort.audit.tables import SHARE_MEMBERS
from kohort.protocol.log_records import SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT, SHARE_GROUP_MEMBER_METADATA

SHARE = "share"
ASSIGNED, LEFT = "assigned", "left"
COLUMNS = (
    "log_partition", "log_offset", "record_time", "group_id", "record_type", "tombstone", "generation", "member_id",
    "rack_id", "client_id", "client_host", "assigned",
)  # fmt: skip

Row = dict[str, Any]


def share_members(assignments: pa.Table) -> pa.Table:
    """`assignments`: the rows of member_assignments of one log partition."""
    mine = assignments.filter(pc.equal(assignments["group_type"], SHARE)).select(list(COLUMNS)).sort_by("log_offset")
    known: dict[tuple[str, str], Row] = {}  # group and member id -> what the member said about itself
    held: dict[tuple[str, str], Row] = {}  # the assignment in force
    made: list[Row] = []
    for row in mine.to_pylist():
        who = (row["group_id"], row["member_id"])
        if row["record_type"] == SHARE_GROUP_MEMBER_METADATA and not row["tombstone"]:
            known[who] = row
        elif row["tombstone"] and row["record_type"] in (
            SHARE_GROUP_MEMBER_METADATA,
            SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT,
        ):
            _end(held.pop(who, None), row, LEFT)
        elif row["record_type"] == SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT:
            before = held.get(who)
            if before is not None and before["partitions"] == (row["assigned"] or []):
                before["last_epoch"] = row["generation"]
                continue
            _end(before, row, ASSIGNED)
            held[who] = _begun(row, known.get(who, {}))
            made.append(held[who])
    return pa.Table.from_pylist(made, schema=schema(SHARE_MEMBERS.name))


def _begun(row: Row, about: Mapping[str, Any]) -> Row:
    return {
        "group_id": row["group_id"],
        "member_id": row["member_id"],
        **{name: about.get(name) for name in ("client_id", "client_host", "rack_id")},
        "first_epoch": row["generation"],
        "last_epoch": row["generation"],
        "partitions": row["assigned"] or [],
        "start_time": row["record_time"],
        "end_time": None,
        "log_partition": row["log_partition"],
        "start_log_offset": row["log_offset"],
        "end_log_offset": None,
        "ended_by": None,
    }


def _end(held: Row | None, row: Row, how: str) -> None:
    if held is not None:
        held |= {"end_time": row["record_time"], "end_log_offset": row["log_offset"], "ended_by": how}
