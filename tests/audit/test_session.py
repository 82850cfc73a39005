"""The session that an audit runs in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kohort.audit.spark.jvm import MODULE_OPTIONS
from tests.audit.logs import Logs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent.parent


def test_the_jvm_gets_every_option_that_spark_would_give_it_but_the_vector_module(spark: SparkSession) -> None:
    sparks_own = spark._jvm.org.apache.spark.launcher.JavaModuleOptions.defaultModuleOptionArray()  # type: ignore[union-attr]
    assert set(sparks_own) - set(MODULE_OPTIONS) == {"--add-modules=jdk.incubator.vector"}
    assert set(MODULE_OPTIONS) <= set(sparks_own)


def test_a_setting_that_spark_does_not_take_is_told(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.group("shop").commit({"orders-0": 1})
    done = subprocess.run(
        [sys.executable, "-m", "kohort.audit", str(logs.close()), "--spark", "spark.master=nonsense"],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("kohort audit: Spark did not start: ")
    assert "Traceback" not in done.stderr


def test_who_interrupts_a_start_is_left_with_nothing(tmp_path: Path) -> None:
    """No trace on the screen, no temporary tables, and no JVM that goes on: it would keep the output open."""
    logs = Logs(tmp_path / "data")
    logs.group("shop").commit({"orders-0": 1})
    command = [sys.executable, "-m", "kohort.audit", str(logs.close()), "--report", str(tmp_path / "r.html")]
    command += ["--spark", "spark.sql.shuffle.partitions=4", "--jvm-cache", str(tmp_path / "cache")]
    left = tmp_path / "left"
    left.mkdir()
    for seconds, sent in ((1, signal.SIGINT), (3, signal.SIGINT), (3, signal.SIGTERM)):
        audit = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT,
            env=os.environ | {"TMPDIR": str(left)},
        )  # fmt: skip
        time.sleep(seconds)  # anywhere in the start of a JVM, or of Spark, or in the audit
        audit.send_signal(sent)
        told, _ = audit.communicate(timeout=60)
        assert audit.returncode in (130, 0)
        assert "Traceback" not in told
        assert list(left.glob("kohort-*")) == []


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_process_group_ends_follow_in_silence(tmp_path: Path, sent: signal.Signals) -> None:
    """Ctrl-C, `timeout` and supervisors send it so: the JVM must live until Spark is stopped."""
    logs = Logs(tmp_path / "data")
    logs.group("shop").commit({"orders-0": 1})
    following = subprocess.Popen(
        [sys.executable, "-m", "kohort.audit", "follow", str(logs.close())],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, start_new_session=True,
    )  # fmt: skip
    assert following.stdout is not None
    assert any("following 1 log folders" in line for line in following.stdout)
    os.killpg(following.pid, sent)
    told, _ = following.communicate(timeout=60)
    assert (following.returncode, told) == (0, "")
