"""Reading many places of a buffer at once."""

from __future__ import annotations

import random
from unittest.mock import patch

import numpy as np
import pytest

from kohort.audit.decode import vector
from kohort.audit.decode.vector import distinct, int16_at, integers_at, padded, uvarints, varints
from kohort.protocol.varint import encode_varint
from kohort.protocol.wire import uvarint

NUMBERS = [0, 1, -1, 63, 64, -64, -65, 8191, 8192, 2**31 - 1, -(2**31), 2**40, -(2**62), 2**63 - 1, -(2**63)]


def placed(parts: list[bytes]) -> tuple[vector.Array, vector.Array]:
    """A buffer with the parts in it, and where each begins."""
    starts = np.cumsum([0, *map(len, parts)])[:-1]
    return padded(b"".join(parts)), starts


def test_varints_of_any_size() -> None:
    parts = [encode_varint(number) for number in NUMBERS]
    buffer, starts = placed(parts)
    values, after = varints(buffer, starts)
    assert values.tolist() == NUMBERS
    assert (after - starts).tolist() == [len(part) for part in parts]
    positive = [number for number in NUMBERS if 0 <= number < 2**31]
    buffer, starts = placed([uvarint(number) for number in positive])
    assert uvarints(buffer, starts)[0].tolist() == positive


def test_a_varint_without_end_ends_nowhere() -> None:
    buffer = padded(b"\xff" * 20)
    _, after = varints(buffer, np.array([0]))
    assert after[0] > len(buffer)


def test_integers_are_big_endian_and_positions_may_be_anywhere() -> None:
    buffer = padded(b"\x00\x01\xff\xfe\x00\x00\x00\x00\x00\x00\x00\x05")
    assert integers_at(buffer, np.array([4]), ">i8").tolist() == [5]
    assert integers_at(buffer, np.array([0, 1]), ">i4").tolist() == [0x1FFFE, 0x01FFFE00]
    assert int16_at(buffer, np.array([0, 2, -5, 10**9])).tolist() == [1, -2, 0, 0]


@pytest.mark.parametrize("hashes_collide", [False, True])
def test_equal_stretches_have_one_code(hashes_collide: bool) -> None:
    rng = random.Random(3)
    pool = [rng.randbytes(size) for size in (0, 1, 7, 8, 9, 40, 41, 255, 256) for _ in range(2)] + [b"\0", b"\0\0"]
    parts = [rng.choice(pool) for _ in range(10_000)]
    buffer, starts = placed(parts)
    factors = np.zeros_like(vector._FACTORS) if hashes_collide else vector._FACTORS
    with patch.object(vector, "_FACTORS", factors):
        codes, firsts = distinct(buffer, starts, np.array([len(part) for part in parts]))
    by_code = [parts[first] for first in firsts]
    assert len(by_code) == len(set(parts))
    assert [by_code[code] for code in codes] == parts
