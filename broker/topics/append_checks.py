"""What a batch from a producer must be, before it may enter a log.

Kafka's rules and Kafka's words: the same bytes get the same error code and, from version 8 on, the same text. Checks
run from cheap to dear; the first that fails decides. Batches are stored as they came, compressed or not, but every
record is looked at once: a batch that nobody can read would stop consumers and compaction for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.error_codes import ErrorCode
from protocol.errors import MalformedMessage
from protocol.messages.produce import BatchIndexAndErrorMessage
from protocol.record_batch import (
    BATCH_HEADER_BYTES,
    CONTROL,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    CorruptBatch,
    parse_header,
    scan_records,
    verify_crc,
)

if TYPE_CHECKING:
    from broker.topics.catalog import Partition

_length = Struct(">i").unpack_from

MIN_LEGACY_LENGTH: Final = 14  # what Kafka takes for the smallest record there can be, of any format
UP_TO_MAGIC_BYTES: Final = 17
FIRST_VERSION_WITH_ZSTD: Final = 7
ZSTD: Final = 4
SHOWN_ERRORS: Final = 3

CORRUPT_MESSAGE = ErrorCode.CORRUPT_MESSAGE
INVALID_RECORD = ErrorCode.INVALID_RECORD
INVALID_TIMESTAMP = ErrorCode.INVALID_TIMESTAMP


class Refusal(NamedTuple):
    """Why a batch may not enter, as the answer tells it."""

    code: ErrorCode
    message: str | None = None
    record_errors: Sequence[BatchIndexAndErrorMessage] = ()


def check_batch(batch: bytes, version: int, partition: Partition, now: int) -> BatchHeader | Refusal:
    """The header of the one sound batch that `batch` consists of, or what is wrong with it."""
    if refusal := _check_frame(batch, version):
        return refusal
    try:
        header = parse_header(batch)
    except CorruptBatch as problem:
        return Refusal(INVALID_RECORD, str(problem))
    return _check_header(batch, header, partition) or _check_records(batch, header, partition, now) or header


def _check_frame(batch: bytes, version: int) -> Refusal | None:
    """Exactly one whole batch of magic 2."""
    size = len(batch)
    asked = f"Produce requests with version {version}"
    if size < UP_TO_MAGIC_BYTES:
        return Refusal(INVALID_RECORD, f"{asked} must have at least one record batch per partition")
    (length,) = _length(batch, 8)
    if length < MIN_LEGACY_LENGTH:
        return Refusal(
            CORRUPT_MESSAGE, f"Record size {length} is less than the minimum record overhead ({MIN_LEGACY_LENGTH})"
        )
    magic = batch[16]
    if magic > MAGIC:
        return Refusal(CORRUPT_MESSAGE, f"Invalid magic found in record: {magic - 256 if magic > 127 else magic}")
    if length + LOG_OVERHEAD_BYTES > size:
        return Refusal(INVALID_RECORD, f"{asked} must have at least one record batch per partition")
    if magic != MAGIC:
        return Refusal(INVALID_RECORD, f"{asked} are only allowed to contain record batches with magic version 2")
    if size < BATCH_HEADER_BYTES:
        return Refusal(CORRUPT_MESSAGE, f"Record batch of {size} bytes is smaller than its header")
    if batch[22] & 7 == ZSTD and version < FIRST_VERSION_WITH_ZSTD:
        return Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"{asked} are not allowed to use ZStandard compression")
    if size > length + LOG_OVERHEAD_BYTES:
        return Refusal(INVALID_RECORD, f"{asked} are only allowed to contain exactly one record batch per partition")
    return None


def _check_header(batch: bytes, header: BatchHeader, partition: Partition) -> Refusal | None:
    """What the first 61 bytes claim must fit together, and the checksum must hold."""
    if header[0] != 0:
        return Refusal(
            INVALID_RECORD,
            f"The baseOffset of the record batch in the append to {partition} should be 0, but it is {header[0]}",
        )
    max_message_bytes = partition.topic.config.log.max_message_bytes
    if len(batch) > max_message_bytes:
        return Refusal(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch size in the append to {partition} is {len(batch)} bytes which exceeds the maximum "
            f"configured value of {max_message_bytes}.",
        )
    try:
        verify_crc(batch, 0, header)
    except CorruptBatch:
        return Refusal(
            CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc}) in topic partition {partition}."
        )
    attributes, count = header[5], header[12]
    if count <= 0:
        return Refusal(INVALID_RECORD, f"Invalid reported count for record batch: {count}")
    if count != header[6] + 1:
        return Refusal(
            INVALID_RECORD,
            f"Inconsistent batch offset range [0, {header.last_offset}] and count of records {count}",
        )
    if attributes & CONTROL:
        return Refusal(INVALID_RECORD, "Clients are not allowed to write control records")
    if header[9] != NO_PRODUCER_ID and header[11] < 0:
        return Refusal(
            INVALID_RECORD,
            f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id}",
        )
    if attributes & TRANSACTIONAL:
        return Refusal(ErrorCode.INVALID_TXN_STATE, "Kohort has no transactions yet")
    return None


def _check_records(batch: bytes, header: BatchHeader, partition: Partition, now: int) -> Refusal | None:
    """Every record is whole, in its place, and allowed in this topic."""
    config = partition.topic.config
    keys_needed = config.log.compacts
    earliest, latest = now - config.timestamp_before_max_ms, now + config.timestamp_after_max_ms
    stamps_matter = not config.log.uses_log_append_time
    wrong: list[BatchIndexAndErrorMessage] = []
    wrong_time = False
    try:
        for _, offset, timestamp, key, _, _ in scan_records(batch, check_crc=False, with_headers=False):
            if key is None and keys_needed:
                text = f"Compacted topic cannot accept message without key in topic partition {partition}."
            elif (
                stamps_matter and timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest
            ) or header.attributes & LOG_APPEND_TIME:
                wrong_time = True
                text = (
                    f"Timestamp {timestamp} of message with offset {offset} is out of range. The timestamp should be "
                    f"within [{earliest}, {latest}]"
                )
            else:
                continue
            wrong.append(BatchIndexAndErrorMessage(offset, text))
    except MalformedMessage as problem:
        return Refusal(INVALID_RECORD, str(problem))
    if wrong_time:
        return Refusal(INVALID_TIMESTAMP, "One or more records have been rejected due to invalid timestamp", wrong)
    if wrong:
        text = ", ".join(
            f"RecordError(batchIndex={each.batch_index}, message='{each.batch_index_error_message}')"
            for each in wrong[:SHOWN_ERRORS]
        )
        return Refusal(
            INVALID_RECORD,
            f"One or more records have been rejected due to {len(wrong)} record errors in total, and only showing the "
            f"first three errors at most: [{text}]",
            wrong,
        )
    return None
