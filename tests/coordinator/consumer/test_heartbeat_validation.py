"""What a ConsumerGroupHeartbeat is refused for before its group is looked at, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.coordinator.consumer.group import find_consumer
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.coordinator.consumer.words import Answer, Group, a_group
from tests.coordinator.support import FakeTopics, Host

INVALID = ErrorCode.INVALID_REQUEST
UNSUPPORTED_ASSIGNOR = ErrorCode.UNSUPPORTED_ASSIGNOR


def refusal(group: Group, member_id: str, epoch: int, **fields: Any) -> tuple[ErrorCode, str | None]:
    answer = group.send(member_id, epoch, **fields).answer
    return ErrorCode(answer.error_code), answer.error_message


JOIN: dict[str, Any] = {"owned": {}, "rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"]}


def test_an_error_says_nothing_but_the_error() -> None:
    answer = a_group().send("m1", 2).answer
    assert answer == ConsumerGroupHeartbeatResponse(
        0, ErrorCode.GROUP_ID_NOT_FOUND, answer.error_message, None, 0, 0, None
    )


def test_with_the_protocol_switched_off_nothing_else_is_looked_at() -> None:
    group = a_group(consumer_enabled=False)
    group.group_id = ""
    assert refusal(group, "", -7)[0] == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("blank", ["", "  ", "\t"])
@pytest.mark.parametrize(("version", "epoch"), [(1, 0), (1, 3), (1, -1), (1, -2), (0, 3), (0, -1)])
def test_a_member_id_is_blank(blank: str, version: int, epoch: int) -> None:
    error, message = refusal(a_group(), blank, epoch, version=version, **JOIN)
    assert (error, message) == (INVALID, "MemberId can't be empty.")


def test_a_client_of_version_0_may_join_without_an_id_and_gets_one() -> None:
    group = a_group()
    answer = group.send("", 0, version=0, **JOIN).answer
    assert (answer.error_code, answer.member_epoch, len(answer.member_id)) == (0, 2, 22)
    assert group.beat(answer.member_id, 2, version=0) == Answer(2, None)


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_group_id_is_blank(blank: str) -> None:
    group = Group(Host(), blank)
    assert refusal(group, "m1", 0, **JOIN) == (INVALID, "GroupId can't be empty.")


@pytest.mark.parametrize("blank", ["", "  "])
def test_an_instance_id_or_a_rack_is_blank_and_not_null(blank: str) -> None:
    group = a_group()
    assert refusal(group, "m1", 0, instance_id=blank, **JOIN) == (INVALID, "InstanceId can't be empty.")
    assert refusal(group, "m1", 0, rack_id=blank, **JOIN) == (INVALID, "RackId can't be empty.")


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs"),
        ({"owned": None}, "TopicPartitions"),
        ({"owned": {"orders": [0]}}, "TopicPartitions"),
        ({"subscribed_topic_names": None}, "SubscribedTopicNames"),
    ],
)
def test_a_member_that_joins_has_to_say(changed: dict[str, Any], word: str) -> None:
    error, message = refusal(a_group(), "m1", 0, **(JOIN | changed))
    assert error == INVALID
    assert message is not None
    assert word in message


@pytest.mark.parametrize("wants", [{"subscribed_topic_names": []}, {"subscribed_topic_regex": ""}])
def test_a_member_may_want_no_topic_at_all(wants: dict[str, Any]) -> None:
    fields = JOIN | {"subscribed_topic_names": None} | wants
    assert a_group().beat("m1", 0, **fields) == Answer(1, {})


def test_a_member_that_leaves_for_a_while_has_an_instance_id() -> None:
    assert refusal(a_group(), "m1", -2) == (INVALID, "InstanceId can't be null.")


@pytest.mark.parametrize("epoch", [-3, -2147483648])
def test_there_are_no_epochs_below_minus_2(epoch: int) -> None:
    assert refusal(a_group(), "m1", epoch) == (INVALID, "MemberEpoch is invalid.")


def test_an_assignor_that_is_not_configured_is_refused() -> None:
    group = a_group(consumer_assignors=("range",))
    error, message = refusal(group, "m1", 0, server_assignor="uniform", **JOIN)
    assert (error, message) == (
        UNSUPPORTED_ASSIGNOR, "ServerAssignor uniform is not supported. Supported assignors: range."
    )  # fmt: skip
    assert refusal(group, "m1", 3, server_assignor="")[0] == UNSUPPORTED_ASSIGNOR
    assert group.beat("m1", 0, server_assignor="range", **JOIN) == Answer(2, {"orders": [0, 1, 2]})


def test_the_order_of_the_checks() -> None:
    """Each request has all the mistakes that the later ones have, and one more."""
    group = a_group()
    wrong: dict[str, Any] = {
        "instance_id": "", "rack_id": "", "server_assignor": "none", "rebalance_timeout_ms": -1, "version": 1
    }  # fmt: skip
    messages = []
    repaired: dict[str, Any]
    for repaired in ({}, {"member_id": "m1"}, {"group_id": "billing"}, {"instance_id": None}, {"rack_id": None},
                     {"rebalance_timeout_ms": 1}, {"owned": {}}, {"subscribed_topic_names": []},
                     {"server_assignor": None}):  # fmt: skip
        wrong |= repaired
        fields = dict(wrong)
        group.group_id = fields.pop("group_id", "")
        answer = group.send(fields.pop("member_id", ""), 0, **fields).answer
        messages.append((answer.error_code, (answer.error_message or "").split(" ")[0]))
    assert messages == [
        (INVALID, "MemberId"), (INVALID, "GroupId"), (INVALID, "InstanceId"), (INVALID, "RackId"),
        (INVALID, "RebalanceTimeoutMs"), (INVALID, "TopicPartitions"), (INVALID, "Either"),
        (UNSUPPORTED_ASSIGNOR, "ServerAssignor"), (ErrorCode.NONE, ""),
    ]  # fmt: skip


def test_a_wrong_request_is_told_so_even_while_its_shard_is_loading() -> None:
    group = Group(Host(topics=FakeTopics(orders=3), load=False))
    assert refusal(group, "m1", -7)[0] == INVALID
    assert refusal(group, "m1", 0, server_assignor="none", **JOIN)[0] == UNSUPPORTED_ASSIGNOR
    assert refusal(group, "m1", 0, **JOIN) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None)
    group.host.load()
    assert group.beat("m1", 0, **JOIN) == Answer(2, {"orders": [0, 1, 2]})


def test_a_refused_member_leaves_no_trace() -> None:
    group = a_group()
    refusal(group, "m1", 0, **(JOIN | {"rebalance_timeout_ms": -1}))
    refusal(group, "m1", 0, **(JOIN | {"subscribed_topic_names": None, "subscribed_topic_regex": "("}))
    refusal(group, "m1", 5)
    assert find_consumer(group.host.state_of("billing"), "billing") is None
    assert group.log() == []
