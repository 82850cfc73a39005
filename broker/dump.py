"""Shows what is in log folders and segment files, line for line as `kafka-dump-log` with a decoder does.

    Dumping __consumer_offsets-7/00000000000000000000.log
    Log starting offset: 0
    baseOffset: 0 lastOffset: 1 count: 2 ...
    | offset: 0 CreateTime: ... key: {"type":"1",...} payload: {"version":"4",...}

Decoded are the records of __consumer_offsets and __share_group_state. Those of other topics are shown as text, as the
same tool does with --print-data-log. Unlike that tool, a record with headers also shows their values, as
`headerValues`, and control characters are written out. With `as_json` each batch is one line of JSON.

Files are opened for reading only and read batch by batch, so that the folder may belong to a running broker, or be
mounted read-only. That is why this module opens files itself and does not use storage.disk.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple, TextIO

from kohort.broker.terminal import complain
from kohort.printable import printable, printable_json
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.log_records import CONSUMER_OFFSETS, UnknownRecord
from kohort.protocol.record_batch import (
    BATCH_HEADER_BYTES,
    BatchHeader,
    CorruptBatch,
    Record,
    parse_header,
    parse_marker,
    read_records,
    verify_crc,
)
from kohort.protocol.record_json import key_and_value, to_text
from kohort.protocol.record_types import RecordTypes
from kohort.protocol.share_state_records import SHARE_GROUP_STATE
from kohort.protocol.transaction_records import TRANSACTION_STATE
from kohort.storage.layout import LOG, parse_partition_folder, parse_segment_file

DECODED = {types.topic: types for types in (CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE)}
META_PROPERTIES = "meta.properties"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "5", "6", "7")
MAX_SEQUENCE = 2**31 - 1


class Batch(NamedTuple):
    header: BatchHeader
    position: int
    data: bytes
    is_valid: bool


class TrailingBytes(NamedTuple):
    """The bytes of a file behind its last whole batch."""

    size_bytes: int


class NotALog(Exception):
    """The path has nothing that could be dumped. The text says so."""


def dump(paths: Iterable[str], *, out: TextIO, as_json: bool = False) -> int:
    """Print every segment in `paths` (folders or .log files) in order; 1 if anything could not be read."""
    status = 0
    for path in paths:
        try:
            for file in segment_files(path):
                whole = _dump_json(file, out) if as_json else _dump_text(file, out)
                status = status if whole else 1
        except BrokenPipeError:
            raise  # not a problem of the log: nobody reads the output any more
        except OSError as error:
            complain(f"{path}: {error.strerror}")
            status = 1
        except NotALog as problem:
            complain(str(problem))
            status = 1
    return status


def segment_files(path: str) -> list[str]:
    """The segments of a partition's folder, or of all partitions of a data folder, without those that wait for their
    removal; or the file itself."""
    if not os.path.isdir(path):
        if not _looks_like_a_segment(path):
            raise NotALog(
                f"{path} is not a log: it does not begin with a record batch, and its name is not a segment's"
            )
        return [path]
    names = os.listdir(path)
    folders = sorted((place, name) for name in names if (place := parse_partition_folder(name)))
    found = _segments_in(path) or [file for _, name in folders for file in _segments_in(os.path.join(path, name))]
    if not found and META_PROPERTIES not in names:  # with it, this is a data folder that has no partitions yet
        raise NotALog(f"{path} is not a log folder: it has no segments (.log) and no partitions' folders (topic-0)")
    return found


def _segments_in(folder: str) -> list[str]:
    names = [name for name in os.listdir(folder) if (parts := parse_segment_file(name)) and parts[1:] == (LOG, "")]
    return [os.path.join(folder, name) for name in sorted(names)]


def _looks_like_a_segment(path: str) -> bool:
    """A copy of a segment may have any name, and a damaged segment any content: one of both is enough."""
    if parse_segment_file(os.path.basename(path)):
        return True
    with open(path, "rb") as file:
        start = file.read(BATCH_HEADER_BYTES)
    try:
        return not start or parse_header(start).size_bytes > 0
    except CorruptBatch:
        return False


def read_batches(file: BinaryIO, size_bytes: int) -> Iterator[Batch | TrailingBytes]:
    """Every batch, also if its checksum is wrong, up to the first one that is cut off or has no readable header."""
    position = 0
    while position < size_bytes:
        file.seek(position)
        try:
            header = parse_header(file.read(BATCH_HEADER_BYTES))
        except CorruptBatch:
            header = None
        if header is None or position + header.size_bytes > size_bytes:
            yield TrailingBytes(size_bytes - position)
            return
        file.seek(position)
        data = file.read(header.size_bytes)
        try:
            verify_crc(data, 0, header)
            yield Batch(header, position, data, is_valid=True)
        except CorruptBatch:
            yield Batch(header, position, data, is_valid=False)
        position += header.size_bytes


# --- text -------------------------------------------------------------------------------------------------------


def _dump_text(path: str, out: TextIO) -> bool:
    with open(path, "rb") as file:
        print(printable(f"Dumping {path}"), file=out)
        if parts := parse_segment_file(os.path.basename(path)):
            print(f"Log starting offset: {parts[0]}", file=out)
        whole = True
        for batch in read_batches(file, os.fstat(file.fileno()).st_size):
            if isinstance(batch, TrailingBytes):
                name = printable(os.path.basename(path))
                print(f"Found {batch.size_bytes} invalid bytes at the end of {name}", file=out)
                return False
            print(_batch_line(batch), file=out)
            try:
                for record in read_records(batch.data, header=batch.header):
                    print(printable(_record_line(batch.header, record, _types_of(path))), file=out)
            except MalformedMessage as problem:
                print(printable(f"| {problem}"), file=out)
                whole = False
            whole = whole and batch.is_valid
    return whole


def _types_of(path: str) -> RecordTypes | None:
    """What kinds of records these are, which the folder's name tells. None: those of a user's topic. A file that lies
    in no partition's folder is taken for a part of the offsets topic."""
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    topic, dash, partition = folder.rpartition("-")
    return DECODED.get(topic) if dash and partition.isdigit() else CONSUMER_OFFSETS


