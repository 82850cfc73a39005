"""What became of transactional batches: committed, aborted, or open as long as no marker has been written.

A marker, in a control batch, ends the transaction of its producer in this partition: it decides about all batches of
that producer since the last marker. The marker may be in a later file; then later files are searched for markers only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from kohort.audit.decode.folders import LogFolder
from kohort.audit.decode.segments import Segment, load_segments
from kohort.audit.decode.split import Records, blocks
from kohort.audit.decode.vector import Array, int16_at, integers_at
from kohort.protocol.record_batch import ABORT, COMMIT

STATES: Final = ("none", "committed", "aborted", "open")
NONE, COMMITTED, ABORTED, OPEN = range(4)
MARKERS: Final = ("COMMIT", "ABORT", "UNKNOWN")


class Markers(NamedTuple):
    """The markers of a file, in order."""

    batch: Array
    producer: Array
    state: Array  # COMMITTED or ABORTED


class Transactions:
    """Finds how transactions ended, and remembers the markers of the files that it has read."""

    def __init__(self, folder: LogFolder) -> None:
        self._folder = folder
        self._markers: dict[int, Markers] = {}

    def states(self, segment: Segment) -> Array:
        """For each batch of a file: its state, as an index into STATES."""
        found = np.full(len(segment.walk.positions), NONE, np.int8)
        if not segment.is_transactional().any():
            return found
        data = np.flatnonzero(segment.is_transactional() & ~segment.is_control())
        producers = segment.walk.headers["producer_id"].astype(np.int64)[data]
        markers = self._of(segment)
        states = _next_marker(data, producers, markers)
        for later in self._later(segment):
            pending = np.flatnonzero(states == OPEN)
            if not len(pending):
                break
            states[pending] = _next_marker(np.full(len(pending), -1), producers[pending], later)
        found[data] = states
        return found

    def _of(self, segment: Segment) -> Markers:
        if segment.base_offset not in self._markers:
            self._markers[segment.base_offset] = markers_in(segment)
        return self._markers[segment.base_offset]

    def _later(self, segment: Segment) -> Iterator[Markers]:
        walked = segment.walk
        if not len(walked.headers):
            return
        last = walked.headers[-1]
        after = int(last["base_offset"]) + int(last["last_offset_delta"]) + 1
        for later in load_segments(self._folder, after, None):
            if later.base_offset > segment.base_offset:
                yield self._of(later)


def markers_in(segment: Segment) -> Markers:
    which = segment.sound() & segment.is_control()
    parts = []
    for block in blocks(segment.data, segment.walk, which):
        kinds, _ = kinds_of(block.records)
        ends = kinds < 2
        parts.append((block.records.batch[ends], np.where(kinds[ends] == 0, COMMITTED, ABORTED)))
    batch = np.concatenate([part[0] for part in parts]) if parts else np.empty(0, np.int64)
    state = np.concatenate([part[1] for part in parts]) if parts else np.empty(0, np.int64)
    return Markers(batch, segment.walk.headers["producer_id"].astype(np.int64)[batch], state.astype(np.int8))


def kinds_of(records: Records) -> tuple[Array, Array]:
    """For each record of control batches: its kind, an index into MARKERS, and the transaction coordinator's epoch."""
    buffer = records.buffer
    readable = (records.key_size >= 4) & (int16_at(buffer, records.key) >= 0)
    readable &= (records.value_size >= 6) & (int16_at(buffer, records.value) >= 0)
    kind = int16_at(buffer, records.key + 2)
    epoch = integers_at(buffer, records.value + 2, ">i4")
    found = np.where(readable & (kind == COMMIT), 0, np.where(readable & (kind == ABORT), 1, 2))
    return found, epoch


def _next_marker(batch: Array, producer: Array, markers: Markers) -> Array:
    """The state of each batch by the next marker of its producer; OPEN if there is none."""
    if not len(markers.batch):
        return np.full(len(batch), OPEN, np.int8)
    _, rank = np.unique(np.concatenate([markers.producer, producer]), return_inverse=True)
    span = int(max(markers.batch.max(), batch.max(initial=0))) + 2
    places = rank * span + np.concatenate([markers.batch, batch]) + 1
    of_markers, of_batches = places[: len(markers.batch)], places[len(markers.batch) :]
    order = np.argsort(of_markers, kind="stable")
    found = np.searchsorted(of_markers[order], of_batches)
    nearest = order[np.minimum(found, len(order) - 1)]
    same = (found < len(order)) & (markers.producer[nearest] == producer)
    return np.where(same, markers.state[nearest], OPEN).astype(np.int8)
