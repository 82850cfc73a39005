"""What a batch from a producer must be, before it may enter a log.

The same bytes get the same error code as from Kafka 4.3.1, where the order of the checks was learnt by sending such
bytes to it. Batches are stored as they came, compressed or not, but every record is looked at once: a batch that nobody
can read would stop consumers and compaction for good. One check is stricter than Kafka's: records that are not
compressed must have the offset deltas 0, 1, 2.. too, as the others must.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from crc32c import crc32c

from kohort.broker.topics.compiled_walk import fastest_walk
from kohort.protocol.compression import inflate
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages.produce import BatchIndexAndErrorMessage
from kohort.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    BATCH_LENGTH_AT,
    COMPRESSION_MASK,
    CONTROL,
    CRC_START,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    BatchHeader,
    scan_records,
    unpack_batch_length,
    unpack_header,
    with_max_timestamp,
)

if TYPE_CHECKING:
    from kohort.broker.topics.catalog import Partition

MIN_LEGACY_LENGTH: Final = 14  # what Kafka takes for the smallest record there can be, of any format
UP_TO_MAGIC_BYTES: Final = MAGIC_AT + 1
FIRST_VERSION_WITH_ZSTD: Final = 7
ZSTD: Final = 4
SHOWN_ERRORS: Final = 3


class Refusal(NamedTuple):
    """Why a batch may not enter, as the answer tells it. Most of Kafka's refusals come without a text."""

    code: ErrorCode
    message: str | None = None
    record_errors: Sequence[BatchIndexAndErrorMessage] = ()
    by_log: bool = False  # the check used the log's settings; as in Kafka, the answer then has the log's start offset


_NO_BATCH = Refusal(ErrorCode.INVALID_RECORD)
_CORRUPT = Refusal(ErrorCode.CORRUPT_MESSAGE)
_TOO_LARGE = Refusal(ErrorCode.MESSAGE_TOO_LARGE)
_NO_ZSTD = Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
_INVALID = Refusal(ErrorCode.INVALID_RECORD, by_log=True)
_CANNOT_INFLATE = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, by_log=True)


def check_batch(data: bytes, version: int, partition: Partition, now: int) -> tuple[bytes, BatchHeader] | Refusal:
    """The one sound batch that `data` starts with, and its header; or what is wrong."""
    size = len(data)
    if size >= BATCH_HEADER_BYTES:
        header: BatchHeader = tuple.__new__(BatchHeader, unpack_header(data))
        batch_bytes = header[1] + LOG_OVERHEAD_BYTES
        if batch_bytes != size or header[3] != MAGIC or (header[5] & COMPRESSION_MASK == ZSTD and version < 7):
            if refusal := check_frame(data, version):
                return refusal
            data = data[:batch_bytes]  # half a batch behind the first is cut off, as Kafka does
    else:
        return check_frame(data, version) or _CORRUPT
    return _check_header(data, header, partition) or _check_records(data, header, partition, now)


def check_frame(data: bytes, version: int) -> Refusal | None:
    """A refusal unless `data` is one whole batch of magic 2, large enough for a batch header."""
    size = len(data)
    length, refusal = _check_start(data, 0)
    if refusal is not None:
        return refusal
    if length is None or data[16] != MAGIC:
        return _NO_BATCH
    if length + LOG_OVERHEAD_BYTES < BATCH_HEADER_BYTES:
        return _CORRUPT
    if data[22] & COMPRESSION_MASK == ZSTD and version < FIRST_VERSION_WITH_ZSTD:
        return _NO_ZSTD
    if size > length + LOG_OVERHEAD_BYTES:
        second, refusal = _check_start(data, length + LOG_OVERHEAD_BYTES)
        if refusal is not None:
            return _CORRUPT
        if second is not None:
            return _NO_BATCH
    return None


def _check_start(data: bytes, position: int) -> tuple[int | None, Refusal | None]:
    """The length of the batch at `position`; None if it is not all there."""
    size = len(data) - position
    if size < LOG_OVERHEAD_BYTES:
        return None, None
    (length,) = unpack_batch_length(data, position + BATCH_LENGTH_AT)
    if length < MIN_LEGACY_LENGTH:
        return None, Refusal(
            ErrorCode.CORRUPT_MESSAGE,
            f"Record size {length} is less than the minimum record overhead ({MIN_LEGACY_LENGTH})",
        )
    if size < UP_TO_MAGIC_BYTES:
        return None, None
    magic = data[position + MAGIC_AT]
    if magic > MAGIC:
        signed = magic - 256 if magic > 127 else magic
        return None, Refusal(ErrorCode.CORRUPT_MESSAGE, f"Invalid magic found in record: {signed}")
    return (length if length + LOG_OVERHEAD_BYTES <= size else None), None


