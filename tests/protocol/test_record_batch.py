"""Record batches against bytes that a real Kafka 4.3.1 wrote, and against each other."""

from struct import calcsize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from kohort.protocol import record_batch
from kohort.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    BatchHeader,
    CorruptBatch,
    EndTransactionMarker,
    Headers,
    NewRecord,
    Record,
    build_batch,
    build_marker,
    parse_header,
    parse_marker,
    read_records,
    rebuild_batch,
    scan_records,
    validate_batch,
    with_base_offset,
)

# An offset commit of group "orders", topic "t3", partition 0, offset 5, as a live broker wrote it.
GOLDEN = bytes.fromhex(
    "0000000000000008 00000075 00000002 02 3b5cb45a 0000 00000000 000001a1e1d047ad 000001a1e1d047ad"
    "ffffffffffffffff ffff 00000000 00000001"
    "8401 00 00 00 24 0001 0006 6f7264657273 0002 7433 00000000"
    "54 0004 0000000000000005 ffffffff 01 000001a1e1d047ab 01 00 10 944f443a5527482dbf59f9460759c28e 00"
)
GOLDEN_KEY = bytes.fromhex("0001 0006 6f7264657273 0002 7433 00000000")
COMMIT_RECORD = bytes.fromhex("20 00 00 00 08 00000001 0c 000000000000 00")
ABORT_RECORD = bytes.fromhex("20 00 00 00 08 00000000 0c 000000000000 00")

nullable_bytes = st.none() | st.binary(max_size=300)
names = st.text(max_size=30).map(str.encode)  # Kafka means them to be UTF-8
headers = st.lists(st.tuples(names, nullable_bytes), max_size=3).map(tuple)
new_records = st.lists(st.tuples(nullable_bytes, nullable_bytes, headers), min_size=1, max_size=20)
timestamps = st.integers(0, 2**60)


def test_a_batch_of_a_real_broker_is_read_field_by_field() -> None:
    header = validate_batch(GOLDEN)
    assert (header.base_offset, header.last_offset, header.next_offset) == (8, 8, 9)
    assert header.size_bytes == len(GOLDEN)
    assert (header.partition_leader_epoch, header.crc, header.base_sequence) == (2, 0x3B5CB45A, 0)
    assert (header.producer_id, header.producer_epoch, header.record_count) == (-1, -1, 1)
    assert (header.is_control, header.is_transactional, header.is_log_append_time) == (False, False, False)
    assert (header.compression, header.delete_horizon_ms) == (0, None)
    [record] = read_records(GOLDEN)
    assert (record.offset, record.timestamp, record.key) == (8, 0x1A1E1D047AD, GOLDEN_KEY)
    assert record.value is not None
    assert (len(record.value), record.headers) == (42, ())


def test_building_the_same_batch_gives_the_bytes_of_the_real_broker() -> None:
    [record] = read_records(GOLDEN)
    built = build_batch(
        [(record.key, record.value)],
        timestamp=record.timestamp,
        base_offset=8,
        leader_epoch=2,
        base_sequence=0,
    )
    assert built == GOLDEN


@pytest.mark.parametrize(("commit", "record_bytes"), [(True, COMMIT_RECORD), (False, ABORT_RECORD)])
def test_markers_are_those_of_a_real_broker(commit: bool, record_bytes: bytes) -> None:
    batch = build_marker(commit, producer_id=7, producer_epoch=3, coordinator_epoch=0, timestamp=50)
    header = validate_batch(batch)
    assert batch[BATCH_HEADER_BYTES:] == record_bytes
    assert header.attributes == 0x30
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
    [record] = read_records(batch)
    assert parse_marker(record.key, record.value) == EndTransactionMarker(commit, 0)


def test_control_records_of_other_types_end_no_transaction() -> None:
    assert parse_marker(bytes.fromhex("0000 0002"), b"leader change") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\0\0\0", b""),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0\0\0"),
        (b"\xff\xff\0\1", b"\0" * 6),
    ],
)
def test_a_broken_marker_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptBatch):
        parse_marker(key, value)


@settings(deadline=None)
@given(new_records, timestamps, st.integers(0, 2**60), st.sampled_from([0, 1, 2, 3, 4]))
def test_what_was_built_is_what_is_read(
    records: list[NewRecord], timestamp: int, base_offset: int, compression: int
) -> None:
    batch = build_batch(records, timestamp=timestamp, base_offset=base_offset, compression=compression)
    header = validate_batch(batch)
    assert (header.size_bytes, header.record_count) == (len(batch), len(records))
    assert header.last_offset == base_offset + len(records) - 1
    want = [Record(base_offset + n, timestamp, *record) for n, record in enumerate(records)]
    for form in (batch, bytearray(batch), memoryview(batch)):
        assert list(read_records(form)) == want


