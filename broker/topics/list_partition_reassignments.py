"""ListPartitionReassignments (46), v0: partitions that move between brokers. There is one broker, so none ever does.

kafka-topics --describe asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.call import Call


def list_partition_reassignments(
    broker: Broker, request: ListPartitionReassignmentsRequest, call: Call  # noqa: ARG001
) -> ListPartitionReassignmentsResponse:  # fmt: skip
    return ListPartitionReassignmentsResponse(0, 0, None, ())
