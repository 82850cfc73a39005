"""Reads a log folder file by file and yields the rows of one table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from audit.decode import commits
from audit.decode.classic import ClassicMembers
from audit.decode.columns import texts
from audit.decode.folders import LogFolder
from audit.decode.log_batches import batches_of
from audit.decode.rows import RawRecord, Row, Rows, resolved, unresolved
from audit.decode.schemas import from_rows, schema, uuid_text
from audit.decode.segments import Segment, load_segments
from audit.decode.split import Records, blocks
from audit.decode.topics import names_of
from audit.decode.transactions import STATES, Transactions
from audit.decode.vector import Array, int16_at
from audit.decode.wanted import Wanted

ROWS_PER_BATCH = 20_000


def scan(folder: LogFolder, table: str, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """The rows of a base table that are wanted."""
    if table == "log_batches":
        for segment, asked in _segments(folder, wanted):
            yield from batches_of(segment, folder.log_partition, asked)
    elif table == "offset_commits":
        for part in _parts(folder, wanted):
            yield from _commits(part, wanted.group)
    elif table == "member_assignments":
        yield from _members(folder, wanted)
    else:
        for part in _parts(folder, wanted):
            rows = _rows(part, Rows(ClassicMembers(ignored=True)), commits_too=table == "other_records")
            yield from _in_batches(table, _of_group(table, getattr(rows, table), wanted.group))


def _segments(folder: LogFolder, wanted: Wanted) -> Iterator[tuple[Segment, Wanted]]:
    for segment in load_segments(folder, wanted.from_offset or 0, wanted.until_offset):
        fresh = segment.covers_from <= segment.base_offset
        yield segment, wanted if fresh else wanted.starting_at(segment.covers_from)


class _Part(NamedTuple):
    """Some records of a file, without those of control batches."""

    log_partition: int
    records: Records
    is_commit: Array  # by their key type
    producer_id: Array
    state: Array  # place in STATES

    def pick(self, which: Array) -> _Part:
        return _Part(self.log_partition, self.records.pick(which), *(column[which] for column in self[2:]))


def _parts(folder: LogFolder, wanted: Wanted) -> Iterator[_Part]:
    transactions = Transactions(folder)
    for segment, asked in _segments(folder, wanted):
        headers = segment.walk.headers
        states, producers = transactions.states(segment), headers["producer_id"].astype(np.int64)
        which = segment.sound() & ~segment.is_control() & asked.batches(headers)
        for block in blocks(segment.data, segment.walk, which):
            records = block.records
            if (kept := asked.records(records.offset, records.time_ms)) is not None and not kept.all():
                records = records.pick(kept)
            if len(records.batch):
                key_type = int16_at(records.buffer, records.key)
                is_commit = (records.key_size >= 2) & ((key_type == 1) | (key_type == 0))
                yield _Part(folder.log_partition, records, is_commit, producers[records.batch], states[records.batch])


# --- committed offsets ---------------------------------------------------------------------------------------------


def _commits(part: _Part, group: str | None) -> Iterator[pa.RecordBatch]:
    part = part if part.is_commit.all() else part.pick(part.is_commit)
    found, usual = commits.decode(part.records)
    rows = Rows()
    if not usual.all():
        _one_by_one(part.pick(~usual), rows)
    producer_id, state = part.producer_id[usual], part.state[usual]
    if group is not None:
        chosen = found.of_group(group)
        found, producer_id, state = found.pick(chosen), producer_id[chosen], state[chosen]
    if len(found.partition):
        yield commits.to_arrow(found, part.log_partition, producer_id, texts(list(STATES), state))
    yield from _in_batches("offset_commits", _of_group("offset_commits", rows.offset_commits, group))


# --- all other records ---------------------------------------------------------------------------------------------


def _rows(part: _Part, rows: Rows, *, commits_too: bool) -> Rows:
    """Rows of everything that is no commit; and of commits that cannot be read, if wanted."""
    others = ~part.is_commit
    if commits_too and part.is_commit.any():
        places = np.flatnonzero(part.is_commit)
        _, usual = commits.decode(part.records.pick(places))
        others[places[~usual]] = True
    if others.any():
        _one_by_one(part.pick(others), rows)
    return rows


def _one_by_one(part: _Part, rows: Rows) -> None:
    records = part.records
    data = records.buffer.tobytes()
    columns = [column.tolist() for column in (*records[3:], part.producer_id, part.state)]
    for offset, time_ms, key, key_size, value, value_size, headers, producer_id, state in zip(*columns, strict=True):
        raw_key = None if key_size < 0 else data[key : key + key_size]
        raw_value = None if value_size < 0 else data[value : value + value_size]
        rows.add(
            RawRecord(
                part.log_partition, offset, time_ms, raw_key, raw_value, records.sets[headers], producer_id,
                STATES[state],
            )
        )  # fmt: skip


def _members(folder: LogFolder, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Rows in which topics have ids only come last, when all is read that may name them."""
    waiting: list[Row] = []
    told: dict[str, str] = {}
    for part in _parts(folder, wanted):
        quick = ClassicMembers()
        rows = _rows(part, Rows(quick), commits_too=False)
        yield from quick.to_arrow(wanted.group, ROWS_PER_BATCH)
        told |= {uuid_text(id_): name for id_, name in rows.topics.items()}
        found = _of_group("member_assignments", rows.member_assignments, wanted.group)
        waiting += [row for row in found if unresolved(row)]
        yield from _in_batches("member_assignments", [row for row in found if not unresolved(row)])
    if waiting:
        names = names_of(folder, {id_ for row in waiting for id_ in unresolved(row)}, told)
        yield from _in_batches("member_assignments", [resolved(row, names) for row in waiting])


def _of_group(table: str, rows: list[Row], group: str | None) -> list[Row]:
    if group is None:
        return rows
    place = schema(table).get_field_index("group_id")
    return [row for row in rows if row[place] == group]


def _in_batches(table: str, rows: list[Row]) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), ROWS_PER_BATCH):
        yield from_rows(table, rows[start : start + ROWS_PER_BATCH])
