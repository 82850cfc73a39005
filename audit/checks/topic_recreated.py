"""Topics that were deleted and created anew, under groups that remember the old one."""

from __future__ import annotations

from collections.abc import Iterator

from audit.checks.kit.check import HISTORY, WARNING, Check, Limits, Row, finding
from audit.checks.kit.part import Part
from audit.tables import COMMIT_STEPS

CHECK = Check(
    "topic_recreated",
    WARNING,
    "Commits for a topic of the same name with another id.",
    "Offsets of the old topic mean nothing in the new one: see that the group has started where it should.",
    needs=(HISTORY,),
)


def find(part: Part, _: Limits) -> Iterator[Row]:
    steps = part.table(COMMIT_STEPS.name)
    keys = ["group_id", "topic", "topic_id"]
    ids = steps.filter(steps["topic_id"].is_valid()).group_by(keys).aggregate([("log_offset", "min"), ("time", "min")])
    topics: dict[tuple[str, str], list[Row]] = {}
    for row in ids.rename_columns([*keys, "log_offset", "time"]).sort_by("log_offset").to_pylist():
        topics.setdefault((row["group_id"], row["topic"]), []).append(row)
    for (group_id, topic), rows in topics.items():
        if len(rows) > 1:
            more = f", and {len(rows) - 2} more" if len(rows) > 2 else ""
            yield finding(
                CHECK,
                f"{topic} has another id: {rows[1]['topic_id']} after {rows[0]['topic_id']}{more}",
                group_id=group_id,
                topic=topic,
                log_offset=rows[1]["log_offset"],
                time=rows[1]["time"],
                value=float(len(rows) - 1),
            )
