"""Keeps commits of transactions that were open when an audit read them, until a later audit reads how they ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from kohort.audit.decode.schemas import schema
from kohort.audit.store.files import SETTLED, STILL_OPEN, SUFFIX, UNDECIDED, StoreFiles
from kohort.audit.tables import LOG_BATCHES, OFFSET_COMMITS

ABORTED, COMMITTED, OPEN = "aborted", "committed", "open"

Markers = dict[tuple[int, int], list[tuple[int, str]]]  # (log partition, producer) -> log offset and marker


def settle(files: StoreFiles, finished: Sequence[str], run_id: str) -> None:
    """Decide the commits that earlier runs and this run left undecided: those with a marker go to offset_commits.

    Each run leaves one file with all commits that are undecided after it. So the rows of offset_commits, together with
    those in the last such file, are all commits, each of them once.
    """
    before = files.read_named(UNDECIDED, finished[-1:], [STILL_OPEN], of=schema(OFFSET_COMMITS.name))
    new_files = [info for info in files.files_in(UNDECIDED, f"run={run_id}") if info.base_name != STILL_OPEN + SUFFIX]
    new = [files.read(info.path) for info in new_files]
    if not len(before) and not new:
        return
    late, still_open = decided(before, _markers(files, run_id, before["log_partition"].unique().to_pylist()))
    if len(late):
        files.write(late, OFFSET_COMMITS.name, run_id, SETTLED)
    still_open = pa.concat_tables([still_open, *new])
    if len(still_open):
        files.write(still_open, UNDECIDED, run_id, STILL_OPEN)


def _markers(files: StoreFiles, run_id: str, log_partitions: Iterable[int]) -> Markers:
    """The markers that the run has read."""
    names = ["log_partition", "producer_id", "log_offset", "marker"]
    of = pa.schema([schema(LOG_BATCHES.name).field(name) for name in names])
    has_marker = pc.field("marker").is_valid()
    return markers_in(files.read_named(LOG_BATCHES.name, [run_id], list(log_partitions), of=of, filters=has_marker))


def markers_in(batches: pa.Table) -> Markers:
    """The markers in rows of log_batches."""
    markers: Markers = {}
    found = batches.select(["log_partition", "producer_id", "log_offset", "marker"])
    for row in found.filter(found["marker"].is_valid()).sort_by("log_offset").to_pylist():
        markers.setdefault((row["log_partition"], row["producer_id"]), []).append((row["log_offset"], row["marker"]))
    return markers


def decided(rows: pa.Table, markers: Markers) -> tuple[pa.Table, pa.Table]:
    """Commits that are decided by the next marker of their producer, and those without such a marker."""
    keys = zip(*(rows[name].to_pylist() for name in ("log_partition", "producer_id", "log_offset")), strict=True)
    states = [
        next((marker for offset, marker in markers.get((log_partition, producer), ()) if offset > log_offset), None)
        for log_partition, producer, log_offset in keys
    ]
    outcomes = pa.array(
        [{"COMMIT": COMMITTED, "ABORT": ABORTED}.get(state or "", OPEN) for state in states], pa.string()
    )
    place = rows.schema.get_field_index("transaction")
    rows = rows.set_column(place, rows.schema.field(place), outcomes)
    is_open = pc.equal(outcomes, OPEN)
    return rows.filter(pc.invert(is_open)), rows.filter(is_open)
