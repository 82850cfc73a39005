"""ReadShareGroupState (84), v0: the leader of a partition asks where a share group stands.

A leader with a larger epoch than before is written down, so that the leaders before it cannot write any more.
"""

from __future__ import annotations

from kohort.coordinator.outcome import Record
from kohort.coordinator.share_state.keys import SharePartitionKey
from kohort.coordinator.share_state.partition_api import (
    Asked,
    Row,
    negative_partition,
    older_leader,
    partition_api,
    unknown_topic,
)
from kohort.coordinator.share_state.share_group_offset import NO_EPOCH
from kohort.coordinator.share_state.state import ShareState
from kohort.coordinator.share_state.write_share_group_state import change_record
from kohort.protocol.error_codes import ErrorCode


class ReadAsked(Asked):
    __slots__ = ("leader_epoch",)

    def __init__(self, key: SharePartitionKey, leader_epoch: int) -> None:
        super().__init__(key)
        self.leader_epoch = leader_epoch


def read(state: ShareState, asked: ReadAsked) -> tuple[Row, Record | None]:
    if (refused := _refused(state, asked)) is not None:
        return refused, None
    known = state.offsets[asked.key]
    row = Row(state_epoch=known.state_epoch, start_offset=known.start_offset, batches=known.batches)
    if asked.leader_epoch in (NO_EPOCH, known.highest_leader_epoch):
        return row, None
    done_count = known.delivery_complete_count
    return row, change_record(state, asked.key, asked.leader_epoch, known.start_offset, done_count, (), ())


def _refused(state: ShareState, asked: ReadAsked) -> Row | None:
    if (negative := negative_partition(asked)) is not None:
        return negative
    if asked.key not in state.offsets:
        return Row(ErrorCode.INVALID_REQUEST, "Read operation on uninitialized share partition not allowed.")
    return older_leader(state, asked, asked.leader_epoch) or unknown_topic(state, asked)


READ = partition_api(read, "Unable to read share group state")
