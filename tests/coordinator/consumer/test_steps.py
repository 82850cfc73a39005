"""Targets of groups that want very many topics are computed in many small steps, whatever the members want."""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from sys import setprofile
from types import FrameType
from typing import Any

import pytest

from kohort.coordinator.assignors.server_side import ServerGroup, Subscriber
from kohort.coordinator.consumer.target import ASSIGNORS
from kohort.coordinator.pieces import in_pieces
from kohort.coordinator.planning import STEPS_IN_PIECE

TOPICS = 2_000
CALLS_IN_PIECE = 60_000  # of functions, of C too: some 10 ms


def most_calls(pieces: Generator[Any, None, Any]) -> int:
    """The calls of functions in the longest piece: a measure of work that is the same on every machine."""
    most = count = 0

    def see(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    while True:
        count = 0
        setprofile(see)
        try:
            next(pieces)
        except StopIteration:
            return max(most, count)
        finally:
            setprofile(None)
        most = max(most, count)


@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize("is_equal", [True, False])
@pytest.mark.parametrize("member_count", [1, 20])
def test_no_piece_of_a_target_takes_long(assignor: str, is_equal: bool, member_count: int) -> None:
    random = Random(1)
    topics = [random.randbytes(16) for _ in range(TOPICS)]
    had = dict.fromkeys(topics[::2], (0,))
    members = {
        f"m{number}": Subscriber(topics if is_equal or number % 2 else topics[1:], {} if number else had)
        for number in range(member_count)
    }
    group = ServerGroup(members, dict.fromkeys(topics, 2), is_equal)
    assert most_calls(in_pieces(ASSIGNORS[assignor](group), STEPS_IN_PIECE)) < CALLS_IN_PIECE
