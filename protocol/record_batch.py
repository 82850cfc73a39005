"""Record batch v2: how Kafka keeps records, on the wire and on disk alike.

     0  base offset             int64     set by the broker; outside the CRC
     8  batch length            int32     bytes after this field
    12  partition leader epoch  int32     set by the broker; outside the CRC
    16  magic                   int8      2
    17  crc                     uint32    CRC-32C of all that follows
    21  attributes              int16     bits 0-2 compression, 3 log append time, 4 transactional, 5 control,
                                          6 delete horizon set
    23  last offset delta       int32     last offset - base offset; compaction does not change it
    27  base timestamp          int64     ms; the delete horizon if bit 6 is set
    35  max timestamp           int64
    43  producer id             int64     -1 if the producer is not idempotent
    51  producer epoch          int16
    53  base sequence           int32
    57  record count            int32
    61  records, as one compressed block if the compression bits are set

A record, where every integer is a zig-zag varint and a length of -1 means null:

    length | attributes (1 byte, 0) | timestamp delta | offset delta | key length, key | value length, value
           | header count | per header: key length, key, value length, value

Reading trusts nothing: a record must end both where its length says and where its fields end. `_scan` is the
hot loop of every replay, so the varints of one and two bytes are written out in it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple, TypeAlias, cast

from kohort.protocol.compression import DEFAULT_MAX_INFLATED_BYTES, compress, inflate
from kohort.protocol.crc32c import crc32c
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.varint import SMALL_VARINTS, encode_varint, read_varint, read_varlong

# Where the fields of the header stand, as in the table above. Nobody else writes these numbers down.
BASE_OFFSET_AT: Final = 0
BATCH_LENGTH_AT: Final = 8
LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
LAST_OFFSET_DELTA_AT: Final = 23
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43
PRODUCER_EPOCH_AT: Final = 51
BASE_SEQUENCE_AT: Final = 53
RECORD_COUNT_AT: Final = 57

BATCH_HEADER_BYTES: Final = 61
LOG_OVERHEAD_BYTES: Final = 12  # base offset and batch length
MAGIC: Final = 2

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

CRC_START: Final = ATTRIBUTES_AT  # of the bytes that the CRC covers
MIN_BATCH_LENGTH: Final = BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES
MIN_RECORD_BYTES: Final = 7  # every varint one byte, key and value null
MIN_HEADER_BYTES: Final = 2  # an empty key and a null value
NO_HEADERS: Final = b"\0"  # their count
_ONE_BYTE_DELTAS: Final = 64  # of offsets
MAX_PARSED_HEADERS: Final = 1_000_000  # two bytes each in a batch, and a hundred in memory

PARSED, SKIPPED, PACKED = range(3)  # what is done with the headers of records

# The header as struct formats: the fields of BatchHeader, one letter each.
_PLACE_FORMAT: Final = "qii"  # base offset, batch length, leader epoch: what the broker sets
_OUTSIDE_CRC_FORMAT: Final = f"{_PLACE_FORMAT}bI"
COVERED_FORMAT: Final = "hiqqqhii"  # the part that the CRC covers, as `covered_fields` fills it
HEADER_FORMAT: Final = _OUTSIDE_CRC_FORMAT + COVERED_FORMAT
_HEADER: Final = Struct(f">{HEADER_FORMAT}")
_CRC_COVERED_HEADER: Final = Struct(f">{COVERED_FORMAT}")
_OUTSIDE_CRC: Final = Struct(f">{_OUTSIDE_CRC_FORMAT}")

pack_header = _HEADER.pack  # all fields of a BatchHeader
unpack_header = _HEADER.unpack_from  # likewise; without the checks of `parse_header`
pack_place = Struct(f">{_PLACE_FORMAT}").pack  # the bytes before the magic byte
unpack_offset_and_length = Struct(">qi").unpack_from  # at the start of a batch
unpack_batch_length = Struct(">i").unpack_from  # at BATCH_LENGTH_AT
unpack_last_offset_delta = Struct(">i").unpack_from  # at LAST_OFFSET_DELTA_AT
_BASE_OFFSET: Final = Struct(">q")
_LEADER_EPOCH: Final = Struct(">i")
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP: Final = Struct(">q")
_CRC: Final = Struct(">I")
_TWO_INT16: Final = Struct(">hh")
_MARKER_VALUE: Final = Struct(">hi")

Buffer: TypeAlias = bytes | bytearray | memoryview
Headers: TypeAlias = tuple[tuple[bytes, bytes | None], ...]
NewRecord: TypeAlias = tuple[bytes | None, bytes | None] | tuple[bytes | None, bytes | None, Headers]


class CorruptBatch(MalformedMessage):
    """A batch that is damaged, or is none: a wrong checksum, size or version, or records that do not fit together."""


class BatchHeader(NamedTuple):
    """The first 61 bytes of a batch, field by field."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return LOG_OVERHEAD_BYTES + self.batch_length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & DELETE_HORIZON != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop tombstones and markers of this batch; None before a first pass saw it."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


