"""The kinds of records in __transaction_state: how far each transactional id has come (KIP-98, KIP-890).

Each record is the whole state of one transactional id, so the topic is compacted. Version 1 of the value came with
version 2 of transactions.
"""

from __future__ import annotations

from typing import Final

from kohort.protocol.record_batch import NO_SEQUENCE
from kohort.protocol.record_types import RecordType, RecordTypes

TRANSACTION_LOG: Final = 0  # as Kafka numbers it

TRANSACTION_STATE: Final = RecordTypes(
    "__transaction_state", RecordType(TRANSACTION_LOG, "TransactionLog", 1), base_sequence=NO_SEQUENCE
)
