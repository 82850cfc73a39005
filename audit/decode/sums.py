"""Checks the CRC-32C of many batches at once.

If batches are small, one call per batch costs more than the computation itself. But CRCs can be combined: the CRC of A
followed by B is the CRC of A advanced by len(B) bytes, xor the CRC of B. So the CRC of a long span of batches, computed
in one call, must be equal to the combination of the CRCs in their headers. Only if it is not, the batches of that span
are checked one by one. The 21 bytes of each header that its CRC does not cover are set to zero first, in a copy.

Advancing a CRC by n bytes is a linear function of its 32 bits. For n below 65,536 = 256 * 256 it takes two steps, each
of which looks up four bytes in a table.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from kohort.audit.decode.vector import Array
from kohort.protocol.crc32c import crc32c
from kohort.protocol.record_batch import CRC_START

SPAN_BYTES: Final = 1 << 16
SMALL_BATCH_BYTES: Final = 2048  # average size up to which combining is quicker
ZEROS: Final = np.zeros((), np.dtype((np.void, CRC_START)))
POLYNOMIAL: Final = 0x82F63B78  # of CRC-32C (Castagnoli), with its bits reversed


def sums_of(data: bytes, positions: Array, sizes: Array, claimed: Array) -> Array:
    """The CRC-32C of each batch. If the span has shown that the claimed one is right, that one is returned."""
    found = claimed.astype(np.uint32)
    if not len(positions):
        return found
    doubtful = np.ones(len(positions), np.bool_)
    if len(positions) > 16 and sizes.mean() < SMALL_BATCH_BYTES:
        doubtful = _in_wrong_spans(data, positions, sizes, found)
    places = np.flatnonzero(doubtful)
    starts = (positions[places] + CRC_START).tolist()
    ends = (positions[places] + sizes[places]).tolist()
    found[places] = np.fromiter(map(crc32c, map(data.__getitem__, map(slice, starts, ends))), np.uint32, len(places))
    return found


def _in_wrong_spans(data: bytes, positions: Array, sizes: Array, claimed: Array) -> Array:
    """Which batches are in a span whose CRC is wrong. The batches must follow each other without gaps."""
    begin, end = int(positions[0]), int(positions[-1] + sizes[-1])
    if sizes.max() >= SPAN_BYTES // 2:
        return np.ones(len(positions), np.bool_)
    ends = positions + sizes
    firsts = np.unique(np.searchsorted(positions, np.arange(begin, end, SPAN_BYTES // 2)))
    firsts = firsts[firsts < len(positions)]
    span_ends = np.append(positions[firsts[1:]], end)
    copy = np.frombuffer(data, np.uint8, end - begin, begin).copy()
    uncovered = np.ndarray((len(copy) - CRC_START + 1,), ZEROS.dtype, copy, 0, (1,))  # a view that begins at each byte
    uncovered[positions - begin] = ZEROS
    after = np.repeat(span_ends, np.diff(np.append(firsts, len(positions)))) - ends
    parts = further(claimed, after) ^ _zeroed_headers()[after + sizes - CRC_START]
    expected = np.bitwise_xor.reduceat(parts, firsts)
    zeroed = memoryview(copy)  # type: ignore[arg-type]
    bounds = zip((positions[firsts] - begin).tolist(), (span_ends - begin).tolist(), strict=True)
    actual = np.array([crc32c(zeroed[start:stop]) for start, stop in bounds], np.uint32)
    return np.repeat(expected != actual, np.diff(np.append(firsts, len(positions))))


def further(sums: Array, count: Array) -> Array:
    """Each CRC, advanced by `count` bytes (below 65,536)."""
    near, far = _tables()
    for table, steps in ((near, count & 0xFF), (far, count >> 8)):
        base = steps << 10
        sums = (
            table[base + (sums & 0xFF)]
            ^ table[base + (256 + (sums >> 8 & 0xFF))]
            ^ table[base + (512 + (sums >> 16 & 0xFF))]
            ^ table[base + (768 + (sums >> 24))]
        )
    return sums


@cache
def _tables() -> tuple[Array, Array]:
    """Tables to advance a CRC by 0 to 255 bytes, and by 0 to 255 times 256 bytes: by place and value of a byte."""
    bytes_: Array = np.arange(256, dtype=np.uint32)
    one: Array = bytes_.copy()
    for _ in range(8):
        one = (one >> 1) ^ np.where(one & 1, np.uint32(POLYNOMIAL), np.uint32(0))
    near = [np.concatenate([bytes_, bytes_ << 8, bytes_ << 16, bytes_ << 24])]
    for _ in range(256):
        near.append(near[-1] >> 8 ^ one[near[-1] & 0xFF])
    step = near.pop()  # advanced by 256 bytes
    far = [near[0]]
    for _ in range(255):
        last = far[-1]
        far.append(
            step[last & 0xFF]
            ^ step[256 + (last >> 8 & 0xFF)]
            ^ step[512 + (last >> 16 & 0xFF)]
            ^ step[768 + (last >> 24)]
        )
    return np.concatenate(near), np.concatenate(far)


@cache
def _zeroed_headers() -> Array:
    """The CRC of 21 zeros, advanced by 0 to 65,535 bytes."""
    return further(np.full(SPAN_BYTES, crc32c(bytes(CRC_START)), np.uint32), np.arange(SPAN_BYTES))
