"""What a batch from a producer must be, before it may enter a log.

The same bytes get the same error code as from Kafka 4.3.1, where the order of the checks was learnt by sending such
bytes to it. Batches are stored as they came, compressed or not, but every record is looked at once: a batch that nobody
can read would stop consumers and compaction for good. One check is stricter than Kafka's: records that are not
compressed must have the offset deltas 0, 1, 2.. too, as the others must.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, final

from kohort.broker.topics.compiled_walk import fastest_walk, fastest_walk_in_steps
from kohort.protocol.compression import DEFAULT_MAX_INFLATED_BYTES, CannotInflate, InflatesTooFar, inflate
from kohort.protocol.crc32c import crc32c
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.errors import MalformedMessage, TooManyElements
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
    Buffer,
    unpack_batch_length,
    unpack_header,
    with_max_timestamp,
)
from kohort.protocol.record_stream import record_pieces, stream_heads

if TYPE_CHECKING:
    from kohort.broker.topics.catalog import Partition
    from kohort.broker.topics.record_walk import Walked

MIN_LEGACY_LENGTH: Final = 14  # what Kafka takes for the smallest record there can be, of any format
UP_TO_MAGIC_BYTES: Final = MAGIC_AT + 1
FIRST_VERSION_WITH_ZSTD: Final = 7
ZSTD: Final = 4
SHOWN_ERRORS: Final = 3
MAX_NAMED_RECORDS: Final = 1_000
AT_ONCE_BYTES: Final = 128 * 1024  # a longer batch is walked in steps; in Python this much may take 10 ms
# A batch may have more records and headers only if it has more bytes. Honest batches are far below: a record that
# differs from the one before takes at least a byte, however well it is compressed.
MAX_ELEMENTS: Final = 1_000_000
# The same for its bytes, inflated. Clients fill a batch up to 1 MB (librdkafka before, Java after compression).
MAX_INFLATED_BYTES: Final = 16 * 1024 * 1024
MAX_INFLATED_RATIO: Final = 64


@final  # so that type(x) is Refusal tells whether it is one, which is three times as quick as isinstance()
class Refusal(NamedTuple):
    """Why a batch may not enter the log, as the answer says it. Most of Kafka's refusals have no text."""

    code: ErrorCode
    message: str | None = None
    record_errors: Sequence[BatchIndexAndErrorMessage] = ()
    by_log: bool = False  # the check used the log's settings; as in Kafka, the answer then has the log's start offset


_NO_BATCH = Refusal(ErrorCode.INVALID_RECORD)
_CORRUPT = Refusal(ErrorCode.CORRUPT_MESSAGE)
_TOO_LARGE = Refusal(ErrorCode.MESSAGE_TOO_LARGE)
_NO_ZSTD = Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
_INVALID = Refusal(ErrorCode.INVALID_RECORD, by_log=True)
_TOO_MUCH_INSIDE = Refusal(  # producers split a batch that is too large, and send its halves
    ErrorCode.MESSAGE_TOO_LARGE, "The batch inflates to more bytes, or has more records and headers, than is allowed."
)
_CANNOT_INFLATE = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, by_log=True)


Checked: TypeAlias = tuple[bytes, BatchHeader] | Refusal
Check: TypeAlias = Checked | Generator[None, None, Checked]  # steps (broker.steps), if it takes long


def check_batch(data: Buffer, version: int, partition: Partition, now: int) -> Check:
    """The one sound batch that `data` starts with, and its header; or what is wrong. In steps if it is a long batch.

    What is too large for the topic is not even copied.
    """
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
    return _check_header(data, header, partition) or _check_records(bytes(data), header, partition, now)


def check_frame(data: Buffer, version: int) -> Refusal | None:
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


def _check_start(data: Buffer, position: int) -> tuple[int | None, Refusal | None]:
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


def _check_header(data: Buffer, header: BatchHeader, partition: Partition) -> Refusal | None:
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


def _check_records(data: bytes, header: BatchHeader, partition: Partition, now: int) -> Check:
    """Every record is whole, in its place, and allowed in this topic."""
    compression = header[5] & COMPRESSION_MASK
    records, position = data, BATCH_HEADER_BYTES
    if compression:
        try:
            records, position = inflate(compression, memoryview(data)[BATCH_HEADER_BYTES:], AT_ONCE_BYTES), 0
        except InflatesTooFar:
            return _check_in_steps(data, header, partition, now)
        except CannotInflate:
            return _CANNOT_INFLATE
    elif len(data) > AT_ONCE_BYTES:
        return _check_in_steps(data, header, partition, now)
    try:
        walked = fastest_walk()(records, position, len(records), header[12])
    except MalformedMessage:
        return _INVALID
    return _judge(data, header, partition, now, walked)


