"""Damaged and malicious record batches: any bytes are read, or raise CorruptBatch or MalformedMessage, soon."""

import random
import tracemalloc
from struct import pack_into

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.protocol.errors import MalformedMessage
from kohort.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    CorruptBatch,
    build_batch,
    build_encoded,
    parse_header,
    read_packed_records,
    read_records,
    scan_records,
    validate_batch,
)
from kohort.protocol.varint import encode_varint, read_varint, read_varlong

BATCH = build_batch([(b"key", b"value", ((b"h", b"x"),)), (None, None), (b"k", b"v" * 200)], timestamp=1000)


def a_batch_with(records: bytes, count: int = 1, last_offset_delta: int = 0) -> bytes:
    """A batch whose CRC is right and whose records are `records`, whatever these are."""
    batch = bytearray(BATCH[:BATCH_HEADER_BYTES] + records)
    pack_into(">i", batch, 8, len(batch) - 12)
    pack_into(">i", batch, 23, last_offset_delta)
    pack_into(">i", batch, 57, count)
    pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return bytes(batch)


def sealed(batch: bytearray) -> bytes:
    pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return bytes(batch)


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ("", "claims 1 records"),
        ("0e 00 00 00 01 01 00 00", "fields end"),  # longer than its fields
        ("0a 00 00 00 01 01 00", "length 5"),  # shorter than any record
        ("01 00 00 00 01 01 00", "length -1"),
        ("7e 00 00 00 01 01 00", "length 63"),  # longer than the batch
        ("0c 00 00 02 01 01 00", "offset delta 1"),  # beyond the last offset
        ("0c 00 00 01 01 01 00", "offset delta -1"),
        ("0c 00 00 00 03 01 00", "key length -2"),
        ("0c 00 00 00 01 03 00", "value length -2"),
        ("0c 00 00 00 7e 01 00", "cut off"),  # key beyond the end
        ("0c 00 00 00 01 7e 00", "cut off"),
        ("0c 00 00 00 01 01 02", "claims 1 headers"),
        ("0c 00 00 00 01 01 01", "claims -1 headers"),
        ("10 00 00 00 01 01 02 01 00", "without key"),
        ("10 00 00 00 01 01 02 00 03", "value length -2"),
        ("10 00 00 00 01 01 02 7e 00", "cut off"),
        ("0c 00 00 00 01 01 00 00", "1 bytes follow"),
        ("ff ff ff ff ff ff 00 00", "longer than 5 bytes"),
        ("ff ff ff ff 7f 00 00 00", "does not fit 32 bits"),
        ("20 00 ff ff ff ff ff ff ff ff ff ff 01 00 00 01 01 00", "longer than 10 bytes"),
    ],
)
def test_records_that_do_not_add_up_are_refused(records: str, says: str) -> None:
    batch = a_batch_with(bytes.fromhex(records))
    validate_batch(batch)
    with pytest.raises(MalformedMessage, match=says):
        list(read_records(batch))


def test_the_smallest_record_is_accepted() -> None:
    [record] = read_records(a_batch_with(bytes.fromhex("0c 00 00 00 01 01 00")))
    assert (record.key, record.value) == (None, None)


def test_offsets_inside_a_batch_must_rise() -> None:
    twice = bytes.fromhex("0c 00 00 02 01 01 00") * 2
    with pytest.raises(CorruptBatch, match="offset delta 1 after 1"):
        list(read_records(a_batch_with(twice, count=2, last_offset_delta=5)))


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_a_batch_length_below_the_header_is_refused(length: int) -> None:
    batch = bytearray(BATCH)
    pack_into(">i", batch, 8, length)
    with pytest.raises(CorruptBatch, match="length"):
        parse_header(batch)
    with pytest.raises(CorruptBatch, match="length"):
        list(scan_records(bytes(batch)))


@pytest.mark.parametrize(("at", "field"), [(0, "q"), (23, "i"), (57, "i")])
def test_negative_offsets_and_counts_are_refused(at: int, field: str) -> None:
    batch = bytearray(BATCH)
    pack_into(">" + field, batch, at, -1)
    with pytest.raises(CorruptBatch, match="negative"):
        parse_header(sealed(batch))


@pytest.mark.parametrize("magic", [0, 1, 3, 127])
def test_other_versions_are_refused(magic: int) -> None:
    batch = bytearray(BATCH)
    batch[16] = magic
    with pytest.raises(CorruptBatch, match="magic"):
        parse_header(batch)


def test_more_records_than_offsets_are_refused() -> None:
    with pytest.raises(CorruptBatch, match="3 records in 2 offsets"):
        validate_batch(a_batch_with(BATCH[BATCH_HEADER_BYTES:], count=3, last_offset_delta=1))


