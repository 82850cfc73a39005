"""ConsumerProtocol: what consumers tell each other, versions 0 to 3."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_subscription,
)
from kohort.protocol.subscription import (
    SubscribedTopics,
    pack_assignment,
    pack_subscription,
    read_assignment,
    read_subscription,
)
from tests.protocol.random_messages import kinds, random_values

KINDS = {kind.name: kind for kind in kinds()}

# What librdkafka sends for one topic, without owned partitions, in version 3.
SUBSCRIPTION_V3 = bytes.fromhex("0003 00000001 0006 6f7264657273 ffffffff 00000000 ffffffff ffff")
ASSIGNMENT_V1 = bytes.fromhex("0001 00000001 0006 6f7264657273 00000002 00000000 00000002 ffffffff")


def test_golden_subscription() -> None:
    subscription = ConsumerProtocolSubscription(["orders"], None, [], -1, None)
    assert read_subscription(SUBSCRIPTION_V3) == subscription
    assert pack_subscription(subscription) == SUBSCRIPTION_V3


def test_golden_assignment() -> None:
    assignment = ConsumerProtocolAssignment([TopicPartition("orders", [0, 2])], None)
    assert read_assignment(ASSIGNMENT_V1) == assignment
    assert pack_assignment(assignment, 1) == ASSIGNMENT_V1


@pytest.mark.parametrize("version", range(4))
def test_what_was_packed_is_read_again(version: int) -> None:
    rng = random.Random(version)
    for _ in range(100):
        kind = KINDS["ConsumerProtocolSubscription"]
        subscription = kind.build(random_values(kind, version, rng))
        assert read_subscription(pack_subscription(subscription, version)) == subscription
        kind = KINDS["ConsumerProtocolAssignment"]
        assignment = kind.build(random_values(kind, version, rng))
        assert read_assignment(pack_assignment(assignment, version)) == assignment


@pytest.mark.parametrize("version", [4, 5, 32767])
def test_a_newer_version_is_read_as_our_newest_and_what_it_appends_is_ignored(version: int) -> None:
    newer = version.to_bytes(2, "big") + SUBSCRIPTION_V3[2:] + b"whatever comes later"
    assert read_subscription(newer) == read_subscription(SUBSCRIPTION_V3)


@pytest.mark.parametrize("raw", [b"", b"\0", b"\xff\xff", b"\x80\x00\x00\x00\x00\x00", b"\0\0", b"\0\1\0\0"])
def test_what_is_no_consumer_protocol_is_malformed(raw: bytes) -> None:
    for read in (read_subscription, read_assignment):
        with pytest.raises(MalformedMessage):
            read(raw)


@pytest.mark.parametrize("size", range(2, len(SUBSCRIPTION_V3)))
def test_a_subscription_cut_off_anywhere_is_malformed(size: int) -> None:
    with pytest.raises(MalformedMessage):
        read_subscription(SUBSCRIPTION_V3[:size])


@settings(deadline=None)  # the machine may be busy
@given(st.integers(-1, 5), st.binary(max_size=80))
def test_any_bytes_are_a_subscription_or_malformed(version: int, raw: bytes) -> None:
    data = version.to_bytes(2, "big", signed=True) + raw
    for read in (read_subscription, read_assignment):
        try:
            read(data)
        except MalformedMessage:
            assert raw is not None


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_topics_that_are_read_once_are_those_of_each_subscription(seed: int) -> None:
    """Members of a group mostly name the same topics, with other data behind them; some of them send rubbish."""
    chosen = random.Random(seed)
    reader = SubscribedTopics()
    names = [["orders"], ["orders", "päyments"], []]
    for _ in range(20):
        owned = [TopicPartition("orders", [chosen.randrange(100)])]
        user_data = chosen.choice([None, b"", b"some"])
        subscription = ConsumerProtocolSubscription(chosen.choice(names), user_data, owned, 5, None)
        metadata = bytearray(pack_subscription(subscription, chosen.randrange(4)))
        if chosen.random() < 0.3:
            metadata[chosen.randrange(len(metadata))] ^= 1 << chosen.randrange(8)
        if chosen.random() < 0.2:
            del metadata[chosen.randrange(len(metadata)) :]
        assert topics_or_error(reader.read, bytes(metadata)) == topics_or_error(_decoded, bytes(metadata))


def _decoded(metadata: bytes) -> Sequence[str]:
    return decode_subscription[0](metadata, 2).topics


def topics_or_error(read: Callable[[bytes], Sequence[str]], metadata: bytes) -> Sequence[str] | None:
    try:
        return list(read(metadata))
    except MalformedMessage:
        return None
