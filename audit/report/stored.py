"""Opens the tables of a store as Arrow datasets for the report, narrowed to what the user asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kohort.audit.decode.schemas import schema
from kohort.audit.report.source import Source
from kohort.audit.result import Request
from kohort.audit.store.files import StoreFiles
from kohort.audit.tables import CHECK_RESULTS, COMMIT_STEPS, FINDINGS, LOG_BATCHES, REBALANCES, TABLES

TIMES = {
    LOG_BATCHES.name: pc.field("max_time"),
    COMMIT_STEPS.name: pc.field("time"),
    REBALANCES.name: pc.field("time"),
}

OF_THE_LOG_TOO = (FINDINGS.name, CHECK_RESULTS.name)  # rows without a group are about the log and are kept, too


def report_source(files: StoreFiles, runs: Sequence[str], told: Mapping[str, pa.Table], request: Request) -> Source:
    """`runs`: whose base tables are read; the last has the derived tables. `told`: tables that are in memory."""
    datasets = {name: ds.dataset(told[name]) if name in told else _dataset(files, name, runs) for name in TABLES}
    return Source({name: _narrowed(dataset, name, request) for name, dataset in datasets.items()})


def _narrowed(dataset: ds.Dataset, name: str, request: Request) -> ds.Dataset:
    """Only rows of the group, if the user named one, and no rows from before --since."""
    if request.group is not None and "group_id" in dataset.schema.names:
        mine = pc.field("group_id") == request.group
        dataset = dataset.filter(mine | pc.field("group_id").is_null() if name in OF_THE_LOG_TOO else mine)
    if request.since is not None and name in TIMES:
        since = pa.scalar(request.since, pa.timestamp("us", "UTC"))
        dataset = dataset.filter(TIMES[name].is_null() | (TIMES[name] >= since))
    return dataset


def _dataset(files: StoreFiles, name: str, runs: Sequence[str]) -> ds.Dataset:
    filesystem, _ = files.connect()
    paths = files.files_of(name, runs)
    if not paths:
        return ds.dataset(schema(name).empty_table())
    return ds.dataset(paths, schema=schema(name), format="parquet", filesystem=filesystem, partitioning=None)
