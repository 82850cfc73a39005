"""Functions in Spark tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

pytest.importorskip("pyspark")

from kohort.audit.spark.tasks import for_each

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Squared(NamedTuple):
    number: int
    square: int | None


def test_every_item_is_done_once_and_its_result_comes_back(spark: SparkSession) -> None:
    work = [(number, number % 7) for number in range(40)]
    made = for_each(spark, work, lambda number: Squared(number, number**2 if number else None))
    assert sorted(made) == [Squared(0, None), *(Squared(number, number**2) for number in range(1, 40))]


def test_without_work_no_job_is_started(spark: SparkSession) -> None:
    def fail(item: int) -> None:
        raise AssertionError(item)

    assert for_each(spark, [], fail) == []
