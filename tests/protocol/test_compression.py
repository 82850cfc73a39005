"""Every compression type, as real clients write it, and as an attacker who wants our memory writes it."""

import random
import subprocess
import sys
import zlib
from pathlib import Path
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.protocol.compression import COMPRESSION_NAMES, GZIP, LZ4, SNAPPY, XERIAL_MAGIC, ZSTD, compress, inflate
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.record_batch import build_batch, read_records, scan_records, validate_batch

BATCHES = Path(__file__).parent.parent / "data" / "batches"
CODECS = (GZIP, SNAPPY, LZ4, ZSTD)
MIB = 1024 * 1024


@pytest.mark.parametrize("client", ["java", "librdkafka"])
@pytest.mark.parametrize("codec", COMPRESSION_NAMES)
def test_batches_of_real_clients_are_read(codec: str, client: str) -> None:
    log = (BATCHES / f"{codec}-{client}.bin").read_bytes()
    records = list(scan_records(log))
    assert {COMPRESSION_NAMES[batch.compression] for batch, *_ in records} == {codec}
    headers = ((b"who", b"test"), (b"none", None)) if client == "librdkafka" else ((b"who", b"test"),)
    want = [(n, b"key-%d" % n, b"value-%d-" % n + b"abc" * 30, headers) for n in range(40)]
    assert [(offset, key, value, found) for _, offset, _, key, value, found in records] == want


@settings(deadline=None)
@given(st.sampled_from((0, *CODECS)), st.binary(max_size=300), st.integers(0, 2000))
def test_what_was_compressed_is_what_is_inflated(codec: int, data: bytes, times: int) -> None:
    block = compress(codec, data * times)
    assert inflate(codec, block) == data * times
    assert inflate(codec, memoryview(block)) == data * times


@pytest.mark.parametrize("codec", CODECS)
def test_the_cap_is_exact(codec: int) -> None:
    data = random.Random(1).randbytes(300_000) * 2
    block = compress(codec, data)
    assert inflate(codec, block, len(data)) == data
    with pytest.raises(MalformedMessage, match="more than 599999 bytes"):
        inflate(codec, block, len(data) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_a_block_cut_anywhere_gives_an_error_or_less_but_never_other_bytes(codec: int) -> None:
    data = b"".join(b"%d," % n for n in range(300))
    block = compress(codec, data)
    for size in range(len(block)):
        try:
            assert data.startswith(inflate(codec, block[:size]))
        except MalformedMessage:
            continue


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_bytes_behind_the_stream_are_refused(codec: int) -> None:
    with pytest.raises(MalformedMessage):
        inflate(codec, compress(codec, b"abc") + b"more")
    with pytest.raises(MalformedMessage):
        inflate(codec, compress(codec, bytes(100_000)) + b"m" * 100_000)
    with pytest.raises(MalformedMessage):  # more than one piece before them
        inflate(codec, compress(codec, bytes(1_000_000)) + b"more")


@settings(deadline=None)
@given(st.sampled_from(CODECS), st.binary(max_size=200))
def test_noise_is_refused(codec: int, noise: bytes) -> None:
    try:
        inflate(codec, noise, 10_000)
    except MalformedMessage:
        return


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_unknown_compression_types_are_refused(codec: int) -> None:
    with pytest.raises(MalformedMessage, match="unknown"):
        inflate(codec, b"abc")


def test_a_batch_of_an_unknown_compression_type_is_refused() -> None:
    batch = bytearray(build_batch([(b"k", b"v")], timestamp=1))
    batch[22] = 7
    with pytest.raises(MalformedMessage, match="type 7"):
        list(read_records(batch))


@pytest.mark.parametrize(
    "chunks",
    [
        pack(">i", -1),
        pack(">i", 0),
        pack(">i", 2**31 - 1),
        b"\0\0",
        pack(">i", 6) + b"\xff\xff\xff\xff\x0f\0",
    ],
)
def test_a_snappy_stream_with_a_wrong_chunk_is_refused(chunks: bytes) -> None:
    with pytest.raises(MalformedMessage, match="snappy"):
        inflate(SNAPPY, XERIAL_MAGIC + pack(">ii", 1, 1) + chunks)


def test_a_raw_snappy_block_that_claims_four_gigabytes_is_refused_unread() -> None:
    with pytest.raises(MalformedMessage, match="more than"):
        inflate(SNAPPY, b"\xff\xff\xff\xff\x0f" + b"a" * 100)
    with pytest.raises(MalformedMessage, match="cannot hold"):
        inflate(SNAPPY, b"\x80\x80\x80\x08" + b"a" * 100)


def test_a_gzip_bomb_inside_a_batch_is_defused() -> None:
    batch = build_batch([(b"k", bytes(40 * MIB))], timestamp=1, compression=GZIP)
    assert len(batch) < 100_000
    validate_batch(batch)
    with pytest.raises(MalformedMessage, match="more than 1048576 bytes"):
        list(read_records(batch, max_inflated_bytes=MIB))


def the_bomb(codec: int) -> bytes:
    """256 MiB of zeros; where the format allows it without ever holding them in memory."""
    zeros = bytes(4 * MIB)
    if codec == GZIP:
        gzip = zlib.compressobj(wbits=31)
        return b"".join(gzip.compress(zeros) for _ in range(64)) + gzip.flush()
    if codec == SNAPPY:
        chunk = compress(SNAPPY, zeros)
        return chunk + chunk[16:] * 63
    if codec == LZ4:
        import lz4.frame

        lz4_frame = lz4.frame.LZ4FrameCompressor(block_linked=False)
        start: bytes = lz4_frame.begin()
        blocks: bytes = b"".join(lz4_frame.compress(zeros) for _ in range(64))
        return start + blocks + bytes(lz4_frame.flush())
    import zstandard

    stream = zstandard.ZstdCompressor().compressobj()
    return b"".join(stream.compress(zeros) for _ in range(64)) + stream.flush()


def peak_bytes() -> int:
    """The most memory this process ever had. getrusage would count its parent's before the exec, too."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def explode(codec: int, cap_bytes: int) -> int:
    """How many bytes the peak of this process' memory grows when a bomb is read."""
    bomb = the_bomb(codec)
    assert inflate(codec, compress(codec, b"warm"), 10) == b"warm"
    before_bytes = peak_bytes()
    try:
        inflate(codec, bomb, cap_bytes)
    except MalformedMessage:
        return peak_bytes() - before_bytes
    raise AssertionError("the bomb went off")


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of resident memory from /proc")
@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_costs_no_more_memory_than_the_cap(codec: int) -> None:
    """In a process of its own, so that the peak is the bomb's."""
    cap_bytes = 32 * MIB
    code = f"from tests.protocol.test_compression import explode; print(explode({codec}, {cap_bytes}))"
    root = Path(__file__).parent.parent.parent
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert int(done.stdout) < cap_bytes + 16 * MIB
