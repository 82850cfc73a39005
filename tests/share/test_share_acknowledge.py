"""ShareAcknowledge: what is checked, and how the share partition's answer gets to the client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.broker.call import PARKED
from kohort.coordinator.share_state.headers import Told
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from tests.share.share_box import ShareBox, Sharer, partition_of
from tests.share_requests import ACCEPT, CLOSE, REJECT, RELEASE, RENEW, share_acknowledge_request


@pytest.fixture
def box(tmp_path: Path) -> Iterator[ShareBox]:
    made = ShareBox(tmp_path / "data")
    made.write(10)
    yield made
    made.close()


@pytest.fixture
def member(box: ShareBox) -> Sharer:
    made = Sharer(box)
    assert made.acquire(0) == [(0, 9, 1)]
    return made


def test_accepted_records_are_final(box: ShareBox, member: Sharer) -> None:
    answer = member.acknowledge((0, 9, ACCEPT))
    found = partition_of(answer)
    assert (answer.error_code, found.error_code, found.error_message) == (0, 0, None)
    assert answer.acquisition_lock_timeout_ms == 30_000
    assert box.state.states[box.key()].batches() == [(0, 9, 2, 1)]


def test_version_1_does_not_tell_how_long_locks_are(member: Sharer) -> None:
    assert member.acknowledge((0, 9, ACCEPT), version=1).acquisition_lock_timeout_ms == 0


@pytest.mark.parametrize(
    "ranges",
    [
        [(5, 4, [ACCEPT])],
        [(5, 6, [ACCEPT]), (4, 7, [ACCEPT])],
        [(0, 1, [])],
        [(0, 2, [ACCEPT, ACCEPT])],
        [(0, 0, [-1])],
        [(0, 0, [5])],
        [(0, 0, [RENEW])],
    ],
    ids=["ends before it begins", "not in order", "no type", "too few types", "negative", "unknown", "not a renewal"],
)
def test_lists_that_cannot_be(box: ShareBox, member: Sharer, ranges: list[tuple[int, int, list[int]]]) -> None:
    request = share_acknowledge_request("g", "m1", 1, {("t", 0): ranges}, id_of=box.id_of)
    found = partition_of(box.send(ApiKey.SHARE_ACKNOWLEDGE, request, 2))
    assert (found.error_code, found.error_message) == (ErrorCode.INVALID_REQUEST, None)


@pytest.mark.parametrize("is_one_topic", [False, True])
def test_of_a_partition_that_is_named_twice_the_last_list_holds(
    box: ShareBox, member: Sharer, is_one_topic: bool
) -> None:
    """As in Kafka. An empty list says nothing, and the partition is not named in the answer."""

    def told(*lists: list[tuple[int, int, list[int]]]) -> Any:
        requests = [share_acknowledge_request("g", "m1", member.epoch, {("t", 0): x}, id_of=box.id_of) for x in lists]
        first = requests[0]
        for each in requests[1:]:
            if is_one_topic:
                first.topics[0].partitions = [*first.topics[0].partitions, *each.topics[0].partitions]
            else:
                first.topics = [*first.topics, *each.topics]
        member.epoch += 1
        return partition_of(box.send(ApiKey.SHARE_ACKNOWLEDGE, first, 2))

    assert told([(0, 0, [ACCEPT])], [(1, 1, [ACCEPT])]).error_code == ErrorCode.NONE
    assert told([(0, 0, [ACCEPT])], []) is None
    assert told([(5, 4, [ACCEPT])], [(0, 0, [REJECT])]).error_code == ErrorCode.NONE
    assert told([(2, 2, [ACCEPT])], [(5, 4, [ACCEPT])]).error_code == ErrorCode.INVALID_REQUEST
    assert box.state.states[box.key()].batches() == [(0, 0, 4, 1), (1, 1, 2, 1)]


def test_version_1_cannot_renew(member: Sharer) -> None:
    assert member.result((0, 0, RENEW), version=1) == "INVALID_REQUEST"


def test_a_renewal_begins_the_lock_anew(box: ShareBox, member: Sharer) -> None:
    box.pass_time(29_000)
    assert member.result((0, 9, RENEW), renew=True) == "NONE"
    box.pass_time(29_000)
    assert member.result((0, 9, ACCEPT)) == "NONE"


def test_refusals_have_a_message(member: Sharer) -> None:
    found = partition_of(member.acknowledge((0, 10, ACCEPT)))
    assert found.error_code == ErrorCode.INVALID_REQUEST
    assert found.error_message == "Batch record not found. The last offset in request is past acquired records."


def test_another_member_cannot_acknowledge(box: ShareBox, member: Sharer) -> None:
    other = Sharer(box, "m2")
    other.fetch(0, max_wait_ms=0)
    assert other.result((0, 9, ACCEPT)) == "INVALID_RECORD_STATE"
    assert member.result((0, 9, ACCEPT)) == "NONE"


def test_unknown_topics_partitions_and_share_partitions(box: ShareBox, member: Sharer) -> None:
    assert member.result((0, 0, ACCEPT), topic="nope") == "UNKNOWN_TOPIC_ID"
    assert member.result((0, 0, ACCEPT), partition=7) == "UNKNOWN_TOPIC_OR_PARTITION"
    box.topic("other")
    found = partition_of(member.acknowledge((0, 0, ACCEPT), topic="other"))  # nobody fetches it
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found.error_message == "This server does not host this topic-partition."


def test_the_answer_waits_until_the_change_is_written(box: ShareBox, member: Sharer) -> None:
    box.state.is_slow = True
    assert member.acknowledge((0, 9, ACCEPT)) is PARKED
    assert member.answers == []
    box.state.catch_up()
    assert partition_of(member.answers[0]).error_code == 0


def test_a_write_that_fails_leaves_the_records_acquired(box: ShareBox, member: Sharer) -> None:
    box.state.failures.append(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert member.result((0, 9, ACCEPT)) == "COORDINATOR_NOT_AVAILABLE"
    assert member.result((0, 9, ACCEPT)) == "NONE"


def test_after_a_failed_write_the_lock_still_expires(box: ShareBox, member: Sharer) -> None:
    box.state.is_slow = True
    member.acknowledge((0, 9, ACCEPT))
    box.pass_time(29_999)
    box.state.failures.append(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    box.state.catch_up()
    other = Sharer(box, "m2")
    assert other.acquire(0) == []
    box.pass_time(20)
    assert other.acquire() == [(0, 9, 2)]


def test_a_fenced_share_partition_is_loaded_again(box: ShareBox, member: Sharer) -> None:
    member.acknowledge((0, 4, ACCEPT))
    box.initialize(start=3)  # an administrator has set the offset
    box.state.states[box.key()].state_epoch = 2
    answer = member.acknowledge((5, 9, ACCEPT))
    found = partition_of(answer)
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert found.current_leader.leader_id == box.broker.config.node_id
    assert len(answer.node_endpoints) == 1
    assert member.result((5, 9, ACCEPT)) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert member.acquire() == [(3, 9, 1)]


def test_partitions_without_acknowledgements_are_named_only_beside_others(box: ShareBox, member: Sharer) -> None:
    box.topic("two", 2)
    nothing = share_acknowledge_request("g", "m1", 1, {("two", 0): []}, id_of=box.id_of)
    assert box.send(ApiKey.SHARE_ACKNOWLEDGE, nothing, 2, client=member.client).responses == []
    both = share_acknowledge_request("g", "m1", 2, {("two", 0): [], ("t", 0): [(0, 0, [ACCEPT])]}, id_of=box.id_of)
    answer = box.send(ApiKey.SHARE_ACKNOWLEDGE, both, 2, client=member.client)
    assert [(topic.topic_id, topic.partitions[0].error_code) for topic in answer.responses] == [
        (box.id_of("two"), 0),
        (box.id_of("t"), 0),
    ]


def test_headers_say_why_and_of_whom(box: ShareBox, member: Sharer) -> None:
    member.acknowledge((0, 0, ACCEPT))
    member.acknowledge((1, 1, RELEASE))
    member.acknowledge((2, 2, RELEASE), (3, 3, REJECT))
    member.acknowledge(epoch=CLOSE)
    assert box.state.told == [
        Told("acknowledge", "m1"),
        Told("release", "m1"),
        Told("acknowledge", "m1"),
        Told("session closed", "m1"),
    ]
    assert Sharer(box, "m2").acquire(0) == [(1, 2, 2), (4, 9, 2)]
    box.pass_time(30_000)
    assert box.state.told[-1] == Told("lock timeout", "m2")


def test_locks_of_several_members_that_expire_at_once_are_nobodys(box: ShareBox, member: Sharer) -> None:
    box.write(5)
    assert Sharer(box, "m2").acquire(0) == [(10, 14, 1)]
    box.pass_time(30_000)
    assert box.state.told == [Told("lock timeout", "")]


def test_a_record_that_is_given_up_is_told_from_one_that_is_rejected(box: ShareBox, member: Sharer) -> None:
    box.set(delivery_count_limit=1)
    member.acknowledge((0, 0, ACCEPT), (1, 1, RELEASE))
    assert box.state.states[box.key()].batches()[-1].delivery_state == 4
    assert box.state.told == [Told("release", "m1")]
