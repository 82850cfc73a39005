"""The base tables of a log folder, read as simply as can be: batch by batch and record by record, all in memory.

What audit/decode does many at once is compared with this. It shares with it only the rows of a single record, which the
comparison with Kafka's own tool covers, and the walk over damaged files, which has tests of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kohort.audit.decode.folders import LogFolder
from kohort.audit.decode.rows import RawRecord, Rows, resolved
from kohort.audit.decode.schemas import from_rows, micros, schema, uuid_text
from kohort.audit.decode.walk import CRC, UNDECODABLE, Stretch, walk
from kohort.audit.decode.wanted import Wanted
from kohort.protocol.errors import MalformedMessage
from kohort.protocol.record_batch import BatchHeader, Record, parse_header, parse_marker, read_records

CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "5", "6", "7")

Row = dict[str, Any]


class Batch(NamedTuple):
    segment: int
    position: int
    size_bytes: int
    header: BatchHeader
    records: list[Record]
    problem: tuple[str | None, str | None]


def scan(folder: LogFolder, table: str, wanted: Wanted) -> list[Row]:
    batches = list(read_batches(folder))
    if table == "log_batches":
        rows = [batch_row(folder, batch) for batch in batches if is_batch_wanted(batch, wanted)]
        rows += [
            (folder.log_partition, segment, one.position, one.size_bytes, *(None,) * 15, one.problem, one.detail)
            for segment, one, before in stretches(folder)
            if wanted.offset(before)
        ]
    else:
        rows = record_rows(folder, batches, table, wanted)
    found: list[Row] = from_rows(table, rows).to_pylist()
    return found


def read_batches(folder: LogFolder) -> Iterator[Batch]:
    for path in sorted(Path(folder.path).glob("*.log")):
        data = path.read_bytes()
        walked = walk(data)
        for number, position in enumerate(walked.positions.tolist()):
            header = parse_header(data, position)
            records: list[Record] = []
            problem: tuple[str | None, str | None] = (None, None)
            if number in walked.damaged:
                problem = (CRC, walked.damaged[number])
            else:
                try:
                    records = list(read_records(data, position))
                except MalformedMessage as error:
                    problem = (UNDECODABLE, str(error))
            yield Batch(int(path.stem), position, int(walked.sizes[number]), header, records, problem)


def stretches(folder: LogFolder) -> Iterator[tuple[int, Stretch, int]]:
    """(segment, stretch, offset that the log had reached before it)."""
    for path in sorted(Path(folder.path).glob("*.log")):
        walked = walk(path.read_bytes())
        ends = (walked.headers["base_offset"] + walked.headers["last_offset_delta"] + 1).tolist()
        for stretch in walked.stretches:
            yield int(path.stem), stretch, ends[stretch.before - 1] if stretch.before else int(path.stem)


def is_batch_wanted(batch: Batch, wanted: Wanted) -> bool:
    header = batch.header
    if wanted.from_offset is not None and header.last_offset < wanted.from_offset:
        return False
    if wanted.until_offset is not None and header.base_offset >= wanted.until_offset:
        return False
    if batch.problem[0] == CRC:
        return True
    if wanted.since_ms is not None and header.max_timestamp < wanted.since_ms:
        return False
    return wanted.until_ms is None or header.base_timestamp < wanted.until_ms or header.has_delete_horizon


def batch_row(folder: LogFolder, batch: Batch) -> tuple[Any, ...]:
    header = batch.header
    marker: tuple[str | None, int | None] = (None, None)
    if header.is_control and batch.records:
        marker = marker_of(batch.records[0])
    return (
        folder.log_partition, batch.segment, batch.position, batch.size_bytes, header.base_offset, header.last_offset,
        header.record_count, micros(header.max_timestamp), CODECS[header.compression], header.partition_leader_epoch,
        header.producer_id, header.producer_epoch, header.is_transactional, *marker, header.base_sequence,
        "append" if header.is_log_append_time else "create", micros(header.delete_horizon_ms), header.crc,
        *batch.problem,
    )  # fmt: skip


def marker_of(record: Record) -> tuple[str, int | None]:
    try:
        marker = parse_marker(record.key, record.value)
    except MalformedMessage:
        marker = None
    if marker is None:
        return "UNKNOWN", None
    return ("COMMIT" if marker.commit else "ABORT"), marker.coordinator_epoch


def record_rows(folder: LogFolder, batches: list[Batch], table: str, wanted: Wanted) -> list[tuple[Any, ...]]:
    states = transactions(batches)
    all_rows, rows = Rows(), Rows()
    for number, batch in enumerate(batches):
        if batch.header.is_control:
            continue
        for one in batch.records:
            record = RawRecord(
                folder.log_partition, one.offset, one.timestamp, one.key, one.value, one.headers,
                batch.header.producer_id, states.get(number, "none"),
            )  # fmt: skip
            all_rows.add(record)
            if is_record_wanted(one, wanted):
                rows.add(record)
    found: list[tuple[Any, ...]] = getattr(rows, table, [])  # there is no share state in these logs
    if wanted.group is not None:
        place = schema(table).get_field_index("group_id")
        found = [row for row in found if row[place] == wanted.group]
    if table == "member_assignments":
        names = {uuid_text(id_): name for id_, name in all_rows.topics.items()}
        found = [row if row[4] == "classic" else resolved(row, names) for row in found]
    return found


def is_record_wanted(record: Record, wanted: Wanted) -> bool:
    return wanted.offset(record.offset) and (
        (wanted.since_ms is None or record.timestamp >= wanted.since_ms)
        and (wanted.until_ms is None or record.timestamp < wanted.until_ms)
    )


def transactions(batches: list[Batch]) -> dict[int, str]:
    """What became of each transactional batch: a marker speaks for all that its producer had pending."""
    pending: dict[int, list[int]] = {}
    found: dict[int, str] = {}
    for number, batch in enumerate(batches):
        header = batch.header
        if header.is_transactional and not header.is_control:
            pending.setdefault(header.producer_id, []).append(number)
            found[number] = "open"
        elif header.is_control and batch.problem == (None, None):
            for record in batch.records:
                kind, _ = marker_of(record)
                if kind != "UNKNOWN":
                    for one in pending.pop(header.producer_id, ()):
                        found[one] = "committed" if kind == "COMMIT" else "aborted"
    return found
