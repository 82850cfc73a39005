"""Retention: which of the oldest segments of a log are deleted.

Only whole segments are deleted, from the log's start on: the first one that must stay ends the search. A segment is
deleted if one of these is true:

- its newest record is older than retention.ms (without timestamps, the age of its file counts);
- the log without it is still at least retention.bytes long;
- it lies wholly below the log start offset, to which DeleteRecords may have moved.

The active segment may be deleted, too; then the log rolls first, so that it always has an active segment. Files get the
suffix `.deleted` at once, and are removed after file.delete.delay.ms, when nobody reads them any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.storage.segment import Segment

if TYPE_CHECKING:
    from kohort.storage.partition_log import PartitionLog


def expired_segments(
    segments: list[Segment], *, retention_ms: int, retention_bytes: int, log_start_offset: int, now: int
) -> list[Segment]:
    """The segments to delete, oldest first. -1 means no limit."""
    surplus_bytes = sum(segment.size_bytes for segment in segments) - retention_bytes
    expired = []
    for segment in segments:
        is_active = segment is segments[-1]
        too_old = retention_ms >= 0 and now - _newest_ms(segment) > retention_ms
        too_much = retention_bytes >= 0 and surplus_bytes >= segment.size_bytes
        below_start = segment.next_offset <= log_start_offset and not is_active
        if segment.size_bytes == 0 and is_active:
            break
        if not (too_old or too_much or below_start):
            break
        surplus_bytes -= segment.size_bytes
        expired.append(segment)
    return expired


def _newest_ms(segment: Segment) -> int:
    newest = segment.max_timestamp
    return newest if newest >= 0 else segment.modified_ms


def apply_retention(log: PartitionLog, now: int, at_most: int | None = None) -> list[Segment]:
    """Delete segments of this log that have expired; `at_most` so many, since each takes a sync of the folder.

    A log that is only compacted has no limit of age or size, but segments below its start offset are deleted.
    """
    deletes = log.config.deletes
    expired = expired_segments(
        log.segments,
        retention_ms=log.config.retention_ms if deletes else -1,
        retention_bytes=log.config.retention_bytes if deletes else -1,
        log_start_offset=log.log_start_offset,
        now=now,
    )
    expired = expired[:at_most]
    if expired:
        log.delete_segments(expired, now)
    return expired
