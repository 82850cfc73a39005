"""The stream of bytes becomes frames, however it was cut."""

from __future__ import annotations

import random
import tracemalloc
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.protocol.errors import MalformedMessage
from kohort.protocol.frames import LARGE_FRAME_BYTES, MIN_REQUEST_BYTES, FrameSplitter, framed

BODIES = st.lists(st.binary(min_size=MIN_REQUEST_BYTES, max_size=300), max_size=12)


@settings(deadline=None)  # the machine may be busy
@given(BODIES, st.randoms(use_true_random=False))
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(bodies: list[bytes], rng: random.Random) -> None:
    stream = b"".join(framed(body) for body in bodies)
    splitter = FrameSplitter(max_bytes=1000)
    out: list[bytes] = []
    while stream:
        size = rng.randrange(1, 40)
        out += splitter.frames(stream[:size])
        stream = stream[size:]
    assert out == bodies
    assert splitter.rest == b""


def test_a_frame_waits_for_its_last_byte() -> None:
    splitter = FrameSplitter(max_bytes=100)
    whole = framed(b"12345678")
    assert list(splitter.frames(whole[:-1])) == []
    assert len(splitter.rest) == 11
    assert list(splitter.frames(whole[-1:])) == [b"12345678"]


@pytest.mark.parametrize("length", [-1, -(2**31), 0, MIN_REQUEST_BYTES - 1, 101, 2**31 - 1])
def test_a_length_that_cannot_be_is_refused_as_soon_as_it_is_there(length: int) -> None:
    splitter = FrameSplitter(max_bytes=100)
    assert list(splitter.frames(pack(">i", length)[:3])) == []
    with pytest.raises(MalformedMessage, match=r"socket\.request\.max\.bytes"):
        list(splitter.frames(pack(">i", length)[3:]))


def test_frames_before_a_bad_length_are_still_given() -> None:
    frames = FrameSplitter(max_bytes=100).frames(framed(b"12345678") + b"\xff\xff\xff\xff")
    assert next(frames) == b"12345678"
    with pytest.raises(MalformedMessage):
        next(frames)


def test_the_greatest_length_is_allowed() -> None:
    assert list(FrameSplitter(max_bytes=100).frames(framed(bytes(100)))) == [bytes(100)]


def test_a_frame_may_be_put_together_from_parts() -> None:
    assert framed(b"ab", b"", b"c") == b"\x00\x00\x00\x03abc"


def test_a_frame_is_bytes_of_its_own() -> None:
    """Decoders keep slices of it, so it must not change when the buffer does."""
    splitter = FrameSplitter(max_bytes=100)
    (first,) = splitter.frames(framed(b"first one"))
    list(splitter.frames(framed(b"second one")))
    assert type(first) is bytes
    assert first == b"first one"


def parts(stream: bytes, size: int) -> list[bytes]:
    return [stream[at : at + size] for at in range(0, len(stream), size)]


@pytest.mark.parametrize("size", [65_536, 65_537, 7_000_000])
def test_large_and_small_frames_come_out_as_they_went_in(size: int) -> None:
    rng = random.Random(5)
    bodies = [rng.randbytes(length) for length in (10, LARGE_FRAME_BYTES + 1, 3 * LARGE_FRAME_BYTES, 9, 5_000_000, 8)]
    splitter = FrameSplitter(10_000_000)
    out = [frame for part in parts(b"".join(map(framed, bodies)), size) for frame in splitter.frames(part)]
    assert out == bodies
    assert not splitter.rest


def test_a_large_frame_in_single_bytes_at_its_start() -> None:
    body = bytes(LARGE_FRAME_BYTES + 1)
    stream = framed(body)
    splitter = FrameSplitter(10_000_000)
    out = [frame for part in (*parts(stream[:9], 1), stream[9:]) for frame in splitter.frames(part)]
    assert out == [body]


def test_a_large_frame_takes_memory_for_what_has_arrived_and_is_not_copied() -> None:
    part = bytes(65_536)
    length = 320 * len(part)
    splitter = FrameSplitter(100_000_000)
    tracemalloc.start()
    try:
        assert list(splitter.frames(pack(">i", length) + part[:100])) == []
        assert tracemalloc.get_traced_memory()[0] < 10_000
        for _ in range(20):
            assert list(splitter.frames(part)) == []
        assert tracemalloc.get_traced_memory()[1] < 1.3 * 21 * len(part)
        (frame,) = [frame for each in [*[part] * 299, part[100:]] for frame in splitter.frames(each)]
        assert len(frame) == length
        assert tracemalloc.get_traced_memory()[1] < 1.3 * length
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("body", "most"), [(b"\0\1" + bytes(6), 2_000_000), (bytes(8), 3_000_000)])
def test_only_produce_may_be_larger_than_the_others(body: bytes, most: int) -> None:
    assert list(FrameSplitter(3_000_000, 2_000_000).frames(pack(">i", most) + body)) == []
    with pytest.raises(MalformedMessage):
        list(FrameSplitter(3_000_000, 2_000_000).frames(pack(">i", most + 1) + body[:2]))
