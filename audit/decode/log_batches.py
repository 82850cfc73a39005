"""The table log_batches: a row per batch of a file, and per stretch of bytes that is no batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kohort.audit.decode.columns import optional, texts, times
from kohort.audit.decode.schemas import from_rows, schema
from kohort.audit.decode.segments import Segment
from kohort.audit.decode.split import Block
from kohort.audit.decode.transactions import MARKERS, kinds_of
from kohort.audit.decode.vector import Array
from kohort.audit.decode.walk import CRC, UNDECODABLE, pick_headers
from kohort.audit.decode.wanted import Wanted
from kohort.protocol.record_batch import COMPRESSION_MASK, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL

TABLE: Final = "log_batches"
CODECS: Final = ["none", "gzip", "snappy", "lz4", "zstd", "5", "6", "7"]


def shown_batches(segment: Segment, wanted: Wanted) -> Array:
    """Which batches of a file become rows. Damaged ones always do: their times and offsets may be wrong."""
    headers = segment.walk.headers
    return wanted.batches(headers) | (wanted._replace(since_ms=None, until_ms=None).batches(headers) & ~segment.sound())


def batches_in(segment: Segment, log_partition: int, block: Block, shown: Array) -> Iterator[pa.RecordBatch]:
    """Rows for the batches of a block, whose records have been split already."""
    which = block.first + np.flatnonzero(shown[block.first : block.stop])
    if len(which):
        yield _rows(segment, log_partition, block, which)


def stretches_in(segment: Segment, log_partition: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Rows for the stretches of a file that are no batches."""
    rows = [
        (log_partition, segment.base_offset, one.position, one.size_bytes, *(None,) * 15, one.problem, one.detail)
        for one in segment.walk.stretches
        if wanted.offset(_offset_before(segment, one.before))
    ]
    if rows:
        yield from_rows(TABLE, rows)


def _offset_before(segment: Segment, batches: int) -> int:
    """The end offset of the last batch before a stretch of bytes, which has no offset itself."""
    if not batches:
        return segment.base_offset
    last = segment.walk.headers[batches - 1]
    return int(last["base_offset"]) + int(last["last_offset_delta"]) + 1


def _rows(segment: Segment, log_partition: int, block: Block, which: Array) -> pa.RecordBatch:
    headers = pick_headers(segment.walk.headers, which)
    attributes = headers["attributes"].astype(np.int64)
    base = headers["base_offset"].astype(np.int64)
    horizon = np.where(attributes & DELETE_HORIZON != 0, headers["base_timestamp"], -1)
    columns: dict[str, Any] = {
        "log_partition": np.full(len(which), log_partition, np.int32),
        "segment": np.full(len(which), segment.base_offset, np.int64),
        "position": segment.walk.positions[which],
        "size_bytes": segment.walk.sizes[which],
        "log_offset": base,
        "last_log_offset": base + headers["last_offset_delta"],
        "record_count": headers["record_count"].astype(np.int32),
        "max_time": times(headers["max_timestamp"].astype(np.int64)),
        "codec": texts(CODECS, attributes & COMPRESSION_MASK),
        "leader_epoch": headers["partition_leader_epoch"].astype(np.int32),
        "producer_id": headers["producer_id"].astype(np.int64),
        "producer_epoch": headers["producer_epoch"].astype(np.int32),
        "transactional": attributes & TRANSACTIONAL != 0,
        **_markers(segment, block, which),
        "base_sequence": headers["base_sequence"].astype(np.int32),
        "time_type": texts(["create", "append"], (attributes & LOG_APPEND_TIME != 0).astype(np.int64)),
        "delete_horizon": times(horizon.astype(np.int64)),
        "crc": headers["crc"].astype(np.int64),
        **_problems(segment, block, which),
    }
    of = schema(TABLE)
    assert list(columns) == of.names
    return pa.record_batch([pa.array(one, field.type) for field, one in zip(of, columns.values(), strict=True)], of)


def _markers(segment: Segment, block: Block, which: Array) -> dict[str, Any]:
    kinds, epochs = np.full(len(segment.walk.positions), -1), np.zeros(len(segment.walk.positions), np.int32)
    control = np.flatnonzero(segment.is_control()[block.records.batch])
    if len(control):
        records = block.records.pick(control[::-1])  # reversed: the first record of a batch wins
        kinds[records.batch], epochs[records.batch] = kinds_of(records)
    return {
        "marker": texts(list(MARKERS), kinds[which]),
        "coordinator_epoch": optional(epochs[which], (kinds[which] >= 0) & (kinds[which] < 2)),
    }


def _problems(segment: Segment, block: Block, which: Array) -> dict[str, Any]:
    damaged = segment.walk.damaged
    if not damaged and not block.undecodable:
        nothing = pa.nulls(len(which), pa.string())
        return {"problem": nothing, "detail": nothing}
    found: list[tuple[str | None, str | None]] = []
    for number in which.tolist():
        if number in damaged:
            found.append((CRC, damaged[number]))
        elif number in block.undecodable:
            found.append((UNDECODABLE, block.undecodable[number]))
        else:
            found.append((None, None))
    return {"problem": [problem for problem, _ in found], "detail": [detail for _, detail in found]}