def _check_in_steps(data: bytes, header: BatchHeader, partition: Partition, now: int) -> Generator[None, None, Checked]:
    """The same for a long batch, with the memory of one piece of it."""
    max_elements = max(MAX_ELEMENTS, len(data))
    max_bytes = min(max(MAX_INFLATED_BYTES, MAX_INFLATED_RATIO * len(data)), DEFAULT_MAX_INFLATED_BYTES)
    if header[12] > max_elements:
        return _TOO_MUCH_INSIDE
    try:
        walked = yield from fastest_walk_in_steps()(record_pieces(data, header, 0, max_bytes), header[12], max_elements)
    except (InflatesTooFar, TooManyElements):
        return _TOO_MUCH_INSIDE
    except CannotInflate:
        return _CANNOT_INFLATE
    except MalformedMessage:
        return _INVALID
    judged = _judge(data, header, partition, now, walked)
    return judged if isinstance(judged, tuple) else (yield from judged)


def _judge(data: bytes, header: BatchHeader, partition: Partition, now: int, walked: Walked) -> Check:
    """Whether sound records may enter this topic: keys, timestamps and the like."""
    attributes, config = header[5], partition.topic.config
    lowest, highest, has_null_key = walked
    if has_null_key and config.log.compacts:
        return _name_the_wrong(data, header, partition, now, _INVALID)
    if config.log.uses_log_append_time:
        if attributes & LOG_APPEND_TIME:
            return _name_the_wrong(data, header, partition, now, _INVALID)
        return data, header
    if attributes & LOG_APPEND_TIME:
        earliest = latest = header[8]
    else:
        earliest, latest = header[7] + lowest, header[7] + highest
    is_out_of_range = latest > now + config.timestamp_after_max_ms or earliest < now - config.timestamp_before_max_ms
    latest = max(latest, NO_TIMESTAMP)
    is_right = latest == header[8] and not attributes & LOG_APPEND_TIME
    accepted = (data, header) if is_right else _correct(data, header, latest)
    if is_out_of_range:  # unless those records need no timestamp
        return _name_the_wrong(data, header, partition, now, accepted)
    return accepted


def _correct(data: bytes, header: BatchHeader, max_timestamp: int) -> tuple[bytes, BatchHeader]:
    """The batch with the greatest timestamp that its records really have, which indexes and searches rely on."""
    corrected = bytearray(data)
    attributes = header.attributes & ~LOG_APPEND_TIME
    header = with_max_timestamp(corrected, 0, header, attributes, max_timestamp)
    return bytes(corrected), header


def _name_the_wrong(
    data: bytes, header: BatchHeader, partition: Partition, now: int, otherwise: Checked
) -> Generator[None, None, Checked]:
    """Look at each record again and name those that may not enter. `otherwise` is the answer if all may.

    Kafka names all of them, in an answer that may be a hundred times as long as the batch. Here at most
    MAX_NAMED_RECORDS are named. Clients tell the application about all other records of the batch that it was refused
    because of those.
    """
    config = partition.topic.config
    earliest, latest = now - config.timestamp_before_max_ms, now + config.timestamp_after_max_ms
    appends, is_append_time = config.log.uses_log_append_time, header.attributes & LOG_APPEND_TIME
    named: list[BatchIndexAndErrorMessage] = []
    wrong_count = 0
    wrong_time = False
    for head in stream_heads(data, header):
        if head is None:
            yield
            continue
        offset, timestamp_delta, key_bytes, value_bytes = head
        timestamp = header.max_timestamp if is_append_time else header.base_timestamp + timestamp_delta
        if key_bytes < 0 and config.log.compacts:
            text = f"Compacted topic cannot accept message without key in topic partition {partition}"
        elif not appends and timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
            wrong_time = True
            text = (
                f"Timestamp {timestamp} of message with offset {offset} is out of range. The timestamp should be "
                f"within [{earliest}, {latest}]"
            )
        elif appends and is_append_time:
            wrong_time = True
            sizes = f"key={max(key_bytes, 0)} bytes, value={max(value_bytes, 0)} bytes"
            text = (
                f"Invalid timestamp type in message DefaultRecord(offset={offset}, timestamp={timestamp}, {sizes}). "
                "Producer should not set timestamp type to LogAppendTime."
            )
        else:
            continue
        wrong_count += 1
        if wrong_count <= MAX_NAMED_RECORDS:
            named.append(BatchIndexAndErrorMessage(offset, text))
    if not wrong_count:
        return otherwise
    if wrong_time:
        text = "One or more records have been rejected due to invalid timestamp"
        return Refusal(ErrorCode.INVALID_TIMESTAMP, text, named, by_log=True)
    shown = ", ".join(
        f"RecordError(batchIndex={each.batch_index}, message='{each.batch_index_error_message}')"
        for each in named[:SHOWN_ERRORS]
    )
    text = (
        f"One or more records have been rejected due to {wrong_count} record errors in total, and only showing the "
        f"first three errors at most: [{shown}]"
    )
    return Refusal(ErrorCode.INVALID_RECORD, text, named, by_log=True)
