"""Keys and values of __share_group_state: round trips, and numbers that mean other things in __consumer_offsets."""

from __future__ import annotations

import random

import pytest

from kohort.protocol import log_records
from kohort.protocol.messages.log_share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from kohort.protocol.messages.log_share_update import ShareUpdateValue
from kohort.protocol.record_types import RecordType, UnknownRecord
from kohort.protocol.share_state_records import SHARE_GROUP_STATE, SHARE_SNAPSHOT, SHARE_UPDATE
from tests.protocol.random_messages import kinds, random_values

KINDS = {kind.name: kind for kind in kinds()}
TOPIC_ID = bytes(range(16))
KEY = ShareSnapshotKey("g", TOPIC_ID, 3)


@pytest.mark.parametrize("kind", SHARE_GROUP_STATE.kinds.values(), ids=lambda kind: kind.name)
def test_every_kind_comes_back_as_it_was(kind: RecordType) -> None:
    rng = random.Random(kind.id)
    keys, values = KINDS[f"{kind.name}Key"], KINDS[f"{kind.name}Value"]
    for _ in range(50):
        key, value = keys.build(random_values(keys, 0, rng)), values.build(random_values(values, 0, rng))
        assert SHARE_GROUP_STATE.decode_key(SHARE_GROUP_STATE.encode_key(kind.id, key)) == (kind.id, key)
        assert SHARE_GROUP_STATE.decode_value(kind.id, SHARE_GROUP_STATE.encode_value(kind.id, value)) == value


def test_a_number_is_another_kind_of_record_in_another_topic() -> None:
    raw = SHARE_GROUP_STATE.encode_key(SHARE_SNAPSHOT, KEY)
    assert raw == bytes.fromhex("0000 0001 67") + TOPIC_ID + bytes.fromhex("00000003")
    assert SHARE_GROUP_STATE.decode_key(raw) == (SHARE_SNAPSHOT, KEY)
    assert log_records.RECORD_TYPES[SHARE_SNAPSHOT].name == "LegacyOffsetCommit"


def test_a_type_of_a_newer_kafka_is_passed_over() -> None:
    raw = bytes.fromhex("0002") + b"whatever"
    assert SHARE_GROUP_STATE.decode_key(raw) == (2, UnknownRecord(2, raw))


def test_a_delivery_complete_count_that_is_not_known_takes_no_bytes() -> None:
    for record_type, value in ((SHARE_SNAPSHOT, ShareSnapshotValue()), (SHARE_UPDATE, ShareUpdateValue())):
        assert value.delivery_complete_count == -1
        raw = SHARE_GROUP_STATE.encode_value(record_type, value)
        assert raw.endswith(b"\x01\x00")  # no batches, no tags
