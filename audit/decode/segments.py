"""Reads the files of a log folder one after the other. A running broker may replace them meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kohort.audit.decode import files
from kohort.audit.decode.folders import LogFolder, SegmentFile
from kohort.audit.decode.vector import Array
from kohort.audit.decode.walk import TORN, Walk, walk
from kohort.protocol.record_batch import CONTROL, TRANSACTIONAL

ATTEMPTS = 10


class Segment(NamedTuple):
    """A file in memory, and the batches in it."""

    base_offset: int
    covers_from: int  # offsets before this one have been read from another file already
    data: bytes
    walk: Walk

    def sound(self) -> Array:
        """Which batches are undamaged."""
        found = np.ones(len(self.walk.positions), np.bool_)
        found[list(self.walk.damaged)] = False
        return found

    def is_control(self) -> Array:
        found: Array = self.walk.headers["attributes"] & CONTROL != 0
        return found

    def is_transactional(self) -> Array:
        found: Array = self.walk.headers["attributes"] & TRANSACTIONAL != 0
        return found


def load_segments(folder: LogFolder, from_offset: int, until_offset: int | None) -> Iterator[Segment]:
    """The files that have offsets in this range.

    If a file has vanished, compaction has replaced it with another one, which may begin at an earlier offset. Then the
    folder is listed again, and `covers_from` says which offsets of the new file have been read already.
    """
    reached = from_offset
    failures = 0
    pending = _holding(folder.segments(), reached, until_offset)
    while pending:
        file, *rest = pending
        try:
            data = files.read(file.path)
        except FileNotFoundError:
            failures += 1
            if failures > ATTEMPTS:
                raise
            pending = _holding(folder.segments(), reached, until_offset)
            continue
        covers_from = max(reached, file.base_offset) if failures else file.base_offset
        known_bytes = folder.active_bytes if file.base_offset == folder.active_base else len(data)
        known = data if len(data) <= known_bytes else data[:known_bytes]
        found = _walk(known, has_grown=known is not data)
        yield Segment(file.base_offset, covers_from, known, found if rest else _up_to(folder.end_offset, found))
        reached = rest[0].base_offset if rest else file.base_offset
        pending = rest


def _holding(found: list[SegmentFile], start: int, end: int | None) -> list[SegmentFile]:
    """Segments that may have offsets in [start, end)."""
    following = [*(segment.base_offset for segment in found[1:]), np.iinfo(np.int64).max]
    return [
        segment
        for segment, next_base in zip(found, following, strict=True)
        if next_base > start and (end is None or segment.base_offset < end)
    ]


def _up_to(end_offset: int, found: Walk) -> Walk:
    """Leave out batches behind the end offset: compaction may have merged later ones into this file since."""
    sound = next((number for number in reversed(range(len(found.headers))) if number not in found.damaged), None)
    if sound is None or _end(found.headers[sound]) <= end_offset:
        return found
    count = int(np.searchsorted(found.headers["base_offset"], end_offset))
    return Walk(
        found.positions[:count], found.sizes[:count], found.headers[:count],
        {number: why for number, why in found.damaged.items() if number < count},
        [stretch for stretch in found.stretches if stretch.before < count],
    )  # fmt: skip


def _end(header: Array) -> int:
    return int(header["base_offset"]) + int(header["last_offset_delta"]) + 1


def _walk(data: bytes, *, has_grown: bool) -> Walk:
    """`has_grown`: `data` is cut where the file ended when it was found. A batch that is cut there is no damage."""
    found = walk(data)
    if not has_grown or not found.stretches:
        return found
    *others, last = found.stretches
    growing = last.problem == TORN and last.position + last.size_bytes == len(data)
    return found._replace(stretches=others) if growing else found
