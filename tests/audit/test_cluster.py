"""The same package with spark-submit on a standalone cluster: its tasks fetch the log from a broker, and write to an
address."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.audit.logs import Logs
from tests.audit.standalone import cluster
from tests.audit.test_wire import broker_on

ROOT = Path(__file__).parent.parent.parent
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PATIENCE_S = 300


def packed(folder: Path) -> Path:
    """A wheel of Kohort, renamed, as docs/audit.md says."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"KOHORT_PURE": "1"})
    assert done.returncode == 0, done.stderr
    (wheel,) = (folder / "dist").iterdir()
    return wheel.rename(folder / "kohort.zip")


def python_without_kohort(folder: Path) -> str:
    """A Python that has the packages of this one, except for Kohort, which is installed here as an editable package."""
    venv.create(folder, symlinks=True)
    paths = sysconfig.get_paths(vars={"base": str(folder), "platbase": str(folder)})
    Path(paths["purelib"], "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = str(folder / "bin" / "python")
    found = subprocess.run([python, "-c", "import pyspark, kohort"], capture_output=True, text=True, cwd=folder)
    assert "No module named 'kohort'" in found.stderr
    return python


def rewound_log(folder: Path) -> Path:
    logs = Logs(folder)
    shop = logs.group("shop")
    shop.generation({"m1": ["orders-0", "orders-1"]}, cause="member joined", trigger="m1")
    shop.commits("orders-0", [10, 20, 30, 5], by="m1")
    till = logs.group("till")
    till.generation({"m2": ["sales-0"]}, cause="member joined", trigger="m2")
    till.commits("sales-0", [1, 2, 3], by="m2")
    return logs.close()


def test_an_audit_on_a_cluster_of_two_workers_that_get_kohort_with_the_job_finds_what_is_there(tmp_path: Path) -> None:
    pyspark = pytest.importorskip("pyspark")
    data = rewound_log(tmp_path / "data")
    events = tmp_path / "events"
    events.mkdir()
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=PLAINTEXT\nssl.key.password=hush-hush\n")
    with (
        broker_on(data) as broker,
        cluster(tmp_path / "cluster", workers=2) as (master, environment),
    ):
        done = subprocess.run(
            [
                str(submit), "--master", master, "--py-files", str(packed(tmp_path)),
                "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false",
                "--conf", f"spark.eventLog.dir={events.as_uri()}", "--conf", "spark.eventLog.enabled=true",
                "--conf", "spark.executor.memory=512m", "--driver-memory", "512m", "--driver-java-options", QUICK,
                "--conf", f"spark.executor.extraJavaOptions={QUICK}",
                str(ROOT / "audit" / "__main__.py"), f"kafka://{broker}", "--out", (tmp_path / "out").as_uri(),
                "--report", str(tmp_path / "report.html"), "--json", "--command-config", str(config),
            ],
            capture_output=True, text=True, timeout=PATIENCE_S, cwd=tmp_path,
            env=os.environ | environment | {"PYSPARK_PYTHON": python_without_kohort(tmp_path / "python")},
        )  # fmt: skip
        assert done.returncode == 1, done.stderr[-4000:]
        executors = [folder.name for folder in (tmp_path / "cluster").glob("worker-*/app-*/*") if folder.is_dir()]
    told = json.loads(done.stdout)
    assert [(one["check"], one["group_id"], one["topic"]) for one in told["findings"] if one["severity"] != "info"] == [
        ("offset_rewind", "shop", "orders")
    ]
    assert told["problems"] == []
    assert sorted(executors) == ["0", "1"]
    written = [file.read_bytes() for file in events.rglob("*") if file.is_file()]
    assert written
    assert not any(b"hush-hush" in one for one in written)
    assert (tmp_path / "report.html").stat().st_size > 10_000
