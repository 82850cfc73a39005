"""Compression of record batches: gzip, snappy, lz4 and zstd, read with a cap on what comes out.

A batch's records are compressed as one block. Inflating goes in pieces of PIECE_BYTES and stops with InflatesTooFar as
soon as the result passes the cap, so a small hostile batch costs no more memory than an honest large one. A reader that
goes through the pieces one by one never has all of them in memory. Only a raw block of snappy is inflated at once, to
at most 22 times its length. A block is one stream, which is what every client writes; bytes after its end are refused.

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
PIECE_BYTES: Final = 64 * 1024
_LZ4_PIECE_BYTES: Final = 256 * 1024  # with less room, lz4 takes twice as long for a usual batch

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = Struct(">8sii")
_INT32: Final = Struct(">i")
_XERIAL_CHUNK_BYTES: Final = 32 * 1024
_GZIP_WINDOW_BITS: Final = 16 + zlib.MAX_WBITS  # 16: with gzip's header and trailer
_ZSTD_MAX_WINDOW_BYTES: Final = 1 << 27  # what level 22 writes; the pages of a window are only used as it fills

Bytes: TypeAlias = bytes | bytearray | memoryview


class CannotInflate(MalformedMessage):
    """A block that is not what its compression type says."""


class InflatesTooFar(CannotInflate):
    """A block that inflates to more bytes than the reader wants to see."""


def inflate(compression: int, block: Bytes, max_inflated_bytes: int = DEFAULT_MAX_INFLATED_BYTES) -> bytes:
    """The bytes that were compressed into `block`, at most `max_inflated_bytes` of them."""
    return b"".join(inflate_in_pieces(compression, block, max_inflated_bytes))


def inflate_in_pieces(
    compression: int, block: Bytes, max_inflated_bytes: int = DEFAULT_MAX_INFLATED_BYTES
) -> Iterator[bytes]:
    """The same piece by piece, for readers that need not have all of it at once. A piece may be empty."""
    if compression == GZIP:
        return _gzip_pieces(block, max_inflated_bytes)
    if compression == SNAPPY:
        return _snappy_pieces(block, max_inflated_bytes)
    if compression == LZ4:
        return _lz4_pieces(block, max_inflated_bytes)
    if compression == ZSTD:
        return _zstd_pieces(block, max_inflated_bytes)
    if compression == NONE:
        return _parts(block)
    raise CannotInflate(f"compression type {compression} is unknown")


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


def _gzip_pieces(block: Bytes, max_inflated_bytes: int) -> Iterator[bytes]:
    stream = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
    inflated_bytes = 0
    try:
        for part in _parts(block):
            if stream.eof:
                raise CannotInflate("gzip: bytes follow the stream")
            rest: Bytes = part
            while rest and not stream.eof:  # bytes behind the stream's end are never consumed
                piece = stream.decompress(rest, PIECE_BYTES)
                inflated_bytes += len(piece)
                _check_size("gzip", inflated_bytes, max_inflated_bytes)
                yield piece
                rest = stream.unconsumed_tail
    except zlib.error as error:
        raise CannotInflate(f"gzip: {error}") from None
    if not stream.eof or stream.unused_data:
        raise CannotInflate("gzip: the stream does not end where the block ends")


def _lz4_pieces(block: Bytes, max_inflated_bytes: int) -> Iterator[bytes]:
    import lz4.frame

    stream = lz4.frame.LZ4FrameDecompressor()
    inflated_bytes = 0
    try:
        for part in _parts(block):
            rest: Bytes = part
            while True:
                piece = stream.decompress(rest, _LZ4_PIECE_BYTES)
                inflated_bytes += len(piece)
                _check_size("lz4", inflated_bytes, max_inflated_bytes)
                yield piece
                if stream.needs_input or stream.eof:
                    break
                rest = b""
    except (RuntimeError, EOFError) as error:
        raise CannotInflate(f"lz4: {error}") from None
    if not stream.eof or stream.unused_data:
        raise CannotInflate("lz4: the frame does not end where the block ends")


def _zstd_pieces(block: Bytes, max_inflated_bytes: int) -> Iterator[bytes]:
    import zstandard

    inflated_bytes = 0
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW_BYTES)
    try:
        with decompressor.stream_reader(block, read_across_frames=True) as stream:
            while piece := stream.read(PIECE_BYTES):
                inflated_bytes += len(piece)
                _check_size("zstd", inflated_bytes, max_inflated_bytes)
                yield piece
    except zstandard.ZstdError as error:
        raise CannotInflate(f"zstd: {error}") from None


def _snappy_pieces(block: Bytes, max_inflated_bytes: int) -> Iterator[bytes]:
    if bytes(block[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        yield from _parts(_inflate_raw_snappy(block, 0, max_inflated_bytes))
        return
    inflated_bytes = 0
    position = _XERIAL_HEADER.size
    while position < len(block):
        if len(block) - position < _INT32.size:
            raise CannotInflate("snappy: the stream is cut off")
        (size,) = _INT32.unpack_from(block, position)
        position += _INT32.size
        if not 0 < size <= len(block) - position:
            raise CannotInflate(f"snappy: chunk of {size} bytes where {len(block) - position} remain")
        piece = _inflate_raw_snappy(block[position : position + size], inflated_bytes, max_inflated_bytes)
        inflated_bytes += len(piece)
        yield piece
        position += size


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
        raise CannotInflate(f"snappy: {len(block)} bytes cannot hold the {declared} that they claim")
    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CannotInflate(f"snappy: {error}") from None


def _compress_snappy(data: bytes | bytearray) -> bytes:
    import cramjam

    stream = bytearray(_XERIAL_HEADER.pack(XERIAL_MAGIC, 1, 1))
    for start in range(0, len(data), _XERIAL_CHUNK_BYTES):
        chunk = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_CHUNK_BYTES]))
        stream += _INT32.pack(len(chunk)) + chunk
    return bytes(stream)


def _parts(block: Bytes) -> Iterator[bytes]:
    """The block in small parts, because the libraries copy their unread input at every call."""
    for start in range(0, len(block), PIECE_BYTES):
        yield bytes(block[start : start + PIECE_BYTES])


def _check_size(name: str, size: int, max_inflated_bytes: int) -> None:
    if size > max_inflated_bytes:
        raise InflatesTooFar(f"{name}: the records inflate to more than {max_inflated_bytes} bytes")
