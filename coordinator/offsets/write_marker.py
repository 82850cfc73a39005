"""The marker that ends a producer's transaction in a partition of the log: pending offsets are committed or dropped.

No client sends this to the group coordinator: the transaction coordinator does, and WriteTxnMarkers (27).
"""

from __future__ import annotations

from kohort.coordinator.api import GroupApi
from kohort.coordinator.outcome import Call, MarkerRecord, Outcome
from kohort.coordinator.shard_state import ShardState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.txn_marker import TxnMarker
from kohort.protocol.wire import Message


class WriteMarker(Message):
    __slots__ = ("marker",)

    def __init__(self, marker: TxnMarker) -> None:
        self.marker = marker


class MarkerWritten(Message):
    __slots__ = ("error_code",)

    def __init__(self, error_code: ErrorCode = ErrorCode.NONE) -> None:
        self.error_code = error_code


def write_marker(shard: ShardState, request: WriteMarker, call: Call) -> MarkerWritten | Outcome:
    if error := shard.offsets.pending.check_marker(request.marker):
        return MarkerWritten(error)
    return Outcome([MarkerRecord(request.marker)], [(call, MarkerWritten())])


def unavailable(shard: ShardState, request: WriteMarker, call: Call, error: ErrorCode) -> MarkerWritten:
    return MarkerWritten(_for_sender(error))


def failed(response: MarkerWritten, version: int, error: ErrorCode) -> MarkerWritten:
    return MarkerWritten(_for_sender(error))


def _for_sender(error: ErrorCode) -> ErrorCode:
    """The sender of markers does not know the errors of coordinators. This one tells it to try again."""
    comes_back = error in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if comes_back else error


WRITE_MARKER = GroupApi(write_marker, unavailable, failed)
