"""isolation.level=read_committed: what Fetch and ListOffsets tell of open, committed and aborted transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kohort.broker.call import PARKED
from kohort.broker.topics import committed_reading
from kohort.broker.topics.catalog import TRANSACTION_STATE
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kohort.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kohort.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.storage import txn_index
from kohort.storage.memory_disk import MemoryDisk
from tests.broker.broker_box import START_MS, FakeConnection
from tests.broker.committed_reader import committed
from tests.broker.transaction_box import TransactionBox, data

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
BATCH_BYTES = len(data(0, 0))


@pytest.fixture
def box() -> Iterator[TransactionBox]:
    made = TransactionBox("/data", MemoryDisk())
    made.topic("t", 3)
    yield made
    made.close()


class Writer:
    """A transactional producer of transaction.version 1: its sequences go on from transaction to transaction."""

    def __init__(self, box: TransactionBox, producer_id: int, partition: int = 0) -> None:
        self.box = box
        self.producer_id = producer_id
        self.partition = partition
        self.sequence = 0

    def write(self, count: int = 1) -> int:
        offset = self.box.write(
            self.sequence, producer_id=self.producer_id, count=count, version=11, partition=self.partition
        )
        assert isinstance(offset, int), offset
        self.sequence += count
        return offset

    def end(self, *, commit: bool) -> None:
        assert self.box.end(commit=commit, producer_id=self.producer_id, partition=self.partition) == "NONE"

    def commit(self) -> None:
        self.end(commit=True)

    def abort(self) -> None:
        self.end(commit=False)


def told(answer: PartitionData) -> tuple[str, int, int, int, list[tuple[int, int]] | None]:
    """(error, high watermark, last stable offset, bytes of records, aborted transactions)."""
    aborted = answer.aborted_transactions
    named = None if aborted is None else [(each.producer_id, each.first_offset) for each in aborted]
    error, records = ErrorCode(answer.error_code).name, answer.records or b""
    return error, answer.high_watermark, answer.last_stable_offset, len(records), named


def fetched(
    box: TransactionBox, offset: int = 0, **fields: Any
) -> tuple[str, int, int, int, list[tuple[int, int]] | None]:
    return told(box.fetch(offset, isolation_level=READ_COMMITTED, **fields))


MARKER_BYTES = 78


# --- Fetch: what is below the last stable offset --------------------------------------------------


def test_open_data_is_held_back_and_committed_data_is_not(box: TransactionBox) -> None:
    writer = Writer(box, 7)
    box.append(b"plain")
    plain_bytes = fetched(box)[3]
    writer.write(2)
    assert fetched(box) == ("NONE", 3, 1, plain_bytes, [])
    writer.commit()
    assert fetched(box) == ("NONE", 4, 4, plain_bytes + len(data(0, 0, count=2)) + MARKER_BYTES, [])


def test_from_the_last_stable_offset_to_the_end_there_is_nothing_and_no_error(box: TransactionBox) -> None:
    writer = Writer(box, 7)
    writer.write()
    box.append(b"plain data behind it is held back, too")
    for offset in (0, 1, 2):
        assert fetched(box, offset) == ("NONE", 2, 0, 0, [])
    assert fetched(box, 3)[0] == "OFFSET_OUT_OF_RANGE"
    assert fetched(box, 3)[4] is None


def test_readers_of_uncommitted_records_get_all_and_are_told_the_last_stable_offset(box: TransactionBox) -> None:
    writer = Writer(box, 7)
    writer.write()
    assert told(box.fetch(0)) == ("NONE", 1, 0, BATCH_BYTES, None)
    writer.abort()
    assert told(box.fetch(0)) == ("NONE", 2, 2, BATCH_BYTES + MARKER_BYTES, None)


def test_the_oldest_open_transaction_decides(box: TransactionBox) -> None:
    outer, inner = Writer(box, 7), Writer(box, 8)
    outer.write()
    inner.write()
    assert fetched(box)[2] == 0
    inner.abort()
    assert fetched(box) == ("NONE", 3, 0, 0, [])
    inner.write()
    outer.commit()
    assert fetched(box) == ("NONE", 5, 3, 2 * BATCH_BYTES + MARKER_BYTES, [(8, 1)])
    inner.commit()
    assert fetched(box)[2:] == (6, 3 * BATCH_BYTES + 3 * MARKER_BYTES, [(8, 1)])


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_has_the_aborted_transactions(box: TransactionBox, version: int) -> None:
    writer = Writer(box, 7)
    writer.write()
    writer.abort()
    topic = box.broker.catalog.get("t")
    assert topic is not None
    wanted = FetchTopic("t", topic.id, [FetchPartition(0, partition_max_bytes=1 << 20)])
    request = FetchRequest(session_epoch=-1, topics=[wanted], isolation_level=READ_COMMITTED)
    answer = box.send(1, request, version).responses[0].partitions[0]
    assert told(answer)[1:] == (2, 2, BATCH_BYTES + MARKER_BYTES, [(7, 0)])


def test_aborted_transactions_are_those_that_reach_into_the_read(box: TransactionBox) -> None:
    writers = [Writer(box, number) for number in range(4)]
    for writer in writers:
        writer.write()  # 0, 2, 4, 6
        writer.abort()  # 1, 3, 5, 7
    assert fetched(box)[4] == [(0, 0), (1, 2), (2, 4), (3, 6)]
    assert fetched(box, 1)[4] == [(0, 0), (1, 2), (2, 4), (3, 6)]
    assert fetched(box, 2)[4] == [(1, 2), (2, 4), (3, 6)]
    assert fetched(box, 7)[4] == [(3, 6)]
    assert fetched(box, 8)[4] == []


def aborted_by_many(box: TransactionBox) -> None:
    for number in range(20):
        writer = Writer(box, 100 + number, number % 2)
        writer.write()
        if number % 3:
            box.append(b"plain", partition=number % 2)
        writer.abort()


def test_very_many_aborted_transactions_are_looked_up_in_steps(
    box: TransactionBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(txn_index, "BLOCK_ENTRIES", 3)
    aborted_by_many(box)
    at_once = [fetched(box, offset, max_bytes=max_bytes) for offset in range(20) for max_bytes in (100, 300, 5_000)]
    monkeypatch.setattr(committed_reading, "BLOCKS_AT_ONCE", 0)
    in_steps = [fetched(box, offset, max_bytes=max_bytes) for offset in range(20) for max_bytes in (100, 300, 5_000)]
    assert in_steps == at_once
    assert max(len(each[4] or ()) for each in in_steps) == 10


def test_a_reader_that_waited_gets_very_many_in_steps(box: TransactionBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_reading, "BLOCKS_AT_ONCE", 0)
    writer = Writer(box, 7)
    writer.write()
    client = wait(box)
    writer.abort()
    box.pass_time(0)
    assert [each[4] for each in answers(client)] == [[(7, 0)]]


def test_an_answer_with_very_many_gets_no_more_partitions(box: TransactionBox, monkeypatch: pytest.MonkeyPatch) -> None:
    aborted_by_many(box)
    wanted = [FetchPartition(each, fetch_offset=0, partition_max_bytes=1 << 20) for each in (0, 1)]
    request = FetchRequest(
        session_epoch=-1, isolation_level=READ_COMMITTED, topics=[FetchTopic("t", partitions=wanted)]
    )
    whole = box.send(1, request, 12).responses[0].partitions
    monkeypatch.setattr(committed_reading, "MAX_BLOCKS", 0)
    first, second = box.send(1, request, 12).responses[0].partitions
    assert told(first) == told(whole[0])
    assert told(second) == (*told(whole[1])[:3], 0, [])


def test_what_was_aborted_cannot_be_read(box: TransactionBox, monkeypatch: pytest.MonkeyPatch) -> None:
    aborted_by_many(box)

    def fail(*_: object) -> None:
        raise OSError("no such file")

    monkeypatch.setattr(txn_index.TxnIndex, "read", fail)
    assert fetched(box) == ("KAFKA_STORAGE_ERROR", -1, -1, 0, None)


def test_a_read_from_the_middle_of_aborted_data_names_where_it_began(box: TransactionBox) -> None:
    writer = Writer(box, 7)
    for _ in range(3):
        writer.write()
    writer.abort()
    assert fetched(box, 2)[4] == [(7, 0)]


def test_small_limits_cut_the_last_batch_as_in_other_fetches(box: TransactionBox) -> None:
    writer = Writer(box, 7)
    for _ in range(3):
        writer.write()
    writer.commit()
    writer.write()
    assert fetched(box, max_bytes=1)[3] == BATCH_BYTES
    assert fetched(box, max_bytes=BATCH_BYTES + 5)[3] == BATCH_BYTES + 5
    assert fetched(box, max_bytes=1 << 20)[3] == 3 * BATCH_BYTES + MARKER_BYTES


def test_the_isolation_level_of_a_request_counts_not_that_of_the_session(box: TransactionBox) -> None:
    Writer(box, 7).write()
    wanted = FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=1 << 20)])
    client = FakeConnection()
    first = box.send(
        1, FetchRequest(session_epoch=0, topics=[wanted], isolation_level=READ_COMMITTED), 12, client=client
    )
    assert first.session_id
    assert told(first.responses[0].partitions[0])[3:] == (0, [])
    again = FetchRequest(session_id=first.session_id, session_epoch=1)
    second = box.send(1, again, 12, client=client)
    assert told(second.responses[0].partitions[0])[3:] == (BATCH_BYTES, None)


def test_a_session_is_told_of_a_commit(box: TransactionBox) -> None:
    writer = Writer(box, 7)
    writer.write()
    wanted = FetchTopic("t", partitions=[FetchPartition(0, partition_max_bytes=1 << 20)])
    client = FakeConnection()
    request = FetchRequest(session_epoch=0, topics=[wanted], isolation_level=READ_COMMITTED)
    session_id = box.send(1, request, 12, client=client).session_id
    request = FetchRequest(session_id=session_id, session_epoch=1, isolation_level=READ_COMMITTED)
    assert box.send(1, request, 12, client=client).responses == []
    writer.abort()
    request = FetchRequest(session_id=session_id, session_epoch=2, isolation_level=READ_COMMITTED)
    answer = box.send(1, request, 12, client=client).responses[0].partitions[0]
    assert told(answer) == ("NONE", 2, 2, BATCH_BYTES + MARKER_BYTES, [(7, 0)])


@pytest.mark.parametrize("version", [4, 7, 12, 13, 17])
def test_an_unknown_isolation_level_is_an_error_of_the_whole_request(box: TransactionBox, version: int) -> None:
    topic = box.broker.catalog.get("t")
    assert topic is not None
    wanted = FetchTopic("t", topic.id, [FetchPartition(0), FetchPartition(1)])
    answer = box.send(1, FetchRequest(session_epoch=-1, topics=[wanted], isolation_level=2), version)
    if version >= 7:
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    partitions = [each for topic in answer.responses for each in topic.partitions]
    assert [each.error_code for each in partitions] == ([-1, -1] if version < 13 else [])


# --- Fetch: waiting -------------------------------------------------------------------------------


def wait(
    box: TransactionBox, *, min_bytes: int = 1, offset: int = 0, isolation_level: int = READ_COMMITTED
) -> FakeConnection:
    client = FakeConnection()
    wanted = FetchTopic("t", partitions=[FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 20)])
    request = FetchRequest(
        max_wait_ms=500, min_bytes=min_bytes, session_epoch=-1, topics=[wanted], isolation_level=isolation_level
    )
    answer = box.send(1, request, 12, client=client)
    if answer is not PARKED:
        client.answers.append(answer)
    return client


def answers(client: FakeConnection) -> list[Any]:
    return [told(each.responses[0].partitions[0]) for each in client.answers]


def test_open_data_does_not_wake_a_reader_and_the_marker_does(box: TransactionBox) -> None:
    writer = Writer(box, 7)
    client, other = wait(box), wait(box, isolation_level=READ_UNCOMMITTED)
    writer.write()
    box.append(b"plain")
    box.pass_time(10)
    assert answers(client) == []
    assert len(answers(other)) == 1
    writer.commit()
    box.pass_time(0)
    assert [each[:3] for each in answers(client)] == [("NONE", 3, 3)]


def test_a_waiting_reader_is_not_made_to_read_for_open_data(
    box: TransactionBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0
    log = box.partition().log
    writer = Writer(box, 7)
    writer.write()
    client = wait(box)
    real = type(log).read

    def counted(*args: Any, **kwargs: Any) -> Any:
        nonlocal reads
        reads += 1
        return real(*args, **kwargs)

    monkeypatch.setattr(type(log), "read", counted)
    for _ in range(20):
        writer.write()
        box.pass_time(1)
    assert (reads, answers(client)) == (0, [])
    writer.abort()
    box.pass_time(0)
    assert reads == 1
    assert [each[4] for each in answers(client)] == [[(7, 0)]]


def test_the_marker_of_an_inner_transaction_does_not_wake_a_reader(box: TransactionBox) -> None:
    outer, inner = Writer(box, 7), Writer(box, 8)
    outer.write()
    inner.write()
    client = wait(box)
    inner.commit()
    box.pass_time(10)
    assert answers(client) == []
    outer.commit()
    box.pass_time(0)
    assert [each[2] for each in answers(client)] == [4]


def test_only_bytes_below_the_last_stable_offset_count_for_min_bytes(box: TransactionBox) -> None:
    writer = Writer(box, 7)
    enough = BATCH_BYTES + MARKER_BYTES + 1
    client = wait(box, min_bytes=enough)
    writer.write(200)
    box.pass_time(10)
    assert answers(client) == []
    writer.commit()
    box.pass_time(0)
    assert len(answers(client)) == 1
    end = box.partition().log.log_end_offset
    client = wait(box, min_bytes=enough, offset=end)
    writer.write()
    writer.commit()
    box.pass_time(10)
    assert answers(client) == []  # one byte is missing
    box.append(b"")
    box.pass_time(0)
    assert [each[2] for each in answers(client)] == [end + 3]


def test_plain_data_wakes_a_reader_while_no_transaction_is_open(box: TransactionBox) -> None:
    client = wait(box)
    box.append(b"plain")
    box.pass_time(0)
    assert [each[:3] for each in answers(client)] == [("NONE", 1, 1)]


def test_a_reader_that_waits_behind_open_data_is_answered_when_its_time_is_up(box: TransactionBox) -> None:
    Writer(box, 7).write()
    client = wait(box)
    box.pass_time(500)
    assert answers(client) == [("NONE", 1, 0, 0, [])]


# --- ListOffsets ----------------------------------------------------------------------------------


def listed(box: TransactionBox, timestamp: int, isolation_level: int = READ_COMMITTED, version: int = 11) -> Any:
    asked = ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, timestamp)])
    answer = box.send(2, ListOffsetsRequest(-1, isolation_level, [asked]), version).topics[0].partitions[0]
    return ErrorCode(answer.error_code).name if answer.error_code else (answer.timestamp, answer.offset)


def test_the_latest_offset_is_the_last_stable_one(box: TransactionBox) -> None:
    writer = Writer(box, 7)
    box.append(b"plain")
    writer.write()
    assert listed(box, LATEST) == (-1, 1)
    assert listed(box, LATEST, READ_UNCOMMITTED) == (-1, 2)
    assert listed(box, EARLIEST) == (-1, 0)
    writer.commit()
    assert listed(box, LATEST) == (-1, 3)


def test_times_are_found_below_the_last_stable_offset_alone(box: TransactionBox) -> None:
    writer = Writer(box, 7)
    box.append(b"plain")
    box.pass_time(1000)
    writer.write()
    assert listed(box, START_MS) == (START_MS, 0)
    assert listed(box, START_MS + 1) == (-1, -1)
    assert listed(box, START_MS + 1, READ_UNCOMMITTED) == (START_MS + 1000, 1)
    assert listed(box, MAX_TIMESTAMP) == (-1, -1)
    assert listed(box, MAX_TIMESTAMP, READ_UNCOMMITTED) == (START_MS + 1000, 1)
    box.pass_time(1000)
    writer.commit()
    assert listed(box, START_MS + 1) == (START_MS + 1000, 1)
    assert listed(box, MAX_TIMESTAMP) == (START_MS + 2000, 2)  # a marker counts, too


def test_list_offsets_knows_two_isolation_levels(box: TransactionBox) -> None:
    for timestamp in (LATEST, EARLIEST, START_MS):
        assert listed(box, timestamp, 2) == "UNKNOWN_SERVER_ERROR"
        assert listed(box, timestamp, 2, version=2) == "UNKNOWN_SERVER_ERROR"


# --- DeleteRecords --------------------------------------------------------------------------------


def test_a_transaction_lives_on_when_its_first_records_are_deleted(box: TransactionBox) -> None:
    writer = Writer(box, 7)
    for _ in range(3):
        writer.write()
    client = wait(box, offset=2)
    deletion = DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 2)])])
    assert box.send(21, deletion, 2).topics[0].partitions[0].low_watermark == 2
    assert fetched(box, 2) == ("NONE", 3, 2, 0, [])
    assert listed(box, LATEST) == (-1, 2)
    box.pass_time(10)
    assert answers(client) == []
    writer.abort()
    box.pass_time(0)
    assert answers(client) == [("NONE", 4, 4, BATCH_BYTES + MARKER_BYTES, [(7, 0)])]


def test_deleting_in_the_middle_of_a_batch_of_an_open_transaction_shows_nothing_of_it(box: TransactionBox) -> None:
    writer = Writer(box, 7)
    writer.write(10)
    deletion = DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 4)])])
    box.send(21, deletion, 2)
    for offset in (4, 9, 10):
        assert fetched(box, offset) == ("NONE", 10, 4, 0, [])
    writer.abort()
    answer = box.fetch(4, isolation_level=READ_COMMITTED)
    assert committed(answer, 4) == ([], 11)


# --- after a start --------------------------------------------------------------------------------


@pytest.mark.parametrize("crash", [False, True])
def test_after_a_start_readers_are_held_back_by_what_was_open(box: TransactionBox, crash: bool) -> None:
    box.topic(TRANSACTION_STATE)
    aborted, left_open = Writer(box, 7), Writer(box, 8)
    aborted.write()
    aborted.abort()
    left_open.write()
    before = fetched(box)
    if crash:
        box.broker.logs.flush(box.now)
        box.crash()
    else:
        from kohort.broker.topics.producer_snapshots import save_all_snapshots

        save_all_snapshots(box.broker)
        box.close()
    again = TransactionBox("/data", box.disk)
    assert again.broker.had_transactions
    assert again.fetch(0).last_stable_offset == -1, "a reader of uncommitted records does not wait for what was open"
    assert fetched(again) == before == ("NONE", 3, 2, BATCH_BYTES + MARKER_BYTES, [(7, 0)])
    assert again.fetch(0).last_stable_offset == 2
    assert listed(again, LATEST) == (-1, 2)
    client = wait(again, offset=2)
    again.end(producer_id=8)
    again.pass_time(0)
    assert answers(client) == [("NONE", 4, 4, BATCH_BYTES + MARKER_BYTES, [])]
    again.close()


def test_after_a_start_a_waiting_reader_is_woken_like_before(box: TransactionBox) -> None:
    box.topic(TRANSACTION_STATE)
    box.append(b"plain")
    box.close()
    again = TransactionBox("/data", box.disk)
    client = wait(again, offset=1)
    again.append(b"plain")
    again.pass_time(0)
    assert [each[:3] for each in answers(client)] == [("NONE", 2, 2)]
    again.close()
