"""Which part of a log compaction may rewrite, and whether that is worth a run now.

A segment may be rewritten if it is rolled, if it lies below the first open transaction (the last stable offset), and if
its newest record is older than min.compaction.lag.ms. The part below the cleaner's checkpoint is clean, the rest is
dirty. A run is due when the dirty share reaches min.cleanable.dirty.ratio, or when a record has been dirty for longer
than max.compaction.lag.ms. The host looks at its logs every log.cleaner.backoff.ms and compacts the one with the
largest dirty share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kohort.storage.log_config import LogConfig
from kohort.storage.segment import MAX_RELATIVE_OFFSET, Segment


class CleanableRange(NamedTuple):
    """The part of a log that a run would rewrite, and how much of it is dirty."""

    segments: Sequence[Segment]  # from the log's start to `end_offset`
    following: Sequence[Segment]  # segments behind the range; read only to see how a transaction ended
    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int

    @property
    def dirty_ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes)


def cleanable_range(
    cleanable: Sequence[Segment],
    following: Sequence[Segment],
    *,
    cleaned_up_to: int,
    last_stable_offset: int,
    config: LogConfig,
    now: int,
) -> CleanableRange | None:
    """The range that a run could compact now; None if nothing is dirty.

    `cleanable`: the rolled segments whose bytes are durable. `following`: all later segments, up to the active one.
    """
    count = 0
    for segment in cleanable:
        too_young = config.min_compaction_lag_ms > 0 and _is_younger(segment, now - config.min_compaction_lag_ms)
        if too_young or segment.next_offset > last_stable_offset:
            break
        count += 1
    segments = cleanable[:count]
    if not segments:
        return None
    first_dirty = max(cleaned_up_to, segments[0].base_offset)
    if first_dirty > (following or segments)[-1].next_offset:
        first_dirty = segments[0].base_offset  # the checkpoint does not fit this log
    end = segments[-1].next_offset
    dirty_bytes = sum(segment.size_bytes for segment in segments if segment.next_offset > first_dirty)
    if dirty_bytes == 0:
        return None
    clean_bytes = sum(segment.size_bytes for segment in segments if segment.next_offset <= first_dirty)
    rest = [*cleanable[count:], *following]
    return CleanableRange(segments, rest, first_dirty, end, clean_bytes, dirty_bytes)


def _is_younger(segment: Segment, timestamp: int) -> bool:
    newest = segment.max_timestamp
    return (newest if newest >= 0 else segment.modified_ms) > timestamp


def is_due(cleanable: CleanableRange, config: LogConfig, now: int) -> bool:
    """Dirty enough to be worth a run, or dirty for longer than max.compaction.lag.ms."""
    if cleanable.dirty_ratio >= config.min_cleanable_dirty_ratio:
        return True
    oldest = min(
        segment.first_timestamp for segment in cleanable.segments if segment.next_offset > cleanable.first_dirty_offset
    )
    return 0 <= oldest < now - config.max_compaction_lag_ms


def group_segments(segments: Iterable[Segment], segment_bytes: int) -> list[list[Segment]]:
    """Groups of neighbouring segments that fit into one segment."""
    groups: list[list[Segment]] = []
    size_bytes = 0
    for segment in segments:
        if (
            groups
            and size_bytes + segment.size_bytes <= segment_bytes
            and segment.next_offset - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
        ):
            groups[-1].append(segment)
            size_bytes += segment.size_bytes
        else:
            groups.append([segment])
            size_bytes = segment.size_bytes
    return groups
