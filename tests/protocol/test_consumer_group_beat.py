"""ConsumerGroupHeartbeat requests are read by hand as the generated codec reads them, or left to it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kohort.broker.api_table import ApiTable
from kohort.broker.recurring import Recurring, remember
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import request_decoder, request_encoder
from kohort.protocol.consumer_group_beat import decode_heartbeat_v0, decode_heartbeat_v1, read_usual
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions

API = ApiKey.CONSUMER_GROUP_HEARTBEAT


def random_heartbeat(rng: Random, version: int) -> ConsumerGroupHeartbeatRequest:
    """Mostly one of a usual member; sometimes with everything that it could say, in all sizes."""
    owned: Any = None
    if rng.randrange(3):
        sizes = rng.choice([[], [2], [2], [0], [32], [33], [1, 9], [1] * 130])
        owned = [TopicPartitions(rng.randbytes(16), [rng.randrange(-1, 200) for _ in range(size)]) for size in sizes]
    names = rng.choice([None, None, [], ["orders"], ["a", "日本"], ["x" * 125], ["x" * 126], ["x" * 300], ["n"] * 130])
    asked = ConsumerGroupHeartbeatRequest(
        rng.choice(["g", "g", "g", "", "é", "g" * 125, "g" * 126, "g" * 200]), rng.choice(["m", "m", "m" * 126, ""]),
        rng.randrange(-3, 99), None, None, rng.choice([-1, -1, 300_000]), names, None, None, owned,
    )  # fmt: skip
    if not rng.randrange(8):
        asked.instance_id, asked.rack_id = rng.choice([("i", None), ("", "r"), (None, "r")])
    if not rng.randrange(8):
        asked.server_assignor = rng.choice(["uniform", ""])
    if version and not rng.randrange(4):
        asked.subscribed_topic_regex = rng.choice(["o.*", ""])
    return asked


def mutated(rng: Random, body: bytes) -> bytes:
    """Sometimes with another byte, cut, or with bytes behind it."""
    changed = bytearray(body)
    for _ in range(rng.choice([0, 0, 1, 3])):
        changed[rng.randrange(len(changed))] = rng.choice([0, 1, 2, 127, 128, 255, rng.randrange(256)])
    return bytes(rng.choice([changed, changed, changed[: rng.randrange(len(changed) + 1)], changed + b"\0"]))


def read(decode: Any, data: bytes, pos: int) -> Any:
    try:
        return decode(data, pos)
    except MalformedMessage as problem:
        return str(problem)


def shown(request: Any) -> Any:
    """Sequences of numbers are tuples or arrays; they count as equal if they hold the same."""
    return request if isinstance(request, str) else repr(request).replace("[", "(").replace("]", ")").replace(",)", ")")


@pytest.mark.parametrize("version", [0, 1])
def test_heartbeats_are_read_as_the_generated_codec_reads_them(version: int) -> None:
    rng = Random(version)
    quick, generated = (decode_heartbeat_v0, decode_heartbeat_v1)[version], request_decoder(API, version)
    assert ApiTable().route(API, version).decode is quick
    usual = 0
    for _ in range(4000):
        body = mutated(rng, bytes(request_encoder(API, version)(random_heartbeat(rng, version))))
        data = b"before" + body
        assert shown(read(quick, data, 6)) == shown(read(generated, data, 6))
        after_names = 6 + 2 + sum(len(name.encode()) for name in ("g", "m"))
        usual += body[:4] == b"\x02g\x02m" and read_usual(data[after_names:], version) is not None
    assert usual > 50


@pytest.mark.parametrize("version", [0, 1])
def test_a_member_is_known_again_whatever_it_says(version: int) -> None:
    """A connection remembers the last heartbeat. The next one is read with its help as it would be without."""
    rng, nobody, route = Random(version), None, ApiTable().route(API, version)
    call: Any = nobody
    known_again = 0
    for _ in range(400):
        known: Recurring | None = None
        group_id, member_id = rng.choice(["g", "g" * 126, "日本"]), rng.choice(["m", "m" * 127])
        for _ in range(12):
            asked = random_heartbeat(rng, version)
            if rng.randrange(5):
                asked.group_id, asked.member_id = group_id, member_id
            body = mutated(rng, bytes(request_encoder(API, version)(asked)))
            rest = b"\0\x01c\0" + body
            wanted = read(request_decoder(API, version), rest, 4)
            if isinstance(wanted, str):
                assert known is None or not known.reads(rest)
                continue
            if known is not None and (rest == known.rest or known.reads(rest)):
                known_again += 1
                assert shown(known.request) == shown(wanted)
                assert known.rest == rest
            elif rng.randrange(4):  # a long request is not remembered, and the one before it is not forgotten
                known = remember(known, route, call, rest, route.decode(rest, 4))
    assert known_again > 50