def test_a_batch_cut_at_any_byte_is_refused() -> None:
    for size in range(len(BATCH)):
        with pytest.raises(CorruptBatch):
            validate_batch(BATCH[:size])
        if size:
            with pytest.raises(CorruptBatch):
                list(scan_records(BATCH[:size]))


def test_every_single_flipped_bit_is_noticed_or_lies_outside_the_checksum() -> None:
    for at in range(len(BATCH) * 8):
        batch = bytearray(BATCH)
        batch[at // 8] ^= 1 << at % 8
        if at // 8 < 8 or 12 <= at // 8 < 16:  # base offset and leader epoch
            continue
        with pytest.raises(CorruptBatch):
            validate_batch(batch)


def test_a_count_of_two_thousand_million_records_is_refused_before_any_is_made() -> None:
    batch = a_batch_with(b"\0" * 100, count=2**31 - 1, last_offset_delta=2**31 - 1)
    with pytest.raises(CorruptBatch, match="claims"):
        list(read_records(batch))


def test_a_million_headers_in_a_small_record_are_refused() -> None:
    body = b"\0\0\0\1\1" + encode_varint(1_000_000) + b"\0" * 64
    with pytest.raises(CorruptBatch, match="claims 1000000 headers"):
        list(read_records(a_batch_with(encode_varint(len(body)) + body)))


def test_tiny_records_are_read_one_at_a_time() -> None:
    count = 100_000
    tiny = b"".join(
        encode_varint(5 + len(delta)) + b"\0\0" + delta + b"\1\1\0" for delta in map(encode_varint, range(count))
    )
    batch = a_batch_with(tiny, count=count, last_offset_delta=count - 1)
    tracemalloc.start()
    try:
        seen = sum(1 for _ in read_records(batch))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert seen == count
    assert peak_bytes < len(batch)


def test_a_megabyte_of_0xff_is_refused_at_its_fifth_byte() -> None:
    endless = b"\xff" * 1_000_000
    with pytest.raises(MalformedMessage, match="longer than 5"):
        read_varint(endless, 0)
    with pytest.raises(MalformedMessage, match="longer than 10"):
        read_varlong(endless, 0)
    with pytest.raises(MalformedMessage, match="cut off"):
        read_varint(b"\xff\xff", 0)
    with pytest.raises(MalformedMessage):
        list(read_records(a_batch_with(endless)))


@settings(deadline=None)
@given(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=3))
def test_an_int32_survives_its_varint(value: int, before: bytes) -> None:
    encoded = encode_varint(value)
    assert len(encoded) <= 5
    assert read_varint(before + encoded, len(before)) == (value, len(before) + len(encoded))


@settings(deadline=None)
@given(st.integers(-(2**63), 2**63 - 1))
def test_an_int64_survives_its_varint(value: int) -> None:
    encoded = encode_varint(value)
    assert len(encoded) <= 10
    assert read_varlong(encoded, 0) == (value, len(encoded))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 5), st.integers(0, 4))
def test_random_records_are_read_or_refused(records: bytes, count: int, compression: int) -> None:
    batch = bytearray(a_batch_with(records, count=count, last_offset_delta=9))
    batch[22] = compression
    try:
        list(read_records(sealed(batch)))
    except MalformedMessage:
        return


@pytest.mark.parametrize("compression", [0, 1, 2, 3, 4])
def test_mutated_batches_are_read_or_refused(compression: int) -> None:
    """The checksum is made right after each mutation: it must not be all that protects the reader."""
    rng = random.Random(compression)
    records = [(b"key%d" % n, b"value" * n, ((b"h", None),)) for n in range(6)]
    original = build_batch(records, timestamp=1000, compression=compression)
    for _ in range(4_000):
        batch = bytearray(original)
        for _ in range(rng.randint(1, 4)):
            batch[rng.randrange(12, len(batch))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        del batch[rng.choice((len(batch), rng.randrange(61, len(batch)))) :]
        pack_into(">i", batch, 8, len(batch) - 12)
        try:
            list(scan_records(sealed(batch), max_inflated_bytes=100_000))
        except MalformedMessage:
            continue


def test_a_record_with_millions_of_headers_is_not_taken_apart() -> None:
    count = 1_000_001
    body = b"\0\0\0\0\0" + encode_varint(count) + b"\0\0" * count
    batch = build_encoded(encode_varint(len(body)) + body, 1, 1000, 0, -1)
    with pytest.raises(CorruptBatch, match="record has 1000001 headers; no more than 1000000 are read"):
        list(read_records(batch))
    assert [key for _, _, _, key, _, _ in scan_records(batch, with_headers=False)] == [b""]
    (packed,) = read_packed_records(batch, 0, parse_header(batch))
    assert len(packed.packed_headers) == 2 * count + 3
