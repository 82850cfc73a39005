"""Which records a caller wants: of a group, of a time, of a range of log offsets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kohort.audit.decode.vector import Array
from kohort.protocol.record_batch import DELETE_HORIZON


class Wanted(NamedTuple):
    """Records of one group, with record times in [since, until) and log offsets in [from, until). None: no limit."""

    group: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    from_offset: int | None = None
    until_offset: int | None = None

    def records(self, offset: Array, time_ms: Array) -> Array | None:
        """Which of these records are wanted by offset and time; None: all of them."""
        bounds = [
            (self.from_offset, np.greater_equal, offset),
            (self.until_offset, np.less, offset),
            (self.since_ms, np.greater_equal, time_ms),
            (self.until_ms, np.less, time_ms),
        ]
        found: Array | None = None
        for bound, compare, values in bounds:
            if bound is not None:
                fits = compare(values, bound)
                found = fits if found is None else found & fits
        return found

    def batches(self, headers: Array) -> Array:
        """Which batches may have wanted records."""
        base = headers["base_offset"].astype(np.int64)
        found = np.ones(len(headers), np.bool_)
        if self.from_offset is not None:
            found &= base + headers["last_offset_delta"] >= self.from_offset
        if self.until_offset is not None:
            found &= base < self.until_offset
        if self.since_ms is not None:
            found &= headers["max_timestamp"] >= self.since_ms
        if self.until_ms is not None:  # compacted batches have a delete horizon in place of the first record's time
            found &= (headers["base_timestamp"] < self.until_ms) | (headers["attributes"] & DELETE_HORIZON != 0)
        return found

    def offset(self, offset: int) -> bool:
        return (self.from_offset is None or offset >= self.from_offset) and (
            self.until_offset is None or offset < self.until_offset
        )

    def starting_at(self, offset: int) -> Wanted:
        """The same, but nothing before this offset."""
        return self._replace(from_offset=offset if self.from_offset is None else max(offset, self.from_offset))


EVERYTHING = Wanted()
