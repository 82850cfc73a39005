"""InitializeShareGroupState (83), v0: the group coordinator begins the state of a share partition, or begins it anew.

The state epoch of the request must not be smaller than the one that is known.
"""

from __future__ import annotations

from kohort.coordinator.outcome import Headers, Record
from kohort.coordinator.share_state.batches import NO_START_OFFSET
from kohort.coordinator.share_state.headers import Cause, share_state_headers
from kohort.coordinator.share_state.keys import SharePartitionKey
from kohort.coordinator.share_state.partition_api import (
    Asked,
    Row,
    negative_partition,
    older_state,
    partition_api,
    unknown_topic,
)
from kohort.coordinator.share_state.share_group_offset import UNKNOWN_COUNT, snapshot_record
from kohort.coordinator.share_state.state import ShareState

FIRST_LEADER_EPOCH = 0  # until a leader reads the state


class InitializeAsked(Asked):
    __slots__ = ("start_offset", "state_epoch")

    def __init__(self, key: SharePartitionKey, state_epoch: int, start_offset: int) -> None:
        super().__init__(key)
        self.state_epoch = state_epoch
        self.start_offset = start_offset  # -1: share.auto.offset.reset decides, when the first member fetches


def initialize(state: ShareState, asked: InitializeAsked) -> tuple[Row, Record | None]:
    refused = negative_partition(asked) or older_state(state, asked, asked.state_epoch) or unknown_topic(state, asked)
    if refused is not None:
        return refused, None
    known = state.offsets.get(asked.key)
    # Until something was consumed nobody can tell a lag; but from a given start on, nothing is done yet.
    done_count = UNKNOWN_COUNT if asked.start_offset == NO_START_OFFSET else 0
    now = state.clock.wall
    return Row(), snapshot_record(
        asked.key, 0 if known is None else known.snapshot_epoch + 1, asked.state_epoch, FIRST_LEADER_EPOCH,
        asked.start_offset, done_count, (), now, now, _headers(state, asked),
    )  # fmt: skip


def _headers(state: ShareState, asked: InitializeAsked) -> Headers:
    if not state.config.audit_headers:
        return ()
    return share_state_headers(Cause.INITIALIZE if asked.start_offset == NO_START_OFFSET else Cause.ALTER)


INITIALIZE = partition_api(initialize, "Unable to initialize share group state")
