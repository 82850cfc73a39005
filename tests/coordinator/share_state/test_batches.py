"""How states of ranges of offsets are merged, by the rules of Kafka's PersisterStateBatchCombiner."""

from __future__ import annotations

from random import Random

import pytest

from kohort.coordinator.delivery.states import StateBatch
from kohort.coordinator.share_state.batches import combine

B = StateBatch
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


def merged(known: list[B], newer: list[B], start_offset: int = -1) -> list[tuple[int, int, int, int]]:
    return [tuple(batch) for batch in combine(known, newer, start_offset)]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("known", "newer", "expected"),
    [
        # the same state: overlapping or touching batches become one
        ([B(100, 110, 0, 1)], [B(100, 110, 0, 1)], [(100, 110, 0, 1)]),
        ([B(100, 110, 0, 1)], [B(105, 120, 0, 1)], [(100, 120, 0, 1)]),
        ([B(100, 110, 0, 1)], [B(103, 105, 0, 1)], [(100, 110, 0, 1)]),
        ([B(100, 110, 0, 1)], [B(111, 119, 0, 1)], [(100, 119, 0, 1)]),
        ([B(111, 119, 0, 1)], [B(100, 110, 0, 1)], [(100, 119, 0, 1)]),
        # other states do not touch each other
        ([B(100, 110, 0, 1)], [B(111, 119, 2, 1)], [(100, 110, 0, 1), (111, 119, 2, 1)]),
        # the higher delivery count holds, and of equal counts the higher state
        ([B(100, 110, 0, 1)], [B(100, 110, 0, 2)], [(100, 110, 0, 2)]),
        ([B(100, 110, 0, 2)], [B(100, 110, 0, 1)], [(100, 110, 0, 2)]),
        ([B(100, 110, 0, 1)], [B(100, 110, 2, 1)], [(100, 110, 2, 1)]),
        ([B(100, 110, 2, 1)], [B(100, 110, 0, 1)], [(100, 110, 2, 1)]),
        # a part of a batch changes
        ([B(100, 110, 0, 1)], [B(100, 105, 0, 2)], [(100, 105, 0, 2), (106, 110, 0, 1)]),
        ([B(100, 110, 0, 1)], [B(105, 110, 0, 2)], [(100, 104, 0, 1), (105, 110, 0, 2)]),
        ([B(100, 110, 0, 1)], [B(103, 105, 0, 2)], [(100, 102, 0, 1), (103, 105, 0, 2), (106, 110, 0, 1)]),
        ([B(100, 110, 0, 1)], [B(105, 115, 0, 2)], [(100, 104, 0, 1), (105, 115, 0, 2)]),
        ([B(100, 110, 0, 2)], [B(105, 115, 0, 1)], [(100, 110, 0, 2), (111, 115, 0, 1)]),
        ([B(100, 110, 0, 2)], [B(103, 105, 0, 1)], [(100, 110, 0, 2)]),
        ([B(100, 110, 0, 2)], [B(100, 115, 0, 1)], [(100, 110, 0, 2), (111, 115, 0, 1)]),
        ([B(100, 110, 0, 1)], [B(100, 115, 0, 2)], [(100, 115, 0, 2)]),
        # one new batch over several
        (
            [B(100, 104, 0, 1), B(105, 109, 2, 1), B(110, 114, 0, 3)],
            [B(102, 112, 0, 2)],
            [(100, 101, 0, 1), (102, 109, 0, 2), (110, 114, 0, 3)],
        ),
        # what is far away stays as it is
        (
            [B(0, 9, 2, 1), B(20, 29, 0, 1), B(40, 49, 0, 1)],
            [B(20, 29, 2, 2)],
            [(0, 9, 2, 1), (20, 29, 2, 2), (40, 49, 0, 1)],
        ),
        ([], [], []),
        ([], [B(5, 9, 0, 1), B(0, 4, 0, 1)], [(0, 9, 0, 1)]),
    ],
)
def test_newer_batches_are_merged_into_older_ones(
    known: list[B], newer: list[B], expected: list[tuple[int, int, int, int]]
) -> None:
    assert merged(known, newer) == expected


def test_what_lies_before_the_start_offset_is_dropped() -> None:
    known = [B(100, 110, 0, 1), B(111, 120, 2, 1), B(121, 130, 0, 2)]
    assert merged(known, [], 115) == [(115, 120, 2, 1), (121, 130, 0, 2)]
    assert merged(known, [], 121) == [(121, 130, 0, 2)]
    assert merged(known, [], 131) == []
    assert merged([], [B(90, 105, 0, 1), B(10, 20, 0, 1)], 100) == [(100, 105, 0, 1)]


def test_a_batch_that_ends_before_it_begins_is_passed_over() -> None:
    assert merged([B(3, 20, 0, 1)], [B(10, 5, 2, 2)]) == [(3, 20, 0, 1)]


def test_merged_states_are_those_of_each_offset_by_itself() -> None:
    """Whatever is merged, each offset has the highest (delivery count, state) that it was given, unless it is gone."""
    random = Random(7)
    for _ in range(300):
        known: list[B] = []
        by_offset: dict[int, tuple[int, int]] = {}
        start = 0
        for _ in range(12):
            start = max(start, random.choice([start, start, random.randint(0, 40)]))
            newer = []
            for _ in range(random.randint(0, 4)):
                first = random.randint(0, 50)
                batch = B(first, first + random.randint(0, 12), random.choice([0, 2, 4]), random.randint(1, 3))
                newer.append(batch)
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    state = batch.delivery_count, batch.delivery_state
                    if offset >= start:
                        by_offset[offset] = max(by_offset.get(offset, state), state)
            by_offset = {offset: state for offset, state in by_offset.items() if offset >= start}
            known = combine(known, newer, start)
            spread = [
                (offset, (batch.delivery_count, batch.delivery_state))
                for batch in known
                for offset in range(batch.first_offset, batch.last_offset + 1)
            ]
            assert spread == sorted(by_offset.items())
