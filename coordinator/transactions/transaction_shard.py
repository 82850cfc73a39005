"""One partition of __transaction_state: how its records become transactions."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.coordinator.outcome import Outcome
from kohort.coordinator.shard import Shard
from kohort.coordinator.transactions.ending import markers_of, set_deadline
from kohort.coordinator.transactions.state import TransactionsState
from kohort.coordinator.transactions.transaction import Transaction
from kohort.coordinator.transactions.transaction_state import ONGOING, PREPARED, STATE_OF_ID
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages.log_transaction_log import TransactionLogKey, TransactionLogValue
from kohort.protocol.transaction_records import TRANSACTION_STATE
from kohort.protocol.wire import Message

TRANSACTIONS_IN_STEP = 500


class TransactionShard(Shard[TransactionsState]):
    types = TRANSACTION_STATE

    def replay(self, record_type: int, key: Message, value: Message | None, log_offset: int) -> None:
        assert isinstance(key, TransactionLogKey), key
        state, transactional_id = self.state, key.transactional_id
        if value is None:
            state.transactions.pop(transactional_id, None)
            state.open.pop(transactional_id, None)
            return
        assert isinstance(value, TransactionLogValue), value
        if not 0 <= value.transaction_status < len(STATE_OF_ID):
            raise MalformedMessage(f"unknown transaction status {value.transaction_status}")
        found = state.transactions.get(transactional_id)
        if found is None:
            found = state.transactions[transactional_id] = Transaction(transactional_id)
        found.replay(value)
        if found.state is ONGOING:
            state.open[transactional_id] = found
        else:
            state.open.pop(transactional_id, None)

    def on_loaded(self, out: Outcome) -> Iterator[None]:
        """Have markers of decided transactions sent once more. Open transactions go on, with their old deadlines."""
        state = self.state
        for number, transaction in enumerate(state.transactions.values(), 1):
            if transaction.state in PREPARED:
                out.events.append(markers_of(transaction))
            elif transaction.state is ONGOING:
                set_deadline(transaction, state.clock.now, state.clock.wall - transaction.started_ms)
            if number % TRANSACTIONS_IN_STEP == 0:
                yield
