"""The session that an audit runs in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from audit.jvm import MODULE_OPTIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_jvm_gets_every_option_that_spark_would_give_it_but_the_vector_module(spark: SparkSession) -> None:
    sparks_own = spark._jvm.org.apache.spark.launcher.JavaModuleOptions.defaultModuleOptionArray()  # type: ignore[union-attr]
    assert set(sparks_own) - set(MODULE_OPTIONS) == {"--add-modules=jdk.incubator.vector"}
    assert set(MODULE_OPTIONS) <= set(sparks_own)
