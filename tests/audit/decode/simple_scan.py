"""Reads a log folder file by file and yields the rows of one table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from audit.decode import files
from audit.decode.folders import LogFolder, SegmentFile
from audit.decode.rows import RawRecord, Row, Rows, resolved
from audit.decode.schemas import from_rows, micros, schema, uuid_text
from audit.decode.walk import CRC, UNDECODABLE, Stretch, Walk, walk
from protocol.errors import MalformedMessage
from protocol.record_batch import (
    COMPRESSION_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    Record,
    parse_marker,
    read_records,
)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "5", "6", "7")
ROWS_PER_BATCH = 50_000


class Wanted(NamedTuple):
    """Which rows to read; None: all."""

    group: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    from_offset: int | None = None
    until_offset: int | None = None

    def has(self, offset: int, time_ms: int) -> bool:
        return self.has_offset(offset) and (
            (self.since_ms is None or time_ms >= self.since_ms) and (self.until_ms is None or time_ms < self.until_ms)
        )

    def has_offset(self, offset: int) -> bool:
        return (self.from_offset is None or offset >= self.from_offset) and (
            self.until_offset is None or offset < self.until_offset
        )


class _Segment(NamedTuple):
    file: SegmentFile
    data: bytes
    walk: Walk


def scan(folder: LogFolder, table: str, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Simple and slow: record by record."""
    segments = [_Segment(file, data, walk(data)) for file in folder.segments() for data in [read_segment(file)]]
    records = {
        (number, batch): read for number, segment in enumerate(segments) for batch, read in enumerate(_records(segment))
    }
    if table == "log_batches":
        rows = [
            row
            for number, segment in enumerate(segments)
            for row in _batch_rows(folder, segment, records, number, wanted)
        ]
        yield from _batches(table, rows)
        return
    transactions = _transactions(segments, records)
    built = Rows()
    for (number, batch), read in records.items():
        header = segments[number].walk.headers[batch]
        if isinstance(read, str) or header["attributes"] & CONTROL:
            continue
        for record in read:
            if wanted.has(record.offset, record.timestamp):
                built.add(
                    RawRecord(
                        folder.log_partition, record.offset, record.timestamp, record.key, record.value,
                        record.headers, int(header["producer_id"]), transactions.get((number, batch), "none"),
                    )
                )  # fmt: skip
    rows = getattr(built, table)
    if wanted.group is not None:
        place = schema(table).get_field_index("group_id")
        rows = [row for row in rows if row[place] == wanted.group]
    if table == "member_assignments":
        names = {uuid_text(id_): name for id_, name in built.topics.items()}
        places = tuple(schema(table).get_field_index(name) for name in ("assigned", "revoking"))
        rows = [row if row[4] == "classic" else resolved(row, names) for row in rows]
    yield from _batches(table, rows)


def read_segment(file: SegmentFile) -> bytes:
    return files.read(file.path, 0, file.size_bytes)


def _batches(table: str, rows: list[Row]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), ROWS_PER_BATCH):
        yield from_rows(table, rows[start : start + ROWS_PER_BATCH])


def _records(segment: _Segment) -> Iterator[list[Record] | str]:
    """The records of each batch, or why there are none."""
    for number, position in enumerate(segment.walk.positions.tolist()):
        if number in segment.walk.damaged:
            yield CRC
            continue
        if segment.walk.headers["magic"][number] != MAGIC:
            yield f"message format {segment.walk.headers['magic'][number]}, from before Kafka 0.11"
            continue
        try:
            yield list(read_records(segment.data, position))
        except MalformedMessage as problem:
            yield str(problem)


def _transactions(
    segments: list[_Segment], records: dict[tuple[int, int], list[Record] | str]
) -> dict[tuple[int, int], str]:
    """What became of each transactional batch: a marker speaks for all that its producer had pending."""
    pending: dict[int, list[tuple[int, int]]] = {}
    found = {}
    for place, read in records.items():
        header = segments[place[0]].walk.headers[place[1]]
        if isinstance(read, str) or not header["attributes"] & TRANSACTIONAL:
            continue
        producer = int(header["producer_id"])
        if not header["attributes"] & CONTROL:
            pending.setdefault(producer, []).append(place)
            found[place] = "open"
            continue
        for record in read:
            marker = _marker(record)
            if marker[0] in ("COMMIT", "ABORT"):
                for one in pending.pop(producer, ()):
                    found[one] = "committed" if marker[0] == "COMMIT" else "aborted"
    return found


def _marker(record: Record) -> tuple[str, int | None]:
    try:
        marker = parse_marker(record.key, record.value)
    except MalformedMessage:
        marker = None
    if marker is None:
        return "UNKNOWN", None
    return ("COMMIT" if marker.commit else "ABORT"), marker.coordinator_epoch


def _batch_rows(
    folder: LogFolder,
    segment: _Segment,
    records: dict[tuple[int, int], list[Record] | str],
    number: int,
    wanted: Wanted,
) -> Iterator[Row]:
    walked = segment.walk
    for batch, header in enumerate(walked.headers):
        read = records[number, batch]
        problem = detail = None
        marker: tuple[str | None, int | None] = (None, None)
        if batch in walked.damaged:
            problem, detail = CRC, walked.damaged[batch]
        elif isinstance(read, str):
            problem, detail = UNDECODABLE, read
        elif header["attributes"] & CONTROL and read:
            marker = _marker(read[0])
        last = int(header["base_offset"]) + int(header["last_offset_delta"])
        times = int(header["max_timestamp"])
        if wanted.from_offset is not None and last < wanted.from_offset:
            continue
        if wanted.until_offset is not None and int(header["base_offset"]) >= wanted.until_offset:
            continue
        if wanted.since_ms is not None and times < wanted.since_ms:
            continue
        yield _batch_row(folder, segment, batch, header, marker, problem, detail)
    for stretch in walked.stretches:
        yield _stretch_row(folder, segment.file, stretch)


def _batch_row(
    folder: LogFolder, segment: _Segment, batch: int, header: Any,
    marker: tuple[str | None, int | None], problem: str | None, detail: str | None,
) -> Row:  # fmt: skip
    attributes = int(header["attributes"])
    return (
        folder.log_partition, segment.file.base_offset, int(segment.walk.positions[batch]),
        int(segment.walk.sizes[batch]), int(header["base_offset"]),
        int(header["base_offset"]) + int(header["last_offset_delta"]), int(header["record_count"]),
        micros(int(header["max_timestamp"])), CODECS[attributes & COMPRESSION_MASK], int(header["leader_epoch"]),
        int(header["producer_id"]), int(header["producer_epoch"]), bool(attributes & TRANSACTIONAL), *marker,
        int(header["base_sequence"]), "append" if attributes & LOG_APPEND_TIME else "create",
        micros(int(header["base_timestamp"])) if attributes & DELETE_HORIZON else None,
        int(header["crc"]), problem, detail,
    )  # fmt: skip


def _stretch_row(folder: LogFolder, file: SegmentFile, stretch: Stretch) -> Row:
    start = (folder.log_partition, file.base_offset, stretch.position, stretch.size_bytes)
    return (*start, *(None,) * 15, stretch.problem, stretch.detail)
