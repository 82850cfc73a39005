"""The quick answer of OffsetFetch gives the bytes of the ordinary one, or leaves it to that."""

from __future__ import annotations

import random

import pytest

from kohort.coordinator.api import all_steps
from kohort.coordinator.offsets.offset_fetch import fetch_group
from kohort.coordinator.offsets.plain_fetch import plain_answer
from kohort.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kohort.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    encode_response,
)
from kohort.protocol.wire import NO_UUID
from tests.coordinator.support import Host

TOPICS = ("orders", "payments")


def host_with_offsets(rng: random.Random, metadata: list[str]) -> Host:
    host = Host()
    for topic in TOPICS:
        rows = [
            OffsetCommitRequestPartition(index, rng.randrange(2**40), rng.choice([-1, 7]), rng.choice(metadata))
            for index in range(4)
            if rng.random() < 0.7
        ]
        host.ask(OffsetCommitRequest("g", -1, "", None, -1, [OffsetCommitRequestTopic(topic, partitions=rows)]), 9)
    return host


@pytest.mark.parametrize("version", [8, 9, 10])
@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_ordinary_answer(version: int, seed: int) -> None:
    rng = random.Random(seed)
    host = host_with_offsets(rng, [""])
    names = TOPICS if version >= 10 else (*TOPICS, "no-such-topic")
    topics = [
        OffsetFetchRequestTopics(name, host.topics.topic_id(name) or NO_UUID, rng.sample(range(6), rng.randrange(6)))
        for name in names
    ]
    group = OffsetFetchRequestGroup(rng.choice(["g", "nobody", "日本"]), None, -1, topics)
    state = host.runtime.shard_of(group.group_id).state
    fetched = all_steps(fetch_group(state, group, True, version))
    ordinary = encode_response[version](OffsetFetchResponse(groups=[fetched]))
    plain = plain_answer(state, group, True, version)
    assert plain is not None
    assert plain.encoded == ordinary


def test_metadata_is_left_to_the_ordinary_way() -> None:
    host = host_with_offsets(random.Random(1), ["something"])
    group = OffsetFetchRequestGroup("g", None, -1, [OffsetFetchRequestTopics("orders", NO_UUID, [0, 1, 2, 3])])
    assert plain_answer(host.runtime.shard_of("g").state, group, False, 9) is None


def test_so_is_an_id_that_nobody_knows() -> None:
    host = host_with_offsets(random.Random(1), [""])
    group = OffsetFetchRequestGroup("g", None, -1, [OffsetFetchRequestTopics("", b"x" * 16, [0])])
    assert plain_answer(host.runtime.shard_of("g").state, group, False, 10) is None
