"""Reads a log folder file by file, block by block, and yields rows of the base tables that are asked for.

Work that several tables need is done once: reading, checking CRCs, splitting batches into records, decoding commits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from kohort.audit.decode import commits, share_states, transaction_states
from kohort.audit.decode.classic import ClassicMembers
from kohort.audit.decode.columns import texts
from kohort.audit.decode.fetch import fetched
from kohort.audit.decode.folders import LogFolder
from kohort.audit.decode.log_batches import batches_in, shown_batches, stretches_in
from kohort.audit.decode.rows import RawRecord, Row, Rows, resolved, unresolved
from kohort.audit.decode.schemas import from_rows, schema, uuid_text
from kohort.audit.decode.segments import Segment, load_segments
from kohort.audit.decode.split import Block, Records, blocks
from kohort.audit.decode.topics import names_of
from kohort.audit.decode.transactions import STATES, Transactions
from kohort.audit.decode.vector import Array, int16_at
from kohort.audit.decode.wanted import Wanted
from kohort.audit.tables import MAX_MS
from kohort.protocol.log_records import LEGACY_OFFSET_COMMIT, OFFSET_COMMIT

ROWS_PER_BATCH = 20_000
WITH_COMMITS = {"offset_commits", "other_records"}  # other_records has the commits that cannot be decoded
WITH_OTHERS = {"group_generations", "member_assignments", "other_records"}

Batches: TypeAlias = Iterator[tuple[str, pa.RecordBatch]]  # with the name of the table


def scan(folder: LogFolder, tables: Collection[str], wanted: Wanted) -> Batches:
    """The wanted rows of base tables.

    The rows of a table come in the order of the log, except for members that waited for the names of their topics.
    """
    if folder.access is None:
        return _Scan(folder, frozenset(tables), wanted).run()
    return _of_cluster(folder, frozenset(tables), wanted)


def _of_cluster(folder: LogFolder, tables: frozenset[str], wanted: Wanted) -> Batches:
    with fetched(folder, wanted.from_offset or 0) as here:
        yield from _Scan(here, tables, wanted).run()


class _Part(NamedTuple):
    """Some records of a file, without those of control batches."""

    records: Records
    producer_id: Array
    state: Array  # index into STATES, of each record

    def pick(self, which: Array) -> _Part:
        return _Part(self.records.pick(which), self.producer_id[which], self.state[which])


class _Scan:
    def __init__(self, folder: LogFolder, tables: frozenset[str], wanted: Wanted) -> None:
        self._folder = folder
        self._tables = tables
        self._wanted = wanted
        self._transactions = Transactions(folder)
        self._waiting: list[Row] = []  # members with topics whose names are not known yet
        self._names: dict[str, str] = {}  # topic id -> name

    def run(self) -> Batches:
        wanted = self._wanted
        for segment in load_segments(self._folder, wanted.from_offset or 0, wanted.until_offset):
            fresh = segment.covers_from <= segment.base_offset
            yield from self._segment(segment, wanted if fresh else wanted.starting_at(segment.covers_from))
        if self._waiting:
            ids = {id_ for row in self._waiting for id_ in unresolved(row)}
            names = names_of(self._folder, ids, self._names)
            yield from self._rows("member_assignments", [resolved(row, names) for row in self._waiting])

    def _segment(self, segment: Segment, wanted: Wanted) -> Batches:
        number, headers = self._folder.log_partition, segment.walk.headers
        with_batches = "log_batches" in self._tables
        shown = shown_batches(segment, wanted) if with_batches else None
        states, producers = self._transactions.states(segment), headers["producer_id"].astype(np.int64)
        is_control = segment.is_control()
        which = segment.sound() & wanted.batches(headers)
        for block in blocks(segment.data, segment.walk, which if with_batches else which & ~is_control):
            if shown is not None:
                for batch in batches_in(segment, number, block, shown):
                    yield "log_batches", batch
            records = _of_data(block, is_control, wanted)
            if len(records.batch) and self._tables != {"log_batches"}:
                yield from self._part(_Part(records, producers[records.batch], states[records.batch]))
        if with_batches:
            for batch in stretches_in(segment, number, wanted):
                yield "log_batches", batch

    def _part(self, part: _Part) -> Batches:
        if self._folder.keeps_share_state:
            yield from self._share_states(part.records)
            return
        if self._folder.keeps_transactions:
            yield from self._transaction_states(part)
            return
        records = part.records
        key_type = int16_at(records.buffer, records.key)
        one_by_one = (records.key_size < 2) | ((key_type != OFFSET_COMMIT) & (key_type != LEGACY_OFFSET_COMMIT))
        places = np.flatnonzero(~one_by_one)
        if not self._tables & WITH_OTHERS:
            one_by_one[:] = False
        if len(places) and self._tables & WITH_COMMITS:
            mine = part if len(places) == len(one_by_one) else part.pick(places)
            found, usual = commits.decode(mine.records)
            one_by_one[places[~usual]] = True
            if "offset_commits" in self._tables:
                yield from self._commits(found, mine if usual.all() else mine.pick(usual))
        if one_by_one.any():
            yield from self._one_by_one(part if one_by_one.all() else part.pick(one_by_one))

    def _share_states(self, records: Records) -> Batches:
        found = share_states.decode(records, self._folder.log_partition)
        if "share_states" in self._tables:
            names = names_of(self._folder, found.topic_ids(), self._names)
            for batch in share_states.to_arrow(found, names, self._wanted.group):
                yield "share_states", batch
        yield from self._rows("other_records", found.unreadable)

    def _transaction_states(self, part: _Part) -> Batches:
        found = transaction_states.decode(_raw_records(part, self._folder.log_partition))
        if "transaction_states" in self._tables and self._wanted.group is None:
            for start in range(0, len(found.states), ROWS_PER_BATCH):
                rows = found.states[start : start + ROWS_PER_BATCH]
                yield "transaction_states", from_rows("transaction_states", rows)
        yield from self._rows("other_records", found.unreadable)

    def _commits(self, found: commits.Commits, part: _Part) -> Batches:
        if self._wanted.group is not None:
            chosen = found.of_group(self._wanted.group)
            found, part = found.pick(chosen), part.pick(chosen)
        if len(found.partition):
            state = texts(list(STATES), part.state)
            yield "offset_commits", commits.to_arrow(found, self._folder.log_partition, part.producer_id, state)

    def _one_by_one(self, part: _Part) -> Batches:
        members = ClassicMembers(ignored="member_assignments" not in self._tables)
        rows = Rows(members)
        for record in _raw_records(part, self._folder.log_partition):
            rows.add(record)
        self._names |= {uuid_text(id_): name for id_, name in rows.topics.items()}
        for batch in members.to_arrow(self._wanted.group, ROWS_PER_BATCH):
            yield "member_assignments", batch
        for table in ("offset_commits", "group_generations", "other_records"):
            yield from self._rows(table, getattr(rows, table))
        if "member_assignments" in self._tables:
            waiting = [row for row in self._of_group("member_assignments", rows.member_assignments) if unresolved(row)]
            self._waiting += waiting
            yield from self._rows("member_assignments", [row for row in rows.member_assignments if not unresolved(row)])

    def _rows(self, table: str, rows: list[Row]) -> Batches:
        if table not in self._tables:
            return
        rows = self._of_group(table, rows)
        for start in range(0, len(rows), ROWS_PER_BATCH):
            yield table, from_rows(table, rows[start : start + ROWS_PER_BATCH])

    def _of_group(self, table: str, rows: list[Row]) -> list[Row]:
        if self._wanted.group is None:
            return rows
        place = schema(table).get_field_index("group_id")
        return [row for row in rows if row[place] == self._wanted.group]


def _of_data(block: Block, is_control: Array, wanted: Wanted) -> Records:
    """The wanted records of a block, without those of control batches."""
    records = block.records
    if is_control[block.first : block.stop].any():
        records = records.pick(~is_control[records.batch])
    kept = wanted.records(records.offset, records.time_ms)
    records = records if kept is None or kept.all() else records.pick(kept)
    return records._replace(time_ms=np.clip(records.time_ms, 0, MAX_MS))  # Python can represent no others


def _raw_records(part: _Part, log_partition: int) -> Iterator[RawRecord]:
    records = part.records
    data = records.buffer.tobytes()
    columns = [column.tolist() for column in (*records[3:], part.producer_id, part.state)]
    for offset, time_ms, key, key_size, value, value_size, headers, producer_id, state in zip(*columns, strict=True):
        yield RawRecord(
            log_partition, offset, time_ms,
            None if key_size < 0 else data[key : key + key_size],
            None if value_size < 0 else data[value : value + value_size],
            records.sets[headers], producer_id, STATES[state],
        )  # fmt: skip
