"""Share sessions: epochs, bounds, and what ends with a connection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.broker.call import PARKED
from kohort.broker.share.sessions import MAX_EPOCH, sessions_of
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from tests.share.share_box import ShareBox, Sharer, partition_of
from tests.share_requests import ACCEPT, CLOSE, share_fetch_request


@pytest.fixture
def box(tmp_path: Path) -> Iterator[ShareBox]:
    made = ShareBox(tmp_path / "data", partitions=2, group_share_max_share_sessions="2", group_share_max_size="1")
    yield made
    made.close()


@pytest.fixture
def member(box: ShareBox) -> Sharer:
    return Sharer(box)


def error_of(answer: Any) -> str:
    return ErrorCode(answer.error_code).name


def test_requests_count_up(member: Sharer) -> None:
    for epoch in range(3):
        assert error_of(member.fetch(0, max_wait_ms=0, epoch=epoch)) == "NONE"
    assert member.result((0, 0, ACCEPT), epoch=3) != "INVALID_SHARE_SESSION_EPOCH"  # both APIs count together
    assert error_of(member.fetch(0, max_wait_ms=0, epoch=4)) == "NONE"


@pytest.mark.parametrize("epoch", [2, 7, -2])
def test_a_wrong_epoch(member: Sharer, epoch: int) -> None:
    member.fetch(0, max_wait_ms=0)
    assert error_of(member.fetch(epoch=epoch)) == "INVALID_SHARE_SESSION_EPOCH"
    assert error_of(member.acknowledge((0, 0, ACCEPT), epoch=epoch)) == "INVALID_SHARE_SESSION_EPOCH"
    assert error_of(member.fetch(epoch=1, max_wait_ms=0)) == "NONE"


@pytest.mark.parametrize("epoch", [1, -1])
def test_there_is_no_session(member: Sharer, epoch: int) -> None:
    assert error_of(member.fetch(epoch=epoch)) == "SHARE_SESSION_NOT_FOUND"
    assert error_of(member.acknowledge((0, 0, ACCEPT), epoch=epoch)) == "SHARE_SESSION_NOT_FOUND"


def test_a_session_cannot_begin_with_a_partition_named_twice(box: ShareBox, member: Sharer) -> None:
    """Kafka stumbles over that, when it has ended the session before."""
    member.fetch(0, max_wait_ms=0)
    request = share_fetch_request("g", "m1", 0, [("t", 0)], id_of=box.id_of)
    request.topics = [*request.topics, *request.topics]
    assert error_of(box.send(ApiKey.SHARE_FETCH, request, 2, client=member.client)) == "UNKNOWN_SERVER_ERROR"
    assert error_of(member.fetch(epoch=1)) == "SHARE_SESSION_NOT_FOUND"


def test_an_acknowledgement_cannot_begin_a_session(member: Sharer) -> None:
    assert error_of(member.acknowledge((0, 0, ACCEPT), epoch=0)) == "INVALID_SHARE_SESSION_EPOCH"
    member.fetch(0, max_wait_ms=0)
    assert error_of(member.acknowledge((0, 0, ACCEPT), epoch=0)) == "INVALID_SHARE_SESSION_EPOCH"


def test_behind_the_highest_epoch_comes_1(box: ShareBox, member: Sharer) -> None:
    member.fetch(0, max_wait_ms=0)
    session = sessions_of(box.broker).get("g", "m1")
    assert session is not None
    session.epoch = MAX_EPOCH
    assert error_of(member.fetch(epoch=MAX_EPOCH, max_wait_ms=0)) == "NONE"
    assert error_of(member.fetch(epoch=1, max_wait_ms=0)) == "NONE"


def test_partitions_are_added_and_forgotten(box: ShareBox, member: Sharer) -> None:
    box.write(1)
    box.write(1, partition=1)
    member.fetch(0, max_wait_ms=0, max_records=0)
    assert partition_of(member.fetch(1, forget=[("t", 0)])).partition_index == 1
    assert member.fetch(max_wait_ms=0).responses == []
    assert partition_of(member.fetch(0)).partition_index == 0


def test_a_new_session_replaces_the_old_one_and_the_member_keeps_its_records(box: ShareBox, member: Sharer) -> None:
    box.write(1)
    assert member.acquire(0) == [(0, 0, 1)]
    assert member.acquire(0, epoch=0) == []
    assert member.result((0, 0, ACCEPT)) == "NONE"
    assert len(sessions_of(box.broker)) == 1


def test_a_session_that_ends_releases_its_records(box: ShareBox, member: Sharer) -> None:
    box.write(1)
    member.acquire(0)
    assert error_of(member.acknowledge(epoch=CLOSE)) == "NONE"
    assert len(sessions_of(box.broker)) == 0
    assert Sharer(box, "m2").acquire(0) == [(0, 0, 2)]


def test_a_session_ends_with_its_connection(box: ShareBox, member: Sharer) -> None:
    box.write(1)
    member.acquire(0)
    other = Sharer(box, "m2")
    assert other.fetch(0) is PARKED
    member.client.close("test")
    box.pass_time()
    assert partition_of(other.answers[0]).acquired_records[0].delivery_count == 2
    assert len(sessions_of(box.broker)) == 1


def test_an_old_connection_does_not_end_the_session_of_a_new_one(box: ShareBox, member: Sharer) -> None:
    member.fetch(0, max_wait_ms=0)
    again = Sharer(box)
    again.fetch(0, max_wait_ms=0)
    member.client.close("test")
    assert error_of(again.fetch(max_wait_ms=0)) == "NONE"


def test_there_is_a_limit_of_sessions(box: ShareBox) -> None:
    first, second, third = (Sharer(box, f"m{index}") for index in range(3))
    first.fetch(0, max_wait_ms=0)
    second.fetch(0, max_wait_ms=0)
    assert error_of(third.fetch(0, max_wait_ms=0)) == "SHARE_SESSION_LIMIT_REACHED"
    assert third.fetch(0, epoch=0, max_wait_ms=500) is PARKED  # so that it does not ask all the time
    box.pass_time(500)
    assert error_of(third.answers[0]) == "SHARE_SESSION_LIMIT_REACHED"
    first.client.close("test")
    assert error_of(third.fetch(0, epoch=0, max_wait_ms=0)) == "NONE"


def test_when_the_last_session_of_a_group_ends_nothing_is_left_in_memory(box: ShareBox) -> None:
    first, second = Sharer(box, "m1"), Sharer(box, "m2")
    first.fetch(0, max_wait_ms=0)
    second.fetch(0, 1, max_wait_ms=0)
    first.client.close("test")
    assert len(box.led) == 2
    second.client.close("test")
    assert len(box.led) == 0
    assert sessions_of(box.broker).partition_count == 0


def test_after_the_last_session_of_a_group_its_connection_keeps_it_in_memory(box: ShareBox, member: Sharer) -> None:
    member.fetch(0, max_wait_ms=0)
    member.fetch(epoch=CLOSE)
    assert len(sessions_of(box.broker)) == 0
    assert len(box.led) == 1
    member.client.close("test")
    assert len(box.led) == 0
