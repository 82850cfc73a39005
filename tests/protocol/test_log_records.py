"""Keys and values of __consumer_offsets: bytes that a live Kafka 4.3.1 wrote, and round trips of every type."""

from __future__ import annotations

import random

import pytest

from codegen.schema import load
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.log_records import RECORD_TYPES, UnknownRecord, decode_key, decode_value, encode_key, encode_value
from kohort.protocol.messages.log_consumer_group_member_metadata import (
    ClassicMemberMetadata,
    ConsumerGroupMemberMetadataValue,
)
from kohort.protocol.messages.log_group_metadata import GroupMetadataKey, GroupMetadataValue
from kohort.protocol.messages.log_offset_commit import OffsetCommitKey, OffsetCommitValue
from tests.protocol.random_messages import kinds, random_values

KINDS = {kind.name: kind for kind in kinds()}
TOPIC_ID = bytes.fromhex("944f443a5527482dbf59f9460759c28e")

KEYS = [
    (1, "0001 0006 6f7264657273 0002 7433 00000000", OffsetCommitKey("orders", "t3", 0)),
    (2, "0002 0006 6f7264657273", GroupMetadataKey("orders")),
]
VALUES = [
    (1, 4, "0004 0000000000000005 ffffffff 01 000001a1e1d047ab 01 00 10 944f443a5527482dbf59f9460759c28e",
     OffsetCommitValue(5, -1, "", 0x1A1E1D047AB, topic_id=TOPIC_ID)),
    (1, 4, "0004 00000000000000c8 ffffffff 03 746d 000001a1e1cd1a24 00",
     OffsetCommitValue(200, -1, "tm", 0x1A1E1CD1A24)),
    (1, 1, "0001 0000000000000009 0001 6d 000001a1e1cb4edf 000001a1e1cb4ee0",
     OffsetCommitValue(9, -1, "m", 0x1A1E1CB4EDF, 0x1A1E1CB4EE0)),
    (2, 3, "0003 0000 00000000 ffff ffff 000001a1e1d2fa48 00000000",
     GroupMetadataValue("", 0, None, None, 0x1A1E1D2FA48, [])),
    (2, 3, "0003 0008 636f6e73756d6572 00000003 ffff ffff 000001a1e1d352cf 00000000",
     GroupMetadataValue("consumer", 3, None, None, 0x1A1E1D352CF, [])),
]  # fmt: skip


@pytest.mark.parametrize(("record_type", "raw", "key"), KEYS)
def test_golden_keys(record_type: int, raw: str, key: object) -> None:
    assert decode_key(bytes.fromhex(raw)) == (record_type, key)
    assert encode_key(record_type, key) == bytes.fromhex(raw)


@pytest.mark.parametrize(("record_type", "version", "raw", "value"), VALUES)
def test_golden_values(record_type: int, version: int, raw: str, value: object) -> None:
    assert decode_value(record_type, bytes.fromhex(raw)) == value
    assert encode_value(record_type, value, version) == bytes.fromhex(raw)


@pytest.mark.parametrize("kind", RECORD_TYPES.values(), ids=lambda kind: kind.name)
def test_every_type_and_version_comes_back_as_it_was(kind: object) -> None:
    record_type, name = kind.id, kind.name  # type: ignore[attr-defined]
    rng = random.Random(record_type)
    keys, values = KINDS[f"{name}Key"], KINDS[f"{name}Value"]
    for version in values.versions():
        for _ in range(50):
            key, value = keys.build(random_values(keys, 0, rng)), values.build(random_values(values, version, rng))
            assert decode_key(encode_key(record_type, key)) == (record_type, key)
            assert decode_value(record_type, encode_value(record_type, value, version)) == value
    newest = encode_value(record_type, value)
    assert int.from_bytes(newest[:2], "big") == RECORD_TYPES[record_type].value_version


def test_the_schemas_carry_the_ids_of_the_table() -> None:
    for kind in RECORD_TYPES.values():
        assert load(f"{kind.name}Key").versions == (0, 0)
        assert kind.value_version <= load(f"{kind.name}Value").versions[1]
    assert 9 not in RECORD_TYPES  # was removed before it was ever released


@pytest.mark.parametrize("record_type", [9, 18, 24, 99, -1])
def test_a_type_of_a_newer_kafka_is_passed_over(record_type: int) -> None:
    raw = record_type.to_bytes(2, "big", signed=True) + b"whatever"
    assert decode_key(raw) == (record_type, UnknownRecord(record_type, raw))


@pytest.mark.parametrize("version", [5, 32767, -1])
def test_an_unknown_version_of_a_known_type_is_an_error(version: int) -> None:
    raw = version.to_bytes(2, "big", signed=True) + bytes(100)
    with pytest.raises(MalformedMessage, match=f"OffsetCommit value version {version}; known are 0 to 4"):
        decode_value(1, raw)


@pytest.mark.parametrize("raw", [b"", b"\0"])
def test_too_short_for_a_type_or_a_version(raw: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_key(raw)
    with pytest.raises(MalformedMessage):
        decode_value(1, raw)


@pytest.mark.parametrize(("record_type", "_version", "raw", "_value"), VALUES)
def test_a_value_cut_off_anywhere_is_malformed(record_type: int, _version: int, raw: str, _value: object) -> None:
    whole = bytes.fromhex(raw)
    for size in range(2, len(whole)):
        with pytest.raises(MalformedMessage):
            decode_value(record_type, whole[:size])


def test_a_consumer_that_never_was_classic_says_so() -> None:
    """Kafka writes this null: left out, the field would stand for an empty struct, a converted classic member."""
    native = ConsumerGroupMemberMetadataValue(client_id="c", subscribed_topic_names=["t"])
    raw = encode_value(5, native)
    assert raw[-4:] == bytes.fromhex("01 00 01 00")  # one tag, number 0, one byte, null
    assert decode_value(5, raw).classic_member_metadata is None
    absent = decode_value(5, raw[:-4] + b"\0")
    assert absent.classic_member_metadata == ClassicMemberMetadata()
    assert encode_value(5, absent) == raw[:-4] + b"\0"
