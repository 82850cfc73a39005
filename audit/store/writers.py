"""Writes the base tables of one log folder into the store, as they are decoded."""

from __future__ import annotations

from contextlib import ExitStack

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kohort.audit.decode.folders import LogFolder
from kohort.audit.decode.schemas import schema
from kohort.audit.decode.walk import CRC, GARBAGE, TORN
from kohort.audit.store import topic_names
from kohort.audit.store.files import TAILS, TOPIC_NAMES, UNDECIDED, StoreFiles
from kohort.audit.store.undecided import OPEN
from kohort.audit.tables import LOG_BATCHES, OFFSET_COMMITS


class FolderWriters:
    """The files of one log partition in one run. A table's file is created when its first row is written."""

    def __init__(self, files: StoreFiles, run_id: str, folder: LogFolder) -> None:
        self._files, self._run_id, self._log_partition = files, run_id, folder.log_partition
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._topics = [topic_names.SCHEMA.empty_table()]
        self._tail = _Tail(folder.active_base)
        self._open_files = ExitStack()

    def __enter__(self) -> FolderWriters:
        return self

    def __exit__(self, *problem: object) -> None:
        self._open_files.close()

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        if table in topic_names.SOURCES:
            self._topics.append(topic_names.names_in(table, batch))
        if table == OFFSET_COMMITS.name:
            is_open = pc.equal(batch["transaction"], OPEN)
            if is_open.true_count:
                self._append(UNDECIDED, batch.filter(is_open))
                batch = batch.filter(pc.invert(is_open))
        elif table == LOG_BATCHES.name:
            batch = self._tail.without_doubtful(batch)
        self._append(table, batch)

    def finish(self) -> None:
        """Write what is known only when the whole folder has been read."""
        inside, behind = self._tail.inside_and_behind()
        for table, rows in ((LOG_BATCHES.name, inside), (TAILS, behind)):
            for batch in rows.to_batches():
                self._append(table, batch)
        topics = pa.concat_tables(self._topics).group_by(topic_names.SCHEMA.names).aggregate([])
        if len(topics):
            self._files.write(topics, TOPIC_NAMES, self._run_id, self._log_partition)

    def _append(self, table: str, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        if table not in self._writers:
            writer = self._files.writer(table, self._run_id, self._log_partition, batch.schema)
            self._writers[table] = self._open_files.enter_context(writer)
        self._writers[table].write_batch(batch)


class _Tail:
    """Tells damage behind the last sound batch of a log from damage before it.

    Damaged rows of the active segment are held back, because only the end of the segment shows which kind they are.
    """

    def __init__(self, active_base: int) -> None:
        self._active_base = active_base
        self._doubtful: list[pa.RecordBatch] = []
        self._end = -1  # position of the last sound batch in the active segment

    def without_doubtful(self, batches: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of log_batches, all from one segment, without those that are held back."""
        if not len(batches) or batches["segment"][0].as_py() != self._active_base:
            return batches
        sound = batches
        if batches["problem"].null_count < len(batches):
            doubtful = pc.is_in(batches["problem"], pa.array([CRC, TORN, GARBAGE]))
            self._doubtful.append(batches.filter(doubtful))
            sound = batches.filter(pc.invert(doubtful))
        if len(sound):
            self._end = sound["position"][-1].as_py()
        return sound

    def inside_and_behind(self) -> tuple[pa.Table, pa.Table]:
        """The rows that were held back: those before the last sound batch, and those behind it."""
        rows = pa.Table.from_batches(self._doubtful, schema(LOG_BATCHES.name))
        inside = pc.less(rows["position"], self._end)
        return rows.filter(inside), rows.filter(pc.invert(inside))
