"""What `kohort audit follow` remembers of one partition of the log: the last hour, and the last state before it.

The base tables are kept in memory, in Arrow. Rows older than the window are removed, except for the last one of each
kind: the last committed offset of a partition, the last generation of a group, the last assignment of a member, the
last topics of a regular expression, the last snapshot and the last update of a share partition. So the first row inside
the window can still be compared with the one before it, and memory does not grow with time.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit import pipeline
from kohort.audit.decode import Wanted, schema
from kohort.audit.decode.folders import LogFolder
from kohort.audit.derive.records import PATTERN
from kohort.audit.store.undecided import ABORTED, OPEN, decided, markers_in
from kohort.audit.tables import (
    AUDIT_RUNS,
    BASE_TABLES,
    GROUP_GENERATIONS,
    LOG_BATCHES,
    MEMBER_ASSIGNMENTS,
    OFFSET_COMMITS,
    OTHER_RECORDS,
    SHARE_STATES,
    TRANSACTION_STATES,
)

CLASSIC = 2


class Recent:
    """The recent rows of one log partition."""

    def __init__(self, folder: LogFolder, group: str | None) -> None:
        self.folder = folder
        self.next_offset = folder.first_offset or 0
        self._group = group
        self._open = schema(OFFSET_COMMITS.name).empty_table()  # commits in transactions that have not ended
        self.tables: dict[str, pa.Table] = {table.name: schema(table.name).empty_table() for table in BASE_TABLES}

    def read(self, folder: LogFolder) -> None:
        """Add what was appended since the last call."""
        self.folder = folder
        wanted = Wanted(self._group, from_offset=self.next_offset, until_offset=folder.end_offset)
        new = pipeline.decode(folder, wanted)
        new[OFFSET_COMMITS.name] = self._visible(new[OFFSET_COMMITS.name], new[LOG_BATCHES.name])
        together = {name: pa.concat_tables([table, new[name]]) for name, table in self.tables.items()}
        self.tables = {
            name: table.combine_chunks() for name, table in together.items()
        }  # tables of thousands of chunks are slow
        self.next_offset = max(self.next_offset, folder.end_offset)

    def _visible(self, commits: pa.Table, batches: pa.Table) -> pa.Table:
        """New commits outside of transactions, and commits whose transaction has been committed now. Others wait."""
        late, still_open = decided(self._open, markers_in(batches))
        is_open = pc.equal(commits["transaction"], OPEN)
        self._open = pa.concat_tables([still_open, commits.filter(is_open)])
        found = pa.concat_tables([late, commits.filter(pc.invert(is_open))])
        return found.filter(pc.not_equal(found["transaction"], ABORTED))

    def forget(self, before: pa.Scalar) -> None:
        """Remove rows older than `before`, except for those that describe the state at that time."""
        made = self.tables
        commits = _kept(made[OFFSET_COMMITS.name], before, ["group_id", "topic", "partition"])
        generations = _kept(made[GROUP_GENERATIONS.name], before, ["group_id", "record_type"])
        members = made[MEMBER_ASSIGNMENTS.name]
        of_generation = pc.equal(members["record_type"], CLASSIC)
        classic = members.filter(pc.and_(of_generation, pc.is_in(members["log_offset"], generations["log_offset"])))
        others = _kept(members.filter(pc.invert(of_generation)), before, ["group_id", "record_type", "member_id"])
        batches, other_records = made[LOG_BATCHES.name], made[OTHER_RECORDS.name]
        is_pattern = pc.fill_null(pc.equal(other_records["record_type"], PATTERN), False)
        patterns = _kept(other_records.filter(is_pattern), before, ["group_id", "key"])
        rest = other_records.filter(pc.invert(is_pattern))
        states = _kept(made[SHARE_STATES.name], before, ["group_id", "topic_id", "partition", "record_type"])
        transactions = _kept(made[TRANSACTION_STATES.name], before, ["transactional_id"])
        self.tables = {
            SHARE_STATES.name: states,
            TRANSACTION_STATES.name: transactions,
            LOG_BATCHES.name: batches.filter(pc.fill_null(pc.greater_equal(batches["max_time"], before), True)),
            OFFSET_COMMITS.name: commits,
            GROUP_GENERATIONS.name: generations,
            MEMBER_ASSIGNMENTS.name: pa.concat_tables([classic, others]).sort_by("log_offset"),
            OTHER_RECORDS.name: pa.concat_tables(
                [rest.filter(pc.greater_equal(rest["record_time"], before)), patterns]
            ).sort_by("log_offset"),
        }

    def with_open_commits(self) -> dict[str, pa.Table]:
        """All that is remembered, with the commits of transactions that have not ended."""
        commits = pa.concat_tables([self.tables[OFFSET_COMMITS.name], self._open])
        return self.tables | {OFFSET_COMMITS.name: commits.combine_chunks()}

    def run_row(self) -> Mapping[str, object]:
        """A row of audit_runs, as if one run had read all that is remembered."""
        row: dict[str, object] = dict.fromkeys(column.name for column in AUDIT_RUNS.columns)
        return row | {
            "path": self.folder.path,
            "log_partition": self.folder.log_partition,
            "first_log_offset": self.folder.first_offset,
            "from_log_offset": self.folder.first_offset,
            "end_log_offset": self.next_offset,
            "cleaned_to": self.folder.cleaned_to,
        }


def _kept(table: pa.Table, before: pa.Scalar, by: list[str]) -> pa.Table:
    """Rows from `before` on, and the last older row for each value of `by`."""
    is_new = pc.greater_equal(table["record_time"], before)
    older = table.filter(pc.invert(is_new))
    last = older.group_by(by).aggregate([("log_offset", "max")])["log_offset_max"]
    return table.filter(pc.or_(is_new, pc.is_in(table["log_offset"], last)))
