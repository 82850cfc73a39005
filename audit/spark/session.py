"""The Spark session of an audit: everything on loopback, no web pages, UTC, quiet."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kohort.audit.result import AuditError
from kohort.audit.spark.jvm import find_java, java_version, spark_home, start_gateway
from kohort.audit.spark.jvm_cache import JvmCache

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark only hands out the work; Python and Arrow do it. So the JVM is run for a short life: C2 would compile for half
# of the audit what is never hot, and G1 would keep threads for a heap that stays small.
SHORT_LIFE = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
SETTINGS = {
    "spark.app.name": "kohort audit",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.enabled": "false",  # what it could save, it costs in jobs: our results are small
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.streaming.ui.enabled": "false",
}


def start_session(
    settings: Mapping[str, str] | None = None, *, cores: int | None = None, jvm_cache: str | None = None
) -> SparkSession:
    """A session on this machine; or the one that spark-submit has set up, if that started us."""
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    wanted = SETTINGS | dict(settings or {})
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit: master, hosts and memory are its business
        return _builder(SparkSession, {k: v for k, v in wanted.items() if k.startswith("spark.sql.")}).getOrCreate()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if SparkContext._active_spark_context is None:
        wanted.setdefault("spark.master", f"local[{cores or os.cpu_count() or 2}]")
        if wanted["spark.master"].startswith("local"):
            wanted = LOOPBACK | wanted
        cache = _cache(jvm_cache) if jvm_cache else None
        options = [*SHORT_LIFE, *_memory_options(), *(cache.options() if cache else ())]
        gateway = start_gateway(options, silent=cache is not None and cache.writing is not None)
        gateway.cache = cache
        try:
            SparkContext(conf=SparkConf(_jvm=gateway.jvm).setAll(list(wanted.items())), gateway=gateway)
        except Py4JJavaError as problem:  # a setting that Spark does not take
            raise AuditError(f"Spark did not start: {problem.java_exception.toString()}") from problem
    return _builder(SparkSession, {}).getOrCreate()


@contextmanager
def session(settings: Mapping[str, str] | None = None, *, jvm_cache: str | None = None) -> Iterator[SparkSession]:
    """A session that ends with the block, unless there was one before."""
    from pyspark import SparkContext

    is_ours = SparkContext._active_spark_context is None
    spark = start_session(settings, jvm_cache=jvm_cache)
    try:
        yield spark
    finally:
        if is_ours:
            stop_session(spark)


def stop_session(spark: SparkSession) -> None:
    """Stop Spark and its JVM, so that nothing of it outlives us and the next session gets a JVM of its own."""
    from pyspark import SparkContext

    spark.stop()
    gateway: Any = SparkContext._gateway
    if gateway is None or getattr(gateway, "proc", None) is None:  # spark-submit's JVM is not ours to end
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    if gateway.cache is not None:
        gateway.cache.finish(gateway.proc)
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _cache(folder: str) -> JvmCache:
    java = find_java()
    return JvmCache(folder, java, java_version(java), spark_home() / "jars")


def _builder(session: type[SparkSession], settings: Mapping[str, str]) -> SparkSession.Builder:
    builder = session.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def _memory_options() -> list[str]:
    """SPARK_DRIVER_MEMORY as Spark knows it; else a quarter of the machine, which is Java's own choice."""
    memory = os.environ.get("SPARK_DRIVER_MEMORY")
    return [f"-Xmx{memory}"] if memory else []
