"""Fetch: what comes back at once, what waits, and what a session remembers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import GeneratorType
from typing import Any

import pytest

from kohort.broker.call import PARKED, Call
from kohort.broker.steps import Steps, all_steps
from kohort.broker.topics.delayed_fetch import WATCHERS, changed, purgatory_of
from kohort.broker.topics.fetch import fetch, sessions_of
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kohort.protocol.record_batch import build_batch
from kohort.storage.partition_log import PartitionLog
from tests.broker.broker_box import BrokerBox, FakeConnection, Timer, through_the_wire

MINUTE_MS = 60_000


@pytest.fixture
def box(tmp_path: Path) -> Iterator[BrokerBox]:
    made = BrokerBox(tmp_path / "data", max_incremental_fetch_session_cache_slots="2")
    made.topic("t", 3)
    yield made
    made.close()


def wanted(
    partition: int = 0, offset: int = 0, max_bytes: int = 1 << 20, topic: str = "t", **fields: Any
) -> FetchTopic:
    fetch = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=max_bytes, **fields)
    return FetchTopic(topic, partitions=[fetch])


def sizes(response: Any) -> list[tuple[int, int]]:
    """(partition, bytes of records) of an answer."""
    return [(each.partition_index, len(each.records)) for topic in response.responses for each in topic.partitions]


BATCH_BYTES = len(build_batch([(None, b"x" * 100)], timestamp=0))


def fill(box: BrokerBox, partition: int = 0, batches: int = 3) -> None:
    for _ in range(batches):
        box.append(b"x" * 100, partition=partition)


# --- what comes at once ---------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_gives_the_records(box: BrokerBox, version: int) -> None:
    fill(box)
    topic = FetchTopic("t", box.broker.catalog.get("t").id, wanted(0, 1).partitions)  # type: ignore[union-attr]
    response = box.send(1, FetchRequest(session_epoch=-1, topics=[topic]), version)
    answer = response.responses[0].partitions[0]
    assert (answer.error_code, answer.high_watermark, answer.last_stable_offset) == (0, 3, 3)
    assert answer.log_start_offset == (0 if version >= 5 else -1)
    assert len(answer.records) == 2 * BATCH_BYTES


def test_aborted_transactions_are_none_or_an_empty_list_by_isolation_level(box: BrokerBox) -> None:
    assert box.fetch(0).aborted_transactions is None
    assert box.fetch(0, isolation_level=1).aborted_transactions == []


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (wanted(0, 99), "OFFSET_OUT_OF_RANGE"),
        (wanted(0, -1), "OFFSET_OUT_OF_RANGE"),
        (wanted(9), "UNKNOWN_TOPIC_OR_PARTITION"),
        (wanted(0, topic="nope"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (wanted(current_leader_epoch=1), "UNKNOWN_LEADER_EPOCH"),
        (wanted(last_fetched_epoch=1), "OFFSET_OUT_OF_RANGE"),
    ],
)
def test_an_error_tells_no_offsets(box: BrokerBox, topic: FetchTopic, error: str) -> None:
    answer = box.send(1, FetchRequest(session_epoch=-1, topics=[topic]), 12).responses[0].partitions[0]
    assert ErrorCode(answer.error_code).name == error
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (-1, -1, -1)


def test_an_unknown_topic_id_is_not_an_unknown_topic(box: BrokerBox) -> None:
    for topic_id in (b"\1" * 16, bytes(16)):
        topic = FetchTopic("", topic_id, wanted().partitions)
        response = box.send(1, FetchRequest(session_epoch=-1, topics=[topic]), 13)
        assert ErrorCode(response.responses[0].partitions[0].error_code).name == "UNKNOWN_TOPIC_ID"


def test_followers_find_no_leader_here(box: BrokerBox) -> None:
    response = box.send(1, FetchRequest(replica_id=5, session_epoch=-1, topics=[wanted()]), 12)
    assert ErrorCode(response.responses[0].partitions[0].error_code).name == "NOT_LEADER_OR_FOLLOWER"


@pytest.mark.parametrize(
    ("limit", "got"), [(0, 1.0), (1, 1.0), (BATCH_BYTES, 1.0), (BATCH_BYTES * 3 // 2, 1.5), (BATCH_BYTES * 9, 3.0)]
)
def test_a_partition_gives_its_first_batch_whatever_the_limit(box: BrokerBox, limit: int, got: float) -> None:
    fill(box)
    assert len(box.fetch(0, max_bytes=limit).records or b"") == got * BATCH_BYTES


def test_only_the_first_partition_with_records_may_exceed_the_limits(box: BrokerBox) -> None:
    for partition in range(3):
        fill(box, partition)
    topics = [wanted(each, max_bytes=BATCH_BYTES - 1) for each in range(3)]
    assert sizes(box.send(1, FetchRequest(session_epoch=-1, topics=topics), 12)) == [(0, BATCH_BYTES), (1, 0), (2, 0)]
    topics = [wanted(each, max_bytes=BATCH_BYTES) for each in range(3)]
    request = FetchRequest(session_epoch=-1, topics=topics, max_bytes=2 * BATCH_BYTES)
    assert sizes(box.send(1, request, 12)) == [(0, BATCH_BYTES), (1, BATCH_BYTES), (2, 0)]


def test_fetch_max_bytes_of_the_broker_bounds_every_answer(tmp_path: Path) -> None:
    box = BrokerBox(tmp_path / "data", fetch_max_bytes="1024")
    box.topic("t")
    fill(box, batches=20)
    assert len(box.fetch(0).records or b"") == 1024
    box.close()


def test_a_partition_asked_for_twice_is_answered_once(box: BrokerBox) -> None:
    fill(box)
    response = box.send(1, FetchRequest(session_epoch=-1, topics=[wanted(0, 0), wanted(0, 2)]), 12)
    assert sizes(response) == [(0, BATCH_BYTES)]


def test_damaged_data_is_told_for_its_partition_alone(box: BrokerBox, tmp_path: Path) -> None:
    box.append(b"a", b"b", partition=0)
    fill(box, 1)
    path = tmp_path / "data" / "t-0" / "00000000000000000000.log"
    path.write_bytes(bytes(path.stat().st_size))
    topics = [wanted(0, 1), wanted(1)]
    answers = box.send(1, FetchRequest(session_epoch=-1, topics=topics), 12).responses[0].partitions
    assert [ErrorCode(each.error_code).name for each in answers] == ["CORRUPT_MESSAGE", "NONE"]


# --- what waits -----------------------------------------------------------------------------------


def wait(box: BrokerBox, *topics: FetchTopic, min_bytes: int = 1, max_wait_ms: int = 500) -> FakeConnection:
    client = FakeConnection()
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, session_epoch=-1, topics=topics)
    answer = box.send(1, request, 12, client=client)
    if answer is not PARKED:
        client.answers.append(answer)
    return client


def test_a_fetch_at_the_end_waits_and_an_append_wakes_it(box: BrokerBox) -> None:
    client = wait(box, wanted())
    box.pass_time(499)
    assert client.answers == []
    fill(box, batches=1)
    box.pass_time(0)
    assert sizes(client.answers[0]) == [(0, BATCH_BYTES)]
    assert len(purgatory_of(box.broker)) == 0


def test_a_fetch_that_nothing_wakes_is_answered_when_its_time_is_up(box: BrokerBox) -> None:
    client = wait(box, wanted())
    box.pass_time(500)
    assert sizes(client.answers[0]) == [(0, 0)]
    fill(box)
    box.pass_time(1000)
    assert len(client.answers) == 1


def test_a_fetch_waits_for_min_bytes_over_all_its_partitions(box: BrokerBox) -> None:
    client = wait(box, wanted(0), wanted(1), min_bytes=3 * BATCH_BYTES)
    for partition in (0, 1):
        fill(box, partition, batches=1)
        box.pass_time(0)
        assert client.answers == []
    fill(box, 0, batches=1)
    box.pass_time(0)
    assert sizes(client.answers[0]) == [(0, 2 * BATCH_BYTES), (1, BATCH_BYTES)]


def test_what_lies_beyond_a_partitions_limit_does_not_count(box: BrokerBox) -> None:
    client = wait(box, wanted(0, max_bytes=BATCH_BYTES), min_bytes=2 * BATCH_BYTES)
    fill(box)
    box.pass_time(0)
    assert client.answers == []
    box.pass_time(500)
    assert sizes(client.answers[0]) == [(0, BATCH_BYTES)]


def test_many_appends_of_one_turn_make_one_answer(box: BrokerBox) -> None:
    client = wait(box, wanted())
    fill(box, batches=3)
    box.pass_time(0)
    assert [sizes(each) for each in client.answers] == [[(0, 3 * BATCH_BYTES)]]


@pytest.mark.parametrize(
    ("other", "waits"), [(wanted(1, 99), False), (wanted(1, current_leader_epoch=1), False), (wanted(9), True)]
)
def test_an_error_ends_the_wait_unless_it_is_an_unknown_topic(box: BrokerBox, other: FetchTopic, waits: bool) -> None:
    assert (wait(box, wanted(), other).answers == []) is waits


@pytest.mark.parametrize("topics", [[], [wanted(9)]])
def test_nothing_to_wait_for_is_answered_at_once(box: BrokerBox, topics: list[FetchTopic]) -> None:
    assert wait(box, *topics).answers != []


def test_deleting_records_below_a_waiting_fetch_is_told_at_once(box: BrokerBox) -> None:
    fill(box)
    client = wait(box, wanted(0, 2), min_bytes=10_000)
    topic = DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 3)])
    box.send(21, DeleteRecordsRequest([topic]), 2)
    box.pass_time(0)
    answer = client.answers[0].responses[0].partitions[0]
    assert ErrorCode(answer.error_code).name == "OFFSET_OUT_OF_RANGE"


def test_deleting_a_topic_wakes_those_who_wait_for_it(box: BrokerBox) -> None:
    client = wait(box, wanted())
    topic = box.broker.catalog.get("t")
    assert topic is not None
    box.broker.catalog.make(box.broker.catalog.deletion_of([topic]))
    changed(box.broker, topic.partitions[0])
    box.pass_time(500)
    assert ErrorCode(client.answers[0].responses[0].partitions[0].error_code).name == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_client_that_hung_up_is_not_answered_and_not_kept(box: BrokerBox) -> None:
    client = wait(box, wanted())
    client.is_closed = True
    fill(box)
    box.pass_time(1000)
    assert client.answers == []
    assert not is_watched(box)


def is_watched(box: BrokerBox, topic: str = "t") -> bool:
    return any(WATCHERS in each.extra for each in box.broker.catalog.get(topic).partitions)  # type: ignore[union-attr]


def test_a_fetch_that_waits_for_days_goes_with_its_connection(box: BrokerBox) -> None:
    for _ in range(3):
        client = wait(box, wanted(), max_wait_ms=2**31 - 1)
        assert len(purgatory_of(box.broker)) == 1
        client.close("the client hung up")
        assert len(purgatory_of(box.broker)) == 0
        assert not is_watched(box)


def test_a_fetch_that_fails_does_not_keep_the_others_waiting(box: BrokerBox, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = [wait(box, wanted()) for _ in range(3)]
    read = PartitionLog.read
    calls = iter((ZeroDivisionError, None, None))

    def read_or_fail(self: PartitionLog, offset: int, max_bytes: int, **more: Any) -> Any:
        if (problem := next(calls)) is not None:
            raise problem
        return read(self, offset, max_bytes, **more)

    monkeypatch.setattr(PartitionLog, "read", read_or_fail)
    fill(box, batches=1)
    box.pass_time(0)
    assert [len(client.answers) for client in clients] == [0, 1, 1]
    assert [type(problem) for problem in clients[0].problems] == [ZeroDivisionError]
    assert len(purgatory_of(box.broker)) == 0


def test_many_woken_fetches_leave_turns_to_the_others(box: BrokerBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.broker.topics.delayed_fetch.TURN_NS", -1)  # every turn is over at once
    clients = [wait(box, wanted()) for _ in range(3)]
    turns: list[int] = []
    call_later = box.broker.call_later

    def count(seconds: float, work: Callable[[], object]) -> Timer:
        turns.append(sum(len(client.answers) for client in clients))
        if len(turns) > 3:
            monkeypatch.setattr("kohort.broker.topics.delayed_fetch.TURN_NS", 10**9)
        return call_later(seconds, work)  # type: ignore[return-value]

    monkeypatch.setattr(box.broker, "call_later", count)
    fill(box, batches=1)
    box.pass_time(0)
    assert turns[:4] == [0, 0, 0, 0]
    assert [len(client.answers) for client in clients] == [1, 1, 1]


# --- many partitions ------------------------------------------------------------------------------


def many(count: int, topic: str = "unknown") -> FetchTopic:
    return FetchTopic(topic, partitions=[FetchPartition(each, partition_max_bytes=1 << 20) for each in range(count)])


def steps_of(box: BrokerBox, request: FetchRequest, client: FakeConnection, *, is_long: bool) -> Steps[Any]:
    """The steps that a long request takes, without taking them."""
    call = Call(client, box.broker.apis.route(1, 12), "test")  # type: ignore[arg-type]
    call.correlation_id, call.now, call.is_long = 1, box.now, is_long
    steps = fetch(box.broker, request, call)
    assert isinstance(steps, GeneratorType)
    return steps


@pytest.mark.parametrize("is_long", [False, True])
def test_many_partitions_are_fetched_in_steps_with_the_same_answer(box: BrokerBox, is_long: bool) -> None:
    box.topic("wide", 600)
    for partition in (3, 599):
        box.append(b"x" * 100, topic="wide", partition=partition)
    topics = [many(600, "nope"), many(300, "wide"), many(600, "wide"), wanted(9)]
    steps = list(steps_of(box, FetchRequest(session_epoch=-1, topics=topics), FakeConnection(), is_long=is_long))
    assert len(steps) >= 3 * 1200 // 50
    answer = box.send(1, FetchRequest(session_epoch=-1, topics=topics), 12)
    assert [(each.topic, len(each.partitions)) for each in answer.responses] == [("wide", 600), ("nope", 600), ("t", 1)]
    assert [index for index, size in sizes(answer) if size] == [3, 599]


def test_a_fetch_of_many_partitions_waits_is_woken_and_goes_with_its_connection(box: BrokerBox) -> None:
    box.topic("wide", 2_000)
    client = wait(box, many(2_000, "wide"), max_wait_ms=10_000)
    assert client.answers == []
    box.append(b"x" * 100, topic="wide", partition=1_999)
    box.pass_time(0)
    assert [index for index, size in sizes(client.answers[0]) if size] == [1_999]
    assert not is_watched(box, "wide")
    other = wait(box, many(1_999, "wide"), max_wait_ms=10_000)
    other.close("the client hung up")
    assert not is_watched(box, "wide")
    assert (len(purgatory_of(box.broker)), purgatory_of(box.broker).taken) == (0, 0)


def test_of_many_unknown_partitions_no_more_than_the_answer_is_kept(box: BrokerBox) -> None:
    topics = [wanted(), many(5_000), many(5_000, "u2"), many(4_000, "u2")]
    client = FakeConnection()
    request = FetchRequest(session_epoch=0, max_wait_ms=500, min_bytes=1, topics=topics)
    call = Call(client, box.broker.apis.route(1, 12), "test")  # type: ignore[arg-type]
    call.correlation_id, call.now, call.is_long = 1, box.now, True
    steps = fetch(box.broker, request, call)
    assert isinstance(steps, GeneratorType)
    answer = through_the_wire(call.route, all_steps(steps))
    assert answer.session_id == 0
    assert (len(sessions_of(box.broker)), len(purgatory_of(box.broker))) == (0, 0)
    told = [(topic.topic, each.partition_index) for topic in answer.responses for each in topic.partitions]
    asked = [("t", 0), *(("unknown", index) for index in range(5_000)), *(("u2", index) for index in range(5_000))]
    assert told == asked
    errors = {each.error_code for topic in answer.responses[1:] for each in topic.partitions}
    assert errors == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_an_append_while_a_long_fetch_goes_through_its_partitions_is_not_lost(box: BrokerBox) -> None:
    box.topic("wide", 600)
    client = FakeConnection()
    request = FetchRequest(max_wait_ms=500, min_bytes=1, session_epoch=-1, topics=[many(600, "wide")])
    steps = steps_of(box, request, client, is_long=True)
    while not is_watched(box, "wide"):
        next(steps)
    box.append(b"x" * 100, topic="wide", partition=0)
    assert all_steps(steps) is PARKED
    box.pass_time(0)
    assert [index for index, size in sizes(client.answers[0]) if size] == [0]


def test_a_client_that_hangs_up_in_the_middle_of_a_long_fetch_leaves_nothing(box: BrokerBox) -> None:
    box.topic("wide", 600)
    box.append(b"x" * 100, topic="wide", partition=0)
    log = box.broker.catalog.get("wide").partitions[0].log  # type: ignore[union-attr]
    users = log.active.file()._users
    for taken in (5, 15, 25, 30, 40):
        request = FetchRequest(max_wait_ms=500, min_bytes=10**6, session_epoch=0, topics=[many(600, "wide")])
        steps = steps_of(box, request, FakeConnection(), is_long=True)
        for _ in range(taken):
            next(steps, None)
        steps.close()
        assert log.active.file()._users == users
        assert len(purgatory_of(box.broker)) == 0 or taken == 40


def test_large_fetches_that_wait_share_an_allowance(box: BrokerBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.broker.topics.delayed_fetch.MAX_PARTITIONS_IN_LARGE", 5_000)
    first = [wait(box, wanted(), many(1_999)) for _ in range(4)]
    assert [len(client.answers) for client in first] == [0, 0, 1, 1]
    assert wait(box, wanted()).answers == []  # those that nearly everybody sends may always wait
    first[0].close("the client hung up")
    assert wait(box, wanted(), many(1_999)).answers == []


# --- sessions -------------------------------------------------------------------------------------


def session(box: BrokerBox, session_id: int, epoch: int, *topics: FetchTopic, version: int = 12, **fields: Any) -> Any:
    request = FetchRequest(session_id=session_id, session_epoch=epoch, topics=topics, **fields)
    return box.send(1, request, version)


def test_a_full_fetch_opens_a_session_and_incremental_ones_tell_only_news(box: BrokerBox) -> None:
    fill(box)
    first = session(box, 0, 0, wanted(0), wanted(1))
    assert (first.error_code, sizes(first)) == (0, [(0, 3 * BATCH_BYTES), (1, 0)])
    assert first.session_id > 0
    second = session(box, first.session_id, 1, wanted(0, 3))
    assert (second.session_id, sizes(second)) == (first.session_id, [])
    fill(box, 1, batches=1)
    assert sizes(session(box, first.session_id, 2)) == [(1, BATCH_BYTES)]


def test_a_moved_log_start_or_an_error_is_news(box: BrokerBox) -> None:
    fill(box)
    opened = session(box, 0, 0, wanted(0, 3))
    box.send(21, DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 2)])]), 2)
    assert session(box, opened.session_id, 1).responses[0].partitions[0].log_start_offset == 2
    assert session(box, opened.session_id, 2).responses == []
    wrong = session(box, opened.session_id, 3, wanted(0, 99))
    assert ErrorCode(wrong.responses[0].partitions[0].error_code).name == "OFFSET_OUT_OF_RANGE"
    assert session(box, opened.session_id, 4).responses != []  # an error is told every time
    assert session(box, opened.session_id, 5, wanted(0, 3)).responses != []  # and so is its end
    assert session(box, opened.session_id, 6).responses == []


def test_partitions_can_be_added_and_forgotten(box: BrokerBox) -> None:
    for partition in range(3):
        fill(box, partition, batches=1)
    opened = session(box, 0, 0, wanted(0))
    added = session(box, opened.session_id, 1, wanted(1), forgotten_topics_data=[ForgottenTopic("t", partitions=[0])])
    assert sizes(added) == [(1, BATCH_BYTES)]
    assert sizes(session(box, opened.session_id, 2)) == [(1, BATCH_BYTES)]


def test_a_partition_that_gave_records_goes_to_the_end_of_the_line(box: BrokerBox) -> None:
    for partition in range(3):
        fill(box, partition)
    opened = session(box, 0, 0, wanted(0), wanted(1), wanted(2), max_bytes=BATCH_BYTES)
    order = [sizes(session(box, opened.session_id, epoch, max_bytes=BATCH_BYTES))[0][0] for epoch in range(1, 5)]
    assert order == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("session_change", "epoch", "error"),
    [(1, 1, "FETCH_SESSION_ID_NOT_FOUND"), (0, 2, "INVALID_FETCH_SESSION_EPOCH"), (0, 1, "NONE")],
)
def test_id_and_epoch_must_be_right(box: BrokerBox, session_change: int, epoch: int, error: str) -> None:
    opened = session(box, 0, 0, wanted())
    answer = session(box, opened.session_id ^ session_change, epoch)
    assert (ErrorCode(answer.error_code).name, answer.responses) == (error, [])


def test_a_session_keeps_to_names_or_ids(box: BrokerBox) -> None:
    opened = session(box, 0, 0, wanted())
    answer = session(box, opened.session_id, 1, version=13)
    assert ErrorCode(answer.error_code).name == "FETCH_SESSION_TOPIC_ID_ERROR"


def test_epoch_minus_one_ends_a_session(box: BrokerBox) -> None:
    opened = session(box, 0, 0, wanted())
    assert session(box, opened.session_id, -1, wanted()).session_id == 0
    assert ErrorCode(session(box, opened.session_id, 1).error_code).name == "FETCH_SESSION_ID_NOT_FOUND"


def test_a_session_without_partitions_ends(box: BrokerBox) -> None:
    opened = session(box, 0, 0, wanted())
    last = session(box, opened.session_id, 1, forgotten_topics_data=[ForgottenTopic("t", partitions=[0])])
    assert last.session_id == 0
    assert len(sessions_of(box.broker)) == 0


def test_two_requests_of_one_session_at_once_do_not_both_count(box: BrokerBox) -> None:
    opened = session(box, 0, 0, wanted())
    client = FakeConnection()
    request = FetchRequest(max_wait_ms=500, min_bytes=1, session_id=opened.session_id, session_epoch=1)
    assert box.send(1, request, 12, client=client) is PARKED
    assert session(box, opened.session_id, 2).error_code == 0
    box.pass_time(500)
    assert ErrorCode(client.answers[0].error_code).name == "INVALID_FETCH_SESSION_EPOCH"


def test_when_all_slots_are_taken_there_is_no_session_until_one_is_stale(box: BrokerBox) -> None:
    first = session(box, 0, 0, wanted()).session_id
    second = session(box, 0, 0, wanted()).session_id
    assert session(box, 0, 0, wanted()).session_id == 0
    box.pass_time(2 * MINUTE_MS)
    assert session(box, second, 1).error_code == 0  # used: the other one is the stale one
    box.pass_time(1)
    third = session(box, 0, 0, wanted()).session_id
    assert third > 0
    assert ErrorCode(session(box, first, 1).error_code).name == "FETCH_SESSION_ID_NOT_FOUND"
    assert session(box, second, 2).error_code == 0


def test_a_session_goes_with_its_connection_and_a_connection_has_one(box: BrokerBox) -> None:
    client = FakeConnection()
    for _ in range(5):
        request = FetchRequest(session_epoch=0, topics=[wanted(), many(1_500)])
        assert box.send(1, request, 12, client=client).session_id > 0
    assert (len(sessions_of(box.broker)), sessions_of(box.broker).partition_count) == (1, 1_501)
    client.close("the client hung up")
    assert len(sessions_of(box.broker)) == 0


def test_large_sessions_share_an_allowance(box: BrokerBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.broker.topics.fetch_sessions.MAX_PARTITIONS_IN_LARGE", 5_000)
    opened = session(box, 0, 0, many(3_000)).session_id
    assert opened > 0
    refused = session(box, 0, 0, many(3_000))
    assert (refused.session_id, len(refused.responses[0].partitions)) == (0, 3_000)
    assert len(session(box, opened, 1, many(4_000)).responses[0].partitions) == 4_000
    grown = session(box, opened, 2, many(5_001))
    assert ErrorCode(grown.error_code).name == "FETCH_SESSION_ID_NOT_FOUND"
    assert len(sessions_of(box.broker)) == 0
    assert session(box, 0, 0, many(5_000)).session_id > 0


def test_a_partition_that_did_not_exist_is_heard_of_when_it_does(box: BrokerBox) -> None:
    opened = session(box, 0, 0, wanted(0, topic="later")).session_id
    assert session(box, opened, 1).responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    box.topic("later")
    assert session(box, opened, 2).responses[0].partitions[0].error_code == 0


def test_an_old_session_makes_room_for_a_larger_one(box: BrokerBox) -> None:
    opened = [session(box, 0, 0, wanted()).session_id for _ in range(2)]
    box.pass_time(MINUTE_MS)
    for each in opened:
        session(box, each, 1)
    box.pass_time(MINUTE_MS + 1)
    for each in opened:
        session(box, each, 2)
    assert session(box, 0, 0, wanted(0), wanted(1)).session_id > 0
    assert len(sessions_of(box.broker)) == 2