@settings(deadline=None)
@given(new_records, st.data())
def test_a_rebuilt_batch_keeps_offsets_times_and_producer(records: list[NewRecord], data: st.DataObject) -> None:
    batch = build_batch(
        records,
        timestamp=1000,
        base_offset=40,
        producer_id=9,
        producer_epoch=1,
        base_sequence=4,
        leader_epoch=6,
    )
    before = validate_batch(batch)
    kept = [record for record in read_records(batch) if data.draw(st.booleans())]
    horizon = data.draw(st.none() | st.integers(0, 10**13))
    rebuilt = rebuild_batch(before, kept, delete_horizon_ms=horizon)
    after = validate_batch(rebuilt)
    assert list(read_records(rebuilt)) == kept
    assert (after.base_offset, after.last_offset) == (before.base_offset, before.last_offset)
    assert after[9:12] == before[9:12]
    assert after.partition_leader_epoch == 6
    assert (after.delete_horizon_ms, after.max_timestamp) == (horizon if kept else None, 1000)


def test_an_emptied_batch_is_a_header_alone() -> None:
    before = parse_header(build_batch([(b"k", b"v")], timestamp=5, base_offset=3, compression=1))
    emptied = rebuild_batch(before, [])
    header = validate_batch(emptied)
    assert len(emptied) == BATCH_HEADER_BYTES
    assert (header.record_count, header.last_offset, header.base_timestamp, header.max_timestamp) == (
        0,
        3,
        -1,
        5,
    )
    assert list(read_records(emptied)) == []


def test_with_log_append_time_every_record_carries_the_time_of_the_append() -> None:
    batch = build_batch([(b"k", b"v")], timestamp=5, log_append_time=True)
    stamped = rebuild_batch(parse_header(batch), [Record(0, 77, b"k", b"v")])
    assert [record.timestamp for record in read_records(stamped)] == [77]


def test_offset_and_epoch_are_set_without_touching_the_checksum() -> None:
    batch = bytearray(build_batch([(b"k", b"v"), (b"l", None)], timestamp=5))
    with_base_offset(batch, 1 << 40, 12)
    header = validate_batch(batch)
    assert (header.base_offset, header.partition_leader_epoch) == (1 << 40, 12)
    assert [record.offset for record in read_records(batch)] == [1 << 40, (1 << 40) + 1]


def test_a_scan_reads_batch_after_batch_and_can_step_over_headers() -> None:
    some: Headers = ((b"member", b"m-1"), (b"cause", None))
    first = build_batch([(b"a", b"1", some), (b"b", None)], timestamp=5)
    log = first + build_batch([(b"c", b"3", some)], timestamp=6, base_offset=9, compression=1)
    read = [(batch.base_offset, *fields) for batch, *fields in scan_records(log)]
    assert read == [(0, 0, 5, b"a", b"1", some), (0, 1, 5, b"b", None, ()), (9, 9, 6, b"c", b"3", some)]
    assert [fields[-1] for fields in scan_records(log, with_headers=False)] == [(), (), ()]
    assert [fields[3] for fields in scan_records(log, len(first))] == [b"c"]


def test_a_batch_needs_a_record() -> None:
    with pytest.raises(ValueError, match="at least one"):
        build_batch([], timestamp=0)


@settings(deadline=None)
@given(new_records, timestamps, st.sampled_from([0, 1]))
def test_kafka_python_reads_what_we_build(records: list[NewRecord], timestamp: int, compression: int) -> None:
    batch = build_batch(records, timestamp=timestamp, base_offset=17, compression=compression)
    theirs = DefaultRecordBatch(batch)
    assert theirs.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value) for r in theirs] == [tuple(r)[:4] for r in read_records(batch)]


@settings(deadline=None)
@given(new_records, st.lists(timestamps, min_size=20, max_size=20), st.sampled_from([0, 1]))
def test_we_read_what_kafka_python_builds(records: list[NewRecord], times: list[int], compression: int) -> None:
    builder = DefaultRecordBatchBuilder(2, compression, True, 5, 3, 8, 1_000_000)
    for number, record in enumerate(records):
        assert builder.append(number, times[number], record[0], record[1], [])
    batch = bytes(builder.build())
    header = validate_batch(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional) == (5, 3, 8, True)
    read = [(record.offset, record.timestamp, record.key, record.value) for record in read_records(batch)]
    assert read == [(n, times[n], record[0], record[1]) for n, record in enumerate(records)]


def test_each_field_of_the_header_stands_where_its_constant_says() -> None:
    places = [
        record_batch.BASE_OFFSET_AT,
        record_batch.BATCH_LENGTH_AT,
        record_batch.LEADER_EPOCH_AT,
        record_batch.MAGIC_AT,
        record_batch.CRC_AT,
        record_batch.ATTRIBUTES_AT,
        record_batch.LAST_OFFSET_DELTA_AT,
        record_batch.BASE_TIMESTAMP_AT,
        record_batch.MAX_TIMESTAMP_AT,
        record_batch.PRODUCER_ID_AT,
        record_batch.PRODUCER_EPOCH_AT,
        record_batch.BASE_SEQUENCE_AT,
        record_batch.RECORD_COUNT_AT,
    ]
    letters = record_batch.HEADER_FORMAT
    assert places == [calcsize(f">{letters[:index]}") for index in range(len(letters))]
    assert len(letters) == len(BatchHeader._fields)
    assert calcsize(f">{letters}") == record_batch.BATCH_HEADER_BYTES
