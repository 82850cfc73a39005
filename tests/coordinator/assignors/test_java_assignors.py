"""The assignors against those of Kafka's own Java client, on groups made up from a seed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from kohort.coordinator.assignors import ASSIGNORS, Assignment, GroupSpec
from tests.coordinator.assignors.random_groups import loads, moves, random_group
from tests.kafka.jars import java

PROGRAM = Path(__file__).parents[2] / "clients" / "java" / "Assignors.java"
SEED = 431
GROUPS = 600
_FOUR_TOPICS = {"t0": 2, "t1": 2, "t2": 2, "t3": 2}
_FIRST_EXAMPLE = GroupSpec(  # of StickyAssignor's page, after C1 has gone
    {"C0": list(_FOUR_TOPICS), "C2": list(_FOUR_TOPICS)},
    _FOUR_TOPICS,
    {"C0": [("t0", 0), ("t1", 1), ("t3", 0)], "C2": [("t1", 0), ("t2", 1)]},
)


@pytest.mark.kafka
def test_the_assignors_give_what_the_java_client_gives() -> None:
    random = Random(SEED)
    groups = [_FIRST_EXAMPLE] + [random_group(random, letters=number % 2 == 0) for number in range(1, GROUPS)]
    told = java(str(PROGRAM), stdin="".join(map(_told, groups)))
    answers = list(_answers(told))
    assert len(answers) == len(groups)
    for number, (group, java_answers) in enumerate(zip(groups, answers, strict=True)):
        for name, assignor in ASSIGNORS.items():
            exact = number % 2 == 0 or not name.endswith("sticky") or not any(group.owned.values())
            compare = _compare_exactly if exact else _compare_moves_and_balance
            compare(name, group, assignor(group), java_answers[name])


def _compare_exactly(name: str, group: GroupSpec, ours: Assignment, javas: Assignment) -> None:
    assert _in_order(ours) == _in_order(javas), (name, group)


def _compare_moves_and_balance(name: str, group: GroupSpec, ours: Assignment, javas: Assignment) -> None:
    """Where members have any names, the order of Java's hash maps decides among equals."""
    owned = {member: list(partitions) for member, partitions in group.owned.items()}
    assert moves(owned, ours) == moves(owned, javas), (name, group)
    assert sum(loads(ours)) == sum(loads(javas)), (name, group)
    if name == "sticky":  # what cooperative-sticky withholds for now would go to one member or to its equal
        assert loads(ours) == loads(javas), (name, group)


def _told(group: GroupSpec) -> str:
    lines = [f"topic {topic} {count}" for topic, count in group.partitions.items()]
    for member, topics in group.subscriptions.items():
        owned = ",".join(f"{topic}:{number}" for topic, number in group.owned.get(member, ())) or "-"
        lines.append(f"member {member} {group.instances.get(member, '-')} {','.join(topics)} {owned}")
    return "\n".join([*lines, "assign", ""])


def _answers(told: str) -> Iterator[dict[str, Assignment]]:
    answer: dict[str, Assignment] = {name: {} for name in ASSIGNORS}
    for line in told.splitlines():
        if line == "done":
            yield answer
            answer = {name: {} for name in ASSIGNORS}
            continue
        name, member, partitions = line.split(" ")
        pairs = (partition.rsplit(":", 1) for partition in partitions.split(",") if partition)
        answer[name][member] = [(topic, int(number)) for topic, number in pairs]


def _in_order(assignment: Assignment) -> Assignment:
    return {member: sorted(partitions) for member, partitions in sorted(assignment.items())}
