"""Finds out how many partitions `__consumer_offsets` has, from the groups in a few of its folders.

A broker of a cluster has only some of the folders, so counting folders is not enough. But a group's partition is a hash
of its id modulo the number of partitions. The first records of a few folders name groups; only the true number (or a
divisor of it) puts each of these groups into the folder where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from kohort.audit.decode import files
from kohort.audit.decode.folders import LogFolder
from kohort.coordinator.partitioner import partition_of
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.log_records import UnknownRecord, decode_key, group_of
from kohort.protocol.record_batch import parse_header, read_records

KAFKAS_DEFAULT = 50
SAMPLE_FOLDERS = 12
MIN_SAMPLES = 3
SAMPLE_BYTES = 1 << 16


def home_of(group_id: str, folders: Sequence[LogFolder], count: int | None = None) -> int | None:
    """The log partition that the group lives in; None if neither `count` nor the folders say how many there are."""
    count = count or guess_partition_count(folders)
    return None if count is None else partition_of(group_id, count)


def guess_partition_count(folders: Sequence[LogFolder]) -> int | None:
    """None if the folders have too few groups to tell."""
    folders = [folder for folder in folders if folder.keeps_groups]
    if (told := next((folder.topic_partitions for folder in folders if folder.topic_partitions), None)) is not None:
        return told
    greatest = max((folder.log_partition for folder in folders), default=0)
    samples: list[tuple[str, int]] = []
    for folder in sorted(folders, key=lambda one: -one.log_partition):  # high numbers rule out more counts
        if len(samples) == SAMPLE_FOLDERS:
            break
        if (group_id := _first_group(folder)) is not None:
            samples.append((group_id, folder.log_partition))
    if len(samples) < MIN_SAMPLES:
        return None
    for count in (KAFKAS_DEFAULT, greatest + 1):
        if count > greatest and all(partition_of(group_id, count) == place for group_id, place in samples):
            return count
    return None


def _first_group(folder: LogFolder) -> str | None:
    """The group of the first record. None also if a file cannot be read: other folders are enough."""
    with suppress(OSError):
        return _first_group_in(folder)
    return None


def _first_group_in(folder: LogFolder) -> str | None:
    for segment in folder.segments():
        data = files.read(segment.path, 0, min(segment.size_bytes, SAMPLE_BYTES))
        try:
            header = parse_header(data)
            for record in read_records(data, header=header):
                if header.is_control or record.key is None:
                    break
                record_type, key = decode_key(record.key)
                if not isinstance(key, UnknownRecord):
                    return group_of(record_type, key)
        except MalformedMessage:
            continue
    return None
