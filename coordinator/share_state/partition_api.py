"""How the APIs of the share coordinator are served: each handles one share partition.

A request on the wire names several; the broker asks about each of them, and puts the rows together. The leader of a
partition, which is in the same process, asks without a request on the wire.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

from kohort.coordinator.api import Answer, Api
from kohort.coordinator.delivery.states import StateBatch
from kohort.coordinator.outcome import Call, Outcome, Record
from kohort.coordinator.share_state.keys import SharePartitionKey
from kohort.coordinator.share_state.share_group_offset import NO_EPOCH, UNKNOWN_COUNT
from kohort.coordinator.share_state.state import ShareState
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.wire import Message

UNKNOWN = "The server experienced an unexpected error when processing the request."
NOT_NOW = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "The coordinator is loading and hence can't process requests.",
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
}


class Row(Message):
    """The answer about one share partition. An API takes the fields that it has."""

    __slots__ = (
        "batches", "delivery_complete_count", "error", "leader_epoch", "message", "start_offset", "state_epoch",
    )  # fmt: skip

    def __init__(
        self,
        error: ErrorCode = ErrorCode.NONE,
        message: str | None = None,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = UNKNOWN_COUNT,
        batches: Sequence[StateBatch] = (),
    ) -> None:
        self.error = error
        self.message = message
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
        self.batches = batches


class Asked(Message):
    """What is asked about one share partition."""

    __slots__ = ("key",)

    def __init__(self, key: SharePartitionKey) -> None:
        self.key = key


A = TypeVar("A", bound=Asked)
PartitionApi: TypeAlias = Api[ShareState, A, Row]


def partition_api(handle: Callable[[ShareState, A], tuple[Row, Record | None]], unable: str) -> PartitionApi[A]:
    """The API whose handler returns its row, and the record that changes the state, or None.

    `unable` begins the message of the error while the shard cannot be asked.
    """

    def handle_one(state: ShareState, asked: A, call: Call) -> Answer[Row]:
        row, record = handle(state, asked)
        return row if record is None else Outcome([record], [(call, row)])

    texts = {error: f"{unable}: {why}" for error, why in NOT_NOW.items()}  # once: a request can get very many
    other_text = f"{unable}: {UNKNOWN}"

    def unavailable(state: ShareState, asked: A, call: Call, error: ErrorCode) -> Row:
        return Row(error, texts.get(error, other_text))

    def failed(row: Row, version: int, error: ErrorCode) -> Row:
        return Row(error, texts.get(error, other_text))

    return Api(handle_one, unavailable, failed)


def refused(api: PartitionApi[A]) -> Row:
    """The row of a share partition that nobody coordinates."""
    return api.failed(Row(), 0, ErrorCode.NOT_COORDINATOR)


# --- what the APIs check


def negative_partition(asked: Asked) -> Row | None:
    if asked.key.partition >= 0:
        return None
    return Row(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")


def unknown_topic(state: ShareState, asked: Asked) -> Row | None:
    if state.is_known(asked.key):
        return None
    return Row(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


def older_leader(state: ShareState, asked: Asked, leader_epoch: int) -> Row | None:
    if leader_epoch == NO_EPOCH or leader_epoch >= state.offsets[asked.key].highest_leader_epoch:
        return None
    text = "The leader epoch in the request is older than the epoch on the broker."
    return Row(ErrorCode.FENCED_LEADER_EPOCH, text)


def older_state(state: ShareState, asked: Asked, state_epoch: int) -> Row | None:
    known = state.offsets.get(asked.key)
    if known is None or state_epoch == NO_EPOCH or state_epoch >= known.highest_state_epoch:
        return None
    text = "The share coordinator rejected the request because the share-group state epoch did not match."
    return Row(ErrorCode.FENCED_STATE_EPOCH, text)
