"""Reads integers and varints at many positions of a buffer at once, and finds equal stretches of bytes.

Positions come from the log, so they may be wrong and point anywhere. Functions that read single bytes clip positions to
the buffer; for windows the caller must check positions with `inside` first. After reading, the caller must check that
the fields lie inside their record.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

PAD_BYTES: Final = 512  # zeros behind a buffer, so that windows at its end stay in the buffer
MAX_DISTINCT_BYTES: Final = 256  # longer stretches are not compared
CHUNK_ROWS: Final = 4096  # so that intermediate arrays stay in the processor's cache

_RANDOM = np.random.default_rng(20_040)
_FACTORS: Final = _RANDOM.integers(0, 2**63, MAX_DISTINCT_BYTES // 8, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_SIZE_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_ONE: Final = np.uint64(1)
_HALF: Final = np.uint64(32)


def padded(data: bytes) -> Array:
    return np.frombuffer(data + bytes(PAD_BYTES), np.uint8)


def windows(buffer: Array, positions: Array, size: int) -> Array:
    """A row of `size` bytes from each position."""
    every = np.ndarray(
        (len(buffer) - size + 1,), np.dtype((np.void, size)), buffer, 0, (1,)
    )  # at each byte of the buffer
    return every[positions].view(np.uint8).reshape(len(positions), size)


def integers_at(buffer: Array, positions: Array, kind: str) -> Array:
    """The big-endian integer of that numpy type (">i8", ">i4") at each position."""
    wanted = np.dtype(kind)
    every = np.ndarray((len(buffer) - wanted.itemsize + 1,), wanted, buffer, 0, (1,))
    return every[positions].astype(wanted.newbyteorder("="))


def int16_at(buffer: Array, positions: Array) -> Array:
    """Like integers_at, but positions may be outside of the buffer."""
    high = np.take(buffer, positions, mode="clip").astype(np.int16)
    low: Array = np.take(buffer, positions + 1, mode="clip")
    return (high << 8) | low


def varints(buffer: Array, positions: Array) -> tuple[Array, Array]:
    """Zig-zag varints of at most ten bytes, and the positions behind them."""
    raw, after = uvarints(buffer, positions)
    return (raw.view(np.uint64) >> _ONE).view(np.int64) ^ -(raw & 1), after


def uvarints(buffer: Array, positions: Array) -> tuple[Array, Array]:
    """Unsigned varints. Nearly all have one or two bytes; longer ones are read in a second step."""
    first = np.take(buffer, positions, mode="clip")
    value = first.astype(np.int64)
    after: Array = positions + 1
    if not (first & 0x80).any():
        return value, after
    two = first >= 0x80
    second = np.take(buffer, after, mode="clip")
    value = np.where(two, (value & 0x7F) | second.astype(np.int64) << 7, value)
    after += two
    longer = np.flatnonzero(two & (second >= 0x80))
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
        after[going] = np.iinfo(np.int64).max // 2  # too many bytes: this position fails every later check
    return value.view(np.int64), after


def distinct(buffer: Array, starts: Array, sizes: Array) -> tuple[Array, Array]:
    """(codes, firsts): stretches with the same bytes have the same code; `firsts[code]` is one that has it.

    Sizes are at most MAX_DISTINCT_BYTES, and starts lie within the buffer before its padding.
    """
    if not len(starts):
        return np.empty(0, np.int32), np.empty(0, np.int64)
    table = _Stretches(buffer, int(sizes.min()), int(sizes.max()))
    parts = [slice(at, at + CHUNK_ROWS) for at in range(0, len(starts), CHUNK_ROWS)]
    rows = [table.rows(starts[part], sizes[part]) for part in parts]
    codes, firsts = _codes(np.concatenate([_hashes(some) for some in rows]) + sizes.astype(np.uint64) * _SIZE_FACTOR)
    each = table.rows(starts[firsts], sizes[firsts])
    same = (sizes == sizes[firsts][codes]).all()
    if same and all((some == pick_rows(each, codes[part])).all() for some, part in zip(rows, parts, strict=True)):
        return codes, firsts
    # Two different stretches have the same hash: compare all bytes.
    every = np.concatenate([np.concatenate(rows), sizes[:, None].astype(np.uint64)], axis=1)
    _, first_rows, inverse = np.unique(every, axis=0, return_index=True, return_inverse=True)
    return inverse.reshape(-1).astype(np.int32), first_rows


class _Stretches:
    """Makes stretches of bytes into rows of 8-byte words, with zeros behind their ends."""

    def __init__(self, buffer: Array, least: int, greatest: int) -> None:
        self._buffer = buffer
        self._words = max(1, -(-greatest // 8))
        self._full_words = least // 8  # no row ends before them
        ends, bytes_ = np.arange(greatest + 1)[:, None], np.arange(self._words * 8)
        self._masks = np.where(bytes_ < ends, np.uint8(255), np.uint8(0)).view(np.uint64).T.copy()  # word, then size

    def rows(self, starts: Array, sizes: Array) -> Array:
        rows = windows(self._buffer, starts, self._words * 8).view(np.uint64)
        for word in range(self._full_words, self._words):
            rows[:, word] &= self._masks[word][sizes]
        return rows


def _hashes(rows: Array) -> Array:
    mixed = rows >> _HALF  # so that high bytes count as much as low ones
    mixed ^= rows
    found: Array = np.einsum("ij,j->i", mixed, _FACTORS[: rows.shape[1]])
    return found


def pick_rows(rows: Array, which: Array) -> Array:
    """rows[which], but quickly: each row is copied as a whole."""
    whole = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize)))[:, 0]
    return whole[which].view(rows.dtype).reshape(len(which), rows.shape[1])


def _codes(hashes: Array) -> tuple[Array, Array]:
    encoded = pa.array(hashes).dictionary_encode()
    codes = encoded.indices.to_numpy()
    firsts = np.empty(len(encoded.dictionary), np.int64)
    firsts[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return codes, firsts
