"""ReadShareGroupStateSummary (87), v0-1: where a share group stands, without details; v1 counts what is done.

The state of a share partition that was never initialized is not an error, but an empty one. No epoch is checked.
"""

from __future__ import annotations

from kohort.coordinator.outcome import Record
from kohort.coordinator.share_state.batches import NO_START_OFFSET
from kohort.coordinator.share_state.partition_api import Row, negative_partition, partition_api, unknown_topic
from kohort.coordinator.share_state.read_share_group_state import ReadAsked
from kohort.coordinator.share_state.state import ShareState


def read_summary(state: ShareState, asked: ReadAsked) -> tuple[Row, Record | None]:
    refused = negative_partition(asked) or unknown_topic(state, asked)
    if refused is not None:
        return refused, None
    known = state.offsets.get(asked.key)
    if known is None:
        return Row(start_offset=NO_START_OFFSET), None
    return Row(
        state_epoch=known.state_epoch,
        leader_epoch=known.leader_epoch,
        start_offset=known.start_offset,
        delivery_complete_count=known.delivery_complete_count,
    ), None


READ_SUMMARY = partition_api(read_summary, "Unable to read share group state summary")