def _batch_line(batch: Batch) -> str:
    header = batch.header
    horizon = header.delete_horizon_ms
    return (
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count} "
        f"baseSequence: {header.base_sequence} "
        f"lastSequence: {_sequence(header, header.last_offset)} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.partition_leader_epoch} isTransactional: {_bool(header.is_transactional)} "
        f"isControl: {_bool(header.is_control)} "
        f"deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'} "
        f"position: {batch.position} {_timestamp_type(header)}: {header.max_timestamp} size: {header.size_bytes} "
        f"magic: {header.magic} compresscodec: {CODECS[header.compression]} crc: {header.crc} "
        f"isvalid: {_bool(batch.is_valid)}"
    )


def _record_line(header: BatchHeader, record: Record, types: RecordTypes | None) -> str:
    header_keys = ",".join(key.decode("utf-8", "replace") for key, _ in record.headers)
    line = (
        f"| offset: {record.offset} {_timestamp_type(header)}: {record.timestamp} keySize: {_size(record.key)} "
        f"valueSize: {_size(record.value)} sequence: {_sequence(header, record.offset)} headerKeys: [{header_keys}]"
    )
    if record.headers:
        values = json.dumps([_text(value) for _, value in record.headers], ensure_ascii=False)
        line += f" headerValues: {printable_json(values)}"
    if header.is_control:
        return line + _marker_text(record)
    return line + (_plain_text(record) if types is None else _decoded_text(record, types))


def _marker_text(record: Record) -> str:
    marker = parse_marker(record.key, record.value)
    if marker is None:
        return " controlType: UNKNOWN"
    kind = "COMMIT" if marker.commit else "ABORT"
    return f" endTxnMarker: {kind} coordinatorEpoch: {marker.coordinator_epoch}"


def _decoded_text(record: Record, types: RecordTypes) -> str:
    if record.key is None:
        return f" key: Error at offset {record.offset}, skipping. The record has no key."
    try:
        key, value = key_and_value(record.key, record.value, types)
    except MalformedMessage as problem:
        return f" key: Error at offset {record.offset}, skipping. {problem}"
    if isinstance(key, UnknownRecord):
        return f" key: Unknown record type {key.type} at offset {record.offset}, skipping."
    return f" key: {to_text(key)} payload: {'<DELETE>' if value is None else to_text(value)}"


def _plain_text(record: Record) -> str:
    parts = (("key", record.key), ("payload", record.value))
    return "".join(f" {name}: {raw.decode('utf-8', 'replace')}" for name, raw in parts if raw is not None)


def _sequence(header: BatchHeader, offset: int) -> int:
    """The record's sequence number; after the greatest int32 a producer goes on with 0. -1: the batch has none."""
    if header.base_sequence < 0:
        return -1
    return (header.base_sequence + offset - header.base_offset) % (MAX_SEQUENCE + 1)


def _timestamp_type(header: BatchHeader) -> str:
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _size(field: bytes | None) -> int:
    return -1 if field is None else len(field)


# --- JSON -------------------------------------------------------------------------------------------------------


def _dump_json(path: str, out: TextIO) -> bool:
    with open(path, "rb") as file:
        whole = True
        for batch in read_batches(file, os.fstat(file.fileno()).st_size):
            if isinstance(batch, TrailingBytes):
                print(json.dumps({"file": path, "invalidBytes": batch.size_bytes}), file=out)
                return False
            shown, readable = _batch_json(path, batch)
            print(printable_json(json.dumps(shown, ensure_ascii=False)), file=out)
            whole = whole and readable and batch.is_valid
    return whole


def _batch_json(path: str, batch: Batch) -> tuple[dict[str, Any], bool]:
    header = batch.header
    shown: dict[str, Any] = {
        "file": path,
        "position": batch.position,
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "maxTimestamp": header.max_timestamp,
        "timestampType": _timestamp_type(header),
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "baseSequence": header.base_sequence,
        "partitionLeaderEpoch": header.partition_leader_epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": header.delete_horizon_ms,
        "compression": CODECS[header.compression],
        "isValid": batch.is_valid,
        "records": [],
    }
    try:
        types = _types_of(path)
        for record in read_records(batch.data, header=header):
            shown["records"].append(_record_json(header, record, types))
    except MalformedMessage as problem:
        shown["error"] = str(problem)
        return shown, False
    return shown, True


def _record_json(header: BatchHeader, record: Record, types: RecordTypes | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
    if record.headers:
        shown["headers"] = [{"key": _text(key), "value": _text(value)} for key, value in record.headers]
    marker = parse_marker(record.key, record.value) if header.is_control else None
    if marker is not None:
        kind = "COMMIT" if marker.commit else "ABORT"
        return shown | {"endTxnMarker": kind, "coordinatorEpoch": marker.coordinator_epoch}
    if types is None or header.is_control or record.key is None:
        return shown | {"key": _text(record.key), "value": _text(record.value)}
    try:
        key, value = key_and_value(record.key, record.value, types)
    except MalformedMessage as problem:
        return shown | {"error": str(problem)}
    if isinstance(key, UnknownRecord):
        return shown | {"key": {"type": str(key.type)}, "unknown": True}
    return shown | {"key": key, "value": value}


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "backslashreplace")
