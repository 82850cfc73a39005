"""Writes the base tables of one log folder into the store."""

from __future__ import annotations

from contextlib import ExitStack

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kohort.audit.decode.schemas import schema
from kohort.audit.decode.walk import CRC, GARBAGE, TORN
from kohort.audit.store import topic_names
from kohort.audit.store.files import TOPIC_NAMES, UNDECIDED, StoreFiles
from kohort.audit.store.undecided import OPEN
from kohort.audit.tables import LOG_BATCHES, OFFSET_COMMITS


class FolderWriters:
    """Files of one log partition in one run, opened when the first row of a table comes."""

    def __init__(self, files: StoreFiles, run_id: str, log_partition: int) -> None:
        self._files, self._run_id, self._log_partition = files, run_id, log_partition
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._topics = [topic_names.SCHEMA.empty_table()]
        self._open_files = ExitStack()

    def __enter__(self) -> FolderWriters:
        return self

    def __exit__(self, *problem: object) -> None:
        self._open_files.close()

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        if table == OFFSET_COMMITS.name:
            self._topics.append(topic_names.names_in(batch))
            is_open = pc.equal(batch["transaction"], OPEN)
            if is_open.true_count:
                self._append(UNDECIDED, batch.filter(is_open))
                batch = batch.filter(pc.invert(is_open))
        self._append(table, batch)

    def write_topics(self) -> None:
        """When all commits are written."""
        once = pa.concat_tables(self._topics).group_by(topic_names.SCHEMA.names).aggregate([])
        if len(once):
            self._files.write(once, TOPIC_NAMES, self._run_id, self._log_partition)

    def _append(self, table: str, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        if table not in self._writers:
            writer = self._files.writer(table, self._run_id, self._log_partition, batch.schema)
            self._writers[table] = self._open_files.enter_context(writer)
        self._writers[table].write_batch(batch)


class Tail:
    """Tells damage at the end of a log from damage inside of it, which is known when all of it has been read."""

    def __init__(self, active_base: int) -> None:
        self._active_base = active_base
        self._doubtful: list[pa.RecordBatch] = []
        self._end = -1  # position of the last sound batch in the active segment

    def without_doubtful(self, batches: pa.RecordBatch) -> pa.RecordBatch:
        """What surely belongs to the log, of rows of log_batches from one segment."""
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
        """The doubtful rows: inside the log, and behind its end."""
        rows = pa.Table.from_batches(self._doubtful, schema(LOG_BATCHES.name))
        inside = pc.less(rows["position"], self._end)
        return rows.filter(inside), rows.filter(pc.invert(inside))