class Record(NamedTuple):
    """One record with its absolute offset and timestamp."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class PackedRecord(NamedTuple):
    """A record whose headers are left as they are in the batch, for somebody who only passes them on."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    packed_headers: bytes  # their count, and the headers


ScannedRecord: TypeAlias = tuple[BatchHeader, int, int, bytes | None, bytes | None, Headers]


class EndTransactionMarker(NamedTuple):
    """The content of a control batch: a producer's transaction in this partition has ended."""

    commit: bool
    coordinator_epoch: int


# --- reading --------------------------------------------------------------------------------------


# The header of a batch that this process has just built: its fields in their order, nothing checked.
unpack_own_header: Callable[[Buffer], BatchHeader] = _HEADER.unpack_from  # type: ignore[assignment]


def parse_header(data: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`. Checks what must be true of any v2 batch, but not the CRC and not the records."""
    if position < 0 or len(data) - position < BATCH_HEADER_BYTES:
        raise CorruptBatch(f"batch at {position} is cut off: {len(data) - position} bytes, the header has 61")
    header: BatchHeader = tuple.__new__(BatchHeader, _HEADER.unpack_from(data, position))
    if header[3] != MAGIC:
        raise CorruptBatch(f"batch at {position} has magic {header[3]}, not {MAGIC}")
    if header[1] < MIN_BATCH_LENGTH:
        raise CorruptBatch(f"batch at {position} has length {header[1]}, below {MIN_BATCH_LENGTH}")
    if header[6] < 0 or header[12] < 0 or header[0] < 0:
        raise CorruptBatch(f"batch at {position} has a negative offset, offset delta or record count")
    return header


def verify_crc(data: Buffer, position: int, header: BatchHeader) -> None:
    """Raises CorruptBatch unless the whole batch is there and its CRC-32C is the one in the header."""
    end = position + LOG_OVERHEAD_BYTES + header[1]
    if end > len(data):
        raise CorruptBatch(f"batch at {position} is cut off: {len(data) - position} of {end - position} bytes")
    # Copying a small batch is cheaper than two memoryviews.
    covered = data[position + CRC_START : end] if header[1] < 4096 else memoryview(data)[position + CRC_START : end]
    actual = crc32c(covered)
    if actual != header[4]:
        raise CorruptBatch(f"batch at {position} has CRC {header[4]:08x}, its bytes give {actual:08x}")


def validate_batch(data: Buffer, position: int = 0) -> BatchHeader:
    """Header, CRC, and counts that agree with each other: what an append or a recovery asks of a batch."""
    header = parse_header(data, position)
    verify_crc(data, position, header)
    if header[12] > header[6] + 1:
        raise CorruptBatch(
            f"batch at {position} has {header.record_count} records in {header.last_offset_delta + 1} offsets"
        )
    return header


def read_records(
    batch: Buffer,
    position: int = 0,
    *,
    header: BatchHeader | None = None,
    max_inflated_bytes: int = DEFAULT_MAX_INFLATED_BYTES,
) -> Iterator[Record]:
    """The records of the batch at `position`, inflated if need be, one by one. Does not check the CRC."""
    header = header or parse_header(batch, position)
    scan = scan_records(
        batch, position, position + header.size_bytes, check_crc=False, max_inflated_bytes=max_inflated_bytes
    )
    return (Record(offset, timestamp, key, value, headers) for _, offset, timestamp, key, value, headers in scan)


def scan_records(
    data: Buffer,
    position: int = 0,
    end: int | None = None,
    *,
    check_crc: bool = True,
    with_headers: bool = True,
    max_inflated_bytes: int = DEFAULT_MAX_INFLATED_BYTES,
) -> Iterator[ScannedRecord]:
    """(batch header, offset, timestamp, key, value, headers) of each record of the batches in `data`.

    For a replay of millions of records: `data` holds whole batches, preferably as `bytes`. Without
    `with_headers` the record headers are stepped over unread.
    """
    end = len(data) if end is None else end
    if position < 0 or end > len(data):
        raise CorruptBatch(f"batch at {position} is cut off: {len(data) - position} of {end - position} bytes")
    if type(data) is not bytes:
        data, position, end = bytes(memoryview(data)[position:end]), 0, end - position
    mode = PARSED if with_headers else SKIPPED
    return cast("Iterator[ScannedRecord]", _scan(data, position, end, check_crc, mode, max_inflated_bytes))


def read_packed_records(batch: bytes, position: int, header: BatchHeader) -> Iterator[PackedRecord]:
    """Like `read_records`, without a look at the headers: a record may have millions of them."""
    end = position + header.size_bytes
    for _, offset, timestamp, key, value, headers in _scan(
        batch, position, end, False, PACKED, DEFAULT_MAX_INFLATED_BYTES
    ):
        yield PackedRecord(offset, timestamp, key, value, headers if isinstance(headers, bytes) else NO_HEADERS)


def _scan(  # noqa: C901 - the hot loop: the fast paths of the varints are written out
    log: bytes, log_position: int, log_end: int, check_crc: bool, header_mode: int, max_inflated_bytes: int
) -> Iterator[tuple[BatchHeader, int, int, bytes | None, bytes | None, Headers | bytes]]:
    """See `scan_records`. A byte without the bits 0x81 is a whole varint, and not negative: `byte >> 1`."""
    try:
        while log_position < log_end:
            start = log_position
            if log_end - start < BATCH_HEADER_BYTES:
                raise CorruptBatch(f"batch at {start} is cut off after {log_end - start} bytes")
            fields = unpack_header(log, start)
            base_offset, size, _, magic, crc, attributes, last_delta, base_timestamp, append_time, _, _, _, count = (
                fields
            )
            if magic != MAGIC or size < MIN_BATCH_LENGTH or (last_delta | count | base_offset) < 0:
                parse_header(log, start)  # raises, and says what is wrong
            batch: BatchHeader = tuple.__new__(BatchHeader, fields)
            position = start + BATCH_HEADER_BYTES
            log_position = end = start + LOG_OVERHEAD_BYTES + size
            if end > log_end:
                raise CorruptBatch(f"batch at {start} is cut off: {log_end - start} of {end - start} bytes")
            if check_crc and crc32c(log[start + CRC_START : end]) != crc:
                verify_crc(log, start, batch)
            data = log
            if attributes & COMPRESSION_MASK and count:
                data = inflate(attributes & COMPRESSION_MASK, memoryview(log)[position:end], max_inflated_bytes)
                position, end = 0, len(data)
            if count * MIN_RECORD_BYTES > end - position:
                raise CorruptBatch(f"batch at {start} claims {count} records in {end - position} bytes")
            previous_delta = -1
            for _ in range(count):
                raw = data[position]
                if not raw & 0x81:
                    position += 1
                    size = raw >> 1
                elif not raw & 1 and (high := data[position + 1]) < 0x80:
                    position += 2
                    size = raw >> 1 & 0x3F | high << 6
                else:
                    size, position = read_varint(data, position)
                record_end = position + size
                if size < MIN_RECORD_BYTES - 1 or record_end > end:
                    raise CorruptBatch(f"record at {position} has length {size} where {end - position} bytes remain")
                # The byte at `position` holds the record's attributes: unused, and Kafka ignores them.
                raw, high = data[position + 1], data[position + 2]
                if not (raw | high) & 0x81:
                    timestamp, delta = base_timestamp + (raw >> 1), high >> 1
                    position += 3
                elif not raw & 0x81 and not high & 1 and (higher := data[position + 3]) < 0x80:
                    timestamp, delta = base_timestamp + (raw >> 1), high >> 1 & 0x3F | higher << 6
                    position += 4
                else:
                    delta, position = read_varlong(data, position + 1)
                    timestamp = base_timestamp + delta
                    delta, position = read_varint(data, position)
                if not previous_delta < delta <= last_delta:
                    raise CorruptBatch(f"record at {position} has offset delta {delta} after {previous_delta}")
                previous_delta = delta
                raw = data[position]
                if not raw & 0x81:
                    key: bytes | None = data[position + 1 : (position := position + 1 + (raw >> 1))]
                else:
                    key, position = _read_bytes(data, position, record_end, "key")
                raw = data[position]
                if not raw & 0x81:
                    value: bytes | None = data[position + 1 : (position := position + 1 + (raw >> 1))]
                elif not raw & 1 and (high := data[position + 1]) < 0x80:
                    value = data[position + 2 : (position := position + 2 + (raw >> 1 & 0x3F | high << 6))]
                else:
                    value, position = _read_bytes(data, position, record_end, "value")
                headers: Headers | bytes = ()
                if data[position] == 0:
                    position += 1
                elif header_mode == PARSED:
                    headers, position = _read_headers(data, position, record_end)
                elif position < record_end:
                    if header_mode == PACKED:
                        headers = data[position:record_end]
                    position = record_end
                if position != record_end:
                    raise CorruptBatch(f"record fields end at {position}, the record's length says {record_end}")
                if attributes & LOG_APPEND_TIME:
                    timestamp = append_time
                yield batch, base_offset + delta, timestamp, key, value, headers
            if position != end:
                raise CorruptBatch(f"{end - position} bytes follow the last of {count} records")
    except IndexError:
        raise CorruptBatch("a record is cut off") from None


def _read_bytes(data: bytes, position: int, end: int, what: str) -> tuple[bytes | None, int]:
    """A length and as many bytes, or None for -1; and the position behind them."""
    size, position = read_varint(data, position)
    if size == -1:
        return None, position
    if size < 0 or position + size > end:
        raise CorruptBatch(f"record has {what} length {size} where {end - position} bytes remain")
    return data[position : position + size], position + size


def _read_headers(data: bytes, position: int, end: int) -> tuple[Headers, int]:
    count, position = read_varint(data, position)
    if count < 0 or count * MIN_HEADER_BYTES > end - position:
        raise CorruptBatch(f"record claims {count} headers in {end - position} bytes")
    if count > MAX_PARSED_HEADERS:
        raise CorruptBatch(f"record has {count} headers; no more than {MAX_PARSED_HEADERS} are read")
    headers = []
    for _ in range(count):
        raw = data[position]
        if not raw & 0x81:
            key = data[position + 1 : (position := position + 1 + (raw >> 1))]
        else:
            long_key, position = _read_bytes(data, position, end, "header key")
            if long_key is None:
                raise CorruptBatch("record has a header without key")
            key = long_key
        raw = data[position]
        if not raw & 0x81:
            value: bytes | None = data[position + 1 : (position := position + 1 + (raw >> 1))]
        else:
            value, position = _read_bytes(data, position, end, "header value")
        headers.append((key, value))
        if position > end:
            raise CorruptBatch(f"record headers end at {position}, the record ends at {end}")
    return tuple(headers), position


def parse_marker(key: bytes | None, value: bytes | None) -> EndTransactionMarker | None:
    """The marker in the record of a control batch; None for control records that end no transaction."""
    if key is None or len(key) < _TWO_INT16.size:
        raise CorruptBatch("a control record has no type in its key")
    version, kind = _TWO_INT16.unpack_from(key)
    if version < 0:
        raise CorruptBatch(f"a control record has key version {version}")
    if kind not in (ABORT, COMMIT):
        return None
    if value is None or len(value) < _MARKER_VALUE.size:
        raise CorruptBatch("an end-of-transaction marker has no coordinator epoch")
    version, coordinator_epoch = _MARKER_VALUE.unpack_from(value)
    if version < 0:
        raise CorruptBatch(f"an end-of-transaction marker has version {version}")
    return EndTransactionMarker(kind == COMMIT, coordinator_epoch)


ABORT: Final = 0
COMMIT: Final = 1


# --- building -------------------------------------------------------------------------------------


def build_batch(
    records: Iterable[NewRecord],
    *,
    timestamp: int,
    base_offset: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = 0,
    compression: int = 0,
    log_append_time: bool = False,
) -> bytes:
    """A batch of (key, value) or (key, value, headers) with consecutive offsets, all at one timestamp."""
    body = bytearray()
    count = 0
    for record in records:
        body += _encode_record(0, count, record[0], record[1], record[2] if len(record) == 3 else ())
        count += 1
    if not count:
        raise ValueError("a new batch needs at least one record")
    attributes = (
        compression
        | (LOG_APPEND_TIME if log_append_time else 0)
        | (TRANSACTIONAL if transactional else 0)
        | (CONTROL if control else 0)
    )
    return _assemble(
        compress(compression, body) if compression else body,
        base_offset, leader_epoch, attributes, count - 1, timestamp, timestamp,
        producer_id, producer_epoch, base_sequence, count,
    )  # fmt: skip


def rebuild_batch(
    like: BatchHeader, records: Iterable[Record | PackedRecord], *, delete_horizon_ms: int | None = None
) -> bytes:
    """The batch `like` with only `records` left in it: offsets, producer, epoch and compression stay.

    Without records the 61 bytes of the header remain; they keep the end offset and the last sequence.
    """
    attributes = like.attributes
    if delete_horizon_ms is None:
        delete_horizon_ms = like.delete_horizon_ms
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON
    base_timestamp, max_timestamp = delete_horizon_ms, NO_TIMESTAMP
    body, count = bytearray(), 0
    for offset, timestamp, key, value, headers in records:
        if base_timestamp is None:
            base_timestamp = timestamp
        max_timestamp = max(max_timestamp, timestamp)
        body += _encode_record(timestamp - base_timestamp, offset - like.base_offset, key, value, headers)
        count += 1
    if count == 0:
        attributes &= ~(COMPRESSION_MASK | DELETE_HORIZON)
        base_timestamp, max_timestamp = NO_TIMESTAMP, like.max_timestamp
    assert base_timestamp is not None
    compression = attributes & COMPRESSION_MASK
    return _assemble(
        compress(compression, body) if compression else body,
        like.base_offset, like.partition_leader_epoch, attributes, like.last_offset_delta,
        base_timestamp, max_timestamp,
        like.producer_id, like.producer_epoch, like.base_sequence, count,
    )  # fmt: skip


def build_marker(
    commit: bool, *, producer_id: int, producer_epoch: int, coordinator_epoch: int, timestamp: int,
    base_offset: int = 0, leader_epoch: int = 0,
) -> bytes:  # fmt: skip
    """The control batch that ends a producer's transaction in a partition."""
    key = _TWO_INT16.pack(0, COMMIT if commit else ABORT)
    return build_batch(
        [(key, _MARKER_VALUE.pack(0, coordinator_epoch))],
        timestamp=timestamp, base_offset=base_offset, producer_id=producer_id, producer_epoch=producer_epoch,
        transactional=True, control=True, leader_epoch=leader_epoch,
    )  # fmt: skip


def with_base_offset(data: bytearray, base_offset: int, leader_epoch: int, position: int = 0) -> None:
    """Give the finished batch at `position` its place in a log, in place. The CRC covers neither field."""
    _BASE_OFFSET.pack_into(data, position + BASE_OFFSET_AT, base_offset)
    _LEADER_EPOCH.pack_into(data, position + LEADER_EPOCH_AT, leader_epoch)


def with_max_timestamp(
    data: bytearray, position: int, header: BatchHeader, attributes: int, max_timestamp: int
) -> BatchHeader:
    """Give the batch at `position` these attributes and this greatest timestamp, in place, and the CRC that follows."""
    _ATTRIBUTES.pack_into(data, position + ATTRIBUTES_AT, attributes)
    _MAX_TIMESTAMP.pack_into(data, position + MAX_TIMESTAMP_AT, max_timestamp)
    crc = crc32c(memoryview(data)[position + CRC_START : position + header.size_bytes])
    _CRC.pack_into(data, position + CRC_AT, crc)
    return header._replace(attributes=attributes, max_timestamp=max_timestamp, crc=crc)


def encode_record(offset_delta: int, key: bytes, value: bytes | None, headers: bytes) -> bytes:
    """A record of a batch with a single timestamp; `headers` are packed already. For writers of many like records."""
    key_size = len(key)
    record = (
        b"\0\0"
        + (SMALL_VARINTS[offset_delta] if offset_delta < 1024 else encode_varint(offset_delta))
        + (SMALL_VARINTS[key_size] if key_size < 1024 else encode_varint(key_size))
        + key
        + _encode_bytes(value)
        + headers
    )
    size = len(record)
    return (SMALL_VARINTS[size] if size < 1024 else encode_varint(size)) + record


def encode_fields(key: bytes, value: bytes, headers: bytes) -> bytes:
    """The part of a record behind its offset delta. For writers who do not know yet where in a batch it will stand."""
    key_size, value_size = len(key), len(value)
    return (
        (SMALL_VARINTS[key_size] if key_size < 1024 else encode_varint(key_size))
        + key
        + (SMALL_VARINTS[value_size] if value_size < 1024 else encode_varint(value_size))
        + value
        + headers
    )


def place_record(offset_delta: int, fields: bytes) -> bytes:
    """The whole record around what `encode_fields` made."""
    start = b"\0\0" + (SMALL_VARINTS[offset_delta] if offset_delta < 1024 else encode_varint(offset_delta))
    size = len(start) + len(fields)
    return (SMALL_VARINTS[size] if size < 1024 else encode_varint(size)) + start + fields


def place_records(fields: Sequence[bytes]) -> bytes | None:
    """The same for all records of a batch, one behind the other. None if a record is long, or they are many or none."""
    count = len(fields)
    if not 0 < count <= 1024 or max(map(len, fields)) > 1000:
        return None
    short, long = fields[:_ONE_BYTE_DELTAS], fields[_ONE_BYTE_DELTAS:]
    small = SMALL_VARINTS
    placed = [small[3 + len(each)] + b"\0\0" + small[delta] + each for delta, each in enumerate(short)]
    placed += [small[4 + len(each)] + b"\0\0" + small[delta] + each for delta, each in enumerate(long, len(short))]
    return b"".join(placed)


def build_encoded(body: bytes, count: int, timestamp: int, base_offset: int, base_sequence: int) -> bytes:
    """A batch of `count` records that `encode_record` has packed."""
    return with_crc(_CRC_COVERED_HEADER.pack(*covered_fields(count, timestamp, base_sequence)) + body, base_offset)


def build_transactional(
    body: bytes, count: int, timestamp: int, base_offset: int, base_sequence: int, producer_id: int, producer_epoch: int
) -> bytes:
    """As `build_encoded`, for records of a transaction."""
    fields = TRANSACTIONAL, count - 1, timestamp, timestamp, producer_id, producer_epoch, base_sequence, count
    return with_crc(_CRC_COVERED_HEADER.pack(*fields) + body, base_offset)


def covered_fields(count: int, timestamp: int, base_sequence: int) -> list[int]:
    """The header fields that the CRC covers, of a batch without a producer. Base and max timestamp are at 2 and 3."""
    return [0, count - 1, timestamp, timestamp, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, base_sequence, count]


def with_crc(covered: bytes, base_offset: int, leader_epoch: int = 0) -> bytes:
    """The whole batch around what the CRC covers, which is the header's second part and the records."""
    length = len(covered) + CRC_START - LOG_OVERHEAD_BYTES
    return _OUTSIDE_CRC.pack(base_offset, length, leader_epoch, MAGIC, crc32c(covered)) + covered


def _encode_record(
    timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes | None, headers: Headers | bytes
) -> bytes:
    """The record with its length in front; a fixed number of joins, since most records have no headers."""
    record = (
        b"\0"
        + (encode_varint(timestamp_delta) if timestamp_delta else b"\0")
        + (SMALL_VARINTS[offset_delta] if offset_delta < 1024 else encode_varint(offset_delta))
        + _encode_bytes(key)
        + _encode_bytes(value)
        + ((headers if isinstance(headers, bytes) else encode_headers(headers)) if headers else NO_HEADERS)
    )
    size = len(record)
    return (SMALL_VARINTS[size] if size < 1024 else encode_varint(size)) + record


def _encode_bytes(field: bytes | None) -> bytes:
    if field is None:
        return b"\x01"  # the varint -1
    size = len(field)
    return (SMALL_VARINTS[size] if size < 1024 else encode_varint(size)) + field


def encode_headers(headers: Headers) -> bytes:
    if not headers:
        return NO_HEADERS
    encoded = encode_varint(len(headers))
    for name, value in headers:
        encoded += _encode_bytes(name) + _encode_bytes(value)
    return encoded


def _assemble(
    body: Buffer, base_offset: int, leader_epoch: int, attributes: int, last_offset_delta: int,
    base_timestamp: int, max_timestamp: int,
    producer_id: int, producer_epoch: int, base_sequence: int, count: int,
) -> bytes:  # fmt: skip
    covered = (
        _CRC_COVERED_HEADER.pack(
            attributes, last_offset_delta, base_timestamp, max_timestamp,
            producer_id, producer_epoch, base_sequence, count,
        )
        + body
    )  # fmt: skip
    return with_crc(covered, base_offset, leader_epoch)
