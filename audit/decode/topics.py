"""Finds the names of topics by their ids. Assignments of consumer and share groups have only topic ids.

Names come from commits of version 4 (name in the key, id in the value), from the partition metadata of consumer and
share groups, and, if the log folder is in a broker's data folder, from the partition.metadata files of its topics. A
cluster is asked.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kohort.audit.decode import commits, files
from kohort.audit.decode.access import Access, connected
from kohort.audit.decode.folders import LogFolder
from kohort.audit.decode.rows import RawRecord, Rows
from kohort.audit.decode.schemas import uuid_text
from kohort.audit.decode.segments import load_segments
from kohort.audit.decode.split import Records, blocks
from kohort.audit.decode.vector import int16_at
from kohort.client.errors import ClientError
from kohort.protocol.log_records import (
    CONSUMER_GROUP_PARTITION_METADATA,
    OFFSET_COMMIT,
    SHARE_GROUP_STATE_PARTITION_METADATA,
)
from kohort.protocol.wire import NO_UUID
from kohort.storage.layout import (
    PARTITION_METADATA_FILE,
    CorruptCheckpoint,
    parse_partition_folder,
    parse_partition_metadata,
)

METADATA_TYPES = (CONSUMER_GROUP_PARTITION_METADATA, SHARE_GROUP_STATE_PARTITION_METADATA)

_known: dict[str, dict[str, str]] = {}  # folder -> id -> name
_searched: dict[tuple[str, str], int] = {}  # (folder, id) -> log offset up to which the id was searched for in vain


def names_of(folder: LogFolder, ids: set[str], told: dict[str, str]) -> dict[str, str]:
    """Topic id -> name, for the ids whose names can be found. `told`: names that the caller has read already.

    Names, and how far the log was searched, are remembered, because a stream asks for the same ids many times.
    """
    known = _known.setdefault(folder.name, {})
    known.update(told)
    missing = ids - known.keys()
    if not missing:
        return known
    start = min(_searched.get((folder.name, id_), 0) for id_ in missing)
    if folder.keeps_share_state and start >= folder.end_offset:
        return known
    for found in () if folder.keeps_share_state else _in_log(folder, start):  # share state has nothing but the ids
        known.update(found)
        if not missing - known.keys():
            return known
    for found in _in_data_folder(folder) if folder.access is None else (names_in_cluster(folder.access),):
        known.update(found)
        if not missing - known.keys():
            break
    _searched.update(dict.fromkeys(((folder.name, id_) for id_ in missing - known.keys()), folder.end_offset))
    return known


def forget(address: str) -> None:
    """Forget what is remembered of the log folders in a folder that will not be read again."""
    for path in [path for path in _known if files.parent(path) == address]:
        del _known[path]
    for place in [place for place in _searched if files.parent(place[0]) == address]:
        del _searched[place]


def _in_log(folder: LogFolder, start: int) -> Iterator[dict[str, str]]:
    for segment in load_segments(folder, start, None):
        for block in blocks(segment.data, segment.walk, segment.sound() & ~segment.is_control()):
            yield topics_in(block.records)


def topics_in(records: Records) -> dict[str, str]:
    """Topic id -> name, from records that have both."""
    types = np.where(records.key_size >= 2, int16_at(records.buffer, records.key), -1)
    found, _ = commits.decode(records.pick(types == OFFSET_COMMIT))
    rows = Rows()
    for number in np.flatnonzero(np.isin(types, METADATA_TYPES)).tolist():
        key, value = records.key_bytes(number), records.value_bytes(number)
        rows.add(RawRecord(0, 0, 0, key, value, (), -1, "none"))
    return {uuid_text(id_): name for id_, name in {**found.topics(), **rows.topics}.items()}


def names_in_cluster(access: Access) -> dict[str, str]:
    """Of the topics that there are now, and that the user may DESCRIBE."""
    try:
        with connected(access) as cluster:
            topics = cluster.metadata(None).topics
    except ClientError:
        return {}  # without names topics are shown by their ids
    return {uuid_text(topic.topic_id): topic.name for topic in topics if topic.name and topic.topic_id != NO_UUID}


def _in_data_folder(folder: LogFolder) -> Iterator[dict[str, str]]:
    data_folder = files.parent(folder.path)
    try:
        topics = {place[0]: name for name in files.scan(data_folder) if (place := parse_partition_folder(name))}
    except OSError:
        return
    for topic, name in topics.items():
        path = files.join(files.join(data_folder, name), PARTITION_METADATA_FILE)
        try:
            yield {uuid_text(parse_partition_metadata(files.read(path), path)): topic}
        except (OSError, CorruptCheckpoint):
            continue
