"""Commits by a member that does not own the partition, or of an earlier generation."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.audit.checks.kit.check import COMMITTERS, ERROR, HISTORY, OWNERS, Check, Limits, Row, finding
from kohort.audit.checks.kit.gather import gather_steps
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import count

CHECK = Check(
    "commit_by_non_owner",
    ERROR,
    "Commits by a member that does not own the partition, or with a generation that is over.",
    "A zombie overwrites the owner's progress: see why the coordinator let it, and stop the member that is named.",
    needs=(HISTORY, COMMITTERS, OWNERS),
)


def find(part: Part, _: Limits) -> Iterator[Row]:
    steps = part.steps
    generation = steps.numbers("generation", -1)
    stale = (
        (generation >= 0) & (generation < steps.numbers("group_generation", -1)) & steps.is_("group_type", "classic")
    )
    strange = ~steps.tombstone & steps.known("member_id") & steps.owned & (stale | steps.differ("member_id", "owner"))
    for hit in gather_steps(steps, strange):
        first = hit.first
        who, owner = (part.named(first["group_id"], first[each] or "") for each in ("member_id", "owner"))
        said = [f"{count(hit.rows, 'commit')} by {who or 'nobody in particular'}"]
        if first["member_id"] != first["owner"]:
            said.append(f"while {owner} owned the partition")
        is_classic = first["group_type"] == "classic"  # members of a consumer group have epochs of their own
        if (
            is_classic
            and first["generation"] is not None
            and 0 <= first["generation"] < (first["group_generation"] or 0)
        ):
            said.append(f"with generation {first['generation']} while {first['group_generation']} was in force")
        yield finding(
            CHECK,
            " ".join(said),
            **hit.place,
            member_id=first["member_id"],
            generation=first["generation"],
            value=float(hit.rows),
        )
