"""Compression of record batches: gzip, snappy, lz4 and zstd, read with a cap on what comes out.

A batch's records are compressed as one block. Inflating goes in steps of CHUNK_BYTES and stops with
MalformedMessage as soon as the result passes the cap, so a small hostile batch costs no more memory than an
honest large one. A block is one stream, which is what every client writes; bytes after its end are refused.

Snappy comes in two shapes. Java clients write snappy-java's stream (Java and librdkafka read both):

    0x82 "SNAPPY" 0x00 | version int32 | compatible int32 | per chunk: length int32, raw snappy of <= 32 KiB

librdkafka writes a single raw snappy block. A raw block starts with its inflated size as an unsigned varint,
which is compared with the cap before anything is allocated.

The libraries are imported at first use: a broker whose clients do not compress never pays for them.
"""

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Final, TypeAlias

from kohort.protocol.errors import MalformedMessage

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
COMPRESSION_NAMES: Final = ("none", "gzip", "snappy", "lz4", "zstd")

DEFAULT_MAX_INFLATED_BYTES: Final = 64 * 1024 * 1024
CHUNK_BYTES: Final = 256 * 1024
_PIECE_BYTES: Final = 64 * 1024

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = Struct(">8sii")
_INT32: Final = Struct(">i")
_XERIAL_CHUNK_BYTES: Final = 32 * 1024
_GZIP_WINDOW_BITS: Final = 16 + zlib.MAX_WBITS  # 16: with gzip's header and trailer
_ZSTD_MAX_WINDOW_BYTES: Final = 1 << 27  # what level 22 writes; the pages of a window are only used as it fills

Bytes: TypeAlias = bytes | bytearray | memoryview


def inflate(compression: int, block: Bytes, max_inflated_bytes: int = DEFAULT_MAX_INFLATED_BYTES) -> bytes:
    """The bytes that were compressed into `block`, at most `max_inflated_bytes` of them."""
    if compression == GZIP:
        return _inflate_gzip(block, max_inflated_bytes)
    if compression == SNAPPY:
        return _inflate_snappy(block, max_inflated_bytes)
    if compression == LZ4:
        return _inflate_lz4(block, max_inflated_bytes)
    if compression == ZSTD:
        return _inflate_zstd(block, max_inflated_bytes)
    if compression == NONE:
        return bytes(block)
    raise MalformedMessage(f"compression type {compression} is unknown")


def compress(compression: int, data: bytes | bytearray) -> bytes:
    """`data` as one block that Kafka's Java clients, librdkafka and `inflate` read."""
    if compression == GZIP:
        gzip = zlib.compressobj(wbits=_GZIP_WINDOW_BITS)
        return gzip.compress(data) + gzip.flush()
    if compression == SNAPPY:
        return _compress_snappy(data)
    if compression == LZ4:
        import lz4.frame

        # Java reads frames of independent blocks only.
        frame: bytes = lz4.frame.compress(
            data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False
        )
        return frame
    if compression == ZSTD:
        import zstandard

        return zstandard.ZstdCompressor().compress(data)
    if compression == NONE:
        return bytes(data)
    raise ValueError(f"compression type {compression} is unknown")


def _inflate_gzip(block: Bytes, max_inflated_bytes: int) -> bytes:
    stream = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
    inflated = bytearray()
    try:
        for piece in _pieces(block):
            if stream.eof:
                raise MalformedMessage("gzip: bytes follow the stream")
            rest: Bytes = piece
            while rest:
                inflated += stream.decompress(rest, CHUNK_BYTES)
                _check_size("gzip", len(inflated), max_inflated_bytes)
                rest = stream.unconsumed_tail
    except zlib.error as error:
        raise MalformedMessage(f"gzip: {error}") from None
    if not stream.eof or stream.unused_data:
        raise MalformedMessage("gzip: the stream does not end where the block ends")
    return bytes(inflated)


def _inflate_lz4(block: Bytes, max_inflated_bytes: int) -> bytes:
    import lz4.frame

    stream = lz4.frame.LZ4FrameDecompressor()
    inflated = bytearray()
    try:
        for piece in _pieces(block):
            inflated += stream.decompress(piece, CHUNK_BYTES)
            while not stream.needs_input and not stream.eof:
                _check_size("lz4", len(inflated), max_inflated_bytes)
                inflated += stream.decompress(b"", CHUNK_BYTES)
            _check_size("lz4", len(inflated), max_inflated_bytes)
    except (RuntimeError, EOFError) as error:
        raise MalformedMessage(f"lz4: {error}") from None
    if not stream.eof or stream.unused_data:
        raise MalformedMessage("lz4: the frame does not end where the block ends")
    return bytes(inflated)


def _inflate_zstd(block: Bytes, max_inflated_bytes: int) -> bytes:
    import zstandard

    inflated = bytearray()
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW_BYTES)
    try:
        with decompressor.stream_reader(block, read_across_frames=True) as stream:
            while chunk := stream.read(CHUNK_BYTES):
                inflated += chunk
                _check_size("zstd", len(inflated), max_inflated_bytes)
    except zstandard.ZstdError as error:
        raise MalformedMessage(f"zstd: {error}") from None
    return bytes(inflated)


def _inflate_snappy(block: Bytes, max_inflated_bytes: int) -> bytes:
    if bytes(block[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return _inflate_raw_snappy(block, 0, max_inflated_bytes)
    inflated = bytearray()
    position = _XERIAL_HEADER.size
    while position < len(block):
        if len(block) - position < _INT32.size:
            raise MalformedMessage("snappy: the stream is cut off")
        (size,) = _INT32.unpack_from(block, position)
        position += _INT32.size
        if not 0 < size <= len(block) - position:
            raise MalformedMessage(f"snappy: chunk of {size} bytes where {len(block) - position} remain")
        chunk = block[position : position + size]
        inflated += _inflate_raw_snappy(chunk, len(inflated), max_inflated_bytes)
        position += size
    return bytes(inflated)


def _inflate_raw_snappy(block: Bytes, inflated_bytes: int, max_inflated_bytes: int) -> bytes:
    import cramjam

    declared = shift = 0
    for byte in bytes(block[:5]):
        declared |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    _check_size("snappy", inflated_bytes + declared, max_inflated_bytes)
    # Three bytes of a raw block make at most 64 bytes, so a larger claim is false, and must not allocate memory.
    if declared > len(block) * 64:
        raise MalformedMessage(f"snappy: {len(block)} bytes cannot hold the {declared} that they claim")
    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise MalformedMessage(f"snappy: {error}") from None


def _compress_snappy(data: bytes | bytearray) -> bytes:
    import cramjam

    stream = bytearray(_XERIAL_HEADER.pack(XERIAL_MAGIC, 1, 1))
    for start in range(0, len(data), _XERIAL_CHUNK_BYTES):
        chunk = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_CHUNK_BYTES]))
        stream += _INT32.pack(len(chunk)) + chunk
    return bytes(stream)


def _pieces(block: Bytes) -> Iterator[Bytes]:
    """The block in small pieces, because the libraries copy their unread input at every call."""
    for start in range(0, len(block), _PIECE_BYTES):
        yield block[start : start + _PIECE_BYTES]


def _check_size(name: str, size: int, max_inflated_bytes: int) -> None:
    if size > max_inflated_bytes:
        raise MalformedMessage(f"{name}: the records inflate to more than {max_inflated_bytes} bytes")
