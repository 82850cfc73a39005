"""Audits of a log while it grows leave the same base tables as one audit of all of it."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from kohort.audit.decode import whole_tables
from kohort.audit.decode.folders import LogFolder, find_logs
from kohort.audit.store.runs import Store
from kohort.audit.store.tasks import ingest_folder
from kohort.audit.tables import BASE
from tests.audit.decode.random_logs import random_log, write_segments

LOG_PARTITION = 3
BATCHES = 60
START = datetime(2026, 11, 16, tzinfo=UTC)


def a_copy(folder: Path, batches: list[bytes], breaks: set[int], torn: bytes) -> LogFolder:
    """Of a running broker's files, which may end within a batch."""
    write_segments(folder / f"__consumer_offsets-{LOG_PARTITION}", batches, breaks)
    last = sorted(folder.glob("*/*.log"))[-1]
    last.write_bytes(last.read_bytes() + torn)
    (found,), problems = find_logs([str(folder)])
    assert problems == []
    return found


def rows(table: pa.Table) -> list[str]:
    """Without names of topics: in random logs one id has several."""
    kept = [name for name in table.column_names if name not in ("assigned", "revoking")]
    return sorted(map(str, table.select(kept).to_pylist()))


@pytest.mark.parametrize("seed", range(12))
def test_many_audits_read_what_one_reads(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    batches = random_log(rng, BATCHES)
    breaks = {number for number in range(BATCHES) if rng.random() < 0.08}
    store = Store(str(tmp_path / "out"))
    for night, count in enumerate([*sorted(rng.sample(range(1, BATCHES), 3)), BATCHES]):
        torn = batches[count][: rng.randrange(60)] if count < BATCHES else b""
        folder = a_copy(tmp_path / str(night), batches[:count], breaks, torn)
        run = store.begin(f"night-{night}")
        read = ingest_folder(store.files, run.run_id, folder, store.files.next_offsets().get(LOG_PARTITION, 0))
        assert read.problem is None
        run.finish([read._asdict() | {"run_id": run.run_id, "finished": START + timedelta(days=night)}])
        whole = whole_tables(folder, BASE)
        for name in BASE:
            assert rows(store.files.read_rows(name, run.runs, LOG_PARTITION)) == rows(whole[name]), (night, name)
