"""The audit over the network: the same tables and findings as from the folders of the broker."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kohort.audit.cli import ACTIONS
from kohort.audit.decode import read_table
from kohort.audit.decode.access import Access
from kohort.audit.decode.fetch import FetchFailed, fetched
from kohort.audit.decode.folders import LogFolder, find_logs
from kohort.audit.owners.group_history import from_folders
from kohort.audit.result import AuditError
from kohort.audit.run.in_process import audit_paths
from kohort.audit.tables import BASE_TABLES
from kohort.broker.cli import main
from tests.audit.logs import START, Logs
from tests.client.certificates import Authority
from tests.clients.kohort import KohortProcess
from tests.record.fake_cluster import FakeCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parent.parent / "data"
KEEP = {"offsets_retention_minutes": str(2**31 - 1), "log_cleaner_enable": "false"}
OF_THE_COPY = ("segment", "position")  # the files of the broker have others
SECRET = "hush-hush"
WITH_SPARK = ("--spark", "spark.sql.shuffle.partitions=4")  # however small the log

Row = dict[str, Any]


def unpack(archive: str, folder: Path) -> Path:
    with tarfile.open(DATA / f"{archive}.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    return folder / archive


@contextmanager
def broker_on(data: Path) -> Iterator[str]:
    """The address of a Kohort on this data folder."""
    with KohortProcess(data.parent / f"{data.name}-kohort", log_dirs=str(data), **KEEP) as kohort:
        yield kohort.address


def a_story(folder: Path) -> Path:
    """Groups in several partitions, a rewind, transactions that end late or never, a compacted log."""
    logs = Logs(folder)
    shop = logs.group("shop")
    shop.generation({"m1": ["orders-0", "orders-1"]}, cause="member joined", trigger="m1")
    shop.commits("orders-0", [10, 20, 30, 5], by="m1")
    till = logs.group("till")
    till.generation({"m2": ["sales-0"]}, cause="member joined", trigger="m2")
    till.commits("sales-0", range(300), by="m2")
    logs.roll(till.log_partition)
    logs.compact(till.log_partition)
    till.commits("sales-0", range(300, 310), by="m2")
    bank = logs.group("bank")
    bank.commit_in_transaction({"money-0": 5}, producer_id=1)
    bank.commit({"money-1": 5})
    bank.end_transaction(commit=True, producer_id=1)
    bank.commit_in_transaction({"money-0": 7}, producer_id=2)
    return logs.close()


def tables_in(folders: Sequence[LogFolder]) -> dict[str, list[str]]:
    """Rows of all base tables, without the columns that say in which file of the log they were."""
    return {
        table.name: [
            str({name: value for name, value in row.items() if name not in OF_THE_COPY})
            for folder in folders
            for batch in read_table(folder, table.name)
            for row in batch.to_pylist()
        ]
        for table in BASE_TABLES
    }


def findings_of(rows: Sequence[Row]) -> list[str]:
    return sorted(
        f"{row['check']} {row['group_id']} {row['topic']} {row['partition']} {row['message']}" for row in rows
    )


@pytest.mark.parametrize(
    "archive", ["consumer_offsets_4.3.1", "consumer_groups_848_4.3.1", "share_groups_4.3.1", "our own"]
)
def test_tables_and_findings_from_a_broker_are_those_of_its_folders(archive: str, tmp_path: Path) -> None:
    data = a_story(tmp_path / "own") if archive == "our own" else unpack(archive, tmp_path)
    with broker_on(data) as address:
        here, problems = find_logs([str(data)])
        there, complaints = find_logs([f"kafka://{address}"])
        assert problems == complaints == []
        assert {one.log_partition for one in here} <= {one.log_partition for one in there}
        by_number = {one.log_partition: one for one in there}
        for folder in here:
            remote = by_number[folder.log_partition]
            assert (remote.first_offset, remote.end_offset) == (folder.first_offset, folder.end_offset)
            assert remote.path == f"kafka://{address}/{Path(folder.path).name}"
        assert tables_in(there) == tables_in(here)
        from_folder, from_broker = audit_paths([str(data)]), audit_paths([f"kafka://{address}"])
    assert findings_of(from_broker.findings) == findings_of(from_folder.findings)
    assert from_broker.records == from_folder.records > 0


def test_an_audit_with_spark_goes_on_where_the_last_one_ended(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = a_story(tmp_path / "data")
    told = []
    for _ in range(2):
        with broker_on(data) as address:
            for path, out in ((f"kafka://{address}", "wire"), (str(data), "folder")):
                command = ["audit", path, "--out", str(tmp_path / out), "--json", "--fail-on", "critical", *WITH_SPARK]
                assert main(command) == 0, capsys.readouterr().err
                told.append(json.loads(capsys.readouterr().out))
        logs = Logs(data, start=START + 900_000)
        logs.group("bank", at=START + 900_000).end_transaction(commit=True, producer_id=2)
        logs.group("shop", at=START + 900_000).commits("orders-0", [50, 20], by="m1")
        logs.close()
    first, first_here, second, second_here = told
    assert findings_of(first["findings"]) == findings_of(first_here["findings"])
    assert findings_of(second["findings"]) == findings_of(second_here["findings"]) != findings_of(first["findings"])
    assert first["new_records"] == first_here["new_records"] > 0
    assert second["new_records"] == second_here["new_records"] == 3
    assert main(["audit", "owners", "--out", str(tmp_path / "wire"), "--group", "till", "--at", str(START + 9000)]) == 0
    assert "sales  0          m2" in capsys.readouterr().out


def test_owners_are_told_over_the_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = a_story(tmp_path / "data")
    with broker_on(data) as address:
        machine, problems = from_folders([f"kafka://{address}"], "shop")
        assert problems == []
        assert machine.at(START + 5000) == from_folders([str(data)], "shop")[0].at(START + 5000) != []
        assert main(["audit", "owners", f"kafka://{address}", "--group", "till", "--at", str(START + 900_000)]) == 0
    assert "sales  0          m2" in capsys.readouterr().out


def test_the_data_source_reads_a_cluster_in_batch_and_as_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    from kohort.audit.spark import source

    source.register(spark)
    data = a_story(tmp_path / "data")
    config = tmp_path / "client.properties"
    config.write_text(f"security.protocol=PLAINTEXT\nssl.key.password={SECRET}\n")
    with broker_on(data) as address:
        options = {"table": "offset_commits", "bootstrap": address, "command_config": str(config)}
        frame = spark.read.format("kohort_log").options(**options).load()
        folders, _ = find_logs([str(data)])
        expected = tables_in(folders)["offset_commits"]
        assert sorted(str(row) for row in frame.toArrow().to_pylist()) == sorted(expected)
        assert SECRET not in frame._jdf.queryExecution().toString()
        group = frame.where("group_id = 'shop'")
        assert group.rdd.getNumPartitions() == 1
        assert group.count() == 4
        found = find_logs([f"kafka://{address}"], str(config))[0]
        again = source.read(spark, "offset_commits", found, command_config=str(config))
        assert again.count() == len(expected)
        assert SECRET not in again._jdf.queryExecution().toString()
        place = tmp_path / "stream"
        query = (
            spark.readStream.format("kohort_log")
            .options(**options)
            .load()
            .writeStream.format("parquet")
            .option("path", str(place / "out"))
            .option("checkpointLocation", str(place / "checkpoint"))
            .start()
        )
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        assert spark.read.parquet(str(place / "out")).count() == len(expected)


def test_credentials_are_not_shown_and_need_no_files_on_other_machines(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certificates")
    own = authority.sign("client")
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config=x.PlainLoginModule required username="a" password="{SECRET}";\n'
        f"ssl.truststore.location={authority.certificate}\nssl.keystore.location={own}\n"
    )
    access = Access.load("b:1", str(config))
    assert SECRET not in repr(access)
    shutil.rmtree(authority.folder)
    config.unlink()
    with pytest.raises(Exception, match="no broker answers at b:1"):
        access.connect()  # the settings could be used


def test_what_is_wrong_with_a_cluster_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with KohortProcess(tmp_path / "new") as kohort:
        paths = {
            f"kafka://{kohort.address}": "the cluster has no __consumer_offsets yet: it is made for the first group",
            "kafka://127.0.0.1:1": "no broker answers at 127.0.0.1:1",
            "kafka://nonsense": "'nonsense' is not HOST:PORT",
        }
        for path, words in paths.items():
            found, problems = find_logs([path])
            assert found == []
            assert words in str(problems[0])
            with pytest.raises(AuditError, match=words):
                from_folders([path], "g")
            for command in (["owners", path, "--group", "g", "--at", "1h"], ["follow", path]):
                assert command[0] in ACTIONS
                assert main(["audit", *command]) == 2
                assert words in capsys.readouterr().err


def test_a_log_whose_end_was_lost_is_not_read_in_part() -> None:
    with FakeCluster() as cluster:
        for _ in range(4):
            cluster.append(b"a record", b"another")
        folder = next(one for one in find_logs([f"kafka://{cluster.address}"])[0] if one.keeps_groups)
        assert folder.end_offset == 8
        cluster.append(b"later")
        with fetched(folder, 3) as here:
            assert (here.name, here.end_offset) == (folder.path, 8)
            (segment,) = here.segments()
            assert segment.base_offset == 2  # the batch that has offset 3
        del cluster.batches[2:]
        with pytest.raises(FetchFailed, match="the log ended at offset 8 and now ends at 4"), fetched(folder, 0):
            pass
