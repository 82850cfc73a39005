"""Spark reads log folders as tables, and as streams whose positions are log offsets."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet
import pytest

from kohort.audit.decode import read_table
from kohort.audit.decode.folders import LogFolder, find_logs
from kohort.audit.decode.schemas import schema
from kohort.audit.tables import BASE_TABLES
from kohort.coordinator.partitioner import partition_of
from tests.audit.logs import START, Logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

source = pytest.importorskip("kohort.audit.spark.source", reason="needs pyspark")

DATA = Path(__file__).parent.parent / "data"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> list[LogFolder]:
    """Logs of a real Kafka."""
    folder = tmp_path_factory.mktemp("archive")
    with tarfile.open(DATA / "consumer_offsets_4.3.1.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    return find_logs([str(folder / "consumer_offsets_4.3.1")])[0]


@pytest.fixture(scope="module")
def reader(spark: SparkSession) -> SparkSession:
    source.register(spark)
    return spark


def test_a_table_in_spark_is_what_the_decoder_gives(reader: SparkSession, archive: list[LogFolder]) -> None:
    for table in (one.name for one in BASE_TABLES):
        found = source.read(reader, table, archive).toArrow()
        assert found.schema.equals(schema(table)), table
        expected = [row for folder in archive for batch in read_table(folder, table) for row in batch.to_pylist()]
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected)), table


def test_what_a_query_asks_for_is_not_read_in_full(reader: SparkSession, archive: list[LogFolder]) -> None:
    rows = [row for folder in archive for batch in read_table(folder, "offset_commits") for row in batch.to_pylist()]
    frame = source.read(reader, "offset_commits", archive)
    assert frame.rdd.getNumPartitions() == 4  # twice the cores
    group_id = rows[-1]["group_id"]
    group = frame.where(frame.group_id == group_id)
    assert group.rdd.getNumPartitions() == 1
    of_group = [row["log_offset"] for row in rows if row["group_id"] == group_id]
    assert sorted(row.log_offset for row in group.collect()) == of_group
    another = source.read(reader, "offset_commits", archive, group="another")
    assert another.where(another.group_id == group_id).collect() == [], "nothing is of two groups"
    moment = sorted(row["record_time"] for row in rows)[90]
    asked = frame.where(f"record_time >= '{moment.isoformat()}' and record_time <= '{moment.isoformat()}'")
    assert asked.count() == sum(row["record_time"] == moment for row in rows) > 0


def test_a_group_alone_is_read_from_its_folder_alone(archive: list[LogFolder]) -> None:
    def planned(folders: list[LogFolder], **options: str) -> list[int]:
        folders_option = json.dumps([source.asdict(folder) for folder in folders])
        batch_reader = source.BatchReader({"table": "offset_commits", "folders": folders_option, **options})
        return sorted(one[0].log_partition for piece in batch_reader.partitions() for one in piece.ranges)

    assert planned(archive) == [folder.log_partition for folder in archive]
    assert planned(archive, group="orders") == [31]
    assert planned(archive, group="orders", partitions="7") == [partition_of("orders", 7)]
    assert planned(archive[:2], group="orders") == [0, 1]  # too few to tell how many there are


def test_folders_are_packed_into_pieces_of_about_the_same_size() -> None:
    folders = [LogFolder("", number, 0, 1, 0, 0, 0, size) for number, size in enumerate([9, 1, 1, 8, 5, 5, 1])]
    pieces = source.pieces([(folder, None, None) for folder in folders], 3)
    assert sorted(sum(one[0].size_bytes for one in piece.ranges) for piece in pieces) == [10, 10, 10]
    assert source.pieces([], 3) == []
    assert len(source.pieces([(folders[0], None, None)], 3)) == 1


def test_bad_options_are_said_in_words(reader: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r'option "table" of kohort_log is .findings., not one of log_batches'):
        reader.read.format("kohort_log").option("table", "findings").load()
    paths = json.dumps([str(tmp_path)])
    with pytest.raises(Exception, match="no folder of __consumer_offsets and none in it"):
        reader.read.format("kohort_log").option("table", "log_batches").option("paths", paths).load().collect()


def start(spark: SparkSession, logs: Logs, place: Path) -> StreamingQuery:
    return (
        spark.readStream.format("kohort_log")
        .option("table", "offset_commits")
        .option("paths", json.dumps([str(logs.path)]))
        .load()
        .writeStream.format("parquet")
        .option("path", str(place / "out"))
        .option("checkpointLocation", str(place / "checkpoint"))
        .start()
    )


def streamed(place: Path) -> list[tuple[int, int]]:
    """(log offset, committed offset) of all that has come through."""
    files = sorted((place / "out").glob("*.parquet"))
    rows = [row for file in files for row in pyarrow.parquet.read_table(file).to_pylist()]
    return sorted((row["log_offset"], row["offset"]) for row in rows)


def test_a_stream_goes_on_where_it_was_although_compaction_has_rewritten_the_files(
    reader: SparkSession, tmp_path: Path
) -> None:
    logs = Logs(tmp_path / "data")
    group = logs.group("orders", at=START)
    place = group.log_partition
    group.commits("t-0", range(10))
    query = start(reader, logs, tmp_path)
    try:
        query.processAllAvailable()
        assert streamed(tmp_path) == [(n, n) for n in range(10)]
        group.commits("t-0", range(10, 15))
        logs.group("g1").commit({"t-0": 77})  # a log partition that was not there before
        query.processAllAvailable()
        assert streamed(tmp_path) == sorted([(n, n) for n in range(15)] + [(0, 77)])
    finally:
        query.stop()
    group.commits("t-0", range(15, 20))
    logs.roll(place)
    logs.compact(place)  # of the first 20 only the last is left
    group.commits("t-0", range(20, 25))
    query = start(reader, logs, tmp_path)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert streamed(tmp_path) == sorted(
        [(n, n) for n in range(15)] + [(0, 77), (19, 19)] + [(n, n) for n in range(20, 25)]
    )
    logs.close()
