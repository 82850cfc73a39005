"""`kohort audit follow`: findings about a running broker, as they happen.

Spark streams the headers of new batches with the data source "kohort_log". For each micro-batch, the log partitions
that it names are read on. Their recent history (recent.py) goes through derive and check again, and new findings are
told (news.py).
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
from py4j.protocol import Py4JError

from kohort.audit import pipeline
from kohort.audit.checks import ALL, Settings
from kohort.audit.decode.access import kept_open
from kohort.audit.decode.folders import LogFolder, find_logs
from kohort.audit.follow.news import Finding, News
from kohort.audit.follow.recent import Recent
from kohort.audit.spark.source import FORMAT, register
from kohort.audit.tables import LOG_BATCHES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

INTERVAL = "500 milliseconds"
# These checks need the whole log, or a log to which nobody is writing.
NOT_LIVE = {"hot_log_partition", "offset_overlap_or_gap", "torn_tail", "orphaned_offsets", "group_in_wrong_partition"}
LIVE = tuple(name for name in ALL if name not in NOT_LIVE)


class Follower:
    """Watches log folders, and calls `tell` with each new finding."""

    def __init__(
        self, spark: SparkSession, paths: list[str], tell: Callable[[Finding], None], *, group: str | None = None,
        settings: Settings | None = None, window_s: int = 3600, command_config: str | None = None,
    ) -> None:  # fmt: skip
        self._spark = spark
        self._paths = paths
        self._command_config = command_config
        self._tell = tell
        self._group = group
        self._settings = settings
        self._window = timedelta(seconds=window_s)
        self._recent: dict[int, Recent] = {}
        self._news = News(2 * self._window)
        self._query: StreamingQuery | None = None
        self._connections = ExitStack()
        self._connections.enter_context(kept_open())
        self._scratch = tempfile.TemporaryDirectory(prefix="kohort-follow-")

    def look_back(self, folders: list[LogFolder]) -> int:
        """Read what is in the log already, so that only later findings are told. Returns the number of earlier ones."""
        register(self._spark)
        for folder in folders:
            self._read(folder)
        return len(self._new_findings(list(self._recent)))

    def start(self) -> StreamingQuery:
        """Start the stream where look_back ended. It runs until `close`.

        One log partition begins one offset earlier, so that there is a first micro-batch at once: Spark needs seconds
        to get ready for it, and a user should not wait for a finding meanwhile.
        """
        offsets = {str(partition): recent.next_offset for partition, recent in self._recent.items()}
        for partition, recent in self._recent.items():
            if recent.next_offset > (recent.folder.first_offset or 0):
                offsets[str(partition)] -= 1
                break
        optional = {"group": self._group, "command_config": self._command_config}
        stream = (
            self._spark.readStream.format(FORMAT)
            .options(table=LOG_BATCHES.name, paths=json.dumps(self._paths), offsets=json.dumps(offsets))
            .options(**{name: value for name, value in optional.items() if value})
            .load()
        )
        self._query = (
            stream.writeStream.foreachBatch(self._take)
            .option("checkpointLocation", f"{self._scratch.name}/{time.time_ns()}")
            .trigger(processingTime=INTERVAL)
            .start()
        )
        self._query.processAllAvailable()
        return self._query

    def close(self) -> None:
        if self._query is not None:
            with suppress(Py4JError):  # the JVM may have ended first: a signal goes to the whole process group
                self._query.stop()  # before the folder with its checkpoints is removed
        self._scratch.cleanup()
        self._connections.close()

    def _take(self, batches: DataFrame, number: int) -> None:  # noqa: ARG002 - Spark's signature
        """Use only the numbers of the log partitions: the offsets in a damaged batch header may be wrong."""
        numbers = set(batches.select("log_partition").toArrow()["log_partition"].to_pylist())
        changed = [
            folder for folder in find_logs(self._paths, self._command_config)[0] if folder.log_partition in numbers
        ]
        for folder in changed:
            self._read(folder)
        for finding in self._new_findings([folder.log_partition for folder in changed]):
            self._tell(finding)

    def _read(self, folder: LogFolder) -> None:
        recent = self._recent.get(folder.log_partition)
        if recent is None:
            recent = self._recent[folder.log_partition] = Recent(folder, self._group)
        recent.read(folder)
        recent.forget(pa.scalar(datetime.now(UTC) - self._window, pa.timestamp("us", "UTC")))

    def _new_findings(self, partitions: list[int]) -> list[Finding]:
        if not partitions:
            return []
        recent = [self._recent[partition] for partition in partitions]
        numbers = [one.folder.log_partition for one in recent]
        parts = {
            number: pipeline.derive(number, one.with_open_commits())
            for number, one in zip(numbers, recent, strict=True)
        }
        findings, _ = pipeline.check_all(parts, [one.run_row() for one in recent], self._settings, only=LIVE)
        return self._news.among(findings, partitions, datetime.now(UTC))
