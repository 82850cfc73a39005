"""Partitions that changed hands although a sticky assignor should have left them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from kohort.audit.checks.kit.check import HISTORY, WARNING, Check, Limits, Row, finding
from kohort.audit.checks.kit.gather import gather_rows
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import count
from kohort.audit.tables import MEMBER_ASSIGNMENTS

CHECK = Check(
    "avoidable_moves",
    WARNING,
    "Rebalances under a sticky assignor that moved more partitions than balance needed.",
    "Moved partitions cost their caches and state: see that all members run the same client version, and that they keep"
    " their member ids (group.instance.id) over restarts.",
    {"moves": 1},
    needs=(HISTORY,),
)

STICKY = ("sticky", "cooperative-sticky")
SERVERS_OWN = "uniform"  # the new protocol's default assignor, which is sticky


def find(part: Part, limits: Limits) -> Iterator[Row]:
    restless = [
        row
        for row in part.rebalances
        if (row["avoidable_moves"] or 0) >= limits["moves"]
        and (row["protocol"] in STICKY or (row["group_type"] == "consumer" and not _asks_for_another(part, row)))
    ]
    for hit in gather_rows(restless, lambda row: float(row["avoidable_moves"])):
        worst = hit.worst
        yield finding(
            CHECK,
            f"{count(hit.rows, 'rebalance')} moved more than they had to; at worst {worst['avoidable_moves']} of"
            f" {worst['moved']} moves were avoidable ({worst['protocol'] or SERVERS_OWN}, generation"
            f" {worst['generation']})",
            **hit.place,
            generation=hit.first["generation"],
            value=hit.value,
        )


def _asks_for_another(part: Part, row: Row) -> bool:
    """Whether a member ever asked for an assignor that is not sticky: the group may have used it for this rebalance."""
    members = part.table(MEMBER_ASSIGNMENTS.name)
    of_group = members.filter(pc.equal(members["group_id"], row["group_id"]))["server_assignor"]
    return bool({*of_group.unique().to_pylist()} - {None, SERVERS_OWN})
