"""What one shard of the transaction coordinator knows: transactional ids of one partition of __transaction_state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kohort.coordinator.state import State
from kohort.coordinator.transactions.transaction import Transaction


@dataclass(slots=True, frozen=True)
class TransactionConfig:
    """In Kafka's units and with Kafka's defaults."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    audit_headers: bool = True
    max_record_bytes: int = 1_048_588


class Surroundings(Protocol):
    """What the coordinator asks of the rest of the broker."""

    def take_producer_id(self) -> int | None:
        """An id that no producer had before. None: none can be had at the moment."""
        ...

    def offsets_partition(self, group_id: str) -> int:
        """The partition of __consumer_offsets that holds the offsets of the group."""
        ...


class TransactionsState(State):
    __slots__ = ("around", "config", "open", "transactions")

    def __init__(self, partition: int, config: TransactionConfig, around: Surroundings) -> None:
        super().__init__(partition)
        self.config = config
        self.around = around
        self.transactions: dict[str, Transaction] = {}
        self.open: dict[str, Transaction] = {}  # those that are Ongoing
