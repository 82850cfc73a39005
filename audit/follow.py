"""`kohort audit follow`: findings about a running broker, as they happen.

Spark streams the headers of new batches from the log; positions are log offsets. With each micro-batch the partitions
of the log that it is about are read on to the same place, what follows from their recent history is worked out anew,
and checked. A finding is told once: it is known by its check and its place, not by its words, which change while it
lasts. One that goes on is told again, now and then.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from audit.checks import ALL, Settings, check_tables
from audit.decode import schema
from audit.decode.folders import LogFolder, find_logs
from audit.derive.partition import MADE, derive_partition
from audit.recent import Recent
from audit.source import FORMAT, register
from audit.tables import AUDIT_RUNS, BASE_TABLES, LOG_BATCHES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

INTERVAL = "500 milliseconds"
AGAIN = timedelta(seconds=30)  # how soon a finding that goes on is told again
# These ask about the log as a whole, or about a state that only stands when nothing is being written.
NOT_LIVE = {"hot_log_partition", "offset_overlap_or_gap", "torn_tail", "orphaned_offsets", "group_in_wrong_partition"}
LIVE = tuple(name for name in ALL if name not in NOT_LIVE)

Finding = dict[str, Any]


class Follower:
    """Watches log folders; `tell` gets each new finding."""

    def __init__(
        self, spark: SparkSession, paths: list[str], tell: Callable[[Finding], None], *, group: str | None = None,
        settings: Settings | None = None, window_s: int = 3600,
    ) -> None:  # fmt: skip
        self._spark = spark
        self._paths = paths
        self._tell = tell
        self._group = group
        self._settings = settings
        self._window = timedelta(seconds=window_s)
        self._recent: dict[int, Recent] = {}
        self._known: dict[tuple[Any, ...], tuple[datetime | None, datetime]] = {}  # until when it lasted, and when told
        self._scratch = tempfile.TemporaryDirectory(prefix="kohort-follow-")

    def look_back(self, folders: list[LogFolder]) -> int:
        """Read what is there already, so that only what comes is told. How many findings that leaves unsaid."""
        register(self._spark)
        for folder in folders:
            self._read(folder, folder.end_offset)
        return len(self._new_findings(list(self._recent)))

    def start(self) -> StreamingQuery:
        """From where look_back ended. Stop what is returned to stop.

        The stream begins one batch earlier, where there is one: the first micro-batch takes Spark seconds of getting
        ready, which are better spent before anybody waits for a finding.
        """
        offsets = {str(partition): recent.next_offset for partition, recent in self._recent.items()}
        for partition, recent in self._recent.items():
            if recent.next_offset > (recent.folder.first_offset or 0):
                offsets[str(partition)] -= 1
                break
        stream = (
            self._spark.readStream.format(FORMAT)
            .options(table=LOG_BATCHES.name, paths=json.dumps(self._paths), offsets=json.dumps(offsets))
            .options(**({"group": self._group} if self._group else {}))
            .load()
        )
        query = (
            stream.writeStream.foreachBatch(self._take)
            .option("checkpointLocation", f"{self._scratch.name}/{time.time_ns()}")
            .trigger(processingTime=INTERVAL)
            .start()
        )
        query.processAllAvailable()
        return query

    def close(self) -> None:
        self._scratch.cleanup()

    def _take(self, batches: DataFrame, number: int) -> None:  # noqa: ARG002 - Spark's signature
        ends = {
            row[0]: row[1] + 1 for row in batches.groupBy("log_partition").agg({"last_log_offset": "max"}).collect()
        }
        changed = []
        for folder in find_logs(self._paths)[0]:
            until = ends.get(folder.log_partition)
            if until is not None:
                self._read(folder, until)
                changed.append(folder.log_partition)
        if changed:
            for finding in self._new_findings(changed):
                self._tell(finding)

    def _read(self, folder: LogFolder, until: int) -> None:
        recent = self._recent.get(folder.log_partition)
        if recent is None:
            recent = self._recent[folder.log_partition] = Recent(folder, self._group)
        recent.read(folder, until)
        recent.forget(pa.scalar(self._horizon(), pa.timestamp("us", "UTC")))

    def _horizon(self) -> datetime:
        return datetime.now(UTC) - self._window

    def _new_findings(self, partitions: list[int]) -> list[Finding]:
        if not partitions:
            return []
        findings, _ = check_tables(self._tables(partitions), self._settings, only=LIVE)
        now = datetime.now(UTC)
        new = [row for row in findings if self._is_news(row, now)]
        self._known |= {_place(row): (row["until"], now) for row in new}
        horizon = self._horizon() - self._window
        self._known = {place: known for place, known in self._known.items() if known[1] >= horizon}
        return new

    def _is_news(self, finding: Finding, now: datetime) -> bool:
        if (known := self._known.get(_place(finding))) is None:
            return True
        until, told = known
        return finding["until"] != until and now - told >= AGAIN

    def _tables(self, partitions: list[int]) -> Mapping[str, pa.Table]:
        recent = [self._recent[partition] for partition in partitions]
        derived = [derive_partition(one.folder.log_partition, one.tables) for one in recent]
        parts = {table.name: [one.tables[table.name] for one in recent] for table in BASE_TABLES}
        parts |= {name: [made[name] for made in derived] for name in MADE}
        parts[AUDIT_RUNS.name] = [
            pa.Table.from_pylist([dict(one.run_row()) for one in recent], schema(AUDIT_RUNS.name))
        ]
        return {name: pa.concat_tables(tables) for name, tables in parts.items()}


def _place(finding: Finding) -> tuple[Any, ...]:
    """What makes a finding the same one as before."""
    names = (
        "check",
        "group_id",
        "topic",
        "partition",
        "member_id",
        "generation",
        "log_partition",
        "log_offset",
        "time",
    )
    return tuple(finding[name] for name in names)
