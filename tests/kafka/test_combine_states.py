"""Kafka's own PersisterStateBatchCombiner and ours make the same of random batches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from kohort.coordinator.delivery.states import StateBatch
from kohort.coordinator.share_state.batches import combine
from tests.kafka.jars import java

SOURCE = Path(__file__).with_name("CombineStates.java")
CASES = 20_000


def text(batches: Sequence[StateBatch]) -> str:
    return ";".join(",".join(map(str, batch)) for batch in batches) or "-"


@pytest.mark.kafka
def test_random_batches_are_merged_as_by_kafka() -> None:
    random = Random(932)
    asked, ours = [], []
    known: list[StateBatch] = []
    start = 0
    for number in range(CASES):
        if number % 15 == 0:
            known, start = [], random.choice([-1, 0, 5])
        newer = []
        for _ in range(random.randint(0, 5)):
            first = random.randint(0, 60)
            last = first + random.choice([0, 0, 1, 3, 8, 20])
            newer.append(StateBatch(first, last, random.choice([0, 2, 4]), random.randint(1, 4)))
        start = max(start, random.choice([start, start, start, random.randint(0, 50)]))
        asked.append(f"{start} {text(known)} {text(newer)}")
        known = combine(known, newer, start)
        ours.append(text(known))
    theirs = java(str(SOURCE), stdin="\n".join(asked) + "\n").splitlines()
    different = [case for case in zip(asked, theirs, ours, strict=True) if case[1] != case[2]]
    assert different == []
