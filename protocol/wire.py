"""The functions that the generated codecs in protocol/messages/ use: integers, strings, arrays and tagged fields.

A decoder works on the whole frame as `bytes` and carries a position. It does not check every read: an index or an
unpack beyond the end raises by itself, a slice beyond the end comes out short, and the position is compared with the
frame's length once, when the message is complete. Whatever goes wrong leaves as MalformedMessage.

Arrays are where a frame can cost more than it weighs, since one byte on the wire may become a hundred in memory:

    in a small frame            read at once: reading stops at the end of the frame, whatever the count says
    in a large frame            the count is compared with the bytes that remain, and taken off the request's budget;
                                then read at once while the allowance of live elements lasts, which grows with the
                                frame; beyond it, walked once to check them and kept as a `LazyArray` that reads
                                again when iterated

So a frame above SMALL_FRAME_BYTES makes few live objects, whatever counts it claims. The budget of elements and tagged
fields per request bounds the time that reading and answering take (docs/decisions/0007-long-requests-in-steps.md).
"""

from __future__ import annotations

import codecs
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from itertools import starmap as starmap  # exported: the generated modules import everything from here
from struct import Struct, error, pack
from threading import local
from typing import Any, TypeVar

from kohort.protocol.errors import MalformedMessage, TooManyElements

T = TypeVar("T")

SMALL_FRAME_BYTES = 16_384
MAX_ELEMENTS_PER_REQUEST = 100_000
MAX_ELEMENTS_PER_ANSWER = 10_000_000  # and per record of our log; both are trusted more than requests
MAX_STRING_BYTES = 32_767
MANY = 4096  # pieces of an answer that are joined before it is complete
NO_UUID = bytes(16)

# A decoder sets the slots itself, because calling __init__ would cost as much as decoding a small struct.
new = object.__new__

# Everything that a read outside the frame can raise.
READ_ERRORS = (IndexError, error)

_int16 = Struct(">h").unpack_from
_pack_int16 = Struct(">h").pack


Records = bytes | bytearray | memoryview  # whole record batches, untouched


class Message:
    """Base of the generated classes: plain slots, compared and shown by value."""

    __slots__: tuple[str, ...] = ()

    # The bytes of an answer that need not be encoded again. Only subclasses that are made for it have a value here.
    encoded: bytes | None = None

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_same(getattr(self, name), getattr(other, name)) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({fields})"


class Encoded(Message):
    """An answer of which only the bytes are kept."""

    __slots__ = ("encoded",)

    def __init__(self, encoded: bytes) -> None:
        self.encoded = encoded


def _same(one: object, other: object) -> bool:
    """Arrays are equal if their elements are, whether they came as list, tuple, array or LazyArray."""
    if isinstance(one, (list, tuple, array, LazyArray)) and isinstance(other, (list, tuple, array, LazyArray)):
        return list(one) == list(other)
    return one == other


# --- integers ---------------------------------------------------------------------------------------------------


