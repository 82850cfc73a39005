"""Keys and values of __transaction_state: round trips, and bytes that a real Kafka 4.3.1 has written."""

from __future__ import annotations

import random

import pytest

from kohort.protocol.errors import MalformedMessage
from kohort.protocol.messages.log_transaction_log import TransactionLogKey, TransactionLogValue, TransactionPartitions
from kohort.protocol.record_types import UnknownRecord
from kohort.protocol.transaction_records import TRANSACTION_LOG, TRANSACTION_STATE
from tests.protocol.random_messages import kinds, random_values

KINDS = {kind.name: kind for kind in kinds()}
ONGOING_OF_KAFKA = bytes.fromhex(
    "0001 0000000000000017 0000 0000ea60 01 02 0255 02 00000002 00 000001a1e8d88d2f 000001a1e8d88d2f "
    "02 0008 0000000000000017 0202 0002"
)


def test_a_record_of_kafka_is_read_and_written_to_the_byte() -> None:
    value = TRANSACTION_STATE.decode_value(TRANSACTION_LOG, ONGOING_OF_KAFKA)
    assert value == TransactionLogValue(
        producer_id=23, previous_producer_id=23, producer_epoch=0, transaction_timeout_ms=60_000, transaction_status=1,
        transaction_partitions=[TransactionPartitions("U", (2,))], client_transaction_version=2,
        transaction_last_update_timestamp_ms=0x1A1E8D88D2F, transaction_start_timestamp_ms=0x1A1E8D88D2F,
    )  # fmt: skip
    assert TRANSACTION_STATE.encode_value(TRANSACTION_LOG, value) == ONGOING_OF_KAFKA


@pytest.mark.parametrize("version", [0, 1])
def test_both_versions_come_back_as_they_were(version: int) -> None:
    rng = random.Random(version)
    keys, values = KINDS["TransactionLogKey"], KINDS["TransactionLogValue"]
    for _ in range(50):
        key, value = keys.build(random_values(keys, 0, rng)), values.build(random_values(values, version, rng))
        assert TRANSACTION_STATE.decode_key(TRANSACTION_STATE.encode_key(0, key)) == (0, key)
        assert TRANSACTION_STATE.decode_value(0, TRANSACTION_STATE.encode_value(0, value, version)) == value


def test_a_transaction_without_partitions_says_null_or_nothing() -> None:
    for value in (TransactionLogValue(transaction_partitions=None), TransactionLogValue(transaction_partitions=[])):
        assert TRANSACTION_STATE.decode_value(0, TRANSACTION_STATE.encode_value(0, value)) == value


def test_a_type_of_a_newer_kafka_is_passed_over_and_an_unknown_version_is_not() -> None:
    assert TRANSACTION_STATE.decode_key(bytes.fromhex("0001 0000")) == (1, UnknownRecord(1, bytes.fromhex("00010000")))
    with pytest.raises(MalformedMessage, match="version 2"):
        TRANSACTION_STATE.decode_value(TRANSACTION_LOG, bytes.fromhex("0002") + ONGOING_OF_KAFKA[2:])


def test_the_key_is_the_transactional_id() -> None:
    raw = TRANSACTION_STATE.encode_key(TRANSACTION_LOG, TransactionLogKey("tx"))
    assert raw == bytes.fromhex("0000 0002") + b"tx"
