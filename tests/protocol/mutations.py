"""Valid frames, mutated at random: test_fuzz.py and `make fuzz` decode them.

Each frame is a function of a seed and its number, so a failure is repeated by naming the two. Valid frames come from
Kafka's own classes (tests/data/message_vectors.xz), in every API and version; batches are built here.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from struct import pack
from typing import Any, NamedTuple

from kohort.protocol.api_keys import APIS
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.headers import read_request_header, request_header
from kohort.protocol.log_records import CONSUMER_OFFSETS
from kohort.protocol.record_batch import build_batch, build_marker, read_records, validate_batch
from kohort.protocol.record_types import RecordTypes, UnknownRecord
from kohort.protocol.share_state_records import SHARE_GROUP_STATE
from kohort.protocol.subscription import read_assignment, read_subscription
from kohort.protocol.transaction_records import TRANSACTION_STATE
from kohort.protocol.wire import Message
from tests.kafka.make_message_vectors import read_vectors
from tests.protocol.random_messages import Kind, kinds

REAL_BATCHES = Path(__file__).parent.parent / "data" / "batches"
MAX_DECODE_S = 0.050
MAX_FRAME_BYTES = 65_536

# What somebody might write into a length, a count or a varint.
EDGES = tuple(
    [pack(">b", n) for n in (0, 1, -1, -2, 127, -128)]
    + [pack(">h", n) for n in (0, 1, -1, -2, 32767, -32768, 256)]
    + [pack(">i", n) for n in (0, 1, -1, -2, 2**31 - 1, -(2**31), 65536, 10_000, 1_000_000)]
    + [pack(">q", n) for n in (0, -1, 2**63 - 1, -(2**63))]
    + [b"\xff" * n for n in (2, 5, 6, 10, 64)]
    + [b"\x80" * n for n in (1, 4, 5, 9)]
    + [b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x08", b"\x81\x00", b"\xff\x7f", b"\xed\xa0\x80", bytes(16)]
)


class Target(NamedTuple):
    """A decoder, and valid bytes for it."""

    name: str
    decode: Callable[[bytes], Any]
    head: bytes  # of each valid frame; purely random bytes follow it too
    bodies: list[bytes]


class Frame(NamedTuple):
    target: Target
    data: bytes


class Outcome(NamedTuple):
    clean: bool  # a message; otherwise MalformedMessage
    seconds: float


# --- targets ----------------------------------------------------------------------------------------------------


@cache
def targets() -> list[Target]:
    vectors = {(name, version): messages for name, version, messages in read_vectors()}
    messages = [(kind, version) for kind in kinds() for version in kind.versions()]
    made = [_message_target(kind, version, vectors[kind.name, version]) for kind, version in messages]
    made += [_batches()] * (len(made) // 20)
    for target in made:
        target.decode(target.head + target.bodies[0])  # modules are imported at first use: not the frame's time
    return made


def _message_target(kind: Kind, version: int, bodies: list[bytes]) -> Target:
    name = f"{kind.name} v{version}"
    if kind.part == "request":
        api = next(api for api in APIS.values() if api.module == kind.module)
        return Target(name, decode_request, request_header(api.key, version, 7, "fuzz"), bodies)
    if kind.part == "response":
        return Target(name, kind.decode(version), b"", bodies)
    if kind.part in ("key", "value"):
        types, record_type = _type_of(kind)
        if kind.part == "key":
            return Target(name, lambda data: _decode_key(types, data), pack(">h", record_type), bodies)
        return Target(name, lambda data: types.decode_value(record_type, data), pack(">h", version), bodies)
    read = read_subscription if kind.part == "subscription" else read_assignment
    return Target(name, read, pack(">h", version), bodies)


@cache
def _request_decoders() -> dict[tuple[int, int], Any]:
    found: dict[tuple[int, int], Any] = {}
    for kind in kinds():
        if kind.part == "request":
            api = next(api for api in APIS.values() if api.module == kind.module)
            found |= {(int(api.key), version): kind.decode(version) for version in kind.versions()}
    return found


def decode_request(frame: bytes) -> Any:
    """As a broker does it: the header says how to read the rest, and an unknown API or version is not read."""
    header, pos = read_request_header(frame)
    decode = _request_decoders().get((header.api_key, header.api_version))
    return header if decode is None else decode(frame, pos)


def _type_of(kind: Kind) -> tuple[RecordTypes, int]:
    """The internal topic that has this kind of record, and the number of the kind there."""
    for types in (CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE):
        for number, record in types.kinds.items():
            if record.module == kind.module:
                return types, number
    raise KeyError(kind.name)


def _decode_key(types: RecordTypes, data: bytes) -> Any:
    key = types.decode_key(data)[1]
    assert isinstance(key, (Message, UnknownRecord))
    return key


def _decode_batch(data: bytes) -> Any:
    """Read without checking the CRC, which would stop nearly every mutation; then with it, as an append does."""
    try:
        records = list(read_records(data))
    finally:
        try:
            validate_batch(data)
        except MalformedMessage:
            records = []
    return records


def _batches() -> Target:
    rng = random.Random(2)
    bodies = [build_marker(True, producer_id=9, producer_epoch=1, coordinator_epoch=3, timestamp=5)]
    for compression in (0, 0, 0, 1, 2, 3, 4):
        for count in (1, 3, 20):
            records = [
                (rng.randbytes(rng.randrange(20)), b"v" * rng.randrange(200), ((b"h", None), (b"cause", b"x")))
                for _ in range(count)
            ]
            bodies.append(build_batch(records, timestamp=1_790_000_000_000, compression=compression))
    bodies += [path.read_bytes() for path in sorted(REAL_BATCHES.glob("*.bin"))]
    return Target("record batch", _decode_batch, b"", bodies)


# --- mutations --------------------------------------------------------------------------------------------------


def frame(seed: int, number: int) -> Frame:
    """The frame with this number."""
    rng = random.Random(seed << 40 | number)
    chosen = targets()
    target = chosen[int(rng.random() * len(chosen))]
    data = bytearray(target.head + target.bodies[int(rng.random() * len(target.bodies))])
    if rng.random() < 0.1:
        return Frame(target, target.head + rng.randbytes(int(rng.random() ** 3 * 2000)))
    for _ in range(1 + int(rng.random() ** 2 * 4)):
        MUTATIONS[int(rng.random() * len(MUTATIONS))](data, rng)
    if rng.random() < 0.01:
        _inflate(data, rng)
    return Frame(target, bytes(data[:MAX_FRAME_BYTES]))


def _flip_bits(data: bytearray, rng: random.Random) -> None:
    if data:
        for _ in range(1 + int(rng.random() * 4)):
            data[int(rng.random() * len(data))] ^= 1 << int(rng.random() * 8)


def _truncate(data: bytearray, rng: random.Random) -> None:
    del data[int(rng.random() * (len(data) + 1)) :]


def _overwrite(data: bytearray, rng: random.Random) -> None:
    at = int(rng.random() * (len(data) + 1))
    edge = EDGES[int(rng.random() * len(EDGES))]
    data[at : at + len(edge)] = edge


def _insert(data: bytearray, rng: random.Random) -> None:
    at = int(rng.random() * (len(data) + 1))
    data[at:at] = EDGES[int(rng.random() * len(EDGES))]


def _remove(data: bytearray, rng: random.Random) -> None:
    at = int(rng.random() * (len(data) + 1))
    del data[at : at + 1 + int(rng.random() ** 3 * 30)]


def _repeat(data: bytearray, rng: random.Random) -> None:
    at = int(rng.random() * (len(data) + 1))
    data[at:at] = data[at : at + 1 + int(rng.random() * 40)] * (1 + int(rng.random() * 3))


def _splice(data: bytearray, rng: random.Random) -> None:
    """The front of this one and the end of another, which may be of another API."""
    chosen = targets()
    target = chosen[int(rng.random() * len(chosen))]
    other = target.bodies[int(rng.random() * len(target.bodies))]
    data[int(rng.random() * (len(data) + 1)) :] = other[int(rng.random() * (len(other) + 1)) :]


def _inflate(data: bytearray, rng: random.Random) -> None:
    """A large frame: a piece of the frame repeated, behind a count that may be as large."""
    at = int(rng.random() * (len(data) + 1))
    piece = bytes(data[at : at + 1 + int(rng.random() ** 2 * 60)]) or b"\x01"
    count = int(rng.random() * MAX_FRAME_BYTES / len(piece))
    length = (
        pack(">i", count) if rng.random() < 0.5 else bytes([count & 0x7F | 0x80, count >> 7 & 0x7F | 0x80, count >> 14])
    )
    data[max(0, at - len(length)) : at] = length
    data[at:at] = piece * count


MUTATIONS = (_flip_bits, _flip_bits, _truncate, _overwrite, _overwrite, _insert, _remove, _repeat, _splice)


# --- judging ----------------------------------------------------------------------------------------------------


class Failure(AssertionError):
    """A frame that was neither a clean message nor malformed, or took too long."""


def decode(seed: int, number: int) -> Outcome:
    """Decode one frame and time it. A slow one gets a second try: the machine may have been busy."""
    target, data = frame(seed, number)
    clean, seconds = _timed(target, data, seed, number)
    if seconds > MAX_DECODE_S:
        clean, seconds = _timed(target, data, seed, number)
    if seconds > MAX_DECODE_S:
        raise Failure(f"{seconds * 1000:.0f} ms for {len(data)} bytes: {describe(target, data, seed, number)}")
    return Outcome(clean, seconds)


def _timed(target: Target, data: bytes, seed: int, number: int) -> Outcome:
    clean = False
    started = time.thread_time()
    try:
        target.decode(data)
        clean = True
    except MalformedMessage:
        pass
    except Exception as error:
        raise Failure(f"{type(error).__name__}: {error}: {describe(target, data, seed, number)}") from error
    return Outcome(clean, time.thread_time() - started)


def describe(target: Target, data: bytes, seed: int, number: int) -> str:
    return (
        f"{target.name}, {len(data)} bytes {data[:400].hex()}\n"
        f"repeat: python -m benchmarks.fuzz --seed {seed} --only {number}"
    )


def outcomes(seed: int, numbers: range) -> Iterator[Outcome]:
    for number in numbers:
        yield decode(seed, number)
