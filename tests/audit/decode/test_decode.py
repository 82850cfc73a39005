"""Decoding many records at once gives what decoding them one by one gives."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.audit.decode import chain, read_table, read_tables, split, walk
from kohort.audit.decode.folders import LogFolder, find_logs
from kohort.audit.decode.schemas import schema
from kohort.audit.decode.wanted import Wanted
from kohort.audit.tables import BASE_TABLES
from tests.audit.decode.random_logs import GROUPS, NOW, random_log, write_segments
from tests.audit.decode.simple_scan import Row, scan

TABLES = [table.name for table in BASE_TABLES]


def quick(folder: LogFolder, table: str, wanted: Wanted) -> list[Row]:
    return [row for batch in read_table(folder, table, **wanted._asdict()) for row in batch.to_pylist()]


def together(folder: LogFolder, tables: list[str], wanted: Wanted) -> dict[str, list[Row]]:
    """All tables in one go."""
    rows: dict[str, list[Row]] = {table: [] for table in tables}
    for table, batch in read_tables(folder, tables, wanted):
        assert batch.schema.equals(schema(table))
        batch.validate(full=True)
        rows[table] += batch.to_pylist()
    return rows


def in_order(rows: list[Row]) -> list[Row]:
    """Without the names of topics that were found by id: random logs give an id several."""
    for row in rows:
        for column in ("assigned", "revoking"):
            for one in row.get(column) or ():
                one["topic"] = None if one["topic_id"] else one["topic"]
    return sorted(rows, key=lambda row: (row.get("segment", 0), row.get("position", 0), row["log_offset"] or 0))


def with_small_blocks(stack: ExitStack, rng: random.Random) -> None:
    """So that small logs go through all that large ones do."""
    stack.enter_context(patch.object(split, "BLOCK_RECORDS", rng.choice((1, 7, 60, 65_536))))
    stack.enter_context(patch.object(split, "FEW_CHAINS", rng.choice((0, 2, 1000))))
    stack.enter_context(patch.object(chain, "SAMPLE_BATCHES", 2))
    stack.enter_context(patch.object(chain, "MANY_BYTES", rng.choice((0, 500))))
    stack.enter_context(patch.object(chain, "GUESS_BYTES", rng.choice((100, 700))))
    stack.enter_context(patch.object(walk, "WINDOW_BYTES", rng.choice((300, 5_000, 1 << 20))))


def random_wanted(rng: random.Random, end: int) -> Wanted:
    def maybe(value: int) -> int | None:
        return value if rng.random() < 0.3 else None

    return Wanted(
        rng.choice((*GROUPS, None, None, None)), maybe(NOW + 30_000), maybe(NOW + 70_000),
        maybe(rng.randrange(end + 1)), maybe(rng.randrange(end + 1)),
    )  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_many_at_once_reads_what_one_by_one_reads(seed: int) -> None:
    rng = random.Random(seed)
    batches = random_log(rng, rng.choice((1, 3, 10, 40)))
    with TemporaryDirectory() as place, ExitStack() as stack:
        path = Path(place) / "__consumer_offsets-7"
        write_segments(path, batches, {rng.randrange(90) for _ in range(rng.randrange(3))})
        (folder,), problems = find_logs([place])
        assert problems == []
        with_small_blocks(stack, rng)
        wanted = Wanted() if rng.random() < 0.5 else random_wanted(rng, folder.end_offset)
        at_once = together(folder, TABLES, wanted)
        for table in TABLES:
            expected = in_order(scan(folder, table, wanted))
            assert in_order(at_once[table]) == expected, (table, wanted)
            assert in_order(quick(folder, table, wanted)) == expected, (table, wanted)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_damage_is_read_around_in_both_ways(seed: int) -> None:
    """Bytes are changed, taken away and put in; what is left is the same however it is read."""
    rng = random.Random(seed)
    data = bytearray(b"".join(random_log(rng, 40)))
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(data))
        match rng.randrange(4):
            case 0:
                data[place] ^= 1 << rng.randrange(8)
            case 1:
                del data[place : place + rng.randrange(1, 200)]
            case 2:
                data[place:place] = rng.randbytes(rng.randrange(1, 200))
            case _:
                data[place:place] = bytes(rng.randrange(1, 200))
    with TemporaryDirectory() as folder_path, ExitStack() as stack:
        path = Path(folder_path) / "__consumer_offsets-7"
        path.mkdir()
        (path / f"{0:020d}.log").write_bytes(data)
        (folder,), _ = find_logs([folder_path])
        slow = {table: in_order(scan(folder, table, Wanted())) for table in TABLES}
        with_small_blocks(stack, rng)
        at_once = together(folder, TABLES, Wanted())
        for table in TABLES:
            assert in_order(at_once[table]) == slow[table], table
        covered = sum(row["size_bytes"] for row in slow["log_batches"])
        assert covered == len(data)  # every byte is in one row


@pytest.mark.parametrize("table", TABLES)
def test_an_empty_log_has_no_rows(table: str, tmp_path: Path) -> None:
    (tmp_path / "__consumer_offsets-3").mkdir()
    (tmp_path / "__consumer_offsets-3" / f"{0:020d}.log").touch()
    (folder,), problems = find_logs([str(tmp_path)])
    assert problems == []
    assert (folder.first_offset, folder.end_offset) == (None, 0)
    assert quick(folder, table, Wanted()) == []