def long_uvarint(first: int, data: bytes, pos: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte (already read, above 127) is `first`; at most five bytes."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0x7FFFFFFF:
                break
            return value, pos
    raise MalformedMessage("varint longer than 5 bytes or above 2147483647")


def read_uvarint(data: bytes, pos: int) -> tuple[int, int]:
    first = data[pos]
    return (first, pos + 1) if first < 0x80 else long_uvarint(first, data, pos + 1)


_ONE_BYTE = [bytes([n]) for n in range(128)]


def uvarint(value: int) -> bytes:
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# --- strings ----------------------------------------------------------------------------------------------------


def _replace_like_java(problem: UnicodeError) -> tuple[str, int]:
    """Replace what is not UTF-8 as Java does: one U+FFFD for an encoded surrogate, where Python would put three.

    U+FFFD takes three bytes, and may replace a single one. Text that could become longer than a string may be is
    refused here; otherwise an answer or a record with it could not be written later.
    """
    assert isinstance(problem, UnicodeDecodeError)
    if len(problem.object) > MAX_STRING_BYTES // 3:
        raise MalformedMessage(f"a string of {len(problem.object)} bytes that are not UTF-8")
    bad = problem.object[problem.start : problem.start + 3]
    if len(bad) == 3 and bad[0] == 0xED and bad[1] & 0xE0 == 0xA0 and bad[2] & 0xC0 == 0x80:
        return "\ufffd", problem.start + 3
    return "\ufffd", problem.end


codecs.register_error("java", _replace_like_java)


def read_string(data: bytes, pos: int) -> tuple[str, int]:
    """An element of an array of strings, before flexible versions."""
    (length,) = _int16(data, pos)
    if length < 0:
        raise null_error("an array's string")
    end = pos + 2 + length
    return data[pos + 2 : end].decode("utf-8", "java"), end


def read_compact_string(data: bytes, pos: int) -> tuple[str, int]:
    """An element of an array of strings, in flexible versions."""
    length = data[pos]
    pos += 1
    if not 0 < length < 128:
        length, pos = unusual_string_length(length, data, pos, "an array's string")
    end = pos + length - 1
    return data[pos:end].decode("utf-8", "java"), end


def pack_string(text: str) -> bytes:
    raw = text.encode()
    return _pack_int16(len(raw)) + raw


def pack_compact_string(text: str) -> bytes:
    raw = text.encode()
    return uvarint(len(raw) + 1) + raw


def read_uuid(data: bytes, pos: int) -> tuple[bytes, int]:
    end = pos + 16
    if end > len(data):  # slicing would not raise
        raise past_end_error()
    return data[pos:end], end


def unusual_length(first: int, data: bytes, pos: int, field: str) -> tuple[int, int]:
    """A compact length that does not fit into one byte, or the null that `field` may not be."""
    if first == 0:
        raise null_error(field)
    return long_uvarint(first, data, pos)


def unusual_string_length(first: int, data: bytes, pos: int, field: str) -> tuple[int, int]:
    if first == 0:
        raise null_error(field)
    return long_string_length(first, data, pos)


def long_string_length(first: int, data: bytes, pos: int) -> tuple[int, int]:
    """A compact string may not be longer than an int16 can say, as in Kafka: the log keeps such lengths."""
    length, pos = long_uvarint(first, data, pos)
    if length > MAX_STRING_BYTES + 1:
        raise MalformedMessage(f"a string of {length - 1} bytes; at most {MAX_STRING_BYTES}")
    return length, pos


def check_null(length: int, field: str) -> None:
    """Before flexible versions null is the length -1, and nothing is below it."""
    if length != -1:
        raise MalformedMessage(f"{field} has the length {length}")


def null_error(field: str) -> MalformedMessage:
    return MalformedMessage(f"{field} may not be null, nor have a negative length")


def past_end_error() -> MalformedMessage:
    return MalformedMessage("the message is longer than its frame")


def unreadable(message: str, problem: Exception) -> MalformedMessage:
    return MalformedMessage(f"{message}: {problem}")


# --- arrays -----------------------------------------------------------------------------------------------------

ReadElement = Callable[[bytes, int], tuple[T, int]]


# How many elements of a large frame become objects at once. Such an object takes a kilobyte at worst. The allowance
# grows by one for each kilobyte of the frame. Inside an element that is only checked, and dropped, it is smaller.
EAGER_ELEMENTS = 256
EAGER_ELEMENTS_WALKING = 64


class _Budget(local):
    """What is left for the message that this thread decodes. Decoding is one call, so one object is enough."""

    def __init__(self) -> None:
        self.allowed: int | None = None  # elements and tagged fields per request; None: MAX_ELEMENTS_PER_REQUEST
        self.left = MAX_ELEMENTS_PER_REQUEST
        self.eager = EAGER_ELEMENTS  # elements that may still become objects

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            allowed = self.allowed or MAX_ELEMENTS_PER_REQUEST
            raise TooManyElements(f"more than {allowed} elements and tagged fields in one request")


_budget = _Budget()


def start_large_request(size_bytes: int) -> None:
    _budget.left = _budget.allowed or MAX_ELEMENTS_PER_REQUEST
    _budget.eager = EAGER_ELEMENTS + (size_bytes >> 10)


def start_large_answer(size_bytes: int) -> None:
    _budget.left = MAX_ELEMENTS_PER_ANSWER
    _budget.eager = EAGER_ELEMENTS + (size_bytes >> 10)


def decode_at_most(elements: int, decode: Callable[[bytes, int], T], frame: bytes, pos: int) -> T:
    """Decode a request that may have so many elements, and no more: TooManyElements otherwise."""
    _budget.allowed = elements
    try:
        return decode(frame, pos)
    finally:
        _budget.allowed = None


class LazyArray(Sequence[T]):
    """A checked array that stays in its frame: each element is decoded when the iteration reaches it, and not kept."""

    __slots__ = ("_count", "_data", "_read", "_start")

    def __init__(self, data: bytes, start: int, count: int, read: ReadElement[T]) -> None:
        self._data = data
        self._start = start
        self._count = count
        self._read = read

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        data, read, pos = self._data, self._read, self._start
        for _ in range(self._count):
            _budget.left = MAX_ELEMENTS_PER_ANSWER  # the elements were counted when the request came in
            _budget.eager = EAGER_ELEMENTS_WALKING
            element, pos = read(data, pos)
            yield element

    def __getitem__(self, index: Any) -> Any:
        """Decodes from the start of the array each time, so use it for single elements, not in a loop."""
        if isinstance(index, slice):
            return list(self)[index]
        wanted = index + self._count if index < 0 else index
        if not 0 <= wanted < self._count:
            raise IndexError(index)
        return next(islice(self, wanted, None))

    def __eq__(self, other: object) -> bool:
        return _same(self, other) if isinstance(other, (list, tuple, LazyArray)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<LazyArray of {self._count}>"


def _walk(data: bytes, start: int, count: int, read: ReadElement[T]) -> tuple[LazyArray[T], int]:
    pos = start
    eager = _budget.eager
    for _ in range(count):
        _budget.eager = EAGER_ELEMENTS_WALKING
        _, pos = read(data, pos)
    _budget.eager = eager
    if pos > len(data):
        raise past_end_error()
    return LazyArray(data, start, count, read), pos


def read_many(data: bytes, pos: int, count: int, min_bytes: int, read: ReadElement[T]) -> tuple[Sequence[T], int]:
    """An array in a large frame, each element at least `min_bytes` long."""
    if count * min_bytes > len(data) - pos:
        raise MalformedMessage(f"an array of {count} elements does not fit into the remaining {len(data) - pos} bytes")
    _budget.spend(count)
    if count > _budget.eager:
        return _walk(data, pos, count, read)
    _budget.eager -= count
    elements = []
    for _ in range(count):
        element, pos = read(data, pos)
        elements.append(element)
    return elements, pos


# Formats of up to 32 integers are made once: most arrays are short, and making a format costs more than using it.
_SHORT_ARRAYS = {code: [Struct(f">{count}{code}") for count in range(33)] for code in "bhiq"}
_ITEM_BYTES = {"b": 1, "h": 2, "i": 4, "q": 8}


def read_ints(data: bytes, pos: int, count: int, code: str) -> tuple[Sequence[int], int]:
    """An array of integers. A long one is an array.array, which takes no more memory than the frame."""
    if count < 9 or (count < 33 and len(data) <= SMALL_FRAME_BYTES):
        short = _SHORT_ARRAYS[code][count]
        return short.unpack_from(data, pos), pos + short.size
    end = pos + count * _ITEM_BYTES[code]
    if end > len(data):
        raise MalformedMessage(f"an array of {count} integers does not fit into the remaining {len(data) - pos} bytes")
    if len(data) > SMALL_FRAME_BYTES:
        _budget.spend(count)
    numbers = array(code)
    assert numbers.itemsize == _ITEM_BYTES[code]
    numbers.frombytes(data[pos:end])
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers, end


# Pack the count and the numbers of a short []int32 in one call.
SHORT_INTS = [Struct(f">i{count}i").pack for count in range(33)]
SHORT_COMPACT_INTS = [Struct(f">B{count}i").pack for count in range(33)]


def pack_ints(numbers: Sequence[int], code: str) -> bytes:
    return pack(f">i{len(numbers)}{code}", len(numbers), *numbers)


def pack_compact_ints(numbers: Sequence[int], code: str) -> bytes:
    return uvarint(len(numbers) + 1) + pack(f">{len(numbers)}{code}", *numbers)


def join_between_records(pieces: list[Any], start: int) -> int:
    """Join the pieces from `start` on, but leave records as they are. Returns how many pieces there are now."""
    joined: list[Any] = []
    run: list[bytes] = []
    for piece in pieces[start:]:
        if type(piece) is bytes:
            run.append(piece)
            continue
        joined += (b"".join(run), piece)
        run = []
    joined.append(b"".join(run))
    pieces[start:] = joined
    return len(pieces)


# --- tagged fields ----------------------------------------------------------------------------------------------


def skip_tags(count: int, data: bytes, pos: int) -> int:
    """Pass over `count` tagged fields; `count` is the first byte of the varint, already read and not 0."""
    count, pos = _count_tags(count, data, pos)
    for _ in range(count):
        if data[pos] < 0x80:
            pos += 1
        else:
            _, pos = long_uvarint(data[pos], data, pos + 1)
        length = data[pos]
        pos += 1
        if length > 0x7F:
            length, pos = long_uvarint(length, data, pos)
        pos += length
    if pos > len(data):
        raise past_end_error()
    return pos


def read_tags(count: int, data: bytes, pos: int, known: int) -> tuple[dict[int, tuple[int, int]], int]:
    """Where the tagged fields below tag `known` start and end; newer ones are passed over."""
    count, pos = _count_tags(count, data, pos)
    found = {}
    for _ in range(count):
        tag, pos = read_uvarint(data, pos)
        length, pos = read_uvarint(data, pos)
        end = pos + length
        if end > len(data):
            raise past_end_error()
        if tag < known:
            found[tag] = (pos, end)
        pos = end
    return found, pos


def _count_tags(count: int, data: bytes, pos: int) -> tuple[int, int]:
    if count > 0x7F:
        count, pos = long_uvarint(count, data, pos)
    size = len(data)
    if count * 2 > size - pos:
        raise MalformedMessage(f"{count} tagged fields do not fit into the remaining {size - pos} bytes")
    if size > SMALL_FRAME_BYTES:
        _budget.spend(count)
    return count, pos


def read_tag(data: bytes, where: tuple[int, int], read: ReadElement[T]) -> T:
    value, pos = read(data, where[0])
    if pos != where[1]:
        raise MalformedMessage("a tagged field is not as long as it says")
    return value


def pack_tags(tags: list[tuple[int, bytes]]) -> bytes:
    if not tags:
        return b"\0"
    out = [uvarint(len(tags))]
    for tag, value in tags:
        out += (uvarint(tag), uvarint(len(value)), value)
    return b"".join(out)
