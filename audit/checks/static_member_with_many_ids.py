"""Static members that come back many times, or two processes with the same instance id."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from kohort.audit.checks.kit.check import HISTORY, WARNING, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import between, duration
from kohort.audit.tables import MEMBER_ASSIGNMENTS

CHECK = Check(
    "static_member_with_many_ids",
    WARNING,
    "A group.instance.id that had many member ids in a short time.",
    "Either the process restarts again and again, or two have the same group.instance.id and fence each other: give"
    " each its own.",
    {"ids": 5, "minutes": 60},
    needs=(HISTORY,),
)


def find(part: Part, limits: Limits) -> Iterator[Row]:
    many = max(1, int(limits["ids"]))
    for (group_id, instance_id), ids in _first_records(part).items():
        crowds = [
            ids[number : number + many]
            for number in range(len(ids) - many + 1)
            if between(ids[number]["record_time"], ids[number + many - 1]["record_time"]) <= limits["minutes"] * 60
        ]
        if crowds:
            first, last = crowds[0][0], crowds[-1][-1]
            different = len({row["member_id"] for crowd in crowds for row in crowd})
            yield finding(
                CHECK,
                f"{instance_id} had {different} member ids within"
                f" {duration(between(first['record_time'], last['record_time']))}",
                group_id=group_id,
                member_id=last["member_id"],
                log_offset=first["log_offset"],
                time=first["record_time"],
                until=last["record_time"],
                value=float(different),
            )


def _first_records(part: Part) -> dict[tuple[str, str], list[Row]]:
    """(group, instance id) -> the first record of each member id, in the order of the log."""
    rows = part.table(MEMBER_ASSIGNMENTS.name)
    rows = rows.filter(pc.and_(rows["instance_id"].is_valid(), pc.invert(rows["tombstone"])))
    keys = ["group_id", "instance_id", "member_id"]
    first = rows.group_by(keys).aggregate([("log_offset", "min"), ("record_time", "min")])
    first = first.rename_columns([*keys, "log_offset", "record_time"]).sort_by("log_offset")
    made: dict[tuple[str, str], list[Row]] = {}
    for row in first.to_pylist():
        made.setdefault((row["group_id"], row["instance_id"]), []).append(row)
    return made
