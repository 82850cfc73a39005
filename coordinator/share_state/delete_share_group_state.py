"""DeleteShareGroupState (86), v0: the group coordinator lets go of a share partition. Deleting it again is no error."""

from __future__ import annotations

from kohort.coordinator.outcome import Record
from kohort.coordinator.share_state.partition_api import Asked, Row, negative_partition, partition_api, unknown_topic
from kohort.coordinator.share_state.share_group_offset import tombstone
from kohort.coordinator.share_state.state import ShareState


def delete(state: ShareState, asked: Asked) -> tuple[Row, Record | None]:
    refused = negative_partition(asked) or unknown_topic(state, asked)
    if refused is not None:
        return refused, None
    return Row(), tombstone(asked.key) if asked.key in state.offsets else None


DELETE = partition_api(delete, "Unable to delete share group state")
