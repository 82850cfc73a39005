"""Prepares batches for a log: checks them, and writes offsets, leader epoch and time into their headers."""

from __future__ import annotations

from typing import NamedTuple

from kohort.protocol.record_batch import (
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    BatchHeader,
    CorruptBatch,
    parse_header,
    validate_batch,
    with_base_offset,
    with_max_timestamp,
)
from kohort.storage.disk import Buffer
from kohort.storage.errors import BatchTooLarge, InvalidAppend
from kohort.storage.log_config import LogConfig


class AppendInfo(NamedTuple):
    """The offsets that an append got."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int  # -1 if the records keep the times of their producer


def split_batches(data: Buffer, config: LogConfig, *, verify: bool) -> list[BatchHeader]:
    """The headers of the batches in `data`. Raises if `data` is anything else than whole batches."""
    size = len(data)
    headers = []
    position = 0
    while position < size:
        header = validate_batch(data, position) if verify else parse_header(data, position)
        batch_bytes = LOG_OVERHEAD_BYTES + header[1]
        if position + batch_bytes > size:
            raise CorruptBatch(f"batch at {position} is cut off: {batch_bytes} bytes, {size - position} are there")
        if batch_bytes > config.max_message_bytes:
            raise BatchTooLarge(f"a batch of {batch_bytes} bytes; max.message.bytes is {config.max_message_bytes}")
        headers.append(header)
        position += batch_bytes
    if not headers:
        raise InvalidAppend("no batch to append")
    if size > config.segment_bytes and len(headers) > 1:
        raise BatchTooLarge(f"{size} bytes in one append; segment.bytes is {config.segment_bytes}")
    return headers


def place_batches(
    data: bytearray, headers: list[BatchHeader], offset: int, leader_epoch: int, append_time_ms: int | None
) -> list[BatchHeader]:
    """Write offsets from `offset` on into the batches, in place. Returns their new headers."""
    placed = []
    position = 0
    for header in headers:
        if header[12] != header[6] + 1:
            raise InvalidAppend(f"{header[12]} records in a new batch of {header[6] + 1} offsets")
        with_base_offset(data, offset, leader_epoch, position)
        fields = (offset, header[1], leader_epoch, *header[3:])
        placed_header: BatchHeader = tuple.__new__(BatchHeader, fields)
        if append_time_ms is not None:
            attributes = header.attributes | LOG_APPEND_TIME
            placed_header = with_max_timestamp(data, position, placed_header, attributes, append_time_ms)
        placed.append(placed_header)
        offset += header[6] + 1
        position += LOG_OVERHEAD_BYTES + header[1]
    return placed
