"""Reads a partition of __consumer_offsets from the disk while no broker runs, and checks each record it finds.

Offsets of a group never move back, generations neither; what a generation assigns is disjoint, and never assigned
twice in different ways.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kohort.coordinator.partitioner import partition_of
from kohort.protocol.log_records import decode_key, decode_value
from kohort.protocol.messages.log_group_metadata import GroupMetadataKey
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey
from kohort.protocol.record_batch import BATCH_HEADER_BYTES, CorruptBatch, parse_header, scan_records
from kohort.protocol.subscription import read_assignment

OFFSETS_PARTITIONS = 50


class OffsetsLog:
    """The records of one group. `read` goes on where the last one ended: the log only grows."""

    def __init__(self, data: Path, group: str) -> None:
        folder = data / f"__consumer_offsets-{partition_of(group, OFFSETS_PARTITIONS)}"
        self._path = folder / "00000000000000000000.log"
        self._group = group
        self._position = 0
        self.offsets: dict[tuple[str, int], int] = {}
        self.generation = 0
        self.assignments: dict[int, dict[str, Any]] = {}

    def read(self) -> None:
        with self._path.open("rb") as log:
            log.seek(self._position)
            data = log.read()
        end = _end_of_whole_batches(data)
        for _, _, _, raw_key, raw_value, _ in scan_records(data, 0, end, with_headers=False):
            assert raw_key is not None
            record_type, key = decode_key(raw_key)
            if key.group == self._group and raw_value is not None:
                self._take(key, decode_value(record_type, raw_value))
        self._position += end

    def _take(self, key: Any, value: Any) -> None:
        if isinstance(key, OffsetCommitKey):
            place = (key.topic, key.partition)
            assert value.offset >= self.offsets.get(place, -1), f"{place} moves back to {value.offset}"
            self.offsets[place] = value.offset
        elif isinstance(key, GroupMetadataKey):
            self._take_generation(value)

    def _take_generation(self, value: Any) -> None:
        assert value.generation >= self.generation, f"generation {value.generation} after {self.generation}"
        self.generation = value.generation
        if not value.members:
            return
        assignments = {member.member_id: member.assignment for member in value.members}
        known = self.assignments.setdefault(value.generation, assignments)
        assert known == assignments, f"generation {value.generation} was assigned twice"
        owned = [
            (topic.topic, partition)
            for assignment in assignments.values()
            if assignment
            for topic in read_assignment(assignment).assigned_partitions
            for partition in topic.partitions
        ]
        assert len(owned) == len(set(owned)), f"generation {value.generation}: a partition is owned twice"


def _end_of_whole_batches(data: bytes) -> int:
    """A kill can leave half a batch at the end; the broker cuts it off when it starts."""
    end = 0
    while len(data) - end >= BATCH_HEADER_BYTES:
        try:
            size = parse_header(data, end).size_bytes
        except CorruptBatch:
            break
        if end + size > len(data):
            break
        end += size
    return end