def _check_header(data: bytes, header: BatchHeader, partition: Partition) -> Refusal | None:
    """What the first 61 bytes claim must fit together, and the checksum must hold."""
    if header[0] != 0:
        return _INVALID
    if len(data) > partition.topic.config.log.max_message_bytes:
        return _TOO_LARGE
    if crc32c(memoryview(data)[CRC_START:]) != header[4]:
        return _CORRUPT
    count = header[12]
    if count <= 0 or count != header[6] + 1 or header[5] & CONTROL:
        return _INVALID
    if header[9] >= 0 and header[11] < 0:  # a producer id without a sequence
        return _INVALID
    return None


def _check_records(
    data: bytes, header: BatchHeader, partition: Partition, now: int
) -> tuple[bytes, BatchHeader] | Refusal:
    """Every record is whole, in its place, and allowed in this topic."""
    attributes = header[5]
    records, position = data, BATCH_HEADER_BYTES
    if attributes & COMPRESSION_MASK:
        try:
            records, position = inflate(attributes & COMPRESSION_MASK, memoryview(data)[BATCH_HEADER_BYTES:]), 0
        except MalformedMessage:
            return _CANNOT_INFLATE
    try:
        lowest, highest, has_null_key = fastest_walk()(records, position, len(records), header[12])
    except MalformedMessage:
        return _INVALID
    config = partition.topic.config
    if has_null_key and config.log.compacts:
        return _name_the_wrong(data, header, partition, now) or _INVALID
    if config.log.uses_log_append_time:
        if attributes & LOG_APPEND_TIME:
            return _name_the_wrong(data, header, partition, now) or _INVALID
        return data, header
    if attributes & LOG_APPEND_TIME:
        earliest = latest = header[8]
    else:
        earliest, latest = header[7] + lowest, header[7] + highest
    if latest > now + config.timestamp_after_max_ms or earliest < now - config.timestamp_before_max_ms:
        refusal = _name_the_wrong(data, header, partition, now)
        if refusal is not None:
            return refusal
    latest = max(latest, NO_TIMESTAMP)
    if latest != header[8] or attributes & LOG_APPEND_TIME:
        return _correct(data, header, latest)
    return data, header


def _correct(data: bytes, header: BatchHeader, max_timestamp: int) -> tuple[bytes, BatchHeader]:
    """The batch with the greatest timestamp that its records really have, which indexes and searches rely on."""
    corrected = bytearray(data)
    attributes = header.attributes & ~LOG_APPEND_TIME
    header = with_max_timestamp(corrected, 0, header, attributes, max_timestamp)
    return bytes(corrected), header


def _name_the_wrong(data: bytes, header: BatchHeader, partition: Partition, now: int) -> Refusal | None:
    """Look at each record again and name those that may not enter. None: all may, for records need no timestamp."""
    config = partition.topic.config
    earliest, latest = now - config.timestamp_before_max_ms, now + config.timestamp_after_max_ms
    appends = config.log.uses_log_append_time
    wrong: list[BatchIndexAndErrorMessage] = []
    wrong_time = False
    for _, offset, timestamp, key, value, _ in scan_records(data, check_crc=False):
        if key is None and config.log.compacts:
            text = f"Compacted topic cannot accept message without key in topic partition {partition}"
        elif not appends and timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
            wrong_time = True
            text = (
                f"Timestamp {timestamp} of message with offset {offset} is out of range. The timestamp should be "
                f"within [{earliest}, {latest}]"
            )
        elif appends and header.attributes & LOG_APPEND_TIME:
            wrong_time = True
            sizes = f"key={len(key or b'')} bytes, value={len(value or b'')} bytes"
            text = (
                f"Invalid timestamp type in message DefaultRecord(offset={offset}, timestamp={timestamp}, {sizes}). "
                "Producer should not set timestamp type to LogAppendTime."
            )
        else:
            continue
        wrong.append(BatchIndexAndErrorMessage(offset, text))
    if not wrong:
        return None
    if wrong_time:
        text = "One or more records have been rejected due to invalid timestamp"
        return Refusal(ErrorCode.INVALID_TIMESTAMP, text, wrong, by_log=True)
    shown = ", ".join(
        f"RecordError(batchIndex={each.batch_index}, message='{each.batch_index_error_message}')"
        for each in wrong[:SHOWN_ERRORS]
    )
    text = (
        f"One or more records have been rejected due to {len(wrong)} record errors in total, and only showing the "
        f"first three errors at most: [{shown}]"
    )
    return Refusal(ErrorCode.INVALID_RECORD, text, wrong, by_log=True)
