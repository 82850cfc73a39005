"""An audit from the paths to the report: find the logs, read what is new, work out what follows, check it, tell it.

The base tables go into a store: the folder given as --out, which remembers what earlier audits have read, or a
temporary one. Everything else is worked out anew from the whole of it. A store gets everything, whatever was asked for:
--group, --since and --until only narrow what is looked at.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from audit import baseline, report
from audit.checks import Settings, check_run, parse_settings, run_checks
from audit.decode.folders import LogFolder
from audit.decode.schemas import schema
from audit.derive import derive
from audit.find import find_folders
from audit.moments import in_words
from audit.progress import Progress
from audit.result import AuditError, Request, Result
from audit.store import BASE, Store
from audit.store_tasks import Ingested
from audit.tables import AUDIT_RUNS, CHECK_RESULTS, COMMIT_STEPS, FINDINGS, REBALANCES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Tables = dict[str, "DataFrame"]
TIME_OF = {"log_batches": "max_time", COMMIT_STEPS.name: "time", REBALANCES.name: "time", FINDINGS.name: "time"}


def run_audit(spark: SparkSession, request: Request, progress: Progress) -> Result:
    """All of it. AuditError if it cannot be done."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        settings = parse_settings(request.settings)
        with _store(spark, request.out) as store:
            return _run(spark, request, settings, store, progress)
    except (baseline.BaselineError, ValueError) as problem:
        raise AuditError(str(problem)) from problem
    except OSError as problem:
        raise AuditError(f"{problem.filename or request.out}: {problem.strerror or problem}") from problem
    except PySparkException as problem:
        raise AuditError(_last_words(str(problem))) from problem
    except Py4JJavaError as problem:
        raise AuditError(_last_words(problem.java_exception.toString())) from problem


def _last_words(text: str) -> str:
    """Of a failure inside Spark: the last line of Python's traceback if there is one, else Spark's first."""
    lines = [line for line in text.splitlines() if line.strip()] or ["Spark failed"]
    words = [line for line in lines if line[:1].isalpha() and ": " in line]
    return words[-1] if words and "Traceback" in text else lines[0]


@contextmanager
def _store(spark: SparkSession, out: str | None) -> Iterator[Store]:
    if out is not None:
        yield Store(out)
        return
    if not (spark.sparkContext.master or "").startswith("local"):
        raise AuditError("a cluster needs --out: a folder, or an address, that all of its machines see")
    with tempfile.TemporaryDirectory(prefix="kohort-audit-") as folder:
        yield Store(folder)


def _run(spark: SparkSession, request: Request, settings: Settings, store: Store, progress: Progress) -> Result:
    started = datetime.now(UTC)
    runs = store.files.finished_runs()
    run = store.begin(f"{started:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:6]}")
    before = baseline.ask(request.baseline, group=request.group) if request.baseline else None
    folders, problems = find_folders(request.paths, request.group if request.out is None else None)
    progress.step(f"reading {len(folders)} log folders, {sum(one.size_bytes for one in folders) / 1e6:,.0f} MB")
    read = run.ingest(spark, folders)
    problems += [f"{one.path}: {one.problem}" for one in read if one.problem]
    this_run = _run_rows(run.run_id, started, folders, read)
    progress.step("working out who owned what")
    tables: Tables = {name: run.table(spark, name) for name in BASE} | run.derive(spark)
    about_runs = pa.concat_tables([store.files.read_runs(), this_run])
    tables[AUDIT_RUNS.name] = spark.createDataFrame(about_runs)
    tables = _narrowed(spark, tables, request)
    progress.step("checking")
    answers = None
    if before is not None and request.baseline:
        answers = baseline.agreed(before, baseline.ask(request.baseline, group=request.group))
    if request.until_ms is None:
        findings, results = check_run(
            spark, store.files, [*runs, run.run_id], about_runs, settings=settings, baseline=answers,
            group=request.group,
        )  # fmt: skip
    else:
        findings, results = run_checks(tables, settings, baseline=answers)
    progress.step("writing the report")
    told = {}
    for name, frame in ((FINDINGS.name, _in_time(findings, FINDINGS.name, request)), (CHECK_RESULTS.name, results)):
        rows = frame.toArrow().cast(schema(name))
        store.files.write(rows, name, run.run_id, "all")
        tables[name], told[name] = run.table(spark, name), rows.to_pylist()
    result = Result(
        run.run_id, told[FINDINGS.name], told[CHECK_RESULTS.name], len(folders), sum(one.records for one in read),
        problems, request.report_path(),
    )  # fmt: skip
    report.write(tables, result.report, _about(request, result, started))
    run.finish(this_run.to_pylist())
    return result


def _run_rows(run_id: str, started: datetime, folders: Sequence[LogFolder], read: Sequence[Ingested]) -> pa.Table:
    """For the table audit_runs."""
    by_number = {folder.log_partition: folder for folder in folders}
    rows = [
        {
            "run_id": run_id,
            "started": started,
            "finished": datetime.now(UTC),
            "path": one.path,
            "log_partition": one.log_partition,
            "first_log_offset": by_number[one.log_partition].first_offset,
            "from_log_offset": one.from_log_offset,
            "end_log_offset": one.end_log_offset,
            "cleaned_to": by_number[one.log_partition].cleaned_to,
            "records": one.records,
            "problem": one.problem,
        }
        for one in read
    ]
    return pa.Table.from_pylist(rows, schema=schema(AUDIT_RUNS.name))


def _narrowed(spark: SparkSession, tables: Tables, request: Request) -> Tables:
    """What is looked at. The end of a time span cuts the history itself, its beginning only hides what was before."""
    if request.until_ms is not None:
        until = f"timestamp_millis({request.until_ms})"
        base = {name: tables[name].where(f"{_time_of(name)} < {until}") for name in BASE}
        tables = tables | base | derive(spark, base)
    if request.group is not None:
        mine = {name: frame for name, frame in tables.items() if "group_id" in frame.columns}
        tables = tables | {name: frame.where(frame["group_id"] == request.group) for name, frame in mine.items()}
    return {name: _in_time(frame, name, request) for name, frame in tables.items()}


def _in_time(frame: DataFrame, name: str, request: Request) -> DataFrame:
    if request.since_ms is None or name not in TIME_OF:
        return frame
    last = "coalesce(until, time)" if name == FINDINGS.name else TIME_OF[name]
    return frame.where(f"{last} IS NULL OR {last} >= timestamp_millis({request.since_ms})")


def _time_of(name: str) -> str:
    return TIME_OF.get(name, "record_time")


def _about(request: Request, result: Result, started: datetime) -> Mapping[str, Any]:
    """What a reader of the report should know."""
    return {
        "run": f"{result.run_id}, {in_words(started)}",
        "log folders": list(request.paths),
        "new records": f"{result.records:,}",
        "only group": request.group,
        "since": in_words(request.since_ms) if request.since_ms is not None else None,
        "until": in_words(request.until_ms) if request.until_ms is not None else None,
        "compared with": request.baseline,
        "thresholds": list(request.settings) or None,
        "could not be read": result.problems or None,
        "tables": request.out,
        "kohort": version("kohort"),
    }
