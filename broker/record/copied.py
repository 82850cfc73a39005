"""The copy of one partition: its next offset, what is missing, and how it follows a leader with another history."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from kohort.client.cluster import Leader
from kohort.protocol.record_batch import BATCH_HEADER_BYTES, LOG_OVERHEAD_BYTES
from kohort.storage.partition_log import PartitionLog

# Of a batch: base offset, length, last offset delta, number of records. See protocol/record_batch.py.
_place = Struct(">qi11xi30xi").unpack_from

Truncate = Callable[[int, int], None]  # partition, offset


class Fetched(NamedTuple):
    """Which part of an answer continues the copy."""

    start: int  # in bytes
    end: int
    batches: int
    first_offset: int
    gap_end: int  # behind the last offset that is missing; 0: none is
    next_offset: int  # behind the last of the batches


def whole_batches(data: bytes, position: int) -> Fetched:
    """The batches from `position` on that are there as a whole: the broker cuts the last one where its limit is.

    An offset is missing if it is in no batch, or if a batch has fewer records than offsets: compaction has removed it.
    """
    at = start = batches = gap_end = 0
    first_offset, expected, size = -1, position, len(data)
    while at + BATCH_HEADER_BYTES <= size:
        base_offset, length, last_delta, count = _place(data, at)
        end = at + LOG_OVERHEAD_BYTES + length
        if length < BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES or end > size:
            break
        next_offset = base_offset + last_delta + 1
        if next_offset <= position:
            start = end  # the copy has this one
        else:
            if not batches:
                first_offset = base_offset
            if base_offset > expected or count <= last_delta:
                gap_end = next_offset
            expected = next_offset
            batches += 1
        at = end
    return Fetched(start, at, batches, first_offset, gap_end, expected)


class FollowedPartition:
    """A partition of which everything is fetched."""

    def __init__(self, number: int, position: int) -> None:
        self.number = number
        self.position = position  # the offset to be fetched next
        self.leader: Leader | None = None
        self.is_compared = False  # whether we and this leader have the same history, as far as we have come
        self.high_watermark: int | None = None  # what the leader has said last
        self.goal: int | None = None  # the first high watermark that was seen
        self.not_before = 0.0  # after an error: the steady time before which it is not fetched
        self.batches = self.bytes = self.lost = self.truncations = 0  # since the start of the process

    @property
    def lag(self) -> int:
        """How many offsets the cluster has that were not fetched yet."""
        return 0 if self.high_watermark is None else max(self.high_watermark - self.position, 0)

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last batch before the position; -1 if it is not known."""
        return -1

    def lead_by(self, leader: Leader | None) -> None:
        if leader != self.leader:
            self.leader, self.is_compared, self.not_before = leader, False, 0.0

    def heard(self, high_watermark: int) -> None:
        self.high_watermark = high_watermark
        if self.goal is None:
            self.goal = high_watermark

    def take(self, data: bytes, now: int, truncate: Truncate) -> int:
        """Take over what comes next. Returns its bytes."""
        raise NotImplementedError

    def diverged(self, epoch: int, end_offset: int, truncate: Truncate) -> int:
        """The leader's history up to `epoch` ends at `end_offset`, before ours. Returns how many offsets were cut."""
        raise NotImplementedError

    def truncate_to(self, offset: int, truncate: Truncate) -> int:
        """The leader has nothing from this offset on. Returns how many offsets were cut."""
        raise NotImplementedError

    def jump_to(self, offset: int) -> int:
        """The cluster has removed what comes next: go on at `offset`. Returns how many offsets are lost."""
        raise NotImplementedError


class CopiedPartition(FollowedPartition):
    def __init__(self, number: int, log: PartitionLog) -> None:
        super().__init__(number, log.log_end_offset)
        self.log = log

    @property
    def last_epoch(self) -> int:
        """-1 if there is none right before the position."""
        return self.log.leader_epochs.latest if self.position == self.log.log_end_offset else -1

    def take(self, data: bytes, now: int, truncate: Truncate) -> int:
        """Append what continues the copy. Returns its bytes."""
        fetched = whole_batches(data, self.position)
        if not fetched.batches:
            return 0
        if fetched.first_offset < self.log.log_end_offset:  # the leader has made one batch of what we have in several
            self.truncate_to(fetched.first_offset, truncate)
        self.log.append_as_is(memoryview(data)[fetched.start : fetched.end], now=now)
        if fetched.gap_end:
            self.log.cleaned_up_to = max(self.log.cleaned_up_to, fetched.gap_end)
        self.position = self.log.log_end_offset
        self.batches += fetched.batches
        self.bytes += fetched.end - fetched.start
        return fetched.end - fetched.start

    def diverged(self, epoch: int, end_offset: int, truncate: Truncate) -> int:
        """The leader's history up to `epoch` ends at `end_offset`, before the copy's: cut the copy back to what both
        have. Returns how many offsets were cut. The next fetch tells whether that was enough."""
        ours, our_end = self.log.leader_epochs.end_offset_for(epoch, self.log.log_end_offset)
        return self.truncate_to(min(end_offset, our_end) if ours >= 0 else self.log.log_start_offset, truncate)

    def truncate_to(self, offset: int, truncate: Truncate) -> int:
        before = self.log.log_end_offset
        truncate(self.number, offset)
        self.position = self.log.log_end_offset
        self.log.cleaned_up_to = min(self.log.cleaned_up_to, self.position)
        if before > self.position:
            self.truncations += 1
        return before - self.position

    def jump_to(self, offset: int) -> int:
        """The cluster has removed what comes next: go on at `offset`. Returns how many offsets are lost."""
        lost = offset - self.position
        if self.log.segments and self.log.size_bytes:
            self.lost += lost
            self.log.cleaned_up_to = offset
        else:
            self.log.restart_at(offset)  # nothing was recorded yet, so nothing is missing in between
            lost = 0
        self.position = offset
        return lost
