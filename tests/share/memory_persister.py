"""A share coordinator in memory: it keeps the states and epochs of share partitions, offset by offset.

By default everything is durable at once. With `is_slow` writes wait until `catch_up` is called; what waits when the
leader crashes may be lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from kohort.broker.share.persister import Done, SharePartitionKey, SharePartitionState, ShareStateSummary
from kohort.coordinator.delivery.states import StateBatch
from kohort.coordinator.outcome import Headers
from kohort.coordinator.share_state.headers import Told, read_share_state_headers
from kohort.protocol.error_codes import ErrorCode


class KeptState:
    def __init__(self, state_epoch: int, start_offset: int) -> None:
        self.state_epoch = state_epoch
        self.leader_epoch = 0
        self.start_offset = start_offset
        self.complete_count = -1
        self.records: dict[int, tuple[int, int]] = {}  # offset: state, delivery count

    def take(self, start_offset: int, complete_count: int, batches: Sequence[StateBatch]) -> None:
        for batch in batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                self.records[offset] = (batch.delivery_state, batch.delivery_count)
        if start_offset != -1:
            self.start_offset = start_offset
        self.complete_count = complete_count
        self.records = {offset: state for offset, state in self.records.items() if offset >= self.start_offset}

    def batches(self) -> list[StateBatch]:
        """Neighbours in the same state as one batch."""
        found: list[StateBatch] = []
        for offset, (state, count) in sorted(self.records.items()):
            if found and (found[-1].last_offset + 1, *found[-1][2:]) == (offset, state, count):
                found[-1] = found[-1]._replace(last_offset=offset)
            else:
                found.append(StateBatch(offset, offset, state, count))
        return found


class MemoryPersister:
    def __init__(self, *, is_slow: bool = False) -> None:
        self.is_slow = is_slow
        self.states: dict[SharePartitionKey, KeptState] = {}
        self.waiting: deque[Callable[[], object]] = deque()  # writes, in the order in which they came
        self.failures: deque[ErrorCode] = deque()  # errors of the next calls
        self.told: list[Told] = []  # the headers of each write

    def catch_up(self, count: int | None = None) -> None:
        """Make waiting writes durable: all of them, or the first ones."""
        for _ in range(len(self.waiting) if count is None else count):
            self.waiting.popleft()()

    def _later(self, work: Callable[[], object]) -> None:
        if self.is_slow:
            self.waiting.append(work)
        else:
            work()

    def _failure(self) -> ErrorCode:
        return self.failures.popleft() if self.failures else ErrorCode.NONE

    # --- as the leader and the group coordinator see it

    def initialize(self, key: SharePartitionKey, state_epoch: int, start_offset: int, done: Done) -> None:
        self.states[key] = KeptState(state_epoch, start_offset)
        done(ErrorCode.NONE, None)

    def read(self, key: SharePartitionKey, leader_epoch: int, done: Callable[[SharePartitionState], None]) -> None:
        state, error = self.states.get(key), self._failure()
        if error:
            done(SharePartitionState(error))
        elif state is None:
            done(SharePartitionState(ErrorCode.INVALID_REQUEST))
        elif leader_epoch < state.leader_epoch:
            done(SharePartitionState(ErrorCode.FENCED_LEADER_EPOCH))
        else:
            state.leader_epoch = leader_epoch
            done(
                SharePartitionState(ErrorCode.NONE, None, state.state_epoch, state.start_offset, tuple(state.batches()))
            )

    def write(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
        headers: Headers,
        done: Done,
    ) -> None:
        self.told.append(read_share_state_headers(headers))

        def write() -> None:
            state, error = self.states.get(key), self._failure()
            if not error and state is None:
                error = ErrorCode.INVALID_REQUEST
            elif not error and state is not None and leader_epoch < state.leader_epoch:
                error = ErrorCode.FENCED_LEADER_EPOCH
            elif not error and state is not None and state_epoch < state.state_epoch:
                error = ErrorCode.FENCED_STATE_EPOCH
            if not error and state is not None:
                state.take(start_offset, delivery_complete_count, batches)
            done(error, None)

        self._later(write)

    def delete(self, key: SharePartitionKey, done: Done) -> None:
        self.states.pop(key, None)
        done(ErrorCode.NONE, None)

    def read_summary(
        self,
        key: SharePartitionKey,
        leader_epoch: int,
        done: Callable[[ShareStateSummary], None],
    ) -> None:
        state = self.states.get(key)
        if state is None:
            done(ShareStateSummary(ErrorCode.NONE))
        else:
            start, count = state.start_offset, state.complete_count
            done(ShareStateSummary(ErrorCode.NONE, None, state.state_epoch, state.leader_epoch, start, count))
