"""An audit in one process finds what the audit with Spark finds, in the same words; it imports no Spark."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from kohort.audit.result import Request
from kohort.audit.run.audit import run_audit
from kohort.audit.run.in_process import Audited, Options, audit_disk, audit_paths
from kohort.audit.run.progress import Progress
from kohort.storage.disk import File
from tests.audit.checks import damage, planted_848, planted_share
from tests.audit.checks.planted import STORIES
from tests.audit.logs import Logs
from tests.audit.new_groups import new_epoch
from tests.audit.test_kafka_archives import ARCHIVES, DATA
from tests.conftest import AuditSample
from tests.simulation.delivery_world import DeliveryWorld
from tests.simulation.disk import SimulatedDisk
from tests.simulation.machine import FOLDER
from tests.simulation.txn_world import TxnWorld
from tests.simulation.world import World
from tests.simulation.worlds import WORLDS, play

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

assert planted_848  # its stories are among STORIES
Disk_ = TypeVar("Disk_", bound=SimulatedDisk)
NEVER = {"two_owners", "commit_by_non_owner", "undecodable_record", "crc_mismatch", "offset_overlap_or_gap"}
SEEDS = (31, 32, 33)
STEPS = 600


def with_spark(spark: SparkSession, data: Path, tmp_path: Path, group: str | None = None) -> Audited:
    request = Request((str(data),), group=group, report=str(tmp_path / "report.html"))
    result = run_audit(spark, request, Progress())
    return Audited(result.findings, result.check_results, result.problems, result.records)


def in_memory(data: Path, disk: Disk_) -> Disk_:
    """The disk, with all files of a folder under /data."""
    disk.make_folder("/data")
    for path in sorted(data.rglob("*")):
        place = f"/data/{path.relative_to(data)}"
        if path.is_dir():
            disk.make_folder(place)
        elif path.is_file():
            file = disk.open(place, create=True)
            file.append(path.read_bytes())
            file.close()
    return disk


def assert_both_find_the_same(spark: SparkSession, data: Path, tmp_path: Path) -> Audited:
    expected = with_spark(spark, data, tmp_path)
    found = audit_paths([str(data)])
    assert found.findings == expected.findings
    assert found.check_results == expected.check_results
    assert found.problems == expected.problems
    assert found.records == expected.records
    assert audit_disk(in_memory(data, SimulatedDisk()), "/data") == found
    return found


# --- the same findings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [True, False], ids=["planted", "sound"])
def test_every_planted_defect_is_found_as_with_spark(spark: SparkSession, tmp_path: Path, bad: bool) -> None:
    logs = Logs(tmp_path / "data")
    for number, story in enumerate(STORIES):
        story.tell(logs.group_in(number, story.name), bad)
    for number, story in enumerate(planted_share.STORIES):
        story.tell(logs.group_in(number, story.name), bad)
    damage.fill(logs, bad)
    logs.close()
    if bad:
        damage.damage(logs)
    found = assert_both_find_the_same(spark, logs.path, tmp_path)
    assert len({row["check"] for row in found.findings}) == (28 if bad else 0)


def test_the_incidents_of_the_sample_are_found_as_with_spark(
    spark: SparkSession, audit_sample: AuditSample, tmp_path: Path
) -> None:
    found = assert_both_find_the_same(spark, audit_sample.folder / "data", tmp_path)
    checks = {row["check"] for row in found.findings}
    assert {"commit_by_non_owner", "rebalance_storm", "offset_rewind", "static_member_with_many_ids"} <= checks
    assert {"poison_record", "lock_timeouts"} <= checks


@pytest.mark.parametrize("archive", ARCHIVES)
def test_logs_of_a_real_kafka_are_judged_as_with_spark(spark: SparkSession, tmp_path: Path, archive: str) -> None:
    with tarfile.open(DATA / f"{archive}.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    assert assert_both_find_the_same(spark, tmp_path / archive, tmp_path).records > 50


@pytest.mark.parametrize("kind", [kind for kind in WORLDS if kind != "delivery"])  # that one has no groups
def test_random_stories_of_the_simulator_are_judged_as_with_spark(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    records = 0
    for seed in SEEDS:
        data = logs_of(play(kind, seed, STEPS), tmp_path / str(seed))
        found = assert_both_find_the_same(spark, data, tmp_path)
        assert not [row for row in found.findings if row["check"] in NEVER and not _is_of_two_topics(row, found)]
        records += found.records
    assert records > 100


def logs_of(world: World | DeliveryWorld | TxnWorld, folder: Path) -> Path:
    """What the coordinators have written in this world, as a data folder."""
    if isinstance(world, TxnWorld):  # here a whole broker has written files
        for path, data in world.machine.disk.files().items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        return folder / FOLDER
    assert isinstance(world, World)
    logs = Logs(folder)
    for partition, batches in world.host.disk.batches.items():
        for batch in batches:
            logs.append(partition, batch, logs.start)
    return logs.close()


def _is_of_two_topics(row: dict[str, Any], found: Audited) -> bool:
    """Owners are told by the name of the topic: one that was created anew may seem to have two at a time."""
    recreated = {each["topic"] for each in found.findings if each["check"] == "topic_recreated"}
    return row["check"] == "two_owners" and row["topic"] in recreated


def test_one_group_is_judged_as_with_spark(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(tmp_path / "data")
    for name in ("shop", "till"):
        logs.group(name).commits("orders-0", [10, 20, 5])
    logs.close()
    expected = with_spark(spark, logs.path, tmp_path, group="till")
    found = audit_paths([str(logs.path)], Options(group="till"))
    assert found.findings == expected.findings
    assert {row["group_id"] for row in found.findings} == {"till"}


def test_a_topics_name_is_taken_from_another_log_partition(spark: SparkSession, tmp_path: Path) -> None:
    logs = Logs(tmp_path / "data")
    new_epoch(logs.group_in(3), {"m1": ["t-0", "t-1"], "m2": ["t-1"]})
    logs.group_in(4).commit({"t-0": 1})
    found = assert_both_find_the_same(spark, logs.close(), tmp_path)
    assert [(row["check"], row["topic"], row["partition"]) for row in found.findings] == [("two_owners", "t", 1)]


class BrokenDisk(SimulatedDisk):
    """Files with `broken` in their path cannot be opened."""

    broken = "no file"

    def open(self, path: str, *, create: bool = False, truncate: bool = False) -> File:
        if self.broken in path:
            raise OSError(errno.EIO, "Input/output error")
        return super().open(path, create=create, truncate=truncate)


def test_a_log_that_cannot_be_read_is_told_and_the_others_are_audited(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    for number in (3, 4):
        logs.group_in(number).commits("orders-0", [10, 5])
    disk = in_memory(logs.close(), BrokenDisk())
    disk.broken = "offsets-3/"
    found = audit_disk(disk, "/data")
    assert found.problems == ["/data/__consumer_offsets-3: Input/output error"]
    assert [(row["check"], row["log_partition"]) for row in found.findings] == [("offset_rewind", 4)]


# --- what is imported -----------------------------------------------------------------------------------------------

SCRIPT = """
import json, sys

sys.meta_path.insert(0, type("Watch", (), {"find_spec": lambda self, name, *_: asked.add(name.partition(".")[0])})())
asked = set()
from kohort.audit.run.in_a_test import check_log
from kohort.storage.disk import RealDisk

assert not asked & {"numpy", "pyarrow"}, asked
found = check_log(RealDisk(), sys.argv[1])
print(json.dumps([len(found.findings), sorted(asked), sorted(sys.modules)]))
"""


def test_neither_spark_nor_pandas_is_imported(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.group("shop").commits("orders-0", [10, 5])
    command = [sys.executable, "-c", SCRIPT, str(logs.close())]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    findings, asked, modules = json.loads(done.stdout)
    assert findings == 1
    assert {"numpy", "pyarrow"} <= set(asked)
    assert not {"pyspark", "py4j", "kafka", "asyncio"} & set(asked)
    assert "pandas" not in modules  # pyarrow itself takes it if it is installed; an import contract forbids it to us
