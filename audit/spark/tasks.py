"""Runs functions in Spark tasks. Rows of tables do not go through Spark: tasks read and write files themselves.

A small log does not need Spark. Then there is no session, and the same functions are called in this process.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from kohort.audit.decode.access import kept_open
from kohort.audit.spark.arrow import map_in_arrow
from kohort.audit.spark.packing import pack, task_count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Item = TypeVar("Item")
Made = TypeVar("Made")

RESULTS = pa.schema([("made", pa.binary())])


def for_each(spark: SparkSession | None, work: Iterable[tuple[Item, int]], do: Callable[[Item], Made]) -> list[Made]:
    """Call `do` for each item in some Spark task, and return what the calls returned, in no particular order.

    Without `spark` it is called here.

    `work` has every item with its size. Items are packed so that all tasks take about the same time. What `do` returns
    is pickled and sent to the driver, so it must be small.
    """
    if spark is None:
        with kept_open():
            return [do(item) for item, _ in work]
    packs = pack(work, task_count(spark))
    if not packs:
        return []

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        gc.disable()  # millions of rows and no cycles: the collector would look through all of them many times
        try:
            with kept_open():
                for batch in batches:
                    for number in batch["id"].to_pylist():
                        made = [pickle.dumps(do(item)) for item in packs[number]]
                        yield pa.record_batch([pa.array(made, pa.binary())], schema=RESULTS)
        finally:
            gc.enable()

    rows = map_in_arrow(spark.range(0, len(packs), 1, len(packs)), run, "made binary").collect()
    return [pickle.loads(row[0]) for row in rows]  # noqa: S301 - our own tasks have written them
