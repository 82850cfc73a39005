"""A share partition at its leader: reads its state from the share coordinator, and has each change written there."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kohort.broker.share.first_offset import find_first_offset
from kohort.broker.share.persister import Done, SharePartitionKey, SharePartitionState
from kohort.broker.share.settings import settings_of
from kohort.broker.topics.catalog import LEADER_EPOCH, Partition
from kohort.broker.topics.delayed_fetch import changed
from kohort.coordinator.config import ShareGroupSettings
from kohort.coordinator.delivery.acknowledge import UNKNOWN
from kohort.coordinator.delivery.share_partition import SharePartition, Write
from kohort.coordinator.delivery.states import Acknowledgement, Acquired, Counts, LogBatch, Refusal, StateBatch, Wish
from kohort.coordinator.delivery.window import BrokenState
from kohort.coordinator.share_state.headers import Cause, share_state_headers
from kohort.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.broker.share.share_partitions import SharePartitions

READ_COMMITTED = "read_committed"
MANY_BATCHES = 2_000  # to write them takes milliseconds, and so did the change of them

logger = logging.getLogger(__name__)

# What clients are told of errors of the share coordinator.
TOLD = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
# After these what is in memory is not what is persisted: it is dropped, and read again for the next fetch.
FENCING = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class LedPartition:
    __slots__ = (
        "_broker",
        "_leader",
        "_unsent",
        "counts_told",
        "error",
        "extra",
        "is_gone",
        "key",
        "looked_at",
        "partition",
        "share",
        "state_epoch",
    )

    def __init__(self, broker: Broker, leader: SharePartitions, key: SharePartitionKey, partition: Partition) -> None:
        self._broker = broker
        self._leader = leader
        self.key = key
        self.partition = partition
        self._unsent: deque[Callable[[], None]] = deque()  # writes, in their order
        self.share: SharePartition | None = None  # None: it is being loaded, or could not be
        self.state_epoch = 0
        self.error = ErrorCode.NONE  # why it could not be loaded
        self.is_gone = False  # dropped: another object may take its place
        self.looked_at: int | None = None  # by Locks: when to look for expired locks
        self.extra: dict[str, Any] = {}  # fetches that wait: see delayed_fetch.py
        self.counts_told = Counts()  # by the last line about it in the log

    def __repr__(self) -> str:
        return f"{self.partition} of group {self.key.group_id!r}"

    @property
    def settings(self) -> ShareGroupSettings:
        return settings_of(self._broker, self.key.group_id)

    @property
    def reads_committed(self) -> bool:
        return self.settings.isolation_level == READ_COMMITTED

    # --- loading

    def load(self) -> None:
        self._broker.share_state.read(self.key, LEADER_EPOCH, self._was_read)

    def _was_read(self, state: SharePartitionState) -> None:
        if self.is_gone:
            return
        if state.error:
            self._cannot_load(
                TOLD.get(state.error, ErrorCode.UNKNOWN_SERVER_ERROR), state.error_message or state.error.name
            )
            return
        self.state_epoch = state.state_epoch
        if state.start_offset >= 0:
            self._begin(state.start_offset, state.batches)
        else:
            find_first_offset(self._broker, self.partition, self.settings.auto_offset_reset, self._first_offset_is)

    def _first_offset_is(self, offset: int | None) -> None:
        if self.is_gone:
            return
        if offset is None:
            self._cannot_load(ErrorCode.OFFSET_NOT_AVAILABLE, "the log has no record of that time")
        else:
            self._begin(offset)

    def _begin(self, start_offset: int, persisted: Sequence[StateBatch] = ()) -> None:
        try:
            self.share = SharePartition(partial(settings_of, self._broker, self.key.group_id), start_offset, persisted)
        except BrokenState as problem:
            logger.error("what is persisted of %r cannot be: %s", self, problem)
            self._cannot_load(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem))
            return
        self.wake()

    def _cannot_load(self, error: ErrorCode, why: str) -> None:
        # Any client can ask for a group that has no state here: that is not worth a warning each time.
        level = logging.DEBUG if error is ErrorCode.UNKNOWN_SERVER_ERROR else logging.WARNING
        logger.log(level, "%r could not be loaded: %s", self, why)
        self.error = error
        self._leader.drop(self)

    # --- fetching

    @property
    def can_acquire(self) -> bool:
        return self.share is not None and not self.is_gone and self.share.can_acquire()

    def acquire(
        self, wish: Wish, fetch_offset: int, batches: Sequence[LogBatch], aborted: Sequence[LogBatch]
    ) -> list[Acquired]:
        assert self.share is not None
        now = self._broker.clock.steady_ms()
        acquired = self.share.acquire(wish, fetch_offset, batches, now, aborted)
        if acquired:
            self._leader.locks.watch(self, now + self.settings.record_lock_duration_ms)
        return acquired

    def log_starts_at(self, offset: int) -> None:
        assert self.share is not None
        if self.share.log_starts_at(offset):
            self.wake()

    def wake(self) -> None:
        """Fetches that wait for this share partition may find something."""
        changed(self._broker, self)

    # --- acknowledging

    def acknowledge(self, member_id: str, acknowledgements: Sequence[Acknowledgement], done: Done) -> None:
        if self.share is None:
            done(*UNKNOWN)
            return
        found = self.share.acknowledge(member_id, acknowledgements, self._broker.clock.steady_ms())
        if isinstance(found, Refusal):
            done(*found)
        elif found is None:
            done(ErrorCode.NONE, None)
        else:
            self._persist(found, _cause(found), member_id, done)

    def release(self, member_id: str) -> Iterator[None]:
        """The member's session has ended. Something else may happen between two steps."""
        if self.share is not None:
            for write in self.share.release(member_id):
                self._persist(write, Cause.SESSION_CLOSED, member_id)
                yield

    def expire_locks(self, now: int) -> int | None:
        """Free what has expired. When the next lock expires; None: nothing is locked."""
        if self.share is None or self.is_gone:
            return None
        if (write := self.share.expire(now)) is not None:
            slow = write.members[0] if len(write.members) == 1 else ""  # the header has room for one
            self._persist(write, Cause.LOCK_TIMEOUT, slow)
            self.wake()
        return self.share.next_deadline()

    def _persist(self, write: Write, cause: Cause, member_id: str = "", done: Done | None = None) -> None:
        """Have it written: a long one in a turn of its own, and those that come meanwhile behind it."""
        if not self._unsent and len(write.batches) <= MANY_BATCHES:
            self._send(write, cause, member_id, done)
            return
        self._unsent.append(partial(self._send, write, cause, member_id, done))
        if len(self._unsent) == 1:
            self._broker.call_soon(self._send_next)

    def _send_next(self) -> None:
        self._unsent.popleft()()
        if self._unsent:
            self._broker.call_soon(self._send_next)

    def _send(self, write: Write, cause: Cause, member_id: str, done: Done | None) -> None:
        def written(error: ErrorCode, message: str | None) -> None:
            self._written(write, error)
            if done is not None:
                done(TOLD.get(error, ErrorCode.UNKNOWN_SERVER_ERROR) if error else error, message)

        self._broker.share_state.write(
            self.key,
            self.state_epoch,
            LEADER_EPOCH,
            write.start_offset,
            write.complete_count,
            write.batches,
            share_state_headers(cause, member_id),
            written,
        )

    def _written(self, write: Write, error: ErrorCode) -> None:
        share = self.share
        assert share is not None
        frees = share.written(write, self._broker.clock.steady_ms(), failed=error != ErrorCode.NONE)
        if error and not self.is_gone:
            logger.warning("the state of %r could not be written: %s", self, error.name)
            if TOLD.get(error) in FENCING:
                self._leader.drop(self)
            elif (deadline := share.next_deadline()) is not None:
                self._leader.locks.watch(self, deadline)
        if frees:
            self.wake()
        if self.is_gone:  # its last line was logged when it was dropped, and did not count this write
            self._leader.deliveries.tell(self)


def _cause(write: Write) -> Cause:
    assert write.transition is not None
    counts = write.transition.counts
    only_releases = counts.released == sum(batch.last_offset - batch.first_offset + 1 for batch in write.batches)
    # A released record that is given up must not look as if a member had rejected it.
    return Cause.RELEASE if only_releases or counts.archived else Cause.ACKNOWLEDGE
