"""Reads many places of a buffer at once: integers, varints, and which stretches of bytes are the same.

Positions may point anywhere, since they come from the log: single bytes are read with clipping, and windows must be
given positions that `inside` has checked. Whoever reads checks afterwards that what was read lies where it must.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

PAD_BYTES: Final = 512  # zeros behind a buffer, so that windows at its end stay inside
MAX_DISTINCT_BYTES: Final = 256  # longer stretches are not compared

_RANDOM = np.random.default_rng(20_040)
_FACTORS: Final = _RANDOM.integers(0, 2**63, MAX_DISTINCT_BYTES // 8, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_SIZE_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_HALF: Final = np.uint64(32)


def padded(data: bytes) -> Array:
    return np.frombuffer(data + bytes(PAD_BYTES), np.uint8)


def windows(buffer: Array, positions: Array, size: int) -> Array:
    """A row of `size` bytes from each position."""
    rows: Array = sliding_window_view(buffer, size)[positions]
    return rows


def int16_at(buffer: Array, positions: Array) -> Array:
    high = np.take(buffer, positions, mode="clip").astype(np.int16)
    low: Array = np.take(buffer, positions + 1, mode="clip")
    return (high << 8) | low


def integers(rows: Array, at: int, kind: str) -> Array:
    """The big-endian integer of that numpy type (">i8", ">i4") at column `at` of byte rows."""
    wanted = np.dtype(kind)
    found: Array = rows[:, at : at + wanted.itemsize].view(wanted)[:, 0]
    return found.astype(wanted.newbyteorder("="))


def varints(buffer: Array, positions: Array) -> tuple[Array, Array]:
    """Zig-zag varints of at most ten bytes, and the positions behind them."""
    raw, after = uvarints(buffer, positions)
    return (raw >> 1) ^ -(raw & 1), after


def uvarints(buffer: Array, positions: Array) -> tuple[Array, Array]:
    """Unsigned varints. Nearly all have one byte, so longer ones are looked at on their own."""
    first = np.take(buffer, positions, mode="clip")
    value = first.astype(np.int64)
    after: Array = positions + 1
    longer = np.flatnonzero(first & 0x80)
    if len(longer):
        value[longer], after[longer] = _long_uvarints(buffer, positions[longer])
    return value, after


def _long_uvarints(buffer: Array, positions: Array) -> tuple[Array, Array]:
    value = np.zeros(len(positions), np.uint64)
    after = positions.copy()
    going = np.arange(len(positions))
    for shift in range(0, 70, 7):
        byte = np.take(buffer, after[going], mode="clip")
        value[going] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[going] += 1
        going = going[byte >= 0x80]
        if not len(going):
            break
    else:
        after[going] = np.iinfo(np.int64).max // 2  # too long: nothing can end there
    return value.view(np.int64), after


def distinct(buffer: Array, starts: Array, sizes: Array) -> tuple[Array, Array]:
    """(codes, firsts): stretches with the same bytes have the same code; `firsts[code]` is one that has it.

    Sizes are at most MAX_DISTINCT_BYTES, and starts lie within the buffer before its padding.
    """
    if not len(starts):
        return np.empty(0, np.int32), np.empty(0, np.int64)
    words = _words(buffer, starts, sizes)
    mixed = words ^ (words >> _HALF)  # so that high bytes count as much as low ones
    hashes = np.einsum("ij,j->i", mixed, _FACTORS[: mixed.shape[1]]) + sizes.astype(np.uint64) * _SIZE_FACTOR
    codes, firsts = _codes(hashes)
    chosen = firsts[codes]
    if (words == words[chosen]).all() and (sizes == sizes[chosen]).all():
        return codes, firsts
    exact = np.concatenate([words, sizes[:, None].astype(np.uint64)], axis=1)  # two hashes fell together
    _, first_rows, inverse = np.unique(exact, axis=0, return_index=True, return_inverse=True)
    return inverse.reshape(-1).astype(np.int32), first_rows


def _words(buffer: Array, starts: Array, sizes: Array) -> Array:
    """The stretches as rows of 8-byte words, with zeros behind their ends."""
    width = max(8, -(-int(sizes.max()) // 8) * 8)
    words = windows(buffer, starts, width).view(np.uint64)
    if (sizes == width).all():
        return words
    masks = (np.arange(width) < np.arange(width + 1)[:, None]).astype(np.uint8) * np.uint8(255)
    words &= masks.view(np.uint64)[sizes]
    return words


def _codes(hashes: Array) -> tuple[Array, Array]:
    encoded = pa.array(hashes).dictionary_encode()
    codes = encoded.indices.to_numpy()
    firsts = np.empty(len(encoded.dictionary), np.int64)
    firsts[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return codes, firsts
