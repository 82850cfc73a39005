"""Attacks on the decoders, a test for each; test_fuzz.py has random ones.

What must hold: MalformedMessage or a clean message, nothing else; work in proportion to the frame, shown by counting
calls; peak memory, the frame included, at most 4 times the frame from 256 kB on. Attacks on record batches stand in
test_record_batch_hostile.py, on compression in test_compression.py: there is the gzip bomb.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import pack
from types import FrameType
from typing import Any

import pytest

from codegen.schema import Field, Struct
from kohort.protocol import wire
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import request_decoder, request_encoder, response_decoder, response_encoder
from kohort.protocol.errors import MalformedMessage, TooManyElements
from kohort.protocol.headers import read_request_header
from kohort.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from kohort.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from kohort.protocol.messages.heartbeat import HeartbeatRequest
from kohort.protocol.messages.metadata import MetadataRequest
from kohort.protocol.wire import MAX_STRING_BYTES, SMALL_FRAME_BYTES, LazyArray
from tests.protocol.hostile_frames import Shape, StructWriter, hostile_body
from tests.protocol.mutations import targets
from tests.protocol.random_messages import Kind, kinds

KINDS = {kind.name: kind for kind in kinds()}
NAMES = list(KINDS)
MB = 1_000_000
FLEXIBLE_NULL, FIXED_NULL = b"\0", b"\xff\xff\xff\xff"


def count_calls(decode: Callable[[bytes], Any], data: bytes) -> tuple[int, int]:
    """How many calls the decoder makes, into Python and into C, and how deep, whether it succeeds or fails."""
    calls = depth = deepest = 0

    def profiler(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal calls, depth, deepest
        if event in ("call", "c_call"):
            calls += 1
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1

    sys.setprofile(profiler)
    try:
        decode(data)
    except MalformedMessage:
        pass
    finally:
        sys.setprofile(None)
    return calls, deepest


def peak_bytes(decode: Callable[[bytes], Any], data: bytes) -> int:
    """The most memory that decoding takes beside the frame; the message stays alive until it was measured."""
    tracemalloc.start()
    try:
        message = None
        with contextlib.suppress(MalformedMessage):
            message = decode(data)
        peak = tracemalloc.get_traced_memory()[1]
        del message
        return peak
    finally:
        tracemalloc.stop()


def is_malformed(decode: Callable[[bytes], Any], data: bytes) -> bool:
    try:
        decode(data)
    except MalformedMessage:
        return True
    return False


def newest(name: str) -> tuple[Kind, int]:
    return KINDS[name], KINDS[name].versions()[-1]


# --- varints ------------------------------------------------------------------------------------------------------

HEARTBEAT = request_encoder(ApiKey.HEARTBEAT, 4)(HeartbeatRequest("g", 1, "m", None))


@pytest.mark.parametrize(
    ("api", "version", "before"),
    [
        (ApiKey.HEARTBEAT, 4, b""),  # the length of a string
        (ApiKey.HEARTBEAT, 4, HEARTBEAT[:-2]),  # of a string that may be null
        (ApiKey.METADATA, 12, b""),  # the count of an array
        (ApiKey.DELETE_GROUPS, 2, b"\x03"),  # the length of an array's string
        (ApiKey.SYNC_GROUP, 5, b"\x01\0\0\0\0\x01\0\0\0\x02\x01"),  # of bytes
        (ApiKey.LIST_TRANSACTIONS, 2, b"\x01"),  # the count of an array of integers
        (ApiKey.HEARTBEAT, 4, HEARTBEAT[:-1]),  # the count of tagged fields
        (ApiKey.HEARTBEAT, 4, HEARTBEAT[:-1] + b"\x01"),  # a tag
        (ApiKey.HEARTBEAT, 4, HEARTBEAT[:-1] + b"\x01\x05"),  # its size
    ],
)
def test_a_varint_of_a_megabyte_is_refused_after_five_bytes(api: ApiKey, version: int, before: bytes) -> None:
    decode, attack = request_decoder(api, version), before + b"\xff" * MB
    with pytest.raises(MalformedMessage, match="varint longer than 5 bytes"):
        decode(attack)
    assert count_calls(decode, attack)[0] < 40
    assert peak_bytes(decode, attack) < 10_000


def test_a_varint_of_a_megabyte_in_a_request_header_is_refused() -> None:
    header = bytes.fromhex("000c 0004 00000007 0000")
    for before in (b"", b"\x01", b"\x01\x05"):
        attack = header + before + b"\xff" * MB
        with pytest.raises(MalformedMessage):
            read_request_header(attack)
        assert count_calls(read_request_header, attack)[0] < 40


@pytest.mark.parametrize("raw", [b"\x80\x80\x80\x80\x08", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x80\x00"])
def test_a_varint_that_is_no_int32_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedMessage):
        request_decoder(ApiKey.HEARTBEAT, 4)(raw + bytes(100))


# --- every length and count of every message ----------------------------------------------------------------------


class OneBadLength(StructWriter):
    """Writes a message in which the length of one field, in its first occurrence, is what an attacker likes."""

    def __init__(self, version: int, flexible: bool, place: tuple[str, ...], length: bytes) -> None:
        super().__init__(version, flexible, Shape((1, 1, 1, 1, 1), ints=1))
        self.place = place
        self.bad_length = length
        self.path: tuple[str, ...] = ()

    def field(self, f: Field, counts: tuple[int, ...]) -> bytes:
        outer, self.path = self.path, (*self.path, f.name)
        written = self.bad_length if self.path == self.place else super().field(f, counts)
        self.path = outer
        return written


def places(struct: Struct, version: int, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Field]]:
    """Each field that has a length or a count, or may be null."""
    for f in struct.plain(version):
        here = (*path, f.name)
        inner = f.element if f.element is not None else f
        if f.type in ("string", "bytes", "records", "array"):
            yield here, f
        if inner.struct is not None:
            yield from places(inner.struct, version, (*here, inner.name) if f.element is not None else here)


def with_length(kind: Kind, version: int, place: tuple[str, ...], length: bytes) -> bytes:
    writer = OneBadLength(version, kind.message.flexible(version), place, length)
    return writer.struct(kind.message.struct, (1, 1, 1, 1, 1)) + bytes(300)


@pytest.mark.parametrize("name", NAMES)
def test_null_is_taken_where_the_schema_allows_it_and_nowhere_else(name: str) -> None:
    kind = KINDS[name]
    for version in kind.versions():
        flexible = kind.message.flexible(version)
        for place, f in places(kind.message.struct, version):
            null = FLEXIBLE_NULL if flexible else FIXED_NULL[: 2 if f.type == "string" else 4]
            refused = is_malformed(kind.decode(version), with_length(kind, version, place, null))
            assert refused != f.nullable(version), (version, place)


@pytest.mark.parametrize("name", NAMES)
def test_lengths_that_cannot_be_are_refused_in_every_field(name: str) -> None:
    """Lengths below -1, lengths beyond the frame, and the greatest possible ones."""
    kind = KINDS[name]
    for version in kind.versions():
        for place, f in places(kind.message.struct, version):
            if kind.message.flexible(version):
                lengths = [b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x08", b"\xff" * 6, b"\xff\x7f"]
            elif f.type == "string":
                lengths = [pack(">h", n) for n in (-2, -32768, 32767)]
            else:
                lengths = [pack(">i", n) for n in (-2, -(2**31), 2**31 - 1, 1_000_000)]
            for length in lengths:
                attack = with_length(kind, version, place, length)
                assert is_malformed(kind.decode(version), attack), (version, place, length)
                large = attack + bytes(SMALL_FRAME_BYTES)
                if len(length) != 2:  # 16383 bytes would be there
                    assert is_malformed(kind.decode(version), large), (version, place, length)


@pytest.mark.parametrize("name", NAMES)
def test_a_message_cut_off_anywhere_is_malformed_and_trailing_bytes_are_not(name: str) -> None:
    kind = KINDS[name]
    bodies = {target.name: target.bodies for target in targets()}
    for version in kind.versions():
        decode = kind.decode(version)
        for raw in bodies[f"{name} v{version}"][:3]:
            message = decode(raw)
            assert decode(raw + b"\xff\x00\x80" * 3) == message
            assert decode(raw + bytes(SMALL_FRAME_BYTES)) == message  # by the rules of large frames
            for size in range(len(raw)):
                assert is_malformed(decode, raw[:size]), (version, raw.hex(), size)


def test_a_compact_string_is_no_longer_than_the_log_could_keep() -> None:
    decode = request_decoder(ApiKey.HEARTBEAT, 4)
    rest = HEARTBEAT[2:]
    longest = wire.uvarint(MAX_STRING_BYTES + 1) + b"x" * MAX_STRING_BYTES + rest
    assert len(decode(longest).group_id) == 32767
    with pytest.raises(MalformedMessage, match="a string of 32768 bytes"):
        decode(wire.uvarint(MAX_STRING_BYTES + 2) + b"x" * (MAX_STRING_BYTES + 1) + rest)
    names = wire.uvarint(2) + wire.uvarint(MAX_STRING_BYTES + 2) + b"x" * (MAX_STRING_BYTES + 1) + b"\0"
    with pytest.raises(MalformedMessage, match="a string of 32768 bytes"):
        request_decoder(ApiKey.DELETE_GROUPS, 2)(names)


# --- many small things --------------------------------------------------------------------------------------------

# At once: the count of one array says it all.
REFUSED = [
    ("DeleteGroupsRequest", Shape((None,), text=b"")),  # strings of no bytes: one byte each
    ("DescribeGroupsRequest", Shape((None,), text=b"x")),
    ("ListGroupsRequest", Shape((None,), text=b"")),
    ("MetadataRequest", Shape((None,), text=b"", tags=0)),
    ("OffsetFetchRequest", Shape((1, None), text=b"")),
    ("CreateTopicsRequest", Shape((1, None), text=b"")),
    ("ShareFetchRequest", Shape((1, 1, None), text=b"")),
]

TINY = [
    *REFUSED,
    ("DescribeGroupsRequest", Shape((None,), text=b"ab")),
    ("OffsetFetchRequest", Shape((None, 8), text=b"")),
    ("OffsetFetchRequest", Shape((None, 8, 8), ints=32)),
    ("AddPartitionsToTxnRequest", Shape((8, None), text=b"")),
    ("CreateTopicsRequest", Shape((8, None), text=b"")),
    ("IncrementalAlterConfigsRequest", Shape((None, 3), text=b"")),
    ("ShareFetchRequest", Shape((8, 8, None), ints=8)),
    ("LeaveGroupRequest", Shape((None,), text=b"", tags=1)),  # one unknown tag for each element
    ("MetadataRequest", Shape((None,), tags=1)),
    ("OffsetCommitRequest", Shape((40, None), tags=1)),
    ("HeartbeatRequest", Shape((), tags=80_000)),  # nothing but tags
    ("WriteTxnMarkersRequest", Shape((20, 20), ints=160)),
    ("ListTransactionsRequest", Shape((0,), ints=32_000)),
]


def padded(body: bytes, size_bytes: int) -> bytes:
    """Trailing bytes make a frame large without making it expensive."""
    return body + bytes(max(0, size_bytes - len(body)))


def ids(cases: list[tuple[str, Shape]]) -> list[str]:
    return [f"{name}-{shape.counts}-{shape.tags}" for name, shape in cases]


@pytest.mark.parametrize(("name", "shape"), REFUSED, ids=ids(REFUSED))
@pytest.mark.parametrize("size_bytes", [20 * MB, 50 * MB])
def test_millions_of_tiny_elements_are_refused_before_they_cost_anything(
    name: str, shape: Shape, size_bytes: int
) -> None:
    kind, version = newest(name)
    attack = hostile_body(kind, version, shape, size_bytes)
    assert len(attack) > 0.99 * size_bytes
    with pytest.raises(MalformedMessage, match="more than 100000 elements"):
        kind.decode(version)(attack)
    assert count_calls(kind.decode(version), attack)[0] < 100
    assert peak_bytes(kind.decode(version), attack) < 100_000


@pytest.mark.parametrize(("name", "shape"), TINY, ids=ids(TINY))
def test_a_frame_of_tiny_elements_takes_memory_and_work_in_proportion(name: str, shape: Shape) -> None:
    kind, version = newest(name)
    decode = kind.decode(version)
    large = padded(hostile_body(kind, version, shape, 256 * 1024), 256 * 1024)
    assert peak_bytes(decode, large) <= 3 * len(large)
    small, double = (hostile_body(kind, version, shape, size) for size in (20_000, 40_000))
    calls, deepest = count_calls(decode, double)
    assert calls <= 6 * len(double)
    assert calls <= 2.2 * count_calls(decode, small)[0] + 1000
    assert deepest < 20


EAGER = [(512,), (170, 2), (60, 7), (30, 4, 3), (8, 3, 3, 3)]


@pytest.mark.parametrize("name", NAMES)
def test_the_worst_mix_of_live_objects_stays_below_four_times_the_frame(name: str) -> None:
    """As many elements as are read at once, each as fat as the schema allows, in a frame of 256 kB."""
    kind, version = newest(name)
    for counts in EAGER:
        for ints in (8, 32):
            attack = padded(hostile_body(kind, version, Shape(counts, ints=ints), 0), 256 * 1024)
            assert peak_bytes(kind.decode(version), attack) <= 3 * len(attack), (counts, ints)


@pytest.mark.parametrize("size_bytes", [MB, 10 * MB])
def test_megabytes_of_elements_within_the_budget_are_a_message_in_little_memory(size_bytes: int) -> None:
    kind, version = newest("OffsetCommitRequest")
    attack = hostile_body(kind, version, Shape((5, None), text=b"x" * (size_bytes // 100_000)), size_bytes)
    assert peak_bytes(kind.decode(version), attack) <= 3 * len(attack)
    topics = kind.decode(version)(attack).topics
    assert [len(topic.partitions) for topic in topics] == [len(topics[0].partitions)] * 5
    assert len(topics[0].partitions) > 5_000
    assert len({partition.committed_metadata for topic in topics for partition in topic.partitions}) == 1


def test_many_integers_are_kept_as_they_are_and_too_many_are_refused() -> None:
    kind, version = newest("ListTransactionsRequest")
    attack = hostile_body(kind, version, Shape((0,), ints=100_000), 0)
    assert peak_bytes(kind.decode(version), attack) <= 3 * len(attack)
    assert len(kind.decode(version)(attack).producer_id_filters) == 100_000
    with pytest.raises(TooManyElements):
        kind.decode(version)(hostile_body(kind, version, Shape((0,), ints=100_001), 0))


# --- the budget of elements ---------------------------------------------------------------------------------------


@pytest.fixture
def small_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_ELEMENTS_PER_REQUEST", 1000)


@pytest.mark.usefixtures("small_budget")
@pytest.mark.parametrize(
    ("shape", "extra"),
    [
        (Shape((1000,)), Shape((1001,))),
        (Shape((500, 1)), Shape((501, 1))),
        (Shape((1, 999)), Shape((1, 1000))),
        (Shape((90, 10)), Shape((91, 10))),
        (Shape((10, 99)), Shape((10, 100))),
        (Shape((499,), tags=1), Shape((500,), tags=1)),  # and one for the message itself
        (Shape((0,), tags=1000), Shape((0,), tags=1001)),
    ],
)
def test_elements_and_tags_at_every_depth_count_against_one_budget(shape: Shape, extra: Shape) -> None:
    kind, version = newest("OffsetCommitRequest")
    padding = bytes(SMALL_FRAME_BYTES)
    decode = kind.decode(version)
    for _ in range(3):  # the budget is the request's, not the connection's
        decode(hostile_body(kind, version, shape, 0) + padding)
        with pytest.raises(MalformedMessage, match="more than 1000 elements"):
            decode(hostile_body(kind, version, extra, 0) + padding)


@pytest.mark.usefixtures("small_budget")
def test_a_header_has_few_tags_and_an_earlier_request_does_not_count() -> None:
    kind, version = newest("OffsetCommitRequest")
    padding = bytes(SMALL_FRAME_BYTES)
    with pytest.raises(MalformedMessage):
        kind.decode(version)(hostile_body(kind, version, Shape((1001,)), 0) + padding)
    header = bytes.fromhex("000c 0004 00000007 0000")
    tags = b"\x7f\x00"
    assert read_request_header(header + wire.uvarint(127) + tags * 127 + padding)[1] == 10 + 1 + 254
    with pytest.raises(MalformedMessage, match="more than 127"):
        read_request_header(header + wire.uvarint(128) + tags * 128 + padding)
    request_decoder(ApiKey.HEARTBEAT, 4)(HEARTBEAT[:-1] + b"\x02" + tags * 2 + padding)


@pytest.mark.usefixtures("small_budget")
def test_looking_at_a_message_does_not_use_up_the_budget() -> None:
    kind, version = newest("OffsetCommitRequest")
    message = kind.decode(version)(hostile_body(kind, version, Shape((2, 490)), 0) + bytes(SMALL_FRAME_BYTES))
    for _ in range(5):
        assert sum(1 for topic in message.topics for _ in topic.partitions) == 980


# --- lazy arrays --------------------------------------------------------------------------------------------------


def a_lazy_message() -> tuple[Any, bytes]:
    """A message with lazy arrays inside a lazy array, and its bytes."""
    kind = KINDS["OffsetFetchRequest"]
    body = hostile_body(kind, 9, Shape((600, 70)), 0)
    return kind.decode(9)(body), body


def test_a_lazy_array_can_be_read_twice_nested_and_from_any_place() -> None:
    message, _ = a_lazy_message()
    groups = message.groups
    assert isinstance(groups, LazyArray)
    assert len(groups) == 600
    assert repr(groups) == "<LazyArray of 600>"
    for group in groups:
        assert isinstance(group.topics, LazyArray)
        assert len(group.topics) == 70
    first = groups[0]
    assert groups[-1] == groups[599] == first  # all alike, and compared by value
    assert [len(group.topics) for group in groups[10:13]] == [70, 70, 70]
    assert sum(1 for _ in first.topics) == sum(1 for _ in first.topics) == 70
    for index in (600, -601):
        with pytest.raises(IndexError):
            groups[index]


def test_two_readers_of_a_lazy_array_do_not_disturb_each_other() -> None:
    message, _ = a_lazy_message()
    pairs = zip(message.groups, message.groups, strict=True)
    assert sum(len(one.topics) == len(other.topics) for one, other in pairs) == 600
    outer = iter(message.groups)
    inner = iter(next(outer).topics)
    next(outer)
    assert len(list(inner)) == 70


def test_a_lazy_array_equals_whatever_holds_the_same_elements() -> None:
    message, body = a_lazy_message()
    again = request_decoder(ApiKey.OFFSET_FETCH, 9)(body)
    assert message == again
    assert message.groups == list(again.groups)
    assert message.groups == tuple(again.groups)
    assert message.groups != list(again.groups)[1:]
    assert message.groups != "groups"
    again.groups = list(again.groups)
    again.groups[599].group_id = "another"
    assert message != again


def test_a_message_with_lazy_arrays_is_encoded_to_the_bytes_it_came_from() -> None:
    message, body = a_lazy_message()
    assert request_encoder(ApiKey.OFFSET_FETCH, 9)(message) == body


def test_an_empty_array_in_a_large_frame_is_false() -> None:
    frame = request_encoder(ApiKey.METADATA, 12)(MetadataRequest([], True, False)) + bytes(SMALL_FRAME_BYTES)
    assert not request_decoder(ApiKey.METADATA, 12)(frame).topics


# --- recursion ----------------------------------------------------------------------------------------------------


def test_no_message_can_nest_deeper_than_its_schema() -> None:
    def depth(struct: Struct) -> int:
        inner = [f.struct or (f.element.struct if f.element is not None else None) for f in struct.fields]
        return 1 + max((depth(each) for each in inner if each is not None), default=0)

    assert max(depth(kind.message.struct) for kind in KINDS.values()) == 5


# --- strings that are no UTF-8 ------------------------------------------------------------------------------------

RAW_GROUPS = json.loads((Path(__file__).parent.parent / "data" / "group_partitions.json").read_text())["raw"]


@pytest.mark.parametrize("sample", RAW_GROUPS, ids=[sample["sent_hex"] or "empty" for sample in RAW_GROUPS])
def test_a_group_id_that_is_no_utf_8_reads_as_a_real_kafka_stored_it(sample: dict[str, Any]) -> None:
    raw = bytes.fromhex(sample["sent_hex"])
    for version, length in ((3, pack(">h", len(raw))), (4, wire.uvarint(len(raw) + 1))):
        whole = request_encoder(ApiKey.HEARTBEAT, version)(HeartbeatRequest("", 1, "m", None))
        frame = length + raw + whole[len(length) if version == 3 else 1 :]
        assert request_decoder(ApiKey.HEARTBEAT, version)(frame).group_id == sample["stored"]
    names = b"\x02" + wire.uvarint(len(raw) + 1) + raw + b"\0"
    assert request_decoder(ApiKey.DELETE_GROUPS, 2)(names).groups_names[0] == sample["stored"]


# --- long answers -------------------------------------------------------------------------------------------------


def test_encoding_a_long_answer_takes_little_more_memory_than_the_answer() -> None:
    """The many small pieces of it are joined now and then, and the bytes are the same."""
    found = [Coordinator(f"group-{number}", 1, "localhost", 9092) for number in range(20_000)]
    encode = response_encoder(ApiKey.FIND_COORDINATOR, 6)
    answer = encode(FindCoordinatorResponse(coordinators=found))
    assert response_decoder(ApiKey.FIND_COORDINATOR, 6)(answer).coordinators == found
    tracemalloc.start()
    try:
        encode(FindCoordinatorResponse(coordinators=found))
        assert tracemalloc.get_traced_memory()[1] < 3 * len(answer)
    finally:
        tracemalloc.stop()


def test_encoding_a_fetch_of_many_partitions_joins_what_is_between_records() -> None:
    records = memoryview(b"records")
    rows = [
        PartitionData(number, high_watermark=number, records=records if number % 5_000 == 7 else b"")
        for number in range(20_000)
    ]
    message = FetchResponse(responses=[FetchableTopicResponse("t", partitions=rows)])
    encode = response_encoder(ApiKey.FETCH, 12)
    parts = encode(message)
    assert len(parts) < 10_000
    assert [part for part in parts if isinstance(part, memoryview)] == [records] * 4
    decoded = response_decoder(ApiKey.FETCH, 12)(b"".join(parts)).responses[0].partitions
    assert [(row.high_watermark, len(row.records)) for row in decoded] == [
        (number, 7 * (number % 5_000 == 7)) for number in range(20_000)
    ]
