"""Groups about which the log and the broker say different things."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kohort.audit.checks.kit.baseline import GroupAnswer
from kohort.audit.checks.kit.check import BASELINE, CRITICAL, Check, Limits, Row, finding
from kohort.audit.checks.kit.part import Part
from kohort.audit.checks.kit.words import count
from kohort.audit.derive.records import CONSUMER
from kohort.coordinator.partitioner import partition_of

CHECK = Check(
    "state_differs_from_broker",
    CRITICAL,
    "Committed offsets and owners that follow from the log, and are not what the broker says.",
    "The broker would lose or change this state with its next start: do not restart it before you know why, and keep a"
    " copy of the log.",
    needs=(BASELINE,),
)

Place = tuple[str, int]
Difference = tuple[str, Place, Any, Any]  # what, where, what the log says, what the broker says


def find(part: Part, _: Limits) -> Iterator[Row]:
    """Compares only what the broker has answered twice in the same way, see kit/baseline.py."""
    if part.world.baseline is None:
        return
    answers = part.world.baseline.groups
    here = {name for name in answers if partition_of(name, part.world.log_partition_count) == part.log_partition}
    offsets, owners = _replayed_offsets(part), _replayed_owners(part)
    for group_id in sorted(here.union(name for name in part.first_offsets if name in answers)):
        answer = answers[group_id]
        differences = [
            *_differences("committed offset", offsets.get(group_id, {}), answer.offsets),
            *_differences("owner", _of_known_topics(part, answer, owners.get(group_id, {})), _owners(answer)),
        ]
        if differences:
            what, (topic, partition), ours, theirs = differences[0]
            yield finding(
                CHECK,
                f"{count(len(differences), 'difference')}; first the {what} of {topic}-{partition}: the log says"
                f" {ours}, the broker {theirs}",
                group_id=group_id,
                topic=topic,
                partition=partition,
                value=float(len(differences)),
            )


def _differences(what: str, ours: Mapping[Place, Any], theirs: Mapping[Place, Any] | None) -> Iterator[Difference]:
    """`theirs` is None if the broker has not said."""
    if theirs is None:
        return
    for place in sorted({*ours, *theirs}):
        if ours.get(place) != theirs.get(place):
            yield what, place, ours.get(place, "none"), theirs.get(place, "none")


def _replayed_offsets(part: Part) -> dict[str, dict[Place, int]]:
    made: dict[str, dict[Place, int]] = {}
    for (group_id, topic, partition), row in part.facts.items():
        if row["last_offset"] is not None:
            made.setdefault(group_id, {})[topic, partition] = row["last_offset"]
    return made


def _replayed_owners(part: Part) -> dict[str, dict[Place, str]]:
    """Owners by the log. If a partition has two owners, both are named."""
    made: dict[str, dict[Place, str]] = {}
    for row in sorted(part.intervals.open(), key=lambda row: str(row["member_id"])):
        owners, place = made.setdefault(row["group_id"], {}), (row["topic"], row["partition"])
        owners[place] = f"{owners[place]}, {row['member_id']}" if place in owners else row["member_id"]
    return made


def _of_known_topics(part: Part, answer: GroupAnswer, owners: dict[Place, str]) -> dict[Place, str]:
    """A broker leaves topics out that it does not know any more when it tells of a consumer group."""
    if answer.type != CONSUMER:
        return owners
    return {place: owner for place, owner in owners.items() if place[0] in part.world.topic_partitions}


def _owners(answer: GroupAnswer) -> dict[Place, str] | None:
    if answer.owners is None:
        return None
    made: dict[Place, str] = {}
    for place, member_id in sorted(answer.owners):
        made[place] = f"{made[place]}, {member_id}" if place in made else member_id
    return made
