"""Where the leader of a share partition keeps its state: with the share coordinator, in __share_group_state.

`done` is called on the event loop, maybe before the call returns, when the state is durable or could not be kept.
Errors are those of the share coordinator: see each API in coordinator/share_state/.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from kohort.coordinator.delivery.states import StateBatch as StateBatch
from kohort.coordinator.outcome import Headers
from kohort.coordinator.share_state.keys import SharePartitionKey as SharePartitionKey
from kohort.protocol.error_codes import ErrorCode


class SharePartitionState(NamedTuple):
    """What the share coordinator knows of a share partition."""

    error: ErrorCode
    error_message: str | None = None
    state_epoch: int = 0
    start_offset: int = -1  # -1: where to start is decided by share.auto.offset.reset
    batches: Sequence[StateBatch] = ()


class ShareStateSummary(NamedTuple):
    error: ErrorCode
    error_message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = -1
    delivery_complete_count: int = -1  # records from start_offset on that are acknowledged or archived; -1: not known


Done = Callable[[ErrorCode, "str | None"], None]


class Persister(Protocol):
    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int, done: Done) -> None: ...

    def read(self, key: SharePartitionKey, leader_epoch: int, done: Callable[[SharePartitionState], None]) -> None: ...

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,  # -1: as it was
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        headers: Headers,  # for the audit: why, and whose records they were; see coordinator/share_state/headers.py
        done: Done,
    ) -> None: ...

    def delete(self, key: SharePartitionKey, done: Done) -> None: ...

    def read_summary(
        self, key: SharePartitionKey, leader_epoch: int, done: Callable[[ShareStateSummary], None]
    ) -> None: ...
