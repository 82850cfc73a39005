"""Shows what the audit is doing, in one line that is rewritten; only on a terminal."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERVAL_S = 0.2
CLEAR_LINE = "\r\x1b[K"


class Progress:
    """Shows the line during a `with` block. `step` sets its text."""

    def __init__(self, spark: SparkSession | None = None) -> None:
        self._spark = spark
        self._step = "starting"
        self._began = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True) if sys.stderr.isatty() else None

    def watch(self, spark: SparkSession) -> None:
        """From now on, show how many tasks of this session are done."""
        self._spark = spark

    def step(self, text: str) -> None:
        self._step = text

    def __enter__(self) -> Progress:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            sys.stderr.write(CLEAR_LINE)
            sys.stderr.flush()

    def _show(self) -> None:
        while not self._over.wait(INTERVAL_S):
            seconds = time.monotonic() - self._began
            sys.stderr.write(f"{CLEAR_LINE}{seconds:5.1f} s  {self._step}{self._tasks()}")
            sys.stderr.flush()

    def _tasks(self) -> str:
        """How many of the running stage's tasks are done."""
        if self._spark is None:
            return ""
        try:
            tracker = self._spark.sparkContext.statusTracker()
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Exception:  # Spark is stopping; there is nothing to show
            return ""
        wanted = sum(stage.numTasks for stage in stages if stage)
        return f": {sum(stage.numCompletedTasks for stage in stages if stage)} of {wanted} tasks" if wanted else ""
