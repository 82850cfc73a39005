"""A broker that stops in good order while transactions are ending: nothing is written to logs that were closed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kohort.broker.call import PARKED
from kohort.broker.topics.catalog import TRANSACTION_STATE
from kohort.protocol.api_keys import ApiKey
from kohort.protocol.error_codes import ErrorCode
from kohort.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kohort.protocol.messages.end_txn import EndTxnRequest
from kohort.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.broker.broker_box import BrokerBox, FakeConnection
from tests.broker.transaction_box import data
from tests.transaction_requests import Identity

NAME = "mine"


class StoppingBox(BrokerBox):
    """A broker with its own transaction coordinator, which stops as a broker does that gets a SIGTERM."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.broker.start_work(self._posted.put)
        self.broker.ensure_internal(TRANSACTION_STATE)
        self.until(lambda: self.state() != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.name)

    def ask(self, api_key: ApiKey, request: Any, version: int) -> Any:
        """The answer, when it has come."""
        client = FakeConnection()
        answer = self.send(api_key, request, version, client=client)
        if answer is PARKED:
            self.until(lambda: bool(client.answers))
            answer = client.answers[0]
        return answer

    def until(self, condition: Callable[[], bool]) -> None:
        self.pass_time()
        while not condition():
            if not self._posted.empty():
                self.run_posted()
            self.pass_time(1)

    def begin(self) -> Identity:
        """A transaction with a record in t-0."""
        answer = self.ask(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(NAME, 60_000), 4)
        who = Identity(NAME, answer.producer_id, answer.producer_epoch)
        batch = data(self.now, 0, producer_id=who.producer_id, epoch=who.epoch)
        assert self.produce(batch, transactional_id=NAME).error_code == 0
        return who

    def state(self) -> str:
        """Of the transaction, or why it is not told."""
        answer = self.ask(ApiKey.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest([NAME]), 0)
        (found,) = answer.transaction_states
        state: str = ErrorCode(found.error_code).name if found.error_code else found.transaction_state
        return state

    def stop(self) -> None:
        self.broker.close(self.now)
        self.pass_time(1_000)  # the event loop takes some more turns


def test_a_transaction_that_is_decided_while_the_broker_stops_ends_after_its_next_start(tmp_path: Path) -> None:
    box = StoppingBox(tmp_path)
    box.topic()
    who = box.begin()
    assert box.send(ApiKey.END_TXN, EndTxnRequest(*who, True), 5) is PARKED
    box.pass_time()  # the decision is written, and waits for the disk
    box.stop()

    again = StoppingBox(tmp_path)
    again.until(lambda: again.state() == "CompleteCommit")
    assert next(each.value for each in again.read_all()) == b"v"
    again.stop()


def test_nothing_is_appended_to_a_log_that_was_closed(tmp_path: Path) -> None:
    box = StoppingBox(tmp_path)
    box.topic()
    box.append(b"before")
    box.stop()
    batch = data(box.now, 0, transactional=False)
    assert box.produce(batch).error_code == ErrorCode.KAFKA_STORAGE_ERROR
