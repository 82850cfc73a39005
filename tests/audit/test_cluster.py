"""The same package with spark-submit on a standalone cluster, with addresses for input and output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.audit.logs import Logs
from tests.audit.standalone import cluster

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("audit", "coordinator", "protocol", "storage")
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PATIENCE_S = 300


def packed(folder: Path) -> Path:
    """The packages of the audit, as one file for --py-files."""
    file = folder / "kohort.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.write(ROOT / "src" / "kohort" / "__init__.py", "kohort/__init__.py")
        for package in PACKAGES:
            for path in sorted((ROOT / package).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    archive.write(path, "kohort" / path.relative_to(ROOT))
    return file


def rewound_log(folder: Path) -> Path:
    logs = Logs(folder)
    shop = logs.group("shop")
    shop.generation({"m1": ["orders-0", "orders-1"]}, cause="member joined", trigger="m1")
    shop.commits("orders-0", [10, 20, 30, 5], by="m1")
    till = logs.group("till")
    till.generation({"m2": ["sales-0"]}, cause="member joined", trigger="m2")
    till.commits("sales-0", [1, 2, 3], by="m2")
    return logs.close()


def test_an_audit_on_a_cluster_of_two_workers_finds_what_is_there(tmp_path: Path) -> None:
    pyspark = pytest.importorskip("pyspark")
    data = rewound_log(tmp_path / "data")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    with cluster(tmp_path / "cluster", workers=2) as (master, environment):
        done = subprocess.run(
            [
                str(submit), "--master", master, "--py-files", str(packed(tmp_path)),
                "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false",
                "--conf", "spark.executor.memory=512m", "--driver-memory", "512m", "--driver-java-options", QUICK,
                "--conf", f"spark.executor.extraJavaOptions={QUICK}",
                str(ROOT / "audit" / "__main__.py"), data.as_uri(), "--out", (tmp_path / "out").as_uri(),
                "--report", str(tmp_path / "report.html"), "--json",
            ],
            capture_output=True, text=True, timeout=PATIENCE_S, cwd=tmp_path,
            env=os.environ | environment | {"PYSPARK_PYTHON": sys.executable},
        )  # fmt: skip
        assert done.returncode == 1, done.stderr[-4000:]
        executors = [folder.name for folder in (tmp_path / "cluster").glob("worker-*/app-*/*") if folder.is_dir()]
    told = json.loads(done.stdout)
    assert [(one["check"], one["group_id"], one["topic"]) for one in told["findings"] if one["severity"] != "info"] == [
        ("offset_rewind", "shop", "orders")
    ]
    assert told["problems"] == []
    assert sorted(executors) == ["0", "1"]
    assert (tmp_path / "report.html").stat().st_size > 10_000
