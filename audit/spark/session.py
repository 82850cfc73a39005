"""The Spark session of an audit: on loopback only, without web pages, with times in UTC, without log output."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kohort.audit.result import AuditError
from kohort.audit.spark.jvm import Jvm, find_java, java_version, spark_home
from kohort.audit.spark.jvm_cache import JvmCache

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Python and Arrow do the work, and Spark only distributes it. So the options are for a JVM with a short life: the C2
# compiler would be busy for half of the audit with code that is never hot, and G1 needs threads for a small heap.
SHORT_LIFE = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xmn48m",
    "-XX:MinHeapFreeRatio=10",
    "-XX:MaxHeapFreeRatio=20",
)
HEAP = "512m"  # rows do not go through the JVM; SPARK_DRIVER_MEMORY is for who has other plans
LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
SETTINGS = {
    "spark.app.name": "kohort audit",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.enabled": "false",  # it starts more jobs, and our results are too small to gain from it
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.streaming.ui.enabled": "false",
}


class Starting:
    """A JVM that starts in the background, while Python imports Spark and the audit."""

    def __init__(self, jvm_cache: str | None = None) -> None:
        self.cache = _cache(jvm_cache) if jvm_cache else None
        options = [*SHORT_LIFE, f"-Xmx{os.environ.get('SPARK_DRIVER_MEMORY', HEAP)}"]
        options += self.cache.options() if self.cache else ()
        self.jvm = Jvm(options, silent=self.cache is not None and self.cache.writing is not None)

    def connect(self) -> Any:
        """The gateway of py4j to the JVM."""
        gateway = self.jvm.connect()
        gateway.cache = self.cache
        return gateway

    def abandon(self) -> None:
        self.jvm.abandon()


def is_submitted() -> bool:
    """Whether spark-submit has started this process: then it has a JVM already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def start_session(
    settings: Mapping[str, str] | None = None, *, cores: int | None = None, jvm_cache: str | None = None,
    starting: Starting | None = None,
) -> SparkSession:  # fmt: skip
    """Start a session on this machine, or get the session of spark-submit if that has started this process."""
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    wanted = SETTINGS | dict(settings or {})
    if is_submitted():  # spark-submit sets master, hosts and memory
        return _builder(SparkSession, {k: v for k, v in wanted.items() if k.startswith("spark.sql.")}).getOrCreate()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if SparkContext._active_spark_context is None:
        wanted.setdefault("spark.master", f"local[{cores or os.cpu_count() or 2}]")
        if wanted["spark.master"].startswith("local"):
            wanted = LOOPBACK | wanted
        gateway = (starting or Starting(jvm_cache)).connect()
        try:
            SparkContext(conf=SparkConf(_jvm=gateway.jvm).setAll(list(wanted.items())), gateway=gateway)
        except Py4JJavaError as problem:  # Spark refuses a setting
            raise AuditError(f"Spark did not start: {problem.java_exception.toString()}") from problem
    return _builder(SparkSession, {}).getOrCreate()


@contextmanager
def session(
    settings: Mapping[str, str] | None = None, *, jvm_cache: str | None = None, starting: Starting | None = None
) -> Iterator[SparkSession]:
    """A session for a `with` block. It ends with the block, unless it was there before."""
    from pyspark import SparkContext

    is_ours = SparkContext._active_spark_context is None
    spark = start_session(settings, jvm_cache=jvm_cache, starting=starting)
    try:
        yield spark
    finally:
        if is_ours:
            stop_session(spark)


def stop_session(spark: SparkSession) -> None:
    """Stop Spark and its JVM, so that no process is left and the next session gets a JVM of its own."""
    from pyspark import SparkContext

    spark.stop()
    gateway: Any = SparkContext._gateway
    if gateway is None or getattr(gateway, "proc", None) is None:  # the JVM belongs to spark-submit
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    process: subprocess.Popen[bytes] = gateway.proc
    if gateway.cache is not None and gateway.cache.writing is not None:
        gateway.cache.finish(process)
        return
    assert process.stdin is not None
    process.stdin.close()
    process.wait()


def _cache(folder: str) -> JvmCache:
    java = find_java()
    return JvmCache(folder, java, java_version(java), spark_home() / "jars")


def _builder(session: type[SparkSession], settings: Mapping[str, str]) -> SparkSession.Builder:
    builder = session.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder
