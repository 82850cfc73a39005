"""The Spark session of an audit: everything on loopback, no web pages, UTC, quiet."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from audit.jvm import start_gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.app.name": "kohort audit",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.streaming.ui.enabled": "false",
}


def start_session(settings: Mapping[str, str] | None = None, *, cores: int | None = None) -> SparkSession:
    """A session on this machine; or the one that spark-submit has set up, if that started us."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    wanted = SETTINGS | dict(settings or {})
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit: master, hosts and memory are its business
        return _builder(SparkSession, {k: v for k, v in wanted.items() if k.startswith("spark.sql.")}).getOrCreate()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if SparkContext._active_spark_context is None:
        wanted.setdefault("spark.master", f"local[{cores or os.cpu_count() or 2}]")
        gateway = start_gateway(_memory_options())
        conf = SparkConf(_jvm=gateway.jvm).setAll(list(wanted.items()))
        SparkContext(conf=conf, gateway=gateway)
    return _builder(SparkSession, {}).getOrCreate()


def _builder(session: type[SparkSession], settings: Mapping[str, str]) -> SparkSession.Builder:
    builder = session.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def _memory_options() -> list[str]:
    """SPARK_DRIVER_MEMORY as Spark knows it; else a quarter of the machine, which is Java's own choice."""
    memory = os.environ.get("SPARK_DRIVER_MEMORY")
    return [f"-Xmx{memory}"] if memory else []
