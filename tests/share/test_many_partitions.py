"""Members that fetch from very many partitions: what is done in steps gives the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.broker.call import PARKED
from kohort.broker.share import sessions
from kohort.broker.share.led_partition import MANY_BATCHES
from kohort.broker.share.sessions import LARGE, sessions_of
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from tests.share.share_box import ShareBox, Sharer, acquired_of, partition_of
from tests.share_requests import ACCEPT, CLOSE, RELEASE, RENEW, Acknowledgements, share_acknowledge_request

MANY = 700


@pytest.fixture
def box(tmp_path: Path) -> Iterator[ShareBox]:
    made = ShareBox(tmp_path / "data", partitions=MANY)
    yield made
    made.close()


@pytest.fixture
def member(box: ShareBox) -> Sharer:
    return Sharer(box)


def named(answer: Any) -> dict[int, Any]:
    return {each.partition_index: each for topic in answer.responses for each in topic.partitions}


def test_the_first_answer_names_all_partitions_and_the_next_ones_those_with_records(
    box: ShareBox, member: Sharer
) -> None:
    assert sorted(named(member.fetch(*range(MANY), max_wait_ms=0))) == list(range(MANY))
    box.write(3, partition=650)
    found = named(member.fetch(max_wait_ms=0))
    assert [(index, acquired_of(each)) for index, each in found.items()] == [(650, [(0, 2, 1)])]


def test_such_a_fetch_waits_once(box: ShareBox, member: Sharer) -> None:
    member.fetch(*range(MANY), max_wait_ms=0)
    assert member.fetch() is PARKED
    box.write(1, partition=650)
    box.pass_time()
    assert acquired_of(named(member.answers[0])[650]) == [(0, 0, 1)]
    assert member.fetch(max_wait_ms=500) is PARKED
    box.pass_time(500)
    assert member.answers[1].responses == []


def test_a_client_that_hangs_up_while_it_waits_leaves_nothing(box: ShareBox, member: Sharer) -> None:
    member.fetch(*range(MANY), max_wait_ms=0)
    assert member.fetch() is PARKED
    member.client.close("test")
    box.pass_time(10_000)
    assert len(box.led) == 0
    assert all(not partition.extra for partition in box.broker.catalog.get("t").partitions)  # type: ignore[union-attr]


def test_many_partitions_are_acknowledged_at_once(box: ShareBox, member: Sharer) -> None:
    for index in range(MANY):
        box.write(1, partition=index)
    member.fetch(*range(MANY), max_wait_ms=0, max_records=MANY)
    box.state.is_slow = True
    told = {("t", index): [(0, 0, [ACCEPT])] for index in range(MANY)}
    request = share_acknowledge_request("g", "m1", 1, told, id_of=box.id_of)
    assert box.send(ApiKey.SHARE_ACKNOWLEDGE, request, 2, client=member.client) is PARKED
    box.state.catch_up()
    assert {each.error_code for each in named(member.answers[0]).values()} == {0}
    assert len(named(member.answers[0])) == MANY


def test_all_that_a_member_has_is_released(box: ShareBox, member: Sharer) -> None:
    for index in range(MANY):
        box.write(1, partition=index)
    member.fetch(*range(MANY), max_wait_ms=0, max_records=MANY)
    member.fetch(epoch=CLOSE)
    box.pass_time()
    answer = Sharer(box, "m2").fetch(*range(MANY), max_wait_ms=0, max_records=MANY)
    assert {tuple(acquired_of(each)) for each in named(answer).values()} == {((0, 0, 2),)}


def test_locks_of_many_partitions_expire(box: ShareBox, member: Sharer) -> None:
    for index in range(MANY):
        box.write(1, partition=index)
    member.fetch(*range(MANY), max_wait_ms=0, max_records=MANY)
    box.pass_time(30_000)
    assert all(led.share is not None and led.share.counts.timed_out == 1 for led in box.led)


def test_a_session_cannot_hold_many_partitions_that_do_not_exist(box: ShareBox, member: Sharer) -> None:
    unknown = range(MANY, MANY + LARGE + 101)
    assert ErrorCode(member.fetch(*unknown, max_wait_ms=0).error_code).name == "SHARE_SESSION_LIMIT_REACHED"
    assert member.fetch(0, max_wait_ms=0).error_code == 0
    assert ErrorCode(member.fetch(*unknown, max_wait_ms=0).error_code).name == "SHARE_SESSION_NOT_FOUND"
    assert len(sessions_of(box.broker)) == 0


def test_large_sessions_share_an_allowance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = LARGE + 1
    monkeypatch.setattr(sessions, "MAX_PARTITIONS_IN_LARGE", 2 * count + 1)
    box = ShareBox(tmp_path / "data", partitions=1)
    try:
        box.broker.catalog.create("large", count, {})
        asked = {"topic": "large", "max_wait_ms": 0, "max_records": 0}
        members = [Sharer(box, f"m{number}") for number in range(3)]
        errors = [ErrorCode(each.fetch(*range(count), **asked).error_code).name for each in members]  # type: ignore[arg-type]
        assert errors == ["NONE", "NONE", "SHARE_SESSION_LIMIT_REACHED"]
        members[0].client.close("test")
        assert members[2].fetch(*range(count), **asked).error_code == 0  # type: ignore[arg-type]
    finally:
        box.close()


def test_a_record_may_be_renewed_any_number_of_times_in_one_request(box: ShareBox, member: Sharer) -> None:
    box.write(1)
    member.acquire(0)
    assert member.result(*[(0, 0, RENEW)] * 5_000, renew=True) == "NONE"


def test_a_long_change_is_written_in_a_turn_of_its_own_and_the_next_ones_behind_it(box: ShareBox) -> None:
    box.set(partition_max_record_locks=10_000)
    count = 2 * MANY_BATCHES
    box.write(count)
    member = Sharer(box)
    assert member.acquire(0, max_records=count) == [(0, count - 1, 1)]
    kinds = [ACCEPT, RELEASE] * MANY_BATCHES
    told: Acknowledgements = {("t", 0): [(0, count - 3, kinds[2:])]}
    assert box.send(ApiKey.SHARE_ACKNOWLEDGE, request_of(member, told), 2, client=member.client) is PARKED
    member.epoch += 1
    told = {("t", 0): [(count - 2, count - 1, [ACCEPT])]}
    assert box.send(ApiKey.SHARE_ACKNOWLEDGE, request_of(member, told), 2, client=member.client) is PARKED
    assert box.state.told == []
    box.pass_time()
    assert len(box.state.told) == 2
    assert [partition_of(each).error_code for each in member.answers] == [0, 0]
    kept = box.state.states[box.key()]
    assert (kept.start_offset, kept.complete_count) == (0, count // 2 + 1)


def request_of(member: Sharer, told: Acknowledgements) -> Any:
    return share_acknowledge_request(member.group, member.member_id, member.epoch, told, id_of=member.box.id_of)


def test_a_fetch_of_very_many_records_is_answered_in_steps(box: ShareBox) -> None:
    for partition in range(3):
        box.write(4, partition=partition)
    member = Sharer(box)
    answer = member.fetch(0, 1, 2, max_records=100_000, max_wait_ms=0)
    assert [acquired_of(partition_of(answer, index)) for index in range(3)] == [[(0, 3, 1)]] * 3
    assert member.fetch(max_records=100_000) is PARKED
    box.write(1, partition=1)
    box.pass_time()
    assert acquired_of(partition_of(member.answers[-1])) == [(4, 4, 1)]
