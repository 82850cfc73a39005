"""Packs work of different sizes into tasks that take about the same time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS_PER_CORE = 2

Item = TypeVar("Item")


def task_count(spark: SparkSession) -> int:
    return spark.sparkContext.defaultParallelism * TASKS_PER_CORE


def pack(work: Iterable[tuple[Item, int]], count: int) -> list[list[Item]]:
    """Items, given with their sizes, in at most `count` packs of about the same size.

    The largest item comes first; each goes to the pack that is smallest so far.
    """
    ordered = sorted(work, key=lambda pair: -pair[1])
    packs: list[list[Item]] = [[] for _ in range(min(count, len(ordered)))]
    sizes = [0] * len(packs)
    for each, size in ordered:
        smallest = sizes.index(min(sizes))
        packs[smallest].append(each)
        sizes[smallest] += size + 1
    return packs
