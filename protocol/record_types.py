"""The kinds of records in one internal topic, and the codec for their keys and values.

    key      | type int16 | fields, never flexible |
    value    | version int16 | fields of that version |        null: a tombstone

Each internal topic numbers its types for itself: log_records.py has those of __consumer_offsets, share_state_records.py
those of __share_group_state, transaction_records.py the one of __transaction_state. A type that we do not know comes
from a newer Kafka and is passed over (UnknownRecord); an unknown version of a known type is an error, because the state
would be wrong without it.
"""

from __future__ import annotations

from importlib import import_module
from struct import Struct
from typing import Any, NamedTuple

from kohort.protocol.errors import MalformedMessage

_int16 = Struct(">h")


class RecordType(NamedTuple):
    id: int
    name: str  # Kafka's
    value_version: int  # the version that Kafka 4.3.1 writes, and so do we

    @property
    def module(self) -> str:
        return "log_" + "".join(f"_{c.lower()}" if c.isupper() else c for c in self.name).lstrip("_")


class UnknownRecord(NamedTuple):
    """The key of a record whose type a newer Kafka has introduced."""

    type: int
    raw: bytes


class _Codec:
    """The generated functions of one record type, looked up once."""

    __slots__ = ("decode_key", "decode_value", "encode_key", "encode_value")

    def __init__(self, kind: RecordType) -> None:
        module: Any = import_module(f"kohort.protocol.messages.{kind.module}")
        self.decode_key = module.decode_key[0]
        self.encode_key = module.encode_key[0]
        self.decode_value = module.decode_value
        self.encode_value = module.encode_value


class RecordTypes:
    """The kinds of records in one internal topic, by their numbers."""

    def __init__(self, topic: str, *kinds: RecordType, base_sequence: int = 0) -> None:
        """`base_sequence`: in the batches that Kafka's coordinator writes."""
        self.topic = topic
        self.base_sequence = base_sequence
        self.kinds: dict[int, RecordType] = {kind.id: kind for kind in kinds}
        self._codecs: dict[int, _Codec] = {}

    def _codec(self, record_type: int) -> _Codec:
        found = self._codecs.get(record_type)
        if found is None:
            found = self._codecs[record_type] = _Codec(self.kinds[record_type])
        return found

    def decode_key(self, raw: bytes) -> tuple[int, Any]:
        """(type, key); the key is an UnknownRecord if the type is one."""
        if len(raw) < 2:
            raise MalformedMessage("a record key of less than two bytes")
        (record_type,) = _int16.unpack_from(raw)
        if record_type not in self.kinds:
            return record_type, UnknownRecord(record_type, raw)
        return record_type, self._codec(record_type).decode_key(raw, 2)

    def decode_value(self, record_type: int, raw: bytes) -> Any:
        if len(raw) < 2:
            raise MalformedMessage("a record value of less than two bytes")
        (version,) = _int16.unpack_from(raw)
        decoders = self._codec(record_type).decode_value
        if version not in decoders:
            name, newest = self.kinds[record_type].name, max(decoders)
            raise MalformedMessage(f"{name} value version {version}; known are 0 to {newest}")
        return decoders[version](raw, 2)

    def encode_key(self, record_type: int, key: Any) -> bytes:
        return _int16.pack(record_type) + bytes(self._codec(record_type).encode_key(key))

    def encode_value(self, record_type: int, value: Any, version: int | None = None) -> bytes:
        if version is None:
            version = self.kinds[record_type].value_version
        return _int16.pack(version) + bytes(self._codec(record_type).encode_value[version](value))
