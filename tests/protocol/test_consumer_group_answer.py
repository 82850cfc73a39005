"""Answers to ConsumerGroupHeartbeat are packed by hand: with the bytes of the generated codec."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.broker.api_table import ApiTable
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.codec import response_encoder
from kohort.protocol.consumer_group_answer import encode_answer
from kohort.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

int32 = st.integers(-(2**31), 2**31 - 1)
texts = (
    st.none() | st.text(max_size=20) | st.sampled_from(["x" * 125, "x" * 126, "x" * 127, "\u20ac" * 42, "\u20ac" * 43])
)
numbers = st.lists(int32, max_size=40)
topics = st.lists(st.builds(TopicPartitions, st.binary(min_size=16, max_size=16), numbers), max_size=3)
answers = st.builds(
    ConsumerGroupHeartbeatResponse,
    st.sampled_from([0, 0, 0, 5]),
    st.sampled_from([0, 0, 0, 25]),
    st.sampled_from([None, None, None, "", "no"]),
    texts,
    int32,
    int32,
    st.none() | st.builds(Assignment, topics),
)


@settings(max_examples=500, deadline=None)
@given(answers)
def test_an_answer_has_the_same_bytes(answer: ConsumerGroupHeartbeatResponse) -> None:
    for version in (0, 1):
        generated = response_encoder(ApiKey.CONSUMER_GROUP_HEARTBEAT, version)
        assert bytes(encode_answer(answer)) == bytes(generated(answer))


def test_the_broker_packs_its_answers_so() -> None:
    for version in (0, 1):
        assert ApiTable().route(ApiKey.CONSUMER_GROUP_HEARTBEAT, version).encode is encode_answer
