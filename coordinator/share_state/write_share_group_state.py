"""WriteShareGroupState (85), v0-1: the leader of a partition has something to keep; v1 counts what is done.

Most of it is kept as an update of the last snapshot. After some updates the next snapshot is due.
"""

from __future__ import annotations

from collections.abc import Sequence

from kohort.coordinator.delivery.states import StateBatch
from kohort.coordinator.outcome import Headers, Record
from kohort.coordinator.share_state.batches import (
    MAX_BATCHES,
    MAX_BATCHES_IN_WRITE,
    NO_START_OFFSET,
    combine,
)
from kohort.coordinator.share_state.keys import SharePartitionKey
from kohort.coordinator.share_state.partition_api import (
    Asked,
    Row,
    negative_partition,
    older_leader,
    older_state,
    partition_api,
    unknown_topic,
)
from kohort.coordinator.share_state.share_group_offset import ShareGroupOffset, snapshot_record, update_record
from kohort.coordinator.share_state.state import ShareState
from kohort.protocol.error_codes import ErrorCode


class WriteAsked(Asked):
    __slots__ = ("batches", "delivery_complete_count", "headers", "leader_epoch", "start_offset", "state_epoch")

    def __init__(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        headers: Headers = (),
    ) -> None:
        super().__init__(key)
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset  # -1: as it was
        self.delivery_complete_count = delivery_complete_count
        self.batches = batches
        self.headers = headers


def write(state: ShareState, asked: WriteAsked) -> tuple[Row, Record | None]:
    if (refused := _refused(state, asked)) is not None:
        return refused, None
    headers = asked.headers if state.config.audit_headers else ()
    return Row(), change_record(
        state, asked.key, state.offsets[asked.key].leader_epoch, asked.start_offset, asked.delivery_complete_count,
        asked.batches, headers,
    )  # fmt: skip


def _refused(state: ShareState, asked: WriteAsked) -> Row | None:
    if (negative := negative_partition(asked)) is not None:
        return negative
    if asked.key not in state.offsets:
        return Row(ErrorCode.INVALID_REQUEST, "Write operation on uninitialized share partition not allowed.")
    return (
        older_leader(state, asked, asked.leader_epoch)
        or older_state(state, asked, asked.state_epoch)
        or unknown_topic(state, asked)
        or _unlawful_batches(state.offsets[asked.key], asked)
    )


def _unlawful_batches(known: ShareGroupOffset, asked: WriteAsked) -> Row | None:
    """Batches that no leader sends. Kafka takes them, and then merges for ever, or cannot write."""
    if any(batch.first_offset > batch.last_offset for batch in asked.batches):
        return Row(ErrorCode.INVALID_REQUEST, "A batch of states ends before it begins.")
    if len(asked.batches) > MAX_BATCHES_IN_WRITE:
        return Row(ErrorCode.INVALID_REQUEST, f"There are more than {MAX_BATCHES_IN_WRITE} batches of states.")
    if len(known.batches) + 2 * len(asked.batches) > MAX_BATCHES:
        start_offset = known.start_offset if asked.start_offset == NO_START_OFFSET else asked.start_offset
        if len(combine(known.batches, asked.batches, start_offset)) > MAX_BATCHES:
            return Row(ErrorCode.INVALID_REQUEST, f"The state would have more than {MAX_BATCHES} batches.")
    return None


def change_record(
    state: ShareState,
    key: SharePartitionKey,
    leader_epoch: int,
    start_offset: int,
    delivery_complete_count: int,
    batches: Sequence[StateBatch],
    headers: Headers,
) -> Record:
    """The record that changes the state of a share partition that is initialized: an update, or a snapshot if due."""
    known = state.offsets[key]
    if known.update_count < state.config.updates_per_snapshot:
        own = combine((), batches, start_offset)
        return update_record(
            key, known.snapshot_epoch, leader_epoch, start_offset, delivery_complete_count, own, headers
        )
    if start_offset == NO_START_OFFSET:
        start_offset = known.start_offset
    now = state.clock.wall
    return snapshot_record(
        key, known.snapshot_epoch + 1, known.state_epoch, leader_epoch, start_offset, delivery_complete_count,
        combine(known.batches, batches, start_offset), now, now, headers,
    )  # fmt: skip


WRITE = partition_api(write, "Unable to write share group state")
