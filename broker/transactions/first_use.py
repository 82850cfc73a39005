"""Makes the transaction coordinator when the first request needs it: most brokers have no transactions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kohort.broker.broker import Broker
    from kohort.coordinator.api import Steps

# Each module stands behind those that it imports, so that one step imports one of them: a few milliseconds.
MODULES = (
    "kohort.protocol.messages.log_transaction_log",
    "kohort.coordinator.transactions.transaction",
    "kohort.coordinator.transactions.transaction_shard",
    "kohort.protocol.messages.add_partitions_to_txn",
    "kohort.coordinator.transactions.add_partitions_to_txn",
    "kohort.coordinator.transactions.upkeep",
    "kohort.broker.topics.producer_snapshots",
    "kohort.broker.topics.txn_markers",
    "kohort.broker.transactions.host",
    "kohort.coordinator.transactions.init_producer_id",
)


def is_in_use(broker: Broker) -> bool:
    return "transactions" in broker.__dict__


def begin_to_use(broker: Broker) -> Steps[None]:
    """Import it in steps, then make it."""
    for name in MODULES:
        import_module(name)
        yield
    _ = broker.transactions
