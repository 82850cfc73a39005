"""The marker that ends a transaction in the log of a partition (KIP-98)."""

from __future__ import annotations

from typing import NamedTuple


class TxnMarker(NamedTuple):
    producer_id: int
    producer_epoch: int
    commit: bool  # or abort
    coordinator_epoch: int  # leader epoch of the partition of __transaction_state
    transaction_version: int
