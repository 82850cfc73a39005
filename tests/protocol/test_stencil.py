"""A stencil reads the numbers of a message that recurs, and refuses a message that differs in anything else."""

from __future__ import annotations

from struct import pack

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.protocol.stencil import Stencil, places_of_change

int64s = st.integers(-(2**63), 2**63 - 1)
pieces = st.lists(st.binary(min_size=1, max_size=12), min_size=1, max_size=12)


def message(constants: list[bytes], numbers: list[int]) -> bytes:
    """A constant, a number, a constant, ... and a constant at the end."""
    return b"".join(
        constant + pack(">q", number) for constant, number in zip(constants, numbers, strict=False)
    ) + bytes(constants[-1])


@settings(deadline=None)
@given(pieces, st.data())
def test_the_numbers_are_read_where_encodings_of_0_and_minus_1_differ(
    constants: list[bytes], data: st.DataObject
) -> None:
    count = len(constants) - 1
    numbers = [data.draw(st.lists(int64s, min_size=count, max_size=count)) for _ in range(2)]
    places = places_of_change(message(constants, [0] * count), message(constants, [-1] * count))
    stencil = Stencil(message(constants, numbers[0]), places)
    assert stencil.read(message(constants, numbers[0])) == tuple(numbers[0])
    assert stencil.read(message(constants, numbers[1])) == tuple(numbers[1])


@settings(deadline=None)
@given(pieces, st.data())
def test_one_other_byte_elsewhere_and_it_is_another_message(constants: list[bytes], data: st.DataObject) -> None:
    count = len(constants) - 1
    known = message(constants, [7] * count)
    places = places_of_change(message(constants, [0] * count), message(constants, [-1] * count))
    covered = [i for i in range(len(known)) if not any(place <= i < place + 8 for place in places)]
    changed = bytearray(known)
    changed[data.draw(st.sampled_from(covered))] ^= data.draw(st.integers(1, 255))
    stencil = Stencil(known, places)
    assert stencil.read(bytes(changed)) is None
    assert stencil.read(known + b"\0") is None
    assert stencil.read(known[:-1]) is None
