"""Metrics of transactions: transactional ids by state, how old the oldest open transaction is, and how others ended.

A broker that had no transactions since its start shows zeros, so that rules for alerts have something to compare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kohort.broker.metrics import PER_STEP, gauge, histogram, metric
from kohort.broker.transactions.first_use import is_in_use
from kohort.broker.transactions.news import DURATION_BUCKETS_S, TransactionNews
from kohort.coordinator.transactions.transaction_state import ONGOING, PREPARED, TransactionState

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.coordinator.transactions.transaction import Transaction

NOTHING = TransactionNews()


def transaction_lines(broker: Broker) -> Iterator[str]:
    states: Counter[TransactionState] = Counter()
    oldest_ms = now = broker.clock.now_ms()
    for number, transaction in enumerate(_transactions(broker)):
        states[transaction.state] += 1
        if transaction.state is ONGOING or transaction.state in PREPARED:
            oldest_ms = min(oldest_ms, transaction.started_ms)
        if number % PER_STEP == 0:
            yield ""
    rows = [(f'state="{state.value}"', states[state]) for state in TransactionState]
    yield from gauge("kohort_transactions", "transactional ids by state", rows)
    age = [("", f"{max(0, now - oldest_ms) / 1000:.3f}")]
    yield from gauge("kohort_oldest_open_transaction_seconds", "for which it has been open; 0 if none is", age)
    yield from _ended(broker.transactions.news if is_in_use(broker) else NOTHING)


def _transactions(broker: Broker) -> Iterator[Transaction]:
    if is_in_use(broker):
        for shard in broker.transactions.runtime.shards:
            yield from list(shard.state.transactions.values())


def _ended(news: TransactionNews) -> Iterator[str]:
    ended = [
        (f'result="{result}",cause="{cause or "resumed"}"', count)
        for (result, cause), count in sorted(news.ended.items())
    ]
    yield from metric("kohort_transactions_total", "counter", "transactions whose markers are all written", ended)
    about = "from the first partition to the last marker"
    yield from metric("kohort_transaction_seconds", "histogram", about, ())
    yield from histogram("kohort_transaction_seconds", "", DURATION_BUCKETS_S, news.buckets, news.seconds)
