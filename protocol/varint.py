"""Zig-zag varints, the variable-length integers inside records: small numbers of either sign take one byte.

    value    0  -1   1  -2   2 ...          7 bits per byte, lowest first;
    zig-zag  0   1   2   3   4 ...          the top bit says that another byte follows

An int32 takes at most 5 bytes, an int64 at most 10. A longer one, or one whose bits do not fit, is refused,
so the cost of reading a varint never depends on how many 0xff bytes somebody sends.
"""

from typing import Final

from kohort.protocol.errors import MalformedMessage

MAX_VARINT_BYTES: Final = 5
MAX_VARLONG_BYTES: Final = 10


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The int32 at `position`, and the position behind it."""
    return _read_zigzag(data, position, MAX_VARINT_BYTES, 32)


def read_varlong(data: bytes, position: int) -> tuple[int, int]:
    """The int64 at `position`, and the position behind it."""
    return _read_zigzag(data, position, MAX_VARLONG_BYTES, 64)


def _read_zigzag(data: bytes, position: int, max_bytes: int, bits: int) -> tuple[int, int]:
    raw = shift = 0
    for byte in data[position : position + max_bytes]:
        raw |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            if raw >> bits:
                raise MalformedMessage(f"varint at {position} does not fit {bits} bits")
            return (raw >> 1) ^ -(raw & 1), position + shift // 7
    if shift == 7 * max_bytes:
        raise MalformedMessage(f"varint at {position} is longer than {max_bytes} bytes")
    raise MalformedMessage(f"varint at {position} is cut off")


def encode_varint(value: int) -> bytes:
    """`value` as a zig-zag varint, int32 and int64 alike."""
    raw = value << 1 if value >= 0 else ~(value << 1)
    encoded = bytearray()
    while raw > 0x7F:
        encoded.append(raw & 0x7F | 0x80)
        raw >>= 7
    encoded.append(raw)
    return bytes(encoded)


SMALL_VARINTS: Final = tuple(encode_varint(value) for value in range(1024))
"""The varints of 0 to 1023. Most lengths are among them; a lookup is quicker than a call."""
