"""Topics that were deleted and created again while groups still had offsets of the old topic."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc

from kohort.audit.checks.kit.check import HISTORY, WARNING, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.derive.commits import codes

CHECK = Check(
    "topic_recreated",
    WARNING,
    "Commits for a topic of the same name with another id.",
    "Offsets of the old topic mean nothing in the new one: see that the group has started where it should.",
    needs=(HISTORY,),
)


def find(part: Part, _: Limits) -> Iterator[Row]:
    topics: dict[tuple[str, str], dict[str, Row]] = {}
    for row in sorted(_ids(part), key=lambda row: int(row["log_offset"])):
        topics.setdefault((row["group_id"], row["topic"]), {}).setdefault(row["topic_id"], row)
    for (group_id, topic), ids in topics.items():
        rows = list(ids.values())
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


def _ids(part: Part) -> list[Row]:
    """Commits with another topic id than the previous one of the partition, and the first one of each partition."""
    steps = part.steps
    known = pc.fill_null(steps.table["topic_id"], "").combine_chunks()
    ids, _ = codes(known)
    news = steps.known("topic_id") & (steps.is_first | (np.diff(ids, prepend=-1) != 0))
    return steps.rows(news, "group_id", "topic", "topic_id", "log_offset", "time")
