"""200,000 mutated and random frames: each is a clean message or MalformedMessage, and none takes over 50 ms.

`make fuzz` does ten million. The seed is new on each run and printed with a failure.
"""

from __future__ import annotations

import gc
import random
from collections import Counter
from struct import pack

import pytest

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import request_decoder, request_encoder
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages.fetch import FetchRequest, ReplicaState
from tests.protocol import mutations
from tests.protocol.random_messages import Kind, kinds

FRAMES = 200_000
PARTS = 4
KINDS = list(kinds())


@pytest.fixture(scope="module")
def seed() -> int:
    return random.SystemRandom().randrange(2**32)


@pytest.mark.parametrize("part", range(PARTS))
def test_a_mutated_frame_is_a_clean_message_or_malformed_and_never_slow(seed: int, part: int) -> None:
    print(f"seed {seed}")
    mutations.targets()
    gc.freeze()  # the corpus is large, and a full collection is not the decoder's time
    clean = Counter(
        outcome.clean
        for outcome in mutations.outcomes(seed, range(part * FRAMES // PARTS, (part + 1) * FRAMES // PARTS))
    )
    gc.unfreeze()
    assert clean.total() == FRAMES // PARTS
    assert min(clean[True], clean[False]) > FRAMES // PARTS // 10, "mutations that all fail, or all pass, show little"


def test_mutations_reach_every_kind_of_message_in_every_version(seed: int) -> None:
    names = Counter(mutations.frame(seed, number).target.name for number in range(20_000))
    assert names.keys() == {target.name for target in mutations.targets()}


def test_a_frame_is_the_same_whenever_it_is_asked_for() -> None:
    assert [mutations.frame(3, number).data for number in range(200)] == [
        mutations.frame(3, number).data for number in reversed(range(200))
    ][::-1]


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_what_came_in_clean_goes_out_and_comes_in_the_same(kind: Kind, seed: int) -> None:
    """No mutation makes a message that our own encoder cannot write, or that reads differently afterwards."""
    rng = random.Random(f"{seed} {kind.name}")
    bodies = {target.name: target.bodies for target in mutations.targets()}
    for version in kind.versions():
        decode, encode = kind.decode(version), kind.encode(version)
        for raw in bodies[f"{kind.name} v{version}"][:40]:
            data = bytearray(raw)
            rng.choice(mutations.MUTATIONS)(data, rng)
            try:
                message = decode(bytes(data))
            except MalformedMessage:
                continue
            again = decode(encode(message))
            same = again == message or encode(again) == encode(message)  # a number that is none equals nothing
            assert same, (seed, kind.name, version, data.hex())


def test_a_tag_that_says_all_defaults_says_nothing() -> None:
    """Found by the test above: it was read as a value that we would not write again."""
    asked = FetchRequest(replica_state=ReplicaState(7, 8))
    packed = bytes(request_encoder(ApiKey.FETCH, 15)(asked))
    numbers = pack(">iq", 7, 8)
    assert packed.count(numbers) == 1
    decode = request_decoder(ApiKey.FETCH, 15)
    assert decode(packed).replica_state == ReplicaState(7, 8)
    assert decode(packed.replace(numbers, pack(">iq", -1, -1))).replica_state is None
