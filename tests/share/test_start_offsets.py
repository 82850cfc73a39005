"""Describe-, Alter- and DeleteShareGroupOffsets and DeleteGroups between both coordinators, one of which may refuse."""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import SimpleNamespace
from typing import Any

import pytest

from kohort.broker.share.alter_share_group_offsets import alter_share_group_offsets
from kohort.broker.share.delete_groups import delete_groups
from kohort.broker.share.delete_share_group_offsets import delete_share_group_offsets
from kohort.broker.share.describe_share_group_offsets import describe_share_group_offsets
from kohort.broker.share.persister import Done, SharePartitionKey
from kohort.broker.steps import Pause
from kohort.coordinator.share.group import find_share
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.coordinator.share.words import Group, NobodysCall, a_group
from tests.coordinator.support import FakeTopics
from tests.share.memory_persister import MemoryPersister
from tests.share_requests import alter_offsets_request, delete_share_offsets_request, describe_offsets_request

NOT_NOW, UNKNOWN = ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
END = 10  # of each log


class Refusing(MemoryPersister):
    """Refuses what is asked of these partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[int] = set()

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int, done: Done) -> None:
        if key.partition in self.refused:
            done(NOT_NOW, "not now")
        else:
            super().initialize(key, state_epoch, start_offset, done)

    def delete(self, key: SharePartitionKey, done: Done) -> None:
        if key.partition in self.refused:
            done(NOT_NOW, "not now")
        else:
            super().delete(key, done)


class Catalog:
    def __init__(self, topics: FakeTopics) -> None:
        self.topic_id, self.name_of, self.partition_count = topics.topic_id, topics.name_of, topics.partition_count

    def partition(self, name: str, index: int) -> Any:
        exists = index < self.partition_count(name)
        return SimpleNamespace(log=SimpleNamespace(log_end_offset=END)) if exists else None


class Stage:
    def __init__(self) -> None:
        self.group: Group = a_group()
        self.host = self.group.host
        self.states = Refusing()
        self.soon: list[Callable[[], object]] = []
        self.broker: Any = SimpleNamespace(
            coordinator=self.host, share_state=self.states, catalog=Catalog(self.host.topics), extra={},
            call_soon=self.soon.append, clock=SimpleNamespace(now_ms=lambda: self.host.now, steady_ms=lambda: 0),
        )  # fmt: skip
        self.broker.clock.steady_ms = lambda: self.host.steady_ms

    def play(self, handler: Callable[..., Generator[Any, None, Any]], request: Any) -> Any:
        """The answer of a handler that waits for both coordinators."""
        steps = handler(self.broker, request, NobodysCall(self.host))
        while True:
            try:
                waits = next(steps)
            except StopIteration as end:
                return end.value
            while isinstance(waits, Pause) and not waits.is_over:
                self.host.settle()
                work, self.soon[:] = list(self.soon), []
                assert work or waits.is_over, "nothing ends this pause"
                for each in work:
                    each()

    def alter(self, *partitions: int, start: int = 4) -> dict[int, tuple[int, str | None]]:
        request = alter_offsets_request("work", {("orders", each): start for each in partitions})
        answer = self.play(alter_share_group_offsets, request)
        assert answer.error_code == 0, answer
        return {
            row.partition_index: (row.error_code, row.error_message)
            for topic in answer.responses
            for row in topic.partitions
        }

    def delete(self, *topics: str) -> dict[str, int]:
        answer = self.play(delete_share_group_offsets, delete_share_offsets_request("work", *topics))
        return {row.topic_name: row.error_code for row in answer.responses}

    def describe(self) -> dict[int, tuple[int, int]]:
        (group,) = self.play(describe_share_group_offsets, describe_offsets_request(("work", None))).groups
        return {row.partition_index: (row.start_offset, row.lag) for topic in group.topics for row in topic.partitions}

    def names(self) -> tuple[list[str], list[str], list[str]]:
        """The topics that are initializing, initialized, and being deleted."""
        group = find_share(self.host.state_of("work"), "work")
        assert group is not None
        initializing, initialized = ([topic.name for topic in some.values()] for some in group.states[:2])
        return initializing, initialized, list(group.states.deleting.values())


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_starts_are_altered_and_shown(stage: Stage) -> None:
    assert stage.alter(0, 1, 7) == {
        0: (0, None), 1: (0, None), 7: (UNKNOWN, "This server does not host this topic-partition."),
    }  # fmt: skip
    assert stage.names() == ([], ["orders"], [])
    assert {index: start for index, (start, _) in stage.describe().items()} == {0: 4, 1: 4}


def test_a_refusal_of_the_share_coordinator_is_told_for_its_partition_and_all_stay_initializing_no_more(
    stage: Stage,
) -> None:
    stage.states.refused = {1}
    assert stage.alter(0, 1) == {0: (0, None), 1: (NOT_NOW, "not now")}
    assert stage.names() == ([], [], [])
    stage.states.refused = set()
    assert stage.alter(0, 1) == {0: (0, None), 1: (0, None)}
    assert stage.names() == ([], ["orders"], [])


def test_a_partition_below_zero_fails_the_whole_request(stage: Stage) -> None:
    answer = stage.play(alter_share_group_offsets, alter_offsets_request("work", {("orders", -1): 0}))
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert answer.error_message.startswith("Initialize share group parameters has invalid partitionId - work ")
    assert stage.host.list_groups() == []


def test_deletions_that_are_refused_can_be_tried_again(stage: Stage) -> None:
    stage.alter(0, 1)
    stage.states.refused = {0}
    assert stage.delete("orders", "nowhere") == {"orders": NOT_NOW, "nowhere": UNKNOWN}
    assert stage.names() == ([], [], ["orders"])
    stage.states.refused = set()
    assert stage.delete("orders") == {"orders": 0}
    assert stage.names() == ([], [], [])
    assert stage.states.states == {}


def test_a_group_whose_states_cannot_be_deleted_stays_and_the_others_go(stage: Stage) -> None:
    stage.alter(0, 1)
    Group(stage.host, "other").join("m1")
    stage.states.refused = {1}
    request = DeleteGroupsRequest(["work", "other", "nobody"])
    for error in (NOT_NOW, ErrorCode.NONE):
        answer = stage.play(delete_groups, request)
        found = {row.group_id: row.error_code for row in answer.results}
        assert found == {
            "work": error, "other": ErrorCode.NON_EMPTY_GROUP, "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
        }  # fmt: skip
        stage.states.refused = set()
    assert stage.states.states == {}


def test_heartbeats_ask_for_many_partitions_some_at_a_time(stage: Stage) -> None:
    from kohort.broker.share.coordinators import PARTITIONS_AT_ONCE, initialize

    stage.host.topics.grow("orders", 3 * PARTITIONS_AT_ONCE)
    stage.group.join("m1")
    (event,) = stage.group.asked
    initialize(stage.broker, event)
    assert len(stage.states.states) == PARTITIONS_AT_ONCE
    while stage.soon:
        stage.soon.pop(0)()
    stage.host.settle()
    assert len(stage.states.states) == 3 * PARTITIONS_AT_ONCE
    assert stage.names() == ([], ["orders"], [])


def test_a_lag_that_is_no_int64_is_told_as_java_calculates_it(stage: Stage) -> None:
    """Any client may write a state; an answer that cannot be encoded would close the connection."""
    stage.alter(0)
    (kept,) = stage.states.states.values()
    kept.start_offset, kept.complete_count = -(2**63), 0
    assert stage.describe() == {0: (-(2**63), END - 2**63)}
