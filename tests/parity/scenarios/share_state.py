"""The share coordinator: what leaders of partitions tell it and ask it, here asked by hand."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.messages import (
    delete_share_group_state as delete_state,
)
from kohort.protocol.messages import (
    initialize_share_group_state as initialize_state,
)
from kohort.protocol.messages import (
    read_share_group_state as read_state,
)
from kohort.protocol.messages import (
    read_share_group_state_summary as read_summary,
)
from kohort.protocol.messages import (
    write_share_group_state as write_state,
)
from kohort.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.parity.share_story import NO_SUCH_TOPIC_ID, SHARE_KEY, Sharer, ShareStory, accept, share_story

INITIALIZE = ApiKey.INITIALIZE_SHARE_GROUP_STATE
READ = ApiKey.READ_SHARE_GROUP_STATE
WRITE = ApiKey.WRITE_SHARE_GROUP_STATE
DELETE = ApiKey.DELETE_SHARE_GROUP_STATE
SUMMARY = ApiKey.READ_SHARE_GROUP_STATE_SUMMARY
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4

Batch = tuple[int, int, int, int]  # first and last offset, state, delivery count


class StateStory:
    """Asks about one topic, by its id."""

    def __init__(self, s: ShareStory, partitions: int = 1) -> None:
        self.s = s
        self.id = s.topic_id(s.topic("", partitions))

    def initialize(self, epoch: int = 0, start: int = 0, partition: int = 0, **other: object) -> None:
        row = initialize_state.PartitionData(partition, epoch, start)
        request = initialize_state.InitializeShareGroupStateRequest(
            self.s.group, [initialize_state.InitializeStateData(self.id, [row])]
        )
        self._ask(INITIALIZE, request, other)

    def read(self, leader_epoch: int = 0, partition: int = 0, **other: object) -> None:
        row = read_state.PartitionData(partition, leader_epoch)
        request = read_state.ReadShareGroupStateRequest(self.s.group, [read_state.ReadStateData(self.id, [row])])
        self._ask(READ, request, other)

    def write(
        self,
        *batches: Batch,
        start: int = -1,
        epoch: int = 0,
        leader_epoch: int = 0,
        complete: int = -1,
        partition: int = 0,
        **other: object,
    ) -> None:
        rows = [write_state.StateBatch(*each) for each in batches]
        row = write_state.PartitionData(partition, epoch, leader_epoch, start, complete, rows)
        request = write_state.WriteShareGroupStateRequest(self.s.group, [write_state.WriteStateData(self.id, [row])])
        self._ask(WRITE, request, other)

    def delete(self, *partitions: int, **other: object) -> None:
        rows = [delete_state.PartitionData(each) for each in partitions or (0,)]
        request = delete_state.DeleteShareGroupStateRequest(self.s.group, [delete_state.DeleteStateData(self.id, rows)])
        self._ask(DELETE, request, other)

    def summary(self, leader_epoch: int = 0, partition: int = 0, **other: object) -> None:
        row = read_summary.PartitionData(partition, leader_epoch)
        request = read_summary.ReadShareGroupStateSummaryRequest(
            self.s.group, [read_summary.ReadStateSummaryData(self.id, [row])]
        )
        self._ask(SUMMARY, request, other)

    def look(self) -> None:
        self.summary()
        self.read()

    def _ask(self, api_key: ApiKey, request: object, other: dict[str, object]) -> None:
        for name, value in other.items():
            setattr(request, name, value)
        self.s.ask(api_key, request)


class StateOf(StateStory):
    """Asks about a topic that is there already."""

    def __init__(self, s: ShareStory, topic: str) -> None:
        self.s = s
        self.id = s.topic_id(topic)


@share_story(INITIALIZE, None)
def a_state_is_initialized(s: ShareStory) -> None:
    state = StateStory(s)
    state.look()
    state.initialize(start=7)
    state.look()
    state.initialize(start=9)
    state.look()
    state.initialize(epoch=3, start=-1)
    state.look()
    state.initialize(epoch=2, start=5)
    state.initialize(epoch=3, start=5)
    state.look()


@share_story(WRITE, None)
def a_state_is_written(s: ShareStory) -> None:
    state = StateStory(s)
    state.write((0, 1, ACKNOWLEDGED, 1))
    state.initialize()
    state.write((0, 4, ACKNOWLEDGED, 1))
    state.look()
    state.write((2, 7, AVAILABLE, 2), start=1, complete=1)
    state.look()
    state.write(start=5, complete=0)
    state.look()
    state.write()
    state.look()


@share_story(WRITE, (1,))
def written_batches_are_merged(s: ShareStory) -> None:
    state = StateStory(s)
    for number, batches in enumerate(MERGED):
        group = f"{s.group}-{number}"
        state.initialize(group_id=group)
        for each in batches:
            state.write(*each, group_id=group)
        state.read(group_id=group)


# Of each group, what is written in one request after the other.
MERGED: Sequence[Sequence[Sequence[Batch]]] = (
    [[(0, 9, AVAILABLE, 1), (10, 19, AVAILABLE, 1)]],
    [[(0, 9, AVAILABLE, 1)], [(10, 19, AVAILABLE, 1)]],
    [[(0, 9, AVAILABLE, 1)], [(11, 19, AVAILABLE, 1)]],
    [[(0, 9, AVAILABLE, 1)], [(5, 14, AVAILABLE, 1)]],
    [[(0, 9, AVAILABLE, 1)], [(5, 14, AVAILABLE, 2)]],
    [[(0, 9, AVAILABLE, 2)], [(5, 14, AVAILABLE, 1)]],
    [[(0, 9, AVAILABLE, 1)], [(5, 14, ACKNOWLEDGED, 1)]],
    [[(0, 9, ACKNOWLEDGED, 1)], [(5, 14, AVAILABLE, 1)]],
    [[(0, 9, ARCHIVED, 1)], [(3, 5, ACKNOWLEDGED, 1)]],
    [[(0, 9, AVAILABLE, 1)], [(3, 5, AVAILABLE, 2)], [(4, 4, ACKNOWLEDGED, 2)]],
    [[(0, 9, AVAILABLE, 1)], [(0, 3, AVAILABLE, 2)], [(7, 9, ARCHIVED, 2)]],
    [[(5, 9, AVAILABLE, 1)], [(0, 19, AVAILABLE, 2)]],
    [[(0, 0, ACKNOWLEDGED, 1)], [(2, 2, ACKNOWLEDGED, 1)], [(1, 1, ACKNOWLEDGED, 1)]],
    [[(9, 9, AVAILABLE, 1), (0, 3, AVAILABLE, 1), (5, 6, AVAILABLE, 1)]],
    [[(0, 9, AVAILABLE, 1), (5, 6, AVAILABLE, 3), (6, 12, AVAILABLE, 2)]],
    [[(0, 9, AVAILABLE, 1)], [(0, 9, AVAILABLE, 1)]],
)


@share_story(WRITE, None)
def a_start_passes_batches(s: ShareStory) -> None:
    state = StateStory(s)
    state.initialize()
    state.write((0, 9, ACKNOWLEDGED, 1), (10, 19, AVAILABLE, 2), (20, 29, ARCHIVED, 3))
    state.write(start=5)
    state.look()
    state.write((3, 25, AVAILABLE, 4), start=12)
    state.look()
    state.write(start=4)
    state.look()
    state.write((0, 3, ACKNOWLEDGED, 1), start=30)
    state.look()


@share_story(WRITE, None)
def epochs_of_a_state(s: ShareStory) -> None:
    state = StateStory(s)
    state.initialize(epoch=5)
    state.write((0, 0, ACKNOWLEDGED, 1), epoch=4)
    state.write((1, 1, ACKNOWLEDGED, 1), epoch=6)
    state.write((2, 2, ACKNOWLEDGED, 1), epoch=5)
    state.write((3, 3, ACKNOWLEDGED, 1), epoch=5, leader_epoch=3)
    state.look()
    state.write((4, 4, ACKNOWLEDGED, 1), epoch=5, leader_epoch=2)
    state.write((5, 5, ACKNOWLEDGED, 1), epoch=4, leader_epoch=2)
    state.read(leader_epoch=2)
    state.read(leader_epoch=7)
    state.write((6, 6, ACKNOWLEDGED, 1), epoch=5, leader_epoch=6)
    state.summary(leader_epoch=5)
    state.summary(leader_epoch=9)
    state.write((7, 7, ACKNOWLEDGED, 1), epoch=5, leader_epoch=8)
    state.initialize(epoch=5)
    state.look()


@share_story(READ, None)
def states_that_are_not_there(s: ShareStory) -> None:
    state = StateStory(s)
    for partition in (0, 7, -1):
        state.read(partition=partition)
        state.summary(partition=partition)
        state.write((0, 0, ACKNOWLEDGED, 1), partition=partition)
        state.delete(partition)
        state.initialize(partition=partition)
    state.look()
    state.id = NO_SUCH_TOPIC_ID
    for ask in (state.read, state.summary, state.write, state.delete, state.initialize):
        ask()


@share_story(READ, None)
def requests_about_states_that_say_nothing(s: ShareStory) -> None:
    state = StateStory(s)
    for ask in (state.read, state.summary, state.write, state.delete, state.initialize):
        ask(topics=[])
        ask(group_id="")


@share_story(DELETE, None)
def a_state_is_deleted(s: ShareStory) -> None:
    state = StateStory(s, partitions=3)
    for partition in range(3):
        state.initialize(epoch=4, start=partition, partition=partition)
    state.delete(0, 1)
    state.delete(0, 9)
    for partition in range(3):
        state.summary(partition=partition)
    state.read()
    state.initialize(epoch=2, start=8)
    state.look()


@share_story(SUMMARY, None)
def the_summary_of_what_a_group_has_read(s: ShareStory) -> None:
    at = s.shared(10)
    a = s.sharer("a")
    state = StateOf(s, at[0])
    state.look()
    a.fetch(at)
    state.look()
    for said in (accept(1, 3), accept(0), accept(6), accept(5) + accept(7, 9)):
        a.acknowledge({at: said})
        state.look()


@share_story(INITIALIZE, None)
def starts_that_no_log_has(s: ShareStory) -> None:
    at = s.shared(3)
    state = StateOf(s, at[0])
    for epoch, (start, complete) in enumerate(((2**63 - 1, 0), (-(2**63), 2), (-2, 2**31 - 1), (2**62, -(2**31))), 10):
        state.initialize(epoch=epoch, start=start)
        state.write(epoch=epoch, start=start, complete=complete)
        state.summary()
        s.share_offsets(at)


def written_by_hand(s: ShareStory, *batches: Batch) -> Sharer:
    """A member that has fetched from a partition with ten records and such a state."""
    at = s.shared(10)
    state = StateOf(s, at[0])
    state.write(*batches, epoch=1, start=0, complete=0)
    state.look()
    a = s.sharer("a")
    a.fetch(at, max_wait_ms=2_000)
    a.find_nothing(at)
    s.share_offsets(at)
    return a


@share_story(WRITE, (1,))
def a_state_that_says_acquired(s: ShareStory) -> None:
    written_by_hand(s, (0, 3, 1, 1))


@share_story(WRITE, (1,))
def a_state_that_is_none(s: ShareStory) -> None:
    written_by_hand(s, (0, 3, 9, 1))


@share_story(WRITE, (1,))
def a_state_below_zero(s: ShareStory) -> None:
    written_by_hand(s, (0, 3, -1, 1))


@share_story(WRITE, (1,))
def a_reserved_state(s: ShareStory) -> None:
    written_by_hand(s, (0, 3, 3, 1))


@share_story(WRITE, (1,))
def a_delivery_count_below_zero(s: ShareStory) -> None:
    written_by_hand(s, (0, 3, AVAILABLE, -5))


@share_story(WRITE, (1,))
def a_delivery_count_that_Kafka_stumbles_over(s: ShareStory) -> None:
    written_by_hand(s, (0, 3, AVAILABLE, 2**15 - 1))


@share_story(READ, None)
def a_leader_with_a_newer_epoch_takes_a_share_partition_away(s: ShareStory) -> None:
    at = s.shared(6)
    a = s.sharer("a")
    a.fetch(at)
    a.acknowledge({at: accept(0)})
    state = StateOf(s, at[0])
    state.read(leader_epoch=5)
    a.acknowledge({at: accept(1)})
    a.find_nothing()
    a.acknowledge({at: accept(1)})
    s.share_offsets(at)


@share_story(INITIALIZE, None)
def a_newer_state_fences_a_share_partition(s: ShareStory) -> None:
    at = s.shared(6)
    a = s.sharer("a")
    a.fetch(at)
    a.acknowledge({at: accept(0)})
    StateOf(s, at[0]).initialize(epoch=90, start=3)
    a.acknowledge({at: accept(1)})
    a.acknowledge({at: accept(1)})
    a.find_nothing()
    a.find_nothing()
    s.share_offsets(at)


@share_story(ApiKey.FIND_COORDINATOR, (4, 6))
def the_coordinator_of_a_share_partition_is_found(s: ShareStory) -> None:
    topic = s.topic("", 1)
    keys = [f"{s.group}:{_base64(s.topic_id(topic))}:0", "g:AAAAAAAAAAAAAAAAAAAAAQ:7", "a:b:AAAAAAAAAAAAAAAAAAAAAQ:0"]
    answer = s.ask(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("", SHARE_KEY, keys))
    for each in answer.coordinators:
        each.key = each.key.replace(_base64(s.topic_id(topic)), "ID")


def _base64(topic_id: bytes) -> str:
    return urlsafe_b64encode(topic_id).decode().rstrip("=")
