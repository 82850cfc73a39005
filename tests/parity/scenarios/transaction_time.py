"""Transactions and time: timeouts that abort, transactional ids and producers that expire. No time is measured."""

from __future__ import annotations

from typing import Any

from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.describe_producers import DescribeProducersResponse
from tests.parity.pairs import OLD_TRANSACTIONS
from tests.parity.transaction_story import TV0, TransactionStory, transaction_story
from tests.transaction_requests import Partition, describe_producers_request

END = ApiKey.END_TXN
INIT = ApiKey.INIT_PRODUCER_ID
SHORT_MS = 300


# --- timeouts


@transaction_story(END, None)
def a_transaction_that_takes_too_long_is_aborted_and_its_commit_refused(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun(versions=s.of_its_time(), timeout_ms=SHORT_MS)
    p.begin(at)
    s.until_state("CompleteAbort")
    p.commit_it()
    p.abort()
    p.init_again()
    s.read_all(at)
    s.describe_producers(at)


@transaction_story(END, None)
def a_transaction_that_takes_too_long_is_aborted_by_its_producer_too(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun(versions=s.of_its_time(), timeout_ms=SHORT_MS)
    p.begin(at)
    s.until_state("CompleteAbort")
    p.abort()
    p.abort()
    p.commit_it()
    s.describe_transactions()


@transaction_story(ApiKey.PRODUCE, (3, 9, 11, 12, 13))
def records_of_a_transaction_that_took_too_long(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    p = s.begun(timeout_ms=SHORT_MS)
    p.add((topic, 0))
    p.produce((topic, 0))
    s.until_state("CompleteAbort")
    p.produce((topic, 0))
    p.produce((topic, 1))
    p.abort()
    p.add((topic, 0))
    p.produce((topic, 0))


@transaction_story(INIT, range(3, 6))
def a_producer_whose_transaction_took_too_long_asks_for_an_epoch(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun(timeout_ms=SHORT_MS)
    p.begin(at)
    s.until_state("CompleteAbort")
    p.init(60_000, p.producer_id, p.epoch)
    p.produce(at)
    p.commit_it()
    s.read_all(at)


@transaction_story(ApiKey.TXN_OFFSET_COMMIT, None)
def offsets_of_a_transaction_that_took_too_long(s: TransactionStory) -> None:
    topic = s.topic("", 1)
    s.commit({(topic, 0): 1})
    p = s.begun(timeout_ms=SHORT_MS)
    p.add_offsets()
    p.commit_offsets({(topic, 0): 5})
    s.until_state("CompleteAbort")
    p.commit_offsets({(topic, 0): 6})
    s.fetch({topic: [0]}, stable=True)


@transaction_story(ApiKey.ADD_PARTITIONS_TO_TXN, None)
def a_transaction_without_records_takes_too_long(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun(versions=TV0, timeout_ms=SHORT_MS)
    p.add(at)
    s.until_state("CompleteAbort")
    p.add(at)
    s.read_all(at)
    s.describe_transactions()


@transaction_story(INIT, (5,))
def what_is_written_for_a_transaction_that_takes_too_long(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    s.watch_log()
    p = s.begun(timeout_ms=SHORT_MS)
    p.begin(at)
    s.until_state("CompleteAbort")
    p.init(60_000, p.producer_id, p.epoch)
    p.begin(at)
    p.commit_it()
    s.note_log()


# --- what expires


@transaction_story(END, (4, 5), pair=OLD_TRANSACTIONS)
def a_transactional_id_that_nobody_used_for_long(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun(versions=s.of_its_time())
    p.begin(at)
    p.commit_it()
    _until_forgotten(s)
    s.describe_transactions()
    s.list_transactions()
    p.add(at)
    p.commit_it()
    p.abort()
    p.add_offsets()


@transaction_story(INIT, (0, 5), pair=OLD_TRANSACTIONS)
def a_transactional_id_that_comes_back_gets_a_new_producer_id(s: TransactionStory) -> None:
    p = s.begun()
    _until_forgotten(s)
    p.init()
    _until_forgotten(s)
    if s.version >= 3:
        p.init_again()


def _until_forgotten(s: TransactionStory) -> None:
    def forgotten() -> bool:
        return bool(s.look_at(s.group).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)

    s.peer.wait_until(forgotten, "the transactional id to expire")


@transaction_story(INIT, (5,), pair=OLD_TRANSACTIONS)
def what_is_written_for_an_id_that_expires(s: TransactionStory) -> None:
    s.watch_log()
    s.begun()
    _until_forgotten(s)
    s.note_log()


@transaction_story(ApiKey.DESCRIBE_PRODUCERS, None, pair=OLD_TRANSACTIONS)
def a_producer_expires_unless_its_transaction_is_open(s: TransactionStory) -> None:
    topic = s.topic("", 2)
    idle, busy = s.begun("-idle"), s.begun("-busy")
    busy.begin((topic, 0), (topic, 1))
    s.peer.append(topic, idle.batch((topic, 0), transactional=False))
    _until_producers(s, (topic, 0), 1)
    s.describe_producers((topic, 0), (topic, 1))
    busy.produce((topic, 0))
    busy.commit_it()
    s.read((topic, 0))
    _until_producers(s, (topic, 0), 0)
    s.describe_producers((topic, 0))


def _until_producers(s: TransactionStory, at: Partition, count: int) -> None:
    def reached() -> bool:
        answer: Any = s.peer.quietly(ApiKey.DESCRIBE_PRODUCERS, describe_producers_request(at), 0)
        assert isinstance(answer, DescribeProducersResponse)
        return len(answer.topics[0].partitions[0].active_producers) == count

    s.peer.wait_until(reached, f"{count} producers in the partition")


@transaction_story(ApiKey.PRODUCE, (9, 11, 12, 13), pair=OLD_TRANSACTIONS)
def records_of_a_producer_that_has_expired(s: TransactionStory) -> None:
    at = (s.topic("", 1), 0)
    p = s.begun()
    p.add(at)
    p.produce(at, 2)
    p.commit_it()
    _until_producers(s, at, 0)
    p.init()
    p.add(at)
    p.produce(at, sequence=3)
    p.produce(at, sequence=0)
