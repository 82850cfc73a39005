"""ShareFetch: what is checked, what comes back, what waits, and what acknowledgements beside it do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kohort.broker.call import PARKED
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kohort.protocol.messages.delete_topics import DeleteTopicsRequest
from kohort.protocol.record_batch import scan_records
from tests.share.share_box import ShareBox, Sharer, acquired_of, partition_of
from tests.share_requests import ACCEPT, CLOSE, RECORD_LIMIT, REJECT, RELEASE, RENEW

NOTHING: dict[str, Any] = dict.fromkeys(("max_wait_ms", "min_bytes", "max_bytes", "max_records"), 0)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[ShareBox]:
    made = ShareBox(tmp_path / "data", partitions=3)
    yield made
    made.close()


@pytest.fixture
def member(box: ShareBox) -> Sharer:
    return Sharer(box)


def error_of(answer: object) -> str:
    return ErrorCode(answer.error_code).name  # type: ignore[attr-defined]


def offsets_in(records: bytes) -> list[int]:
    return [record[1] for record in scan_records(records)]


# --- what is checked --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("group", "member_id"), [(None, "m"), ("g", None), ("g", ""), ("g", "x" * 37)])
def test_a_request_must_name_a_group_and_a_possible_member(
    box: ShareBox, group: str | None, member_id: str | None
) -> None:
    strange = Sharer(box, member_id, group)  # type: ignore[arg-type]
    assert error_of(strange.fetch(0)) == "INVALID_REQUEST"
    assert strange.result((0, 0, ACCEPT), epoch=1) == "INVALID_REQUEST"


def test_a_member_id_may_have_36_characters(box: ShareBox) -> None:
    assert error_of(Sharer(box, "x" * 36).fetch(0, max_wait_ms=0)) == "NONE"


@pytest.mark.parametrize("field", ["max_wait_ms", "min_bytes", "max_bytes", "max_records"])
def test_a_renewal_must_not_ask_for_records(member: Sharer, field: str) -> None:
    assert error_of(member.fetch(0, renew=True, **{**NOTHING, field: 1})) == "INVALID_REQUEST"
    assert error_of(member.fetch(0, renew=True, **NOTHING)) == "NONE"


def test_the_first_fetch_of_a_session_cannot_acknowledge(member: Sharer) -> None:
    assert error_of(member.fetch(0, acknowledge={("t", 0): [(0, 0, [ACCEPT])]})) == "INVALID_REQUEST"


def test_unknown_topics_and_partitions(box: ShareBox, member: Sharer) -> None:
    answer = member.fetch(7, topic="t", max_wait_ms=0)
    assert partition_of(answer).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = Sharer(box, "m2").fetch(0, topic="nope", max_wait_ms=0)
    assert partition_of(answer).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_deleted_topic_is_an_unknown_partition_for_the_session_that_knew_it(box: ShareBox, member: Sharer) -> None:
    box.write(1)
    member.acquire(0)
    box.send(ApiKey.DELETE_TOPICS, DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000), 4)
    assert len(box.led) == 0
    assert partition_of(member.fetch(max_wait_ms=0)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# --- what comes back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2])
def test_records_are_acquired(box: ShareBox, member: Sharer, version: int) -> None:
    box.write(3, 2)
    answer = member.fetch(0, version=version)
    found = partition_of(answer)
    assert acquired_of(found) == [(0, 4, 1)]
    assert offsets_in(found.records) == [0, 1, 2, 3, 4]
    assert (found.error_code, found.error_message, found.acknowledge_error_code) == (0, None, 0)
    assert answer.acquisition_lock_timeout_ms == 30_000
    assert answer.node_endpoints == []


def test_the_answer_holds_only_the_batches_that_were_acquired(box: ShareBox, member: Sharer) -> None:
    box.write(2, 2, 2, 2)
    answer = member.fetch(0, max_records=3)
    assert offsets_in(partition_of(answer).records) == [0, 1, 2, 3]
    other = Sharer(box, "m2").fetch(0)
    assert acquired_of(partition_of(other)) == [(4, 7, 1)]
    assert offsets_in(partition_of(other).records) == [4, 5, 6, 7]


def test_in_the_mode_record_limit_exactly_so_many_records_are_acquired(box: ShareBox, member: Sharer) -> None:
    box.write(10)
    assert member.acquire(0, max_records=3, mode=RECORD_LIMIT) == [(0, 2, 1)]
    assert member.acquire(max_records=4, mode=RECORD_LIMIT) == [(3, 6, 1)]


@pytest.mark.parametrize("mode", [2, -1])
def test_other_modes_are_refused(box: ShareBox, member: Sharer, mode: int) -> None:
    box.write(1)
    assert error_of(member.fetch(0, mode=mode)) == "UNKNOWN_SERVER_ERROR"
    assert member.acquire(epoch=1) == [(0, 0, 1)]  # the session was begun


def test_version_1_knows_no_mode(box: ShareBox, member: Sharer) -> None:
    box.write(10)
    assert member.acquire(0, max_records=3, version=1) == [(0, 9, 1)]


def test_max_records_counts_for_all_partitions_together(box: ShareBox, member: Sharer) -> None:
    for partition in range(3):
        box.write(4, partition=partition)
    answer = member.fetch(0, 1, 2, max_records=6)
    assert [acquired_of(partition_of(answer, index)) for index in (0, 1)] == [[(0, 3, 1)], [(0, 3, 1)]]
    assert acquired_of(partition_of(answer, 2)) == []


def test_no_partition_waits_for_ever_behind_others(box: ShareBox, member: Sharer) -> None:
    for partition in range(3):
        box.write(*[1] * 10, partition=partition)
    member.fetch(0, 1, 2, max_records=1)
    served = []
    for _ in range(6):
        answer = member.fetch(max_records=1)
        served += [index for index in range(3) if partition_of(answer, index) is not None]
    assert set(served) == {0, 1, 2}


def test_max_bytes_is_shared_by_the_partitions(box: ShareBox, member: Sharer) -> None:
    for partition in range(2):
        box.write(*[1] * 100, partition=partition)
    answer = member.fetch(0, 1, max_bytes=1_500)
    sizes = [len(partition_of(answer, index).records) for index in (0, 1)]
    assert 0 < sizes[0] <= 750
    assert 0 < sizes[1] <= 750


def test_a_fetch_for_no_records_is_answered_at_once(box: ShareBox, member: Sharer) -> None:
    box.write(1)
    assert member.fetch(0, max_records=0).responses == []
    assert member.fetch(0, max_bytes=0).responses == []
    assert Sharer(box, "m2").fetch().responses == []


def test_an_idle_answer_names_partitions_in_the_first_answer_of_a_session_only(box: ShareBox, member: Sharer) -> None:
    first = partition_of(member.fetch(0, max_wait_ms=0))
    assert (first.error_code, first.records, first.acquired_records) == (0, b"", [])
    assert member.fetch(max_wait_ms=0).responses == []
    assert partition_of(member.fetch(1, max_wait_ms=0)).partition_index == 1  # it is new in the session
    assert member.fetch(max_wait_ms=0).responses == []


# --- what waits -------------------------------------------------------------------------------------------------------


def test_a_fetch_waits_for_records(box: ShareBox, member: Sharer) -> None:
    assert member.fetch(0) is PARKED
    box.write(2)
    box.pass_time()
    assert acquired_of(partition_of(member.answers[0])) == [(0, 1, 1)]


def test_a_fetch_waits_for_min_bytes(box: ShareBox, member: Sharer) -> None:
    box.write(1)
    assert member.fetch(0, min_bytes=200) is PARKED
    box.write(1)
    box.pass_time()
    assert member.answers == []
    box.write(1, 1)
    box.pass_time()
    assert acquired_of(partition_of(member.answers[0])) == [(0, 3, 1)]


def test_when_the_time_is_up_it_gets_what_there_is(box: ShareBox, member: Sharer) -> None:
    box.write(1)
    assert member.fetch(0, min_bytes=200, max_wait_ms=500) is PARKED
    box.pass_time(499)
    assert member.answers == []
    box.pass_time(1)
    assert acquired_of(partition_of(member.answers[0])) == [(0, 0, 1)]


def test_a_released_record_wakes_a_fetch_of_another_member(box: ShareBox, member: Sharer) -> None:
    box.write(1)
    member.acquire(0)
    other = Sharer(box, "m2")
    assert other.fetch(0) is PARKED
    assert member.result((0, 0, RELEASE)) == "NONE"
    box.pass_time()
    assert acquired_of(partition_of(other.answers[0])) == [(0, 0, 2)]


def test_an_expired_lock_wakes_a_fetch_of_another_member(box: ShareBox, member: Sharer) -> None:
    box.write(1)
    member.acquire(0)
    other = Sharer(box, "m2")
    assert other.fetch(0, max_wait_ms=60_000) is PARKED
    box.pass_time(29_999)
    assert other.answers == []
    box.pass_time(1)
    assert acquired_of(partition_of(other.answers[0])) == [(0, 0, 2)]
    assert member.result((0, 0, ACCEPT)) == "INVALID_RECORD_STATE"


def test_acknowledged_records_make_room_for_a_fetch_that_waits(box: ShareBox, member: Sharer) -> None:
    box.set(partition_max_record_locks=2)
    box.write(2, 2)
    assert member.acquire(0) == [(0, 1, 1)]
    other = Sharer(box, "m2")
    assert other.fetch(0) is PARKED
    member.acknowledge((0, 1, ACCEPT))
    box.pass_time()
    assert acquired_of(partition_of(other.answers[0])) == [(2, 3, 1)]


def test_a_fetch_waits_while_the_share_partition_is_loading(box: ShareBox, member: Sharer) -> None:
    box.write(1)
    loading: list[object] = []
    read = box.state.read
    box.state.read = lambda *asked: loading.append(lambda: read(*asked))  # type: ignore[method-assign]
    assert member.fetch(0) is PARKED
    loading[0]()  # type: ignore[operator]
    box.pass_time()
    assert acquired_of(partition_of(member.answers[0])) == [(0, 0, 1)]


def test_a_client_that_hangs_up_gets_no_records(box: ShareBox, member: Sharer) -> None:
    assert member.fetch(0) is PARKED
    member.client.close("test")
    box.write(1)
    box.pass_time(60_000)
    assert member.answers == []
    assert Sharer(box, "m2").acquire(0) == [(0, 0, 1)]


def test_records_that_were_removed_from_the_log_are_passed(box: ShareBox, member: Sharer) -> None:
    box.write(1, 1, 1)
    assert member.acquire(0, max_records=1) == [(0, 0, 1)]
    topics = [DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 2)])]
    box.send(ApiKey.DELETE_RECORDS, DeleteRecordsRequest(topics, 1_000), 2)
    assert member.fetch(max_wait_ms=0).responses == []  # it finds out
    assert member.acquire() == [(2, 2, 1)]


# --- acknowledgements beside a fetch ----------------------------------------------------------------------------------


def test_acknowledgements_are_made_before_the_fetch(box: ShareBox, member: Sharer) -> None:
    box.write(1)
    member.acquire(0)
    found = partition_of(member.fetch(acknowledge={("t", 0): [(0, 0, [RELEASE])]}))
    assert acquired_of(found) == [(0, 0, 2)]
    assert (found.error_code, found.acknowledge_error_code) == (0, 0)


def test_an_acknowledgement_that_is_refused_does_not_stop_the_fetch(box: ShareBox, member: Sharer) -> None:
    box.write(1, 1)
    member.acquire(0, max_records=1)
    found = partition_of(member.fetch(acknowledge={("t", 0): [(7, 9, [ACCEPT])]}))
    assert acquired_of(found) == [(1, 1, 1)]
    assert found.acknowledge_error_code == ErrorCode.INVALID_REQUEST
    assert found.acknowledge_error_message


def test_the_answer_waits_for_the_acknowledgements_to_be_written(box: ShareBox, member: Sharer) -> None:
    box.write(1, 1)
    member.acquire(0, max_records=1)
    box.state.is_slow = True
    assert member.fetch(acknowledge={("t", 0): [(0, 0, [ACCEPT])]}) is PARKED
    box.pass_time()
    assert member.answers == []
    box.state.catch_up()
    assert acquired_of(partition_of(member.answers[0])) == [(1, 1, 1)]


def test_partitions_without_news_are_named_if_they_were_acknowledged(box: ShareBox, member: Sharer) -> None:
    box.write(1)
    member.acquire(0)
    found = partition_of(member.fetch(acknowledge={("t", 0): [(0, 0, [REJECT])]}, max_wait_ms=0))
    assert (found.partition_index, found.records, found.acknowledge_error_code) == (0, b"", 0)


def test_a_renewal_fetches_nothing_and_begins_the_lock_anew(box: ShareBox, member: Sharer) -> None:
    box.write(1, 1)
    member.acquire(0, max_records=1)
    box.pass_time(20_000)
    answer = member.fetch(acknowledge={("t", 0): [(0, 0, [RENEW])]}, renew=True, **NOTHING)
    assert partition_of(answer).acquired_records == []
    box.pass_time(20_000)
    assert member.result((0, 0, ACCEPT)) == "NONE"


def test_the_last_fetch_of_a_session_acknowledges_and_fetches_nothing(box: ShareBox, member: Sharer) -> None:
    box.write(2, 1)
    member.acquire(0, max_records=1)
    found = partition_of(member.fetch(acknowledge={("t", 0): [(0, 0, [ACCEPT])]}, epoch=CLOSE))
    assert (found.acknowledge_error_code, found.records) == (0, b"")
    assert Sharer(box, "m2").acquire(0) == [(1, 1, 2), (2, 2, 1)]  # what was not acknowledged is released


# --- the share coordinator fails --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"),
        ("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_NOT_AVAILABLE"),
        ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"),
        ("FENCED_STATE_EPOCH", "NOT_LEADER_OR_FOLLOWER"),
        ("FENCED_LEADER_EPOCH", "NOT_LEADER_OR_FOLLOWER"),
        ("GROUP_ID_NOT_FOUND", "GROUP_ID_NOT_FOUND"),
        ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("INVALID_REQUEST", "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_errors_of_the_share_coordinator_as_the_client_hears_them(
    box: ShareBox, member: Sharer, error: str, told: str
) -> None:
    box.write(1)
    box.state.failures.append(ErrorCode[error])
    answer = member.fetch(0)
    found = partition_of(answer)
    assert ErrorCode(found.error_code).name == told
    if told == "NOT_LEADER_OR_FOLLOWER":
        node = box.broker.config.node_id
        assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (node, 0)
        assert [each.node_id for each in answer.node_endpoints] == [node]
    assert member.acquire() == [(0, 0, 1)]  # it is loaded again


def test_a_group_without_state_for_the_partition_cannot_fetch_it(box: ShareBox) -> None:
    stranger = Sharer(box, group="other")
    assert partition_of(stranger.fetch(0)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


# --- where a group begins ---------------------------------------------------------------------------------------------


def test_a_group_begins_with_new_records_by_default(box: ShareBox, member: Sharer) -> None:
    box.set(auto_offset_reset="latest")
    box.write(2)
    assert member.acquire(0) == []
    box.write(1)
    assert member.acquire() == [(2, 2, 1)]


def test_a_group_may_begin_some_time_ago(box: ShareBox, member: Sharer) -> None:
    box.set(auto_offset_reset="by_duration:PT1H")
    box.write(1)
    box.pass_time(3_600_001)
    box.write(1)
    answer = member.fetch(0)
    box.pass_time()  # on a slow machine the search takes several turns
    assert acquired_of(partition_of(member.answers[-1] if answer is PARKED else answer)) == [(1, 1, 1)]


def test_a_group_goes_on_where_it_stopped(box: ShareBox, member: Sharer) -> None:
    box.write(2)
    member.acquire(0)
    member.acknowledge((0, 0, ACCEPT))
    member.client.close("test")
    assert len(box.led) == 0  # the last session of the group has ended
    assert Sharer(box, "m2").acquire(0) == [(1, 1, 2)]
